"""Counters: what requests, probes, idling and stressors leave behind in cgroups, interfaces and span metrics."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.blocks import Block
from aiopslab.sim.world.counters import SPAN_BOUNDS_MS, SpanCounters, SpanSeries
from aiopslab.sim.world.dialects import SERVER_FAULTS, Errors
from aiopslab.sim.world.edges import EdgeTable
from aiopslab.sim.world.effects import Effects
from aiopslab.sim.world.hashing import text_key, unit_int
from aiopslab.sim.world.packets import Shape, exchanged
from aiopslab.sim.world.pauses import collections, paused
from aiopslab.sim.world.queueing import PERIOD_S, Load, Waiting, waiting
from aiopslab.sim.world.routes import Node, RouteTable, SpanShape
from aiopslab.sim.world.runs import Run, Runs

RATE_TAU_S = 5.0  # time constant of the smoothed request rates
FRAME_BYTES = 66  # headers per packet
SIZE_CV = 0.25  # variation of the size of one operation's messages
NOISE_S = 15.0  # CPU use differs between such windows ...
NOISE_CV = 0.12  # ... by about this, whatever the request rate does
_BUCKETS = len(SPAN_BOUNDS_MS)
_TOP_MS = 15_001
# Bucket of a duration by its ceiling in milliseconds: bounds are whole numbers and inclusive.
_LOOKUP = np.searchsorted(np.array(SPAN_BOUNDS_MS), np.arange(_TOP_MS + 1)).astype(np.int32)


class _Spans:
    """Series slots and durations (ms) of spans, block by block."""

    def __init__(self) -> None:
        self.keys: list[NDArray[np.int64]] = []
        self.durations: list[NDArray[np.float32]] = []

    def add(self, keys: NDArray[np.int64], durations: NDArray[np.float32]) -> None:
        """Append the spans of one side of a block."""
        self.keys.append(keys)
        self.durations.append(durations)


class SpanMetrics:
    """Histograms per series, over spans that have ended."""

    def __init__(self, runs: Runs, errors: Errors) -> None:
        self._runs = runs
        self._errors = errors
        self._labels: list[SpanSeries] = []
        self._ids: dict[SpanSeries, int] = {}
        self._buckets = np.zeros((64, _BUCKETS), np.int64)
        self._sum_us = np.zeros(64)
        self._shapes: list[SpanShape] = []
        self._faults = (np.zeros(0, bool), np.zeros(0, bool))
        self._series = np.zeros(0, np.int64)  # (shape, failed, run) -> series or -1
        self._stride = 0
        self._open: list[tuple[float, Block, NDArray[np.int64]]] = []  # counted, but not ended yet

    def add(self, blocks: list[Block], routes: RouteTable, until: float) -> None:
        """Count the spans of blocks, and those of earlier requests that have ended by ``until``."""
        self._prepare(routes)
        counted, taken_back = _Spans(), _Spans()
        for block in blocks:
            late = np.flatnonzero(block.ends() > until)
            if len(late) < block.count:
                self._collect(block, None, counted)
                if len(late):
                    self._collect(block, late, taken_back)
            self._hold(block, late)
        self._close(until, counted)
        self._accumulate(counted, 1)
        self._accumulate(taken_back, -1)

    def _close(self, until: float, counted: _Spans) -> None:
        """Collect held requests that have ended by ``until``."""
        due = [entry for entry in self._open if entry[0] <= until]
        if not due:
            return
        self._open = [entry for entry in self._open if entry[0] > until]
        for _, block, columns in due:
            over = block.ends()[columns] <= until
            self._collect(block, columns[over], counted)
            self._hold(block, columns[~over])

    def open_requests(self) -> list[tuple[Block, NDArray[np.int64]]]:
        """Requests whose end lies ahead: blocks with the columns concerned."""
        return [(block, columns) for _, block, columns in self._open]

    def rehold(self) -> None:
        """Ends of open requests have changed."""
        held, self._open = self._open, []
        for _, block, columns in held:
            self._hold(block, columns)

    def _hold(self, block: Block, columns: NDArray[np.int64]) -> None:
        if len(columns):
            self._open.append((float(block.ends()[columns].min()), block, columns))

    def snapshot(self) -> SpanCounters:
        """All series with at least one ended span, in order of their first one."""
        size = len(self._labels)
        buckets = np.cumsum(self._buckets[:size], axis=1)
        return SpanCounters(list(self._labels), buckets, buckets[:, -1].copy(), self._sum_us[:size] * 1e-3)

    def _prepare(self, routes: RouteTable) -> None:
        stride = len(self._runs) + 1
        if stride != self._stride or len(self._series) != 2 * len(routes.shapes) * stride:
            self._shapes, self._stride = routes.shapes, stride
            self._series = np.full(2 * len(routes.shapes) * stride, -1, np.int64)

    def _collect(self, block: Block, columns: NDArray[np.int64] | None, into: _Spans) -> None:
        for server in (True, False):
            route = block.route
            rows = route.server_rows if server else route.client_rows
            if len(rows):
                into.add(*self._rows(block, rows, columns, server))

    def _rows(
        self, block: Block, rows: NDArray[np.int64], columns: NDArray[np.int64] | None, server: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(series slots, durations) of one side's spans."""
        route = block.route
        shapes = route.server_shapes if server else route.client_shapes
        callers = rows if server else np.array(route.parents)[rows]
        pick, where = (rows, callers) if columns is None else (np.ix_(rows, columns), np.ix_(callers, columns))
        runs = block.run[where]
        durations = (block.served if server else block.took)[pick]
        key = shapes[:, None] * (2 * self._stride) + runs
        outcome = block.returned if server else block.error
        if outcome is not None:
            key += self._failed(block, outcome[pick], rows, server) * self._stride
        if block.made is not None:
            happened = block.made[pick] & (runs >= 0)
            key, durations = key[happened], durations[happened]
        return key.ravel(), durations.ravel()

    def _failed(
        self, block: Block, outcome: NDArray[np.int32], rows: NDArray[np.int64], server: bool
    ) -> NDArray[np.int64]:
        """1 where the span's status is Error, by the rules of the instrumentation."""
        if not server:
            return (outcome != 0).astype(np.int64)
        if len(self._faults[0]) < len(self._errors):
            codes = [self._errors[i].code for i in range(len(self._errors))]
            answered = [i > 0 and not (code.isdigit() and int(code) < 500) for i, code in enumerate(codes)]
            self._faults = (np.array([code in SERVER_FAULTS for code in codes]), np.array(answered))
        failed = self._faults[0][outcome].astype(np.int64)
        nodes = block.route.nodes
        http = [place for place, row in enumerate(rows) if _answers_http(nodes[row])]
        if http:
            failed[http] = self._faults[1][outcome[http]]
        inside = [place for place, row in enumerate(rows) if nodes[row].local or nodes[row].op.marks_errors]
        if inside:
            failed[inside] = outcome[inside] != 0
        return failed

    def _accumulate(self, spans: _Spans, sign: int) -> None:
        if not spans.keys:
            return
        key, durations = np.concatenate(spans.keys), np.concatenate(spans.durations)
        series = self._series[key]
        if series.min(initial=0) < 0:
            for slot in np.unique(key[series < 0]).tolist():
                self._series[slot] = self._new_series(slot)
            series = self._series[key]
        bucket = _LOOKUP[np.minimum(np.ceil(durations), _TOP_MS).astype(np.int32)]
        # Whole microseconds keep the sums exact, so that taking back and adding again leaves nothing behind.
        durations *= np.float32(1e3)
        size = len(self._labels)
        sums = np.bincount(series, weights=np.rint(durations, out=durations), minlength=size)
        series *= _BUCKETS
        series += bucket
        counts = np.bincount(series, minlength=size * _BUCKETS).reshape(size, _BUCKETS)
        self._buckets[:size] += sign * counts
        self._sum_us[:size] += sign * sums

    def _new_series(self, slot: int) -> int:
        shape, rest = divmod(slot, 2 * self._stride)
        failed, number = divmod(rest, self._stride)
        span, run = self._shapes[shape], self._runs[number]
        service = span.op.reports_as or run.spec.env.get("OTEL_SERVICE_NAME") or span.service
        labels = SpanSeries(
            service,
            span.name,
            f"SPAN_KIND_{span.kind}",
            f"STATUS_CODE_{'ERROR' if failed else 'UNSET'}",
            run.ref.namespace,
            run.ref.pod,
            run.spec.node,
        )
        found = self._ids.get(labels)
        if found is None:
            found = self._ids[labels] = len(self._labels)
            self._labels.append(labels)
            if found == len(self._buckets):
                self._buckets = np.concatenate([self._buckets, np.zeros_like(self._buckets)])
                self._sum_us = np.concatenate([self._sum_us, np.zeros_like(self._sum_us)])
        return found


