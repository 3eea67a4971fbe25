"""Closed-loop users: who asks for what, and when.

The nth task of a user is a hash of the user and n, so it does not depend on how fast earlier answers came; only
its time does: a user thinks after each answer, so slow answers mean fewer requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.addresses import plain_address
from aiopslab.sim.world.blocks import Block
from aiopslab.sim.world.edges import Edge
from aiopslab.sim.world.engine import Batch
from aiopslab.sim.world.hashing import mix, salted, text_key, unit
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.programspec import Program, Task, Users
from aiopslab.sim.world.routes import RouteTable
from aiopslab.sim.world.runs import Run

USERS_MAX = 100_000
ROUNDS_MAX = 400  # tasks of one user in one piece
LATE_S = 0.25  # a task may begin this much after the piece without being put off
START_S = 1.0  # from process start to the first user


@dataclass(slots=True, eq=False)
class Round:
    """The tasks that some users begin next, in parallel arrays."""

    users: NDArray[np.int64]
    tasks: NDArray[np.int64]  # indexes of Users.tasks
    keys: NDArray[np.uint64]
    think_s: NDArray[np.float64]
    sets: dict[str, NDArray[np.int64]]  # before the task
    state: dict[str, NDArray[np.int64]]
    drawn: dict[str, NDArray[np.int64]]
    first: int  # number of the first entry among all entries of the plan


@dataclass(slots=True, eq=False)
class Part:
    """Requests at one position of one task: a slice of a batch, and the entries it belongs to."""

    task: int
    position: int
    entries: NDArray[np.int64]
    keys: NDArray[np.uint64]
    lanes: NDArray[np.int64]
    variables: dict[str, NDArray[np.int64]]


@dataclass(slots=True, eq=False)
class Plan:
    """What was asked of the engine, to be placed in time when the answers are known."""

    rounds: list[Round] = field(default_factory=list)
    entries: int = 0
    parts: list[list[Part]] = field(default_factory=list)  # per batch


class UserLoad:
    """The users of one load-generator run. ``index`` tells generators of one cluster apart: a restarted one
    has the same users again."""

    def __init__(self, run: Run, programs: Programs, seed: int, index: int = 0) -> None:
        program = run.program
        assert program is not None and program.users is not None
        self.run = run
        self.spec: Users = program.users
        self.entry: Program = programs.sibling(program, self.spec.program)
        self.timeout_ms = self.spec.timeout_s * 1e3
        self._programs = programs
        env = run.spec.env
        self.address = plain_address(env.get(self.spec.target, ""))
        self.count = int(_number(env.get(self.spec.count, ""), 10))
        self._rate = max(_number(env.get(self.spec.rate, ""), 1), 1e-3)
        self._own = text_key(seed, "users", program.name, index)
        self._named: float | None = None  # what the flag service named last
        self.lanes = -1
        self.resize(self.count, run.started)
        self._expected_s = np.full(len(self.spec.tasks), 0.05)
        self._cumulative = np.cumsum([t.weight for t in self.spec.tasks])
        self._first = next(i for i, t in enumerate(self.spec.tasks) if t.name == self.spec.on_start)
        self.requests = 0
        self.failures = 0

    @property
    def sets(self) -> dict[str, NDArray[np.int64]]:
        """The users' set variables, a bit per word, by user."""
        return self._sets

    def words(self, name: str) -> list[str]:
        """The words of a set variable."""
        return self._programs.words(self.entry, name)

    def heed(self, count: float | None, traffic: bool, now: float) -> None:
        """Follow the flags: ``count`` is the number of users that the flag service names now, None while it does
        not answer. The number at the start is the environment's; it changes when the flag's value does."""
        if count is not None and self._named not in (None, count):
            self.count = int(count)
        self._named = self._named if count is None else count
        self.resize(self.count if traffic else 0, now)

    def resize(self, count: int, now: float) -> None:
        """Go on with ``count`` users, who start afresh, when it is another number."""
        count = min(max(0, count), USERS_MAX)
        if count == self.lanes:
            return
        self.lanes = count
        self._keys = mix(np.arange(count, dtype=np.uint64) + np.uint64(self._own))
        self._next = now + START_S + np.arange(count) / self._rate
        self._turn = np.zeros(count, np.int64)
        self._sets = {name: np.zeros(count, np.int64) for name in self.spec.sets}
        self._state = {name: np.full(count, value) for name, value in self.spec.state.items()}

    def plan(self, routes: RouteTable, edge: Edge, until: float) -> tuple[Plan, list[Batch]]:
        """Batches of all requests whose tasks are expected to begin before ``until``."""
        plan = Plan()
        times, turns = self._next.copy(), self._turn.copy()
        sets = {name: bits.copy() for name, bits in self._sets.items()}
        state = {name: values.copy() for name, values in self._state.items()}
        for _ in range(ROUNDS_MAX):
            users = np.flatnonzero(times < until)
            if not len(users):
                break
            round_ = self._draw(users, turns[users], sets, state, plan.entries)
            plan.rounds.append(round_)
            plan.entries += len(users)
            times[users] += self._expected_s[round_.tasks] + round_.think_s
            turns[users] += 1
            self._apply(round_, sets, state, None)
        return plan, self._batches(plan, routes, edge)

    def settle(self, plan: Plan, blocks: list[Block], until: float) -> list[Block]:
        """Place the answered requests in time; returns the blocks without requests that begin after ``until``."""
        took = np.zeros((plan.entries, self._longest()))
        good = np.ones((plan.entries, self._longest()), bool)
        for block, parts in zip(blocks, plan.parts, strict=True):
            at = 0
            for part in parts:
                span = slice(at, at + len(part.entries))
                took[part.entries, part.position] = block.took[0, span] * 1e-3
                if block.error is not None:
                    good[part.entries, part.position] = block.error[0, span] == 0
                at += len(part.entries)
        made = self._follow(plan, took, good)
        starts, kept = self._schedule(plan, took, good, until)
        return self._place(plan, blocks, starts, kept[:, None] & made, took)

    def _follow(self, plan: Plan, took: NDArray[np.float64], good: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(entries, positions) requests that are made; a redirect is only followed when there was one."""
        made = np.ones_like(good)
        if good.all():
            return made
        tasks = np.concatenate([r.tasks for r in plan.rounds])
        for number, task in enumerate(self.spec.tasks):
            for position, request in enumerate(task.requests):
                if request.follows:
                    made[(tasks == number) & ~(good[:, position - 1] & made[:, position - 1]), position] = False
        took[~made] = 0.0
        good |= ~made
        return made

    def _draw(
        self,
        users: NDArray[np.int64],
        turns: NDArray[np.int64],
        sets: dict[str, NDArray[np.int64]],
        state: dict[str, NDArray[np.int64]],
        first: int,
    ) -> Round:
        keys = mix(self._keys[users] + turns.astype(np.uint64) * np.uint64(0x9E37))
        draw = unit(salted(keys, 1)) * self._cumulative[-1]
        tasks = np.minimum(np.searchsorted(self._cumulative, draw, side="right"), len(self.spec.tasks) - 1)
        tasks = np.where(turns == 0, self._first, tasks)
        low, high = self.spec.think_s
        think = low + (high - low) * unit(salted(keys, 2))
        drawn = {name: self._number(keys, name) for name in self.spec.draws}
        return Round(
            users,
            tasks,
            keys,
            think,
            {n: s[users] for n, s in sets.items()},
            {n: s[users] for n, s in state.items()},
            drawn,
            first,
        )

    def _number(self, keys: NDArray[np.uint64], name: str) -> NDArray[np.int64]:
        draw = self.spec.draws[name]
        size = self._programs.vocabulary_size(self.entry, draw.of) if draw.of else draw.high - draw.low + 1
        return draw.low + (unit(salted(keys, text_key(name))) * size).astype(np.int64)

    def _apply(
        self,
        round_: Round,
        sets: dict[str, NDArray[np.int64]],
        state: dict[str, NDArray[np.int64]],
        good: NDArray[np.bool_] | None,
    ) -> None:
        """Let the tasks of a round change their users' state; ``good`` (entries, positions) says which requests
        succeeded, None meaning all."""
        for number, task in enumerate(self.spec.tasks):
            if not any(r.adds or r.clears or r.keeps for r in task.requests):
                continue
            mine = np.flatnonzero(round_.tasks == number)
            if not len(mine):
                continue
            for position, request in enumerate(task.requests):
                done = mine if good is None else mine[good[round_.first + mine, position]]
                users = round_.users[done]
                for name, drawn in request.adds.items():
                    sets[name][users] |= np.int64(1) << round_.drawn[drawn][done]
                for name in request.clears:
                    sets[name][users] = 0
                for name, drawn in request.keeps.items():
                    state[name][users] = round_.drawn[drawn][done]

    def _batches(self, plan: Plan, routes: RouteTable, edge: Edge) -> list[Batch]:
        by_route: dict[str, list[Part]] = {}
        for number, task in enumerate(self.spec.tasks):
            for part in self._parts(plan, number, task):
                by_route.setdefault(task.requests[part.position].route, []).append(part)
        batches = []
        for route, parts in by_route.items():
            names = parts[0].variables
            batches.append(
                Batch(
                    routes.route(self.entry, route),
                    np.concatenate([p.keys for p in parts]),
                    np.concatenate([p.lanes for p in parts]).astype(np.int32),
                    edge,
                    self.run.number,
                    self.timeout_ms,
                    {n: np.concatenate([p.variables[n] for p in parts]) for n in names},
                )
            )
            plan.parts.append(parts)
        return batches

    def _parts(self, plan: Plan, number: int, task: Task) -> list[Part]:
        picks = [(r, np.flatnonzero(r.tasks == number)) for r in plan.rounds]
        picks = [(r, mine) for r, mine in picks if len(mine)]
        if not picks:
            return []

        def gather(get: Callable[[Round], NDArray[np.int64]]) -> NDArray[np.int64]:
            return np.concatenate([get(r)[mine] for r, mine in picks])

        entries = np.concatenate([r.first + mine for r, mine in picks])
        keys = np.concatenate([r.keys[mine] for r, mine in picks])
        lanes = gather(lambda r: r.users)
        drawn = {name: gather(itemgetter_of("drawn", name)) for name in self.spec.draws}
        sets = {name: gather(itemgetter_of("sets", name)) for name in self.spec.sets}
        state = {name: gather(itemgetter_of("state", name)) for name in self.spec.state}
        parts = []
        for position, request in enumerate(task.requests):
            variables = {**drawn, **sets, **state, **{name: drawn[other] for name, other in request.uses.items()}}
            parts.append(Part(number, position, entries, salted(keys, 100 + position), lanes, variables))
            for name, source in request.adds.items():
                sets = {**sets, name: sets[name] | np.int64(1) << drawn[source]}
            for name in request.clears:
                sets = {**sets, name: np.zeros_like(sets[name])}
            for name, source in request.keeps.items():
                state = {**state, name: drawn[source]}
        return parts

    def _schedule(
        self, plan: Plan, took: NDArray[np.float64], good: NDArray[np.bool_], until: float
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Start and acceptance of every entry; moves the users on."""
        starts, kept = np.zeros(plan.entries), np.zeros(plan.entries, bool)
        waiting = np.zeros(self.lanes, bool)
        spent = took.sum(axis=1)
        for round_ in plan.rounds:
            users = round_.users
            entries = slice(round_.first, round_.first + len(users))
            starts[entries] = self._next[users]
            go = ~waiting[users] & (self._next[users] < until + LATE_S)
            kept[entries] = go
            waiting[users[~go]] = True
            moved = users[go]
            self._next[moved] += (spent[entries] + round_.think_s)[go]
            self._turn[moved] += 1
            accepted = good.copy() if not go.all() else good
            if accepted is not good:
                accepted[round_.first + np.flatnonzero(~go)] = False
            self._apply(round_, self._sets, self._state, accepted)
            for number in range(len(self.spec.tasks)):
                mine = spent[entries][(round_.tasks == number) & go]
                if len(mine):
                    self._expected_s[number] += 0.3 * (float(mine.mean()) - self._expected_s[number])
        self.requests += int((took > 0)[kept].sum())
        self.failures += int((~good & (took > 0))[kept].sum())
        return starts, kept

    def _place(
        self,
        plan: Plan,
        blocks: list[Block],
        starts: NDArray[np.float64],
        kept: NDArray[np.bool_],
        took: NDArray[np.float64],
    ) -> list[Block]:
        before = np.cumsum(took, axis=1) - took
        placed = []
        for block, parts in zip(blocks, plan.parts, strict=True):
            block.start = np.concatenate([starts[p.entries] + before[p.entries, p.position] for p in parts])
            keep = np.concatenate([kept[p.entries, p.position] for p in parts])
            if keep.all():
                placed.append(block)
            elif keep.any():
                placed.append(select(block, np.flatnonzero(keep)))
        return placed

    def _longest(self) -> int:
        return max(len(t.requests) for t in self.spec.tasks)


def itemgetter_of(part: str, name: str) -> Callable[[Round], NDArray[np.int64]]:
    """The function that takes a variable out of a round."""
    return lambda round_: getattr(round_, part)[name]


def select(block: Block, columns: NDArray[np.int64]) -> Block:
    """A block with only some of its requests."""

    def rows(array: NDArray | None) -> NDArray | None:
        return None if array is None else array[:, columns]

    return Block(
        block.route,
        block.key[columns],
        block.start[columns],
        block.run[:, columns],
        block.begin[:, columns],
        block.took[:, columns],
        block.served_at[:, columns],
        block.served[:, columns],
        rows(block.made),
        rows(block.error),
        rows(block.returned),
        {n: v[columns] for n, v in block.variables.items()},
        None if block.client is None else block.client[columns],
        None if block.connection is None else block.connection[columns],
        None if block.origin is None else block.origin.some(columns),
    )


def _number(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default
