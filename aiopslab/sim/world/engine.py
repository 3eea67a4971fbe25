"""One batch of requests of one route becomes a block of columns.

Every random choice of a request is a slice of a hash of its key and of the call's place in the route, so equal
requests meet equal luck whatever else happens.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.blocks import Block
from aiopslab.sim.world.dialects import Errors
from aiopslab.sim.world.edges import Edge, EdgeTable, packet_delay
from aiopslab.sim.world.hashing import QUANTILES, lognormal_table, mix, salted, text_key, unit
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.queueing import Waiting
from aiopslab.sim.world.routes import Node, Route, RouteTable
from aiopslab.sim.world.runs import Runs
from aiopslab.sim.world.stalls import stall
from aiopslab.sim.world.walk import Columns, GuardedWalk, Journey, exceeds_deadline, plain

# Transport and library time of one exchange inside a cluster, (weight, mu, sigma) in log milliseconds.
WIRE_RPC = [(0.96, -0.80, 0.30), (0.04, 0.70, 0.60)]
WIRE_PLAIN = [(0.97, -1.6, 0.25), (0.03, 0.0, 0.6)]  # a bare TCP protocol
_U16 = np.float32(1 / 65536)
WARM_AFTER = 6.0  # time constants after which a program counts as warm
ONE_OF = re.compile(r"\{one:(\w+)\}")
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
            self.programs.add(program.key)
            self.hit[number], self.stretch[number] = found.hit, found.stretch_ms
            self.queue[number], self.backlog[number] = found.queue_ms, behind
            if found.exhausted:
                self.hit[number], self.exhausted[number] = 0.0, found.exhausted
                self.stressed.add(program.key)
            if found.queue_ms >= QUEUE_MIN_MS or behind > 0:
                self.queued.add(program.key)

    def _warm_up(self, runs: Runs, now: float) -> None:
        for run in runs.alive():
            program, age = run.program, now - run.listening_at
            if program is not None and program.cold_factor > 1.0 and 0 <= age < WARM_AFTER * program.warm_up_s:
                self.slow[run.number] += (program.cold_factor - 1.0) * math.exp(-age / program.warm_up_s)
                self.cold.add(program.key)
                self.programs.add(program.key)


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
        run = np.empty((len(route.nodes), count), np.int32)
        run[0] = batch.edge.backend[batch.lanes]
        wanted = np.ones(run.shape, bool) if route.conditional else None
        node_edges = self._arrive(batch, (routes, edges), run, wanted)
        draws = mix(batch.key[None, :] ^ route.salts[:, None])
        own, wire = self._durations(route, draws)
        for i in route.scaled:
            own[i] *= self._scale(batch, i, run, (routes, edges))
        self._packets(batch, node_edges, run, draws, wire)
        if strain.programs:
            self._waits(route, run, draws, strain, (own, wire))
        for name in sorted(strain.stressed):
            mine = [node for node in route.nodes if node.program.key == name and not node.local]
            if mine:
                exhausted = strain.exhausted[run[[node.index for node in mine]]]
                stall(mine, batch.key, draws, exhausted, (own, wire))
        root_error = batch.edge.error[batch.lanes] if batch.edge.broken else None
        fail = batch.edge.fail_ms[batch.lanes] if batch.edge.broken else None
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
        if journey.route.failing and not risky:
            wanted = journey.wanted
            risky = any(n.op.fails and (wanted is None or wanted[n.index].any()) for n in journey.route.nodes)
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
        wire = self._tables.take(index)
        if len(route.local_rows):
            wire[route.local_rows] = 0.0
        return own, wire

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
            if node.program.key not in strain.programs:
                continue
            i, where = node.index, run[node.index]
            if node.program.key in strain.cold:
                own[i] *= strain.slow[where]
            chance = ((draws[i] >> np.uint64(24)) & np.uint64(0xFFFF)).astype(np.float32) * _U16
            hit = strain.hit[where]
            struck = np.flatnonzero(chance < hit)
            if len(struck):
                stall = chance[struck] / hit[struck] * strain.stretch[where[struck]]
                inside = (draws[i, struck] & np.uint64(1)).astype(bool) | (node.step is None)
                own[i, struck] += np.where(inside, stall, 0)
                wire[i, struck] += np.where(inside, 0, stall)
            if node.program.key in strain.queued and not node.local:
                level = ((draws[i] >> np.uint64(8)) & np.uint64(0xFFFF)).astype(np.float32)
                level = (level + np.float32(0.5)) * _U16
                wire[i] += strain.backlog[where] - strain.queue[where] * np.log(level)

    def _arrive(
        self,
        batch: Batch,
        state: tuple[RouteTable, EdgeTable],
        run: NDArray[np.int32],
        wanted: NDArray[np.bool_] | None,
    ) -> list[Edge | None]:
        """Fill in which run answers each call and whether the call is made at all; the edges that are used."""
        routes, table = state
        edges: list[Edge | None] = [None]
        sizes: dict[str, NDArray[np.uint8]] = {}
        unused: set[int] = set()  # calls that no request makes; their edges need not exist
        for node in batch.route.nodes[1:]:
            i, step = node.index, node.step
            assert step is not None
            if wanted is not None:
                wanted[i] = wanted[node.parent]
                if step.each and node.parent not in unused:
                    self._loop(batch, node, wanted[i], sizes)
                if step.when is not None and node.parent not in unused:
                    wanted[i] &= self._flagged(batch, node, state, run[node.parent])
                if step.optional and node.parent not in unused:
                    wanted[i] &= ~table.edge(routes, node.edge).absent[run[node.parent]]
                if node.parent in unused or ((step.when is not None or step.optional) and not wanted[i].any()):
                    unused.add(i)
                    edges.append(None)
                    run[i] = -1
                    continue
            if node.local:
                edges.append(None)
                run[i] = run[node.parent]
                continue
            edge = table.edge(routes, node.edge)
            edges.append(edge)
            np.take(edge.backend, run[node.parent], out=run[i])
        return edges

    def _loop(self, batch: Batch, node: Node, row: NDArray[np.bool_], sizes: dict[str, NDArray[np.uint8]]) -> None:
        """Clear in ``row`` the requests whose set has fewer members than the loop has rounds so far."""
        assert node.step is not None
        name = node.step.each
        if not self._programs.is_set(batch.route.nodes[node.parent].program, name):
            return
        if name not in sizes:
            sizes[name] = np.bitwise_count(batch.variables.get(name, np.zeros(len(batch.key), np.int64)))
        row &= sizes[name] > node.repeat

    def _flagged(
        self, batch: Batch, node: Node, state: tuple[RouteTable, EdgeTable], callers: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """(n,) the requests that a step with a flag is for."""
        assert node.step is not None
        when = node.step.when
        assert when is not None
        share = state[1].share(state[0], batch.route.nodes[node.parent].program, when)
        variable = next(iter(when.context.values()), "")
        if not variable:
            chosen = share[callers]
        elif not share.any():
            return np.zeros(len(callers), bool)
        else:
            chosen = share[callers, self._word(batch, node, variable) % share.shape[1]]
        draw = unit(salted(batch.key, text_key("when", when.flag, batch.route.name, node.parent)))
        return draw >= 1.0 - chosen if when.unless else draw < chosen

    def _word(self, batch: Batch, node: Node, variable: str) -> NDArray[np.int64]:
        """Number of the word that a request variable has inside a call: what the calls on the way were given,
        else what the request has."""
        for at in batch.route.path(node.index):
            given = at.step.args.get(variable, "") if at.step is not None else ""
            if match := ONE_OF.fullmatch(given):
                size = self._programs.vocabulary_size(at.program, match[1])
                place = mix(mix(batch.key ^ np.uint64(text_key(match[1]))) + np.uint64(at.index))
                return (place % np.uint64(size)).astype(np.int64)
            if given == "{item}" and at.step is not None:
                bits = batch.variables.get(at.step.each, np.zeros(len(batch.key), np.int64))
                return nth_member(bits, at.repeat)
        return batch.variables.get(variable, np.zeros(len(batch.key), np.int64))

    def _scale(
        self, batch: Batch, i: int, run: NDArray[np.int32], state: tuple[RouteTable, EdgeTable]
    ) -> NDArray[np.float32]:
        node = batch.route.nodes[i]
        assert node.step is not None
        if node.step.scale_by:
            return batch.variables.get(node.step.scale_by, np.zeros(len(batch.key))).astype(np.float32)
        values = state[1].flag(state[0], batch.route.nodes[node.parent].program, node.step.scale, {})
        return values[run[node.parent]].astype(np.float32)


def nth_member(bits: NDArray[np.int64], place: int) -> NDArray[np.int64]:
    """Number of the member at ``place``, counted from 0, of sets given as bits; 0 where there are fewer."""
    rest = bits.astype(np.uint64)
    for _ in range(place):
        rest &= rest - np.uint64(1)
    lowest = rest & (~rest + np.uint64(1))
    return np.bitwise_count(np.maximum(lowest, np.uint64(1)) - np.uint64(1)).astype(np.int64)