def _grown(factor: float, before: int, count: int) -> float:
    """Sum of ``factor ** n`` over ``count`` numbers from ``before`` on, the exponents bounded."""
    return float(sum(factor ** min(before + n, 200) for n in range(count))) if factor != 1.0 else float(count)


def _answers_http(node: Node) -> bool:
    return bool(node.op.target) and node.op.error_status >= 500 and not node.local


@dataclass(slots=True)
class Usages:
    """Cumulative counters of one run."""

    cpu_s: float = 0.0
    periods: float = 0.0
    throttled_periods: float = 0.0
    throttled_s: float = 0.0
    cores: float = 0.0  # use over the last window
    calls_per_s: float = 0.0  # smoothed
    wakes_per_s: float = 0.0  # smoothed: calls that arrive, answers that come back
    demand: float = 0.0  # smoothed, cores
    service_s: float = 1e-3  # mean time in a worker
    backlog_s: float = 0.0  # CPU seconds of work not done yet
    inflight: float = 0.0
    probes: int = 0  # answered since the last piece
    max_memory: int = 0
    ooms: int = 0
    leaks: int = 0  # how often something was left in memory
    leaked_mib: float = 0.0
    rx_bytes: float = 0.0
    tx_bytes: float = 0.0
    rx_packets: float = 0.0
    tx_packets: float = 0.0


