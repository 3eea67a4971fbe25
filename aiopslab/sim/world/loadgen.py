"""Closed-loop users: who asks for what, and when.

The nth task of a user is a hash of the user and n, so it does not depend on how fast earlier answers came; only
its time does: a user thinks after each answer, so slow answers mean fewer requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
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
from aiopslab.sim.world.userspans import Times, UserSpans, covers, innermost

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

    routes: RouteTable
    rounds: list[Round] = field(default_factory=list)
    entries: int = 0
    parts: list[list[Part]] = field(default_factory=list)  # per batch
    by_task: dict[int, list[Part]] = field(default_factory=dict)  # by position, of tasks with requests


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
        self._browsers = int(env.get(self.spec.browsers, "").lower() == "true")
        self._flags: dict[str, float] = {}
        self.tasks: list[Task] = []
        self.spans: list[Block] = []  # of the last piece
        self._own_spans = UserSpans(run, program)
        self._rate = max(_number(env.get(self.spec.rate, ""), 1), 1e-3)
        self._own = text_key(seed, "users", program.name, index)
        self._named: float | None = None  # what the flag service named last
        self.lanes = -1
        self.resize(self.count, run.started)
        self._expected_s = np.full(len(self.spec.tasks), 0.05)
        self._first = next(i for i, t in enumerate(self.spec.tasks) if t.name == self.spec.on_start)
        self.evaluate(lambda flag: 0.0)
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

    def evaluate(self, value: Callable[[str], float]) -> None:
        """Take in what flags mean for requests: variables that have their values, tasks that they repeat."""
        asked = [*self.spec.flag_values.values(), *(t.repeats for t in self.spec.tasks if t.repeats)]
        flags = {flag: value(flag) for flag in asked}
        if flags == self._flags and self.tasks:
            return
        self._flags = flags
        self.tasks = [repeated(t, int(flags[t.repeats])) if t.repeats else t for t in self.spec.tasks]
        self._shares = tuple(np.cumsum([t.weight * (t.browser == own) for t in self.tasks]) for own in (False, True))
        self._plain = not any(t.stay_s or any(r.parallel for r in t.requests) for t in self.tasks)

    def resize(self, count: int, now: float) -> None:
        """Go on with ``count`` users, who start afresh, when it is another number."""
        count = min(max(0, count), USERS_MAX)
        count += self._browsers if count else 0
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
        plan = Plan(routes)
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
        """Place the answered requests in time; returns the blocks without requests that begin after ``until``. The
        users' own spans are then in ``spans``."""
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
        begin, spent = self._timing(plan, took)
        starts, kept = self._schedule(plan, (took, spent), good, until)
        times = Times(starts, kept, begin, took)
        self.spans = self._own_spans.place(self.tasks, plan, times)
        return self._place(plan, blocks, times, made)

    def _timing(self, plan: Plan, took: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(entries, positions) seconds from an entry's start to each request, (entries,) to its end."""
        total = np.cumsum(took, axis=1)
        begin, spent = total - took, took.sum(axis=1)
        if self._plain:
            return begin, spent
        tasks = np.concatenate([r.tasks for r in plan.rounds]) if plan.rounds else np.zeros(0, np.int64)
        for number, task in enumerate(self.tasks):
            mine = np.flatnonzero(tasks == number)
            at = end = np.zeros(len(mine))
            for position, request in enumerate(task.requests):
                at = at if request.parallel else end
                begin[mine, position] = at
                end = np.maximum(end, at + took[mine, position])
            spent[mine] = end + task.stay_s
        return begin, spent

    def _follow(self, plan: Plan, took: NDArray[np.float64], good: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(entries, positions) requests that are made; a redirect is only followed when there was one."""
        made = np.ones_like(good)
        if good.all():
            return made
        tasks = np.concatenate([r.tasks for r in plan.rounds])
        for number, task in enumerate(self.tasks):
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
        share, browsing = self._shares
        draw = unit(salted(keys, 1))
        tasks = np.minimum(np.searchsorted(share, draw * share[-1], side="right"), len(self.tasks) - 1)
        tasks = np.where(turns == 0, self._first, tasks)
        if self._browsers:
            shown = np.minimum(np.searchsorted(browsing, draw * browsing[-1], side="right"), len(self.tasks) - 1)
            tasks = np.where(users >= self.lanes - self._browsers, shown, tasks)
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
        for number, task in enumerate(self.tasks):
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
        alike: dict[tuple[str, str], list[Part]] = {}  # by route and by the sort of span around
        for number, task in enumerate(self.tasks):
            parts = self._parts(plan, number, task)
            if parts:
                plan.by_task[number] = parts
            sorts = sorts_of(number, task)
            for part in parts:
                alike.setdefault((task.requests[part.position].route, sorts[part.position]), []).append(part)
        batches = []
        for (route, _), parts in alike.items():
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
        told = {n: np.full(len(entries), int(self._flags[f])) for n, f in self.spec.flag_values.items()}
        for position, request in enumerate(task.requests):
            uses = {name: drawn[other] for name, other in request.uses.items()}
            fixed = {name: np.full(len(entries), value) for name, value in request.values.items()}
            variables = {**drawn, **sets, **state, **told, **uses, **fixed}
            parts.append(Part(number, position, entries, salted(keys, 100 + position), lanes, variables))
            for name, source in request.adds.items():
                sets = {**sets, name: sets[name] | np.int64(1) << drawn[source]}
            for name in request.clears:
                sets = {**sets, name: np.zeros_like(sets[name])}
            for name, source in request.keeps.items():
                state = {**state, name: drawn[source]}
        return parts

    def _schedule(
        self,
        plan: Plan,
        times: tuple[NDArray[np.float64], NDArray[np.float64]],
        good: NDArray[np.bool_],
        until: float,
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Start and acceptance of every entry; moves the users on. ``times`` are how long each request and each
        whole entry takes, in seconds."""
        took, spent = times
        starts, kept = np.zeros(plan.entries), np.zeros(plan.entries, bool)
        waiting = np.zeros(self.lanes, bool)
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
            for number in range(len(self.tasks)):
                mine = spent[entries][(round_.tasks == number) & go]
                if len(mine):
                    self._expected_s[number] += 0.3 * (float(mine.mean()) - self._expected_s[number])
        self.requests += int((took > 0)[kept].sum())
        self.failures += int((~good & (took > 0))[kept].sum())
        return starts, kept

    def _place(self, plan: Plan, blocks: list[Block], times: Times, made: NDArray[np.bool_]) -> list[Block]:
        starts, begin, kept = times.start, times.begin, times.kept[:, None] & made
        placed = []
        for block, parts in zip(blocks, plan.parts, strict=True):
            block.start = np.concatenate([starts[p.entries] + begin[p.entries, p.position] for p in parts])
            keep = np.concatenate([kept[p.entries, p.position] for p in parts])
            if not keep.any():
                continue
            if self.spans:
                block.origin = self._own_spans.origin(parts[0].task, self.tasks[parts[0].task], parts)
            placed.append(block if keep.all() else select(block, np.flatnonzero(keep)))
            if placed[-1].origin is not None:
                placed[-1].origin.block.followers.append(placed[-1])
        return placed

    def _longest(self) -> int:
        return max(len(t.requests) for t in self.tasks)


def itemgetter_of(part: str, name: str) -> Callable[[Round], NDArray[np.int64]]:
    """The function that takes a variable out of a round."""
    return lambda round_: getattr(round_, part)[name]


def repeated(task: Task, times: int) -> Task:
    """A task with its requests so many times."""
    return msgspec.structs.replace(task, requests=task.requests * max(0, times))


def sorts_of(number: int, task: Task) -> list[str]:
    """By position, what tells requests apart that come from different sorts of spans; empty without spans."""
    found, inside = covers(task), innermost(task)
    return ["" if i < 0 else f"{number} {found[i].op} {found[i].outer >= 0}" for i in inside]


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
