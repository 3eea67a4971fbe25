"""One batch of requests of one route becomes a block of columns.

Every random choice of a request is a slice of a hash of its key and of the call's place in the route, so equal
requests meet equal luck whatever else happens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.blocks import Block
from aiopslab.sim.world.dialects import Errors
from aiopslab.sim.world.edges import Edge, EdgeTable, packet_delay
from aiopslab.sim.world.hashing import QUANTILES, lognormal_table, mix
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.queueing import Waiting
from aiopslab.sim.world.routes import Route, RouteTable
from aiopslab.sim.world.runs import Runs
from aiopslab.sim.world.stalls import stall
from aiopslab.sim.world.walk import Columns, GuardedWalk, Journey, exceeds_deadline, plain

# Transport and library time of one exchange inside a cluster, (weight, mu, sigma) in log milliseconds.
WIRE_RPC = [(0.96, -0.80, 0.30), (0.04, 0.70, 0.60)]
WIRE_PLAIN = [(0.97, -1.6, 0.25), (0.03, 0.0, 0.6)]  # a bare TCP protocol
_U16 = np.float32(1 / 65536)
WARM_AFTER = 6.0  # time constants after which a program counts as warm
QUEUE_MIN_MS = 0.1  # shorter waits are not worth drawing


@dataclass(slots=True, eq=False)
class Batch:
    """Requests of one route before they are simulated. ``lanes`` index the columns of ``edge``."""

    route: Route
    key: NDArray[np.uint64]
    lanes: NDArray[np.int32]
    edge: Edge
    client: int  # run of the load generator
    timeout_ms: float
    variables: dict[str, NDArray[np.int64]] = field(default_factory=dict)


class Strain:
    """Waiting by run, as columns; ``programs`` are those with a run whose calls notice it at ``now``."""

    def __init__(self, runs: Runs, waiting: dict[int, Waiting], backlog_ms: dict[int, float], now: float) -> None:
        size = len(runs) + 1
        self.hit = np.zeros(size, np.float32)
        self.stretch = np.zeros(size, np.float32)
        self.queue = np.zeros(size, np.float32)
        self.backlog = np.zeros(size, np.float32)
        self.exhausted = np.zeros(size, np.float32)
        self.programs: set[str] = set()
        self.queued: set[str] = set()
        self.cold: set[str] = set()
        self.stressed: set[str] = set()
        self.slow = np.ones(size, np.float32)
        self._warm_up(runs, now)
        for number, found in waiting.items():
            behind = backlog_ms.get(number, 0.0)
            program = runs[number].program
            if program is None or (found.idle and behind <= 0.0):
                continue
            self.programs.add(program.name)
            self.hit[number], self.stretch[number] = found.hit, found.stretch_ms
            self.queue[number], self.backlog[number] = found.queue_ms, behind
            if found.exhausted:
                self.hit[number], self.exhausted[number] = 0.0, found.exhausted
                self.stressed.add(program.name)
            if found.queue_ms >= QUEUE_MIN_MS or behind > 0:
                self.queued.add(program.name)

    def _warm_up(self, runs: Runs, now: float) -> None:
        for run in runs.alive():
            program, age = run.program, now - run.listening_at
            if program is not None and program.cold_factor > 1.0 and 0 <= age < WARM_AFTER * program.warm_up_s:
                self.slow[run.number] += (program.cold_factor - 1.0) * math.exp(-age / program.warm_up_s)
                self.cold.add(program.name)
                self.programs.add(program.name)


class Engine:
    """Turns batches into blocks under the present edges and strain."""

    def __init__(self, programs: Programs, runs: Runs, errors: Errors) -> None:
        self._programs = programs
        self._runs = runs
        self._errors = errors
        operations = list(programs.operations())
        tables = [lognormal_table(op.time) for _, op in operations]
        tables += [lognormal_table(WIRE_RPC), lognormal_table(WIRE_PLAIN)]
        self._tables = np.concatenate(tables)
        self._rpc, self._plain = len(operations), len(operations) + 1

    def simulate(self, batch: Batch, routes: RouteTable, edges: EdgeTable, strain: Strain) -> Block:
        """The block of a batch; starts are left at zero for the load generator to fill in."""
        route, count = batch.route, len(batch.key)
        nodes = route.nodes
        node_edges: list[Edge | None] = [None] + [edges.edge(routes, n.edge) for n in nodes[1:]]
        run = np.empty((len(nodes), count), np.int32)
        run[0] = batch.edge.backend[batch.lanes]
        for node in nodes[1:]:
            np.take(node_edges[node.index].backend, run[node.parent], out=run[node.index])  # type: ignore[union-attr]
        draws = mix(batch.key[None, :] ^ route.salts[:, None])
        own, wire = self._durations(route, draws)
        self._packets(batch, node_edges, run, draws, wire)
        if strain.programs:
            self._waits(route, run, draws, strain, (own, wire))
        for name in sorted(strain.stressed):
            mine = [node for node in route.nodes if node.program.name == name]
            if mine:
                exhausted = strain.exhausted[run[[node.index for node in mine]]]
                stall(mine, batch.key, draws, exhausted, (own, wire))
        root_error = batch.edge.error[batch.lanes] if batch.edge.broken else None
        fail = batch.edge.fail_ms[batch.lanes] if batch.edge.broken else None
        wanted = self._wanted(route, batch.variables, count) if route.conditional else None
        journey = Journey(route, run, wire, own, wanted, node_edges, root_error, fail)
        columns = self._walk(journey, batch)
        return Block(
            route,
            batch.key,
            np.zeros(count),
            run,
            columns.begin,
            columns.took,
            columns.served_at,
            columns.served,
            columns.made,
            columns.error,
            columns.returned,
            batch.variables,
            np.full(count, batch.client, np.int32),
            batch.lanes,
        )

    def _walk(self, journey: Journey, batch: Batch) -> Columns:
        risky = batch.edge.broken or any(edge is not None and edge.broken for edge in journey.edges)
        if not risky:
            columns = plain(journey)
            late = journey.route.has_deadline and exceeds_deadline(journey, columns)
            if not late and float(columns.took[0].max(initial=0.0)) <= batch.timeout_ms:
                return columns
        return GuardedWalk(journey, self._errors).run(batch.timeout_ms)

    def _durations(
        self, route: Route, draws: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        index = (draws >> np.uint64(52)).astype(np.int32)
        index += route.ops[:, None] * QUANTILES
        own = self._tables.take(index)
        np.right_shift(draws, np.uint64(40), out=(shifted := np.empty_like(draws)))
        index = shifted.astype(np.int32)
        index &= QUANTILES - 1
        kinds = [self._plain if n.program.serves == "redis" else self._rpc for n in route.nodes]
        index += (np.array(kinds, np.int32) * QUANTILES)[:, None]
        return own, self._tables.take(index)

    def _packets(
        self,
        batch: Batch,
        edges: list[Edge | None],
        run: NDArray[np.int32],
        draws: NDArray[np.uint64],
        wire: NDArray[np.float32],
    ) -> None:
        route = batch.route
        if batch.edge.slowed:
            wire[0] += packet_delay(
                batch.edge, batch.lanes, draws[0], route.op.request_bytes + route.op.response_bytes
            )
        for node in route.nodes[1:]:
            edge = edges[node.index]
            if edge is not None and edge.slowed:
                size = node.op.request_bytes + node.op.response_bytes
                wire[node.index] += packet_delay(edge, run[node.parent], draws[node.index], size)

    def _waits(
        self,
        route: Route,
        run: NDArray[np.int32],
        draws: NDArray[np.uint64],
        strain: Strain,
        times: tuple[NDArray[np.float32], NDArray[np.float32]],
    ) -> None:
        own, wire = times
        for node in route.nodes:
            if node.program.name not in strain.programs:
                continue
            i, where = node.index, run[node.index]
            if node.program.name in strain.cold:
                own[i] *= strain.slow[where]
            chance = ((draws[i] >> np.uint64(24)) & np.uint64(0xFFFF)).astype(np.float32) * _U16
            hit = strain.hit[where]
            struck = np.flatnonzero(chance < hit)
            if len(struck):
                stall = chance[struck] / hit[struck] * strain.stretch[where[struck]]
                inside = (draws[i, struck] & np.uint64(1)).astype(bool) | (node.step is None)
                own[i, struck] += np.where(inside, stall, 0)
                wire[i, struck] += np.where(inside, 0, stall)
            if node.program.name in strain.queued:
                level = ((draws[i] >> np.uint64(8)) & np.uint64(0xFFFF)).astype(np.float32)
                level = (level + np.float32(0.5)) * _U16
                wire[i] += strain.backlog[where] - strain.queue[where] * np.log(level)

    def _wanted(self, route: Route, variables: dict[str, NDArray[np.int64]], count: int) -> NDArray[np.bool_]:
        wanted = np.ones((len(route.nodes), count), bool)
        sizes: dict[str, NDArray[np.uint8]] = {}
        for node in route.nodes[1:]:
            assert node.step is not None
            row = wanted[node.parent]
            name = node.step.each
            if name and self._programs.is_set(name):
                if name not in sizes:
                    sizes[name] = np.bitwise_count(variables.get(name, np.zeros(count, np.int64)))
                row = row & (sizes[name] > node.repeat)
            wanted[node.index] = row
        return wanted