class Meter:
    """Container counters by run number, and the waiting that follows from demand."""

    def __init__(self, runs: Runs, seed: int) -> None:
        self._runs = runs
        self._seed = seed
        self.usages: list[Usages] = []
        self.waiting: dict[int, Waiting] = {}
        self._stress: dict[int, float] = {}
        self.burning: dict[int, float] = {}  # cores that runs keep busy of their own accord
        self._shape: Shape | None = None

    def usage(self, run: Run) -> Usages:
        """Counters of a run."""
        while len(self.usages) <= run.number:
            self.usages.append(Usages())
        return self.usages[run.number]

    def record(self, blocks: list[Block], routes: RouteTable, start: float, end: float) -> None:
        """Add one piece: CPU, network and rates of every living run."""
        elapsed = end - start
        if elapsed <= 0:
            return
        for run in self._runs.alive():
            self.usage(run)
        calls, cpu, served, wakes = self._traffic(blocks, routes, elapsed)
        for run in list(self._runs.alive()):
            number = run.number
            used = (float(calls[number]), float(cpu[number]), float(served[number]), float(wakes[number]))
            self._run(run, used, start, end)

    def _traffic(self, blocks: list[Block], routes: RouteTable, elapsed: float) -> tuple[NDArray[np.float64], ...]:
        """Per run: calls answered, CPU seconds, seconds of serving requests, wake-ups."""
        runs, ops = len(self._runs), len(routes.ops)
        counts = np.zeros(runs * ops, np.int64)
        sent = np.zeros(runs * ops, np.int64)
        served = np.zeros(runs)
        for block in blocks:
            key = block.run * ops + block.route.ops[:, None]
            callers = block.run[block.route.parents[1:]] * ops + block.route.ops[1:, None]
            where = block.run >= 0
            if block.made is not None:
                where &= block.made
            if where.all():
                counts += np.bincount(key.ravel(), minlength=runs * ops)
                sent += np.bincount(callers.ravel(), minlength=runs * ops)
                served += np.bincount(block.run[0], weights=block.served[0], minlength=runs)
            else:
                counts += np.bincount(key[where], minlength=runs * ops)
                sent += np.bincount(callers[where[1:]], minlength=runs * ops)
                root = where[0]
                served += np.bincount(block.run[0][root], weights=block.served[0][root], minlength=runs)
        table, out = counts.reshape(runs, ops), sent.reshape(runs, ops)
        if self._shape is None or len(self._shape.asked) != ops:
            self._shape = Shape.of(routes)
        cpu = table @ self._shape.cpu_s
        table, out = table * self._shape.crosses, out * self._shape.crosses
        self._network(exchanged(self._shape, table, out, elapsed), table.sum(axis=1) + out.sum(axis=1))
        calls = table.sum(axis=1).astype(float)
        return calls, cpu, served * 1e-3, calls + out.sum(axis=1)

    def leak(self, blocks: list[Block], routes: RouteTable, edges: EdgeTable) -> None:
        """Add what operations left in memory."""
        for block in blocks:
            for i in block.route.leaking:
                node = block.route.nodes[i]
                assert node.op.leak is not None
                counts = np.bincount(block.run[i, block.reached(i)], minlength=len(self._runs))
                for number in np.flatnonzero(counts):
                    usage, leak, count = self.usage(self._runs[int(number)]), node.op.leak, int(counts[number])
                    times = edges.flag(routes, node.program, leak.flag, {})[number] if leak.flag else 1.0
                    usage.leaked_mib += leak.mib * times * _grown(leak.factor, usage.leaks, count)
                    usage.leaks += count

    def _network(self, counts: NDArray[np.float64], calls: NDArray[np.int64]) -> None:
        """Add a piece's exchanges. Message sizes vary, so sums of bytes do, by 1 / sqrt(calls)."""
        for number in np.flatnonzero(calls):
            usage = self.usages[number]
            received, packets_in, sent, packets_out = (float(c) for c in counts[:, number])
            scatter = SIZE_CV * 3.46 / math.sqrt(calls[number])
            key = text_key(self._seed, "bytes", number, usage.rx_packets)
            received *= 1.0 + scatter * (unit_int(key) - 0.5)
            sent *= 1.0 + scatter * (unit_int(key ^ 1) - 0.5)
            usage.rx_packets += packets_in
            usage.tx_packets += packets_out
            usage.rx_bytes += received + FRAME_BYTES * packets_in
            usage.tx_bytes += sent + FRAME_BYTES * packets_out

    def _run(self, run: Run, traffic: tuple[float, float, float, float], start: float, end: float) -> None:
        calls, cpu, served, wakes = traffic
        elapsed = end - start
        usage = self.usages[run.number]
        resources = run.program.resources if run.program is not None else None
        idle = (resources.idle_cpu_m if resources else 1.0) * 1e-3
        probes = usage.probes * (resources.probe_cpu_ms if resources else 0.4) * 1e-3
        usage.rx_bytes += usage.probes * 500.0
        usage.tx_bytes += usage.probes * 350.0
        usage.rx_packets += usage.probes * 6
        usage.tx_packets += usage.probes * 5
        usage.probes = 0
        starting = 0.0
        if resources and run.program is not None and start < run.started + run.program.startup_s + 1.0:
            overlap = min(end, run.started + run.program.startup_s + 1.0) - max(start, run.started)
            starting = max(0.0, overlap) / (run.program.startup_s + 1.0) * resources.startup_cpu_s
        collected = 0.0
        if resources and resources.gc_cpu_ms > 0:
            phase = unit_int(text_key(self._seed, "gc", run.ref))
            collected = collections(resources, phase, start, end) * resources.gc_cpu_ms * 1e-3
        wanted = (cpu + idle * elapsed) * self._noise(run, start) + probes + starting + collected
        found = self.waiting.get(run.number)
        limit = run.spec.cpu_limit_cores
        used = wanted + usage.backlog_s + self._stress.get(run.number, 0.0) * elapsed
        if limit is not None:
            done = min(used, limit * elapsed)
            usage.backlog_s = max(0.0, min(wanted + usage.backlog_s - limit * elapsed, 600.0 * limit))
            used = done
            self._throttle(usage, found, used / elapsed / limit, elapsed)
        usage.cpu_s += used
        usage.cores = used / elapsed
        keep = math.exp(-elapsed / RATE_TAU_S)
        usage.calls_per_s = usage.calls_per_s * keep + calls / elapsed * (1 - keep)
        usage.wakes_per_s = usage.wakes_per_s * keep + wakes / elapsed * (1 - keep)
        usage.demand = usage.demand * keep + (cpu / elapsed + idle) * (1 - keep)
        usage.inflight = usage.inflight * keep + served / elapsed * (1 - keep)
        if calls:
            usage.service_s = max(1e-5, served / calls if served else cpu / calls)

    def _throttle(self, usage: Usages, found: Waiting | None, utilisation: float, elapsed: float) -> None:
        periods = elapsed / PERIOD_S * min(1.0, 0.15 + 3.0 * utilisation)
        usage.periods += periods
        if found is not None:
            usage.throttled_periods += min(periods, found.throttled_periods * elapsed / PERIOD_S)
            usage.throttled_s += found.throttled_s * elapsed

    def _noise(self, run: Run, at: float) -> float:
        key = text_key(self._seed, "cpu", run.ref, int(at // NOISE_S))
        return 1.0 + NOISE_CV * 1.732 * (2.0 * unit_int(key) - 1.0)

    def strain(self, effects: Effects) -> dict[int, Waiting]:
        """Waiting of every run with demand or stress, for the next piece."""
        self.waiting, self._stress = {}, {}
        for run in self._runs.alive():
            usage = self.usage(run)
            stress = effects.cpu_workers.get((run.ref.namespace, run.ref.pod, run.ref.container), 0.0)
            stress += self.burning.get(run.number, 0.0)
            if run.program is None or (usage.calls_per_s < 1e-3 and not stress):
                continue
            if stress:
                self._stress[run.number] = stress
            limit = run.spec.cpu_limit_cores
            asked = max(usage.demand - run.program.resources.idle_cpu_m * 1e-3, 0.0)
            per_call = asked / usage.calls_per_s if usage.calls_per_s > 1e-3 else 1e-3
            load = Load(
                usage.demand,
                usage.calls_per_s,
                per_call,
                usage.service_s,
                stress,
                math.nan if limit is None else limit,
                run.program.workers,
                run.program.cores,
                usage.wakes_per_s,
            )
            self.waiting[run.number] = paused(waiting(load), run.program.resources, limit)
        return self.waiting

    def backlog_ms(self) -> dict[int, float]:
        """Wait behind unfinished work, by run."""
        found = {}
        for run in self._runs.alive():
            usage, limit = self.usage(run), run.spec.cpu_limit_cores
            if limit and usage.backlog_s > 0.02:
                found[run.number] = 1e3 * min(usage.backlog_s / limit, 600.0)
        return found
