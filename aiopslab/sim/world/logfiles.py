"""The files that container logs are in. The kubelet looks at the file of every running container each 10 s and begins
a new one when it has grown to 10 MiB; ``kubectl logs`` reads the newest file only.

Files are not written: how fast a container fills its file follows from the columns of traffic, and from what lines of
each sort take, which is the mean of the first few. That is worked out when a log is read, or before columns go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.blocks import Block, Pieces
from aiopslab.sim.world.logs import STDOUT, Logs, Source, destination, render_static
from aiopslab.sim.world.programspec import LogSpec, Program
from aiopslab.sim.world.routes import Route
from aiopslab.sim.world.runs import Run, Runs

MAX_BYTES = 10 << 20  # containerLogMaxSize
CHECK_S = 10.0  # containerLogMonitorInterval
ENTRY_BYTES = 41  # time, stream and tag before a line, the line's end after it
SAMPLES = 4

Floats = NDArray[np.float64]


class Writer(NamedTuple):
    """Lines that the operation ``who`` of a route writes about the call ``about``, which may be itself."""

    who: int
    about: int
    good: list[LogSpec]
    bad: list[LogSpec]  # when the call failed


@dataclass(slots=True, eq=False)
class Writers:
    """All writers of one route as columns; sizes are NaN until a line of the sort was seen."""

    rows: list[Writer]
    who: NDArray[np.int64]
    about: NDArray[np.int64]
    good_bytes: Floats
    bad_bytes: Floats


@dataclass(slots=True, eq=False)
class State:
    """Where all files stand after ``tick`` checks, by run. ``bins`` (runs, checks to come) is what is written by
    then; ``lines`` and ``probes`` count what was taken into account."""

    tick: int = 0
    size: Floats = field(default_factory=lambda: np.zeros(0))
    opened: Floats = field(default_factory=lambda: np.zeros(0))
    bins: Floats = field(default_factory=lambda: np.zeros((0, 8)))
    lines: dict[int, int] = field(default_factory=dict)
    probes: dict[int, int] = field(default_factory=dict)

    def copy(self) -> State:
        """One that can go on by itself."""
        return State(
            self.tick, self.size.copy(), self.opened.copy(), self.bins.copy(), dict(self.lines), dict(self.probes)
        )

    def room(self, runs: int, ticks: int) -> None:
        """Make room for so many runs and checks to come."""
        more, wider = runs - len(self.size), max(0, ticks - self.bins.shape[1])
        if more > 0:
            self.size = np.append(self.size, np.zeros(more))
            self.opened = np.append(self.opened, np.full(more, -np.inf))
        if more > 0 or wider:
            self.bins = np.pad(self.bins, ((0, max(0, more)), (0, wider)))


class LogFiles:
    """When the newest file of each container run was begun."""

    def __init__(self, logs: Logs, pieces: Pieces, runs: Runs, began: float) -> None:
        self.max_bytes = MAX_BYTES
        self._logs = logs
        self._pieces = pieces
        self._runs = runs
        self._began = began
        self._state = State()
        self._done = 0  # pieces taken into account for good
        self._writers: dict[Route, Writers] = {}
        self._probe_bytes: dict[str, float] = {}
        pieces.before_dropping = self._catch_up

    def opened(self, run: Run, now: float) -> float:
        """When the newest file of a run was begun."""
        self._catch_up(now)
        state = self._state.copy()  # what is still under way may yet change
        for _, _, blocks in self._pieces.from_number(self._done):
            self._count(state, blocks)
        self._check(state, now)
        return float(max(state.opened[run.number], run.started)) if run.number < len(state.size) else run.started

    def _catch_up(self, now: float) -> None:
        """Take into account all pieces, in order, whose last request has ended."""
        safe = now
        for start, end, blocks in self._pieces.from_number(self._done):
            if end > now:
                safe = start
                break
            self._count(self._state, blocks)
            self._done += 1
            self._check(self._state, start)
        self._check(self._state, safe)

    def _count(self, state: State, blocks: Iterable[Block]) -> None:
        for block in blocks:
            writers = self._writers.get(block.route)
            if writers is None:
                writers = self._writers[block.route] = _columns(_writers(block.route))
            if writers.rows:
                self._count_block(state, block, writers)

    def _count_block(self, state: State, block: Block, writers: Writers) -> None:
        runs = block.run[writers.who]
        there = runs >= 0
        if block.made is not None:
            there &= block.made[writers.who] & block.made[writers.about]
        failed = _failed(block, writers)
        self._measure(block, writers, there, failed)
        good, bad = np.nan_to_num(writers.good_bytes)[:, None], np.nan_to_num(writers.bad_bytes)[:, None]
        size = np.broadcast_to(good, runs.shape) if failed is None else np.where(failed, bad, good)
        ticks = np.maximum(((block.ends() - self._began) // CHECK_S).astype(np.int64) - state.tick, 0)
        state.room(len(self._runs), int(ticks.max()) + 1)
        wide = state.bins.shape[1]
        places = (runs * wide + ticks)[there]
        state.bins += np.bincount(places, weights=size[there], minlength=state.bins.size).reshape(-1, wide)

    def _measure(
        self, block: Block, writers: Writers, there: NDArray[np.bool_], failed: NDArray[np.bool_] | None
    ) -> None:
        """Sizes of lines that occur in a block for the first time."""
        kinds = [(writers.good_bytes, there if failed is None else there & ~failed)]
        if failed is not None:
            kinds.append((writers.bad_bytes, there & failed))
        for number, (sizes, where) in enumerate(kinds):
            for row in np.flatnonzero(np.isnan(sizes)):
                columns = np.flatnonzero(where[row])
                if len(columns):
                    writer = writers.rows[row]
                    picked = columns[:: -(-len(columns) // SAMPLES)]
                    lengths = [self._length(block, int(c), writer, bool(number)) for c in picked]
                    sizes[row] = float(np.mean(lengths))

    def _length(self, block: Block, column: int, writer: Writer, failed: bool) -> float:
        run = self._runs[int(block.run[writer.who, column])]
        at = float(block.start[column])
        texts = [
            self._logs.render(run, at, Source(block, column, writer.who, spec, writer.about))
            for spec in (writer.bad if failed else writer.good)
        ]
        return float(sum(entry_bytes(text) for text in texts))

    def _check(self, state: State, until: float) -> None:
        """Let the kubelet look at all files whenever it is time to, up to ``until``."""
        last = int((until - self._began) // CHECK_S)
        if last <= state.tick:
            return
        state.room(len(self._runs), last - state.tick)
        ended = np.array([run.ended for run in self._runs.all])
        talking = [run for run in self._runs.all if self._has_more(state, run)]
        for place in range(last - state.tick):
            when = self._began + (state.tick + place + 1) * CHECK_S
            state.size += state.bins[:, place]
            for run in talking:
                state.size[run.number] += self._own(state, run, when)
            full = (state.size >= self.max_bytes) & (ended > when)
            if full.any():
                state.size[full] = 0.0
                state.opened[full] = when
        state.bins = state.bins[:, last - state.tick :]
        state.tick = last

    def _has_more(self, state: State, run: Run) -> bool:
        told = run.program is not None and bool(run.program.probe_logs)
        return len(run.lines) > state.lines.get(run.number, 0) or (
            told and len(run.probes) > state.probes.get(run.number, 0)
        )

    def _own(self, state: State, run: Run, when: float) -> float:
        """Bytes of what no request has made a run write up to ``when``."""
        total, number = 0.0, run.number
        at = state.lines.get(number, 0)
        while at < len(run.lines) and run.lines[at][0] <= when:
            total += entry_bytes(run.lines[at][1])
            at += 1
        state.lines[number] = at
        if run.program is not None and run.program.probe_logs:
            at = before = state.probes.get(number, 0)
            while at < len(run.probes) and run.probes[at][0] <= when:
                at += 1
            state.probes[number] = at
            total += (at - before) * self._probed(run, run.program)
        return total

    def _probed(self, run: Run, program: Program) -> float:
        if program.key not in self._probe_bytes:
            texts = [render_static(run, spec, run.started, {"probe": "x-probe"}) for spec in program.probe_logs]
            self._probe_bytes[program.key] = float(sum(entry_bytes(text) for text in texts))
        return self._probe_bytes[program.key]


def entry_bytes(text: str) -> int:
    """What an event takes in the file."""
    return len(text.encode()) + ENTRY_BYTES + (ENTRY_BYTES - 1) * text.count("\n")


def _failed(block: Block, writers: Writers) -> NDArray[np.bool_] | None:
    """(writers, n) whether the call that lines are about failed: as its callee sees it, or for others its caller."""
    if block.error is None or block.returned is None:
        return None
    own = (writers.who == writers.about)[:, None]
    return np.where(own, block.returned[writers.about] != 0, block.error[writers.about] != 0)


def _writers(route: Route) -> list[Writer]:
    found = []
    for node in route.nodes:
        specs = [spec for spec in node.op.logs if destination(node.program, spec) == STDOUT]
        plain = [spec for spec in specs if not spec.at.startswith("after:")]
        if plain:
            good, bad = ([s for s in plain if s.at != other] for other in ("error", "ok"))
            found.append(Writer(node.index, node.index, good, bad))
        for child in node.children:
            after = [s for s in specs if s.at == f"after:{route.nodes[child].op.name}"]
            step = route.nodes[child].step
            warning = step.warning if step is not None else None
            told = warning is not None and destination(node.program, warning) == STDOUT
            if after or told:
                found.append(Writer(node.index, child, after, [warning] if told and warning is not None else []))
    return found


def _columns(rows: list[Writer]) -> Writers:
    return Writers(
        rows,
        np.array([row.who for row in rows], np.int64),
        np.array([row.about for row in rows], np.int64),
        np.array([np.nan if row.good else 0.0 for row in rows]),
        np.array([np.nan if row.bad else 0.0 for row in rows]),
    )
