"""wrk2: constant-throughput load over a fixed number of connections.

Each connection has its own schedule, one request every ``connections / rate`` seconds on average, and at most one
request under way; one that fell behind sends as fast as answers come until it has caught up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.addresses import plain_address
from aiopslab.sim.world.blocks import Block
from aiopslab.sim.world.edges import Edge
from aiopslab.sim.world.engine import Batch
from aiopslab.sim.world.hashing import mix, salted, text_key, unit
from aiopslab.sim.world.loadgen import select
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.programspec import Program
from aiopslab.sim.world.routes import RouteTable
from aiopslab.sim.world.runs import Run
from aiopslab.sim.world.wrk2.lua import ScriptError, Surface
from aiopslab.sim.world.wrk2.options import Options, zipf_shares
from aiopslab.sim.world.wrk2.report import Outcome, report
from aiopslab.sim.world.wrk2.routing import Router
from aiopslab.sim.world.wrk2.source import Source

HEADER_BYTES = 200
END_S = 0.1  # a process's start and end, beside the test itself
START_S = 0.05  # from process start to the first connection
STAGGER_S = {False: 5e-3, True: 1e-3}  # between the connects of a thread; True: DeathStarBench's program
TIMER_S = 1e-3  # the event loop's timers: a waiting connection sends up to this late
CHECK_S = 2.0  # between looks for connections whose request began too long ago
ABSENT_MS = 1.0  # a path that the server does not know is answered in this time


@dataclass(slots=True, eq=False)
class Plan:
    """Requests in order of connection and number; ``places`` are those of each batch, ``absent`` those of none."""

    lanes: NDArray[np.int64]
    due: NDArray[np.float64]
    ready: NDArray[np.float64]  # when a connection that waits sends
    places: list[NDArray[np.int64]] = field(default_factory=list)
    absent: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


class Wrk2Load:
    """The connections of one wrk2 run that asks ``entry``. ``failure`` is set when the script broke down."""

    def __init__(
        self, run: Run, options: Options, entry: Program, programs: Programs, seed: int, *, begins: float
    ) -> None:
        self.run = run
        self.options = options
        self.entry = entry
        self.address = plain_address(options.url)
        self.lanes = options.connections
        self.timeout_ms = math.inf
        self.failure = ""
        self.errors = {"connect": 0, "timeout": 0, "status": 0}
        self._key = np.uint64(text_key(seed, "wrk2", run.ref.namespace, options.url, begins - run.started))
        self._start = self._now = begins + START_S
        self._end = self._start + options.duration_s
        self._printed: list[str] = []
        surface = Surface(run.spec.files, lambda: self._now, self._printed.append, int(self._key % np.uint64(1 << 31)))
        self.source = Source(options, Router(entry, programs), surface)
        self._early = "".join(self._printed)
        self._printed.clear()
        self._interval = options.connections / options.rate
        self._threads = np.array(options.threads_of_connections)
        in_thread = np.arange(self.lanes) - np.searchsorted(self._threads, self._threads)
        connect = self._start + in_thread * STAGGER_S[options.forked]
        self._sent = np.zeros(self.lanes, np.int64)
        self._scheduled = connect  # due time of the last request sent; before the first, of the connect
        self._free = connect.copy()  # when a connection has its last answer
        self._asked = np.full(self.lanes, -math.inf)  # when its last request went out
        self._expected_s = 0.02
        self._measured: list[NDArray[np.float64]] = []  # rows: recorded latency, latency, completion, connection
        self._bytes = 0

    @property
    def lasts_s(self) -> float:
        """From the process's start to its end."""
        return self.options.duration_s + END_S

    def plan(self, routes: RouteTable, edge: Edge, until: float) -> tuple[Plan, list[Batch]]:
        """Batches of the requests that may be sent before ``until``."""
        until = min(until, self._end)
        lanes, serial = self._candidates(until)
        keys = mix(self._key + (serial * self.lanes + lanes).astype(np.uint64))
        due = self._due(lanes, serial, keys)
        soon = due < until
        lanes, keys, due = lanes[soon], keys[soon], due[soon]
        plan = Plan(lanes, due, due + unit(salted(keys, 5)) * TIMER_S)
        if self.failure or not len(lanes):
            return Plan(lanes[:0], due[:0], due[:0]), []
        try:
            wanted = self.source.draw(lanes, due)
        except ScriptError as error:
            self.failure = error.panic
            return Plan(lanes[:0], due[:0], due[:0]), []
        return plan, self._batches(plan, wanted, keys, (routes, edge))

    def settle(self, plan: Plan, blocks: list[Block], until: float) -> list[Block]:
        """Send each request when due or when its connection is free; keep those sent before ``until``."""
        self._now = until
        lanes = plan.lanes
        if not len(lanes):
            return []
        took = np.empty(len(lanes))
        took[plan.absent] = ABSENT_MS * 1e-3
        for places, block in zip(plan.places, blocks, strict=True):
            took[places] = block.took[0].astype(np.float64) * 1e-3
        start = self._send(plan, took)
        keep = start < min(until, self._end)
        self._advance(plan, keep, start, took)
        found = []
        statuses = np.full(len(lanes), 404, np.int64)
        for places, block in zip(plan.places, blocks, strict=True):
            mine = keep[places]
            block.start = start[places]
            statuses[places] = self._note(block, mine)
            if mine.all():
                found.append(block)
            elif mine.any():
                found.append(select(block, np.flatnonzero(mine)))
        self._record(plan, start, took, keep, statuses)
        return found

    def report(self) -> list[str]:
        """The lines that wrk2 prints when it is done, the script's own among them."""
        self._late(self._asked, np.full(self.lanes, self._end))
        rows = np.concatenate([*self._measured, np.zeros((4, 0))], axis=1)
        threads = self._threads[rows[3].astype(np.int64)]
        outcome = Outcome(rows[0], rows[1], rows[2] - self._start, threads, self.errors, self._bytes)
        lines = [*([self.source.warning] if self.source.warning else []), *self._early.splitlines()]
        printed = "".join(self._printed)
        self._printed.clear()
        if self.failure:
            return [*lines, *printed.splitlines(), self.failure]
        told = report(self.options, outcome, sent=int(self._sent.sum()), asked_back=self.source.wants_answers)
        if self.source.reports:
            self._finish(outcome)
            printed += "".join(self._printed)
        return [*lines, *told, *printed.splitlines()]

    def _candidates(self, until: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Connection and number of what may be sent: no more than schedule and answers allow, with some to spare."""
        open_s = np.maximum(until - self._free, 0)
        counts = np.where(self._free < until, np.ceil(open_s / max(self._expected_s, 1e-4)) * 1.2 + 2, 0)
        if self.options.spacing != "norm":
            behind = np.maximum(until - self._scheduled, 0) / self._interval
            counts = np.minimum(counts, np.ceil(behind + 5 * np.sqrt(behind)) + 6)
        counts = counts.astype(np.int64)
        lanes = np.repeat(np.arange(self.lanes), counts)
        return lanes, np.arange(len(lanes)) - np.repeat(np.cumsum(counts) - counts, counts) + self._sent[lanes]

    def _due(
        self, lanes: NDArray[np.int64], serial: NDArray[np.int64], keys: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        """When requests are due: the last one sent, plus the intervals since."""
        steps = self._spacing(keys) * self._interval
        if not self.options.forked:
            steps[serial == 0] = 0.0  # the author's program sends as soon as it is connected
        total = np.cumsum(steps)
        first = np.searchsorted(lanes, np.arange(self.lanes))
        before = np.concatenate([[0.0], total])[first]
        return self._scheduled[lanes] + total - before[lanes]

    def _spacing(self, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Intervals of mean 1 (0 for ``norm``, which the program takes as no interval)."""
        kind, draw = self.options.spacing, unit(salted(keys, 3))
        if kind == "exp":
            return -np.log1p(-draw)
        if kind == "zipf":
            shares = np.array(zipf_shares(), np.float64)
            values = np.searchsorted(np.cumsum(shares), draw).astype(np.float64) + 1.0
            values /= float((shares * np.arange(1, len(shares) + 1)).sum())
            return values
        return np.full(len(keys), 0.0 if kind == "norm" else 1.0)

    def _batches(
        self, plan: Plan, wanted: NDArray[np.int64], keys: NDArray[np.uint64], where: tuple[RouteTable, Edge]
    ) -> list[Batch]:
        routes, edge = where
        targets = self.source.targets
        by_route: dict[str, list[int]] = {}
        for index in np.unique(wanted).tolist():
            by_route.setdefault(targets[index].route, []).append(index)
        batches = []
        for route, indexes in by_route.items():
            places = np.flatnonzero(np.isin(wanted, indexes))
            if not route:
                reached = edge.backend[plan.lanes[places]] >= 0
                plan.absent = places[reached]
                places, route = places[~reached], next(iter(self.entry.ops))  # who reaches nobody fails alike
                if not len(places):
                    continue
            plan.places.append(places)
            variables = self._variables(indexes, wanted[places])
            lanes = plan.lanes[places].astype(np.int32)
            compiled = routes.route(self.entry, route)
            batches.append(Batch(compiled, keys[places], lanes, edge, self.run.number, self.timeout_ms, variables))
        return batches

    def _variables(self, indexes: list[int], wanted: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        targets = self.source.targets
        table = np.zeros(len(targets), np.int64)
        found = {}
        for name in sorted({name for index in indexes for name in targets[index].variables}):
            for index in indexes:
                table[index] = targets[index].variables.get(name, 0)
            found[name] = table[wanted]
        return found

    def _send(self, plan: Plan, took: NDArray[np.float64]) -> NDArray[np.float64]:
        """Start times: per connection, a request waits for its due time and for the answer before it."""
        start = np.empty(len(took))
        bounds = np.searchsorted(plan.lanes, np.arange(self.lanes + 1))
        for lane in range(self.lanes):
            span = slice(bounds[lane], bounds[lane + 1])
            earlier = np.cumsum(took[span]) - took[span]
            ready = np.maximum(plan.ready[span], self._free[lane]) - earlier
            start[span] = np.maximum.accumulate(ready) + earlier
        return start

    def _advance(
        self, plan: Plan, keep: NDArray[np.bool_], start: NDArray[np.float64], took: NDArray[np.float64]
    ) -> None:
        """Move the connections on past what was sent."""
        lanes = plan.lanes[keep]
        counts = np.bincount(lanes, minlength=self.lanes)
        self.source.sent(counts)
        self._sent += counts
        np.maximum.at(self._free, lanes, (start + took)[keep])
        np.maximum.at(self._scheduled, lanes, plan.due[keep])
        self._expected_s = float(took.mean())
        went = start[keep]
        earlier = np.concatenate([[-math.inf], went[:-1]])
        first = np.searchsorted(lanes, np.flatnonzero(counts))
        earlier[first] = self._asked[counts > 0]
        self._late(earlier, went)
        np.maximum.at(self._asked, lanes, went)

    def _late(self, began: NDArray[np.float64], next_began: NDArray[np.float64]) -> None:
        """Count the looks at which a connection's last request had begun longer ago than the timeout."""
        since = np.floor(np.maximum(began + self.options.timeout_s - self._start, 0.0) / CHECK_S)
        until = np.floor((next_began - self._start) / CHECK_S)
        self.errors["timeout"] += int(np.maximum(until - since, 0).sum())

    def _note(self, block: Block, keep: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Count the bytes of a block's answers; returns the statuses, 0 for those without an answer."""
        answered = block.run[0] >= 0
        failed = block.error[0] != 0 if block.error is not None else np.zeros(len(answered), bool)
        self._bytes += int((keep & answered).sum()) * (block.route.op.response_bytes + HEADER_BYTES)
        return np.where(answered, np.where(failed, 500, block.route.op.status), 0)

    def _record(
        self,
        plan: Plan,
        start: NDArray[np.float64],
        took: NDArray[np.float64],
        keep: NDArray[np.bool_],
        statuses: NDArray[np.int64],
    ) -> None:
        answered = keep & (statuses > 0)
        self.errors["status"] += int((statuses[keep] > 399).sum())
        self.errors["connect"] += int((keep & (statuses == 0)).sum())
        ends = start + took
        recorded = took if self.options.forked else ends - plan.due
        rows = np.stack([recorded, took, ends, plan.lanes.astype(np.float64)])[:, answered]
        self._measured.append(rows)
        if self.source.wants_answers:
            order = np.argsort(rows[2], kind="stable")
            try:
                self.source.answered(plan.lanes[answered][order], statuses[answered][order], HEADER_BYTES)
            except ScriptError as error:
                self.failure = error.panic

    def _finish(self, outcome: Outcome) -> None:
        summary: dict[str, object] = {
            "duration": int(self.options.duration_s * 1e6),
            "requests": len(outcome.recorded),
            "bytes": outcome.bytes_read,
            "errors": {**self.errors, "read": 0, "write": 0},
        }
        try:
            self.source.finish(summary, outcome.latencies_us(), outcome.rates(self.options))
        except ScriptError as error:
            self._printed.append(f"{error.panic}\n")
