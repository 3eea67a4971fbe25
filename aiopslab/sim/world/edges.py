"""The state of every edge of the call graph as arrays over caller runs, ready for whole columns of calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.addresses import address_in
from aiopslab.sim.world.connections import Connection, Connections, Surroundings
from aiopslab.sim.world.dialects import CLIENTS, UNKNOWN_NAME, Error, Errors, fill
from aiopslab.sim.world.effects import Path
from aiopslab.sim.world.flags import Flags
from aiopslab.sim.world.programspec import Program, When
from aiopslab.sim.world.routes import RouteTable
from aiopslab.sim.world.runs import Runs

RETRANSMIT_MS = 200.0  # Linux' minimal retransmission timeout; doubles at each loss


@dataclass(slots=True, eq=False)
class Edge:
    """Columns over run numbers; one more entry at the end answers for run -1."""

    backend: NDArray[np.int32]  # run that answers, -1 when there is none
    error: NDArray[np.int32]  # what the caller gets instead
    fail_ms: NDArray[np.float32]
    hangs: NDArray[np.bool_]  # connected, but packets vanish
    absent: NDArray[np.bool_]  # not given an address
    delay_ms: NDArray[np.float32]
    jitter_ms: NDArray[np.float32]
    loss: NDArray[np.float32]
    rate_bps: NDArray[np.float32]
    broken: bool = False  # some caller gets an error or hangs
    slowed: bool = False  # some caller meets delay, loss or a limited rate

    def set(self, caller: int, connection: Connection) -> None:
        """Fill in one caller's channel."""
        self.backend[caller] = connection.backend
        if connection.backend < 0:
            self.error[caller] = connection.error
            self.fail_ms[caller] = connection.fail_ms
            self.broken = True
            return
        self.set_path(caller, connection.path)

    def set_path(self, caller: int, path: Path) -> None:
        """Fill in what packets meet."""
        if path.clear:
            return
        if path.cut:
            self.hangs[caller] = True
            self.broken = True
        self.delay_ms[caller], self.jitter_ms[caller] = path.delay_ms, path.jitter_ms
        self.loss[caller], self.rate_bps[caller] = path.loss, path.rate_bps
        self.slowed = True


def blank(runs: int) -> Edge:
    """An edge on which nobody calls yet."""
    size = runs + 1

    def zeros() -> NDArray[np.float32]:
        return np.zeros(size, np.float32)

    return Edge(
        np.full(size, -1, np.int32),
        np.zeros(size, np.int32),
        zeros(),
        np.zeros(size, bool),
        np.zeros(size, bool),
        zeros(),
        zeros(),
        zeros(),
        zeros(),
    )


class EdgeTable:
    """All edges for one state of the cluster."""

    def __init__(self, runs: Runs, connections: Connections, errors: Errors, around: Surroundings) -> None:
        self._runs = runs
        self._connections = connections
        self._errors = errors
        self._around = around
        self._callers: dict[str, list[int]] = {}
        for run in runs.alive():
            if run.program is not None:
                self._callers.setdefault(run.program.key, []).append(run.number)
        self._edges: dict[int, Edge] = {}
        self._flags: dict[int, Flags] = {}
        self._values: dict[tuple[str, str, str, str], NDArray[np.float64]] = {}
        self.lossy = False  # packets get lost on some edge

    def edge(self, routes: RouteTable, number: int) -> Edge:
        """The edge with this number, resolved at first use."""
        found = self._edges.get(number)
        if found is None:
            found = self._edges[number] = self._build(routes.edges[number], number in routes.optional)
        return found

    def _build(self, between: tuple[Program, str, Program], optional: bool) -> Edge:
        caller, variable, callee = between
        edge = blank(len(self._runs))
        library = caller.library(callee)
        for number in self._callers.get(caller.key, ()):
            run = self._runs[number]
            address = address_in(run.spec.env, variable)
            if not address:
                edge.absent[number] = True
                if optional:
                    continue
                text = CLIENTS[library].texts[UNKNOWN_NAME]
                message = fill(text.message, {"host": variable, "port": ""})
                edge.error[number] = self._errors.intern(Error(text.code, message))
                edge.broken = True
                continue
            edge.set(number, self._connections.resolve(run, address, callee, self._around, library=library))
        self.lossy |= bool(edge.loss.any() or edge.hangs.any())
        return edge

    def share(self, routes: RouteTable, program: Program, when: When) -> NDArray[np.float64]:
        """Share of the requests that a step with ``when`` is for, by run of ``program``; with a context it has a
        second axis, the number of the context's word."""
        values = self.flag(routes, program, when.flag, when.context)
        share = np.clip(values, 0.0, 1.0) * when.chance
        return 1.0 - share if when.unless else share

    def flag(self, routes: RouteTable, program: Program, name: str, context: dict[str, str]) -> NDArray[np.float64]:
        """Value of a flag by run of ``program``, with a second axis of words when there is a ``context``. Runs that
        do not reach their flag service have their code's default, 0."""
        fact, variable = next(iter(context.items()), ("", ""))
        key = (program.key, name, fact, variable)
        if key not in self._values:
            words = routes.programs.words(program, variable) if variable else [""]
            table = np.zeros((len(self._runs) + 1, len(words)))
            for number in self._callers.get(program.key, ()):
                flags = self.flags_of(routes, program, number)
                if flags is not None:
                    table[number] = [flags.value(name, {fact: word} if fact else {}) for word in words]
            self._values[key] = table if variable else table[:, 0]
        return self._values[key]

    def flags_of(self, routes: RouteTable, program: Program, number: int) -> Flags | None:
        """The flags that run ``number`` of a program gets, or None when it does not reach its flag service."""
        service = routes.programs.flag_service(program)
        if service is None:
            return None
        backend = int(self.edge(routes, routes.edge(program, program.flags, service)).backend[number])
        if backend < 0:
            return None
        if backend not in self._flags:
            self._flags[backend] = Flags(self._runs[backend].spec.files.get(service.flag_file, ""))
        return self._flags[backend]


def packet_delay(
    edge: Edge, callers: NDArray[np.int32], draws: NDArray[np.uint64], size_bytes: int
) -> NDArray[np.float32]:
    """(n,) extra milliseconds of a round trip; ``draws`` are the calls' hashes.

    Lost packets cost the retransmission timeout, doubled at each further loss of the same packet.
    """
    low = (draws & np.uint64(0xFFFF)).astype(np.float32) * np.float32(1 / 65536)
    extra = edge.delay_ms[callers] + edge.jitter_ms[callers] * (2 * low - 1)
    loss = edge.loss[callers]
    if loss.any():
        draw = ((draws >> np.uint64(8)) & np.uint64(0xFFFFFF)).astype(np.float32) * np.float32(2.0**-24)
        with np.errstate(divide="ignore"):
            losses = np.floor(np.log(np.maximum(draw, 1e-7)) / np.log(np.where(loss > 0, loss, 1e-9)))
        extra += RETRANSMIT_MS * (2.0 ** np.minimum(losses, 8) - 1)
    rate = edge.rate_bps[callers]
    if rate.any():
        extra += np.where(rate > 0, 1e3 * size_bytes / np.maximum(rate, 1), 0)
    return np.maximum(extra, 0).astype(np.float32)
