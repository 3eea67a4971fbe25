"""Spans that a load generator or a browser makes itself: around a user's tasks and requests, and for what they look
up before. A request made inside such a span belongs to its trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.blocks import Block, Origin
from aiopslab.sim.world.hashing import QUANTILES, lognormal_table, mix, text_key
from aiopslab.sim.world.programspec import Op, Program, Task
from aiopslab.sim.world.routes import Route, RouteTable
from aiopslab.sim.world.runs import Run

if TYPE_CHECKING:
    from aiopslab.sim.world.loadgen import Part, Plan

Key = tuple[int, str, str]  # task, operation of the span, operation of the span around it
Floats = NDArray[np.float64]


class Cover(NamedTuple):
    """A span over the requests ``first`` to before ``end`` of a task; ``outer`` is the cover that it is a child of,
    -1 for none."""

    op: str
    first: int
    end: int
    outer: int


@dataclass(slots=True, eq=False)
class Times:
    """When everything of a plan's entries happens. ``begin`` and ``took`` (entries, positions) are seconds after the
    entry's start, ``start`` (entries,) Unix seconds, ``kept`` (entries,) whether it happens at all."""

    start: Floats
    kept: NDArray[np.bool_]
    begin: Floats
    took: Floats


def covers(task: Task) -> list[Cover]:
    """The spans of a task, outer ones first."""
    count = len(task.requests)
    found = [Cover(task.span, 0, count, -1)] if task.span and count else []
    for position, request in enumerate(task.requests):
        for span in request.spans:
            around = [i for i, c in enumerate(found) if c.first <= position < c.end]
            outer = around[-1] if span.inside and around else -1
            found.append(Cover(span.op, position, position + span.requests, outer))
    return found


class UserSpans:
    """The spans of one load generator."""

    def __init__(self, run: Run, program: Program) -> None:
        self._run = run
        self._program = program
        self._tables: dict[str, NDArray[np.float32]] = {}
        self._blocks: dict[Key, Block] = {}
        self._base: dict[tuple[int, int], int] = {}  # (task, cover) -> its first column
        self._ranks: NDArray[np.int64] = np.zeros(0, np.int64)  # (entries,) place among the kept ones of the task

    def place(self, tasks: list[Task], plan: Plan, times: Times) -> list[Block]:
        """The spans of a plan's entries as blocks."""
        self._blocks, self._base = {}, {}
        if self._program.key not in plan.routes.traced:
            return []
        self._ranks = np.zeros(plan.entries, np.int64)
        for number, parts in plan.by_task.items():
            self._around(plan.routes, number, tasks[number], parts, times)
        return [*self._blocks.values(), *self._before(tasks, plan, times)]

    def origin(self, number: int, task: Task, parts: list[Part]) -> Origin | None:
        """Where requests of a task at some positions, which are inside the same sort of span, come from."""
        found, inside = covers(task), innermost(task)
        columns, key = [], None
        for part in parts:
            cover = inside[part.position]
            if cover < 0:
                return None
            key = _key(number, found, cover)
            columns.append(self._base.get((number, cover), 0) + self._ranks[part.entries])
        block = self._blocks.get(key) if key is not None else None
        return Origin(block, 0, np.concatenate(columns), "span") if block is not None else None

    def _around(self, routes: RouteTable, number: int, task: Task, parts: list[Part], times: Times) -> None:
        found = covers(task)
        entries = parts[0].entries
        pick = np.flatnonzero(times.kept[entries])
        kept = entries[pick]
        self._ranks[kept] = np.arange(len(kept))
        groups: dict[Key, list[int]] = {}
        for index in range(len(found)):
            groups.setdefault(_key(number, found, index), []).append(index)
        for key, indexes in groups.items() if len(kept) else ():
            begins, lasts, keys, variables, outer = [], [], [], [], []
            for place, index in enumerate(indexes):
                cover = found[index]
                inside = slice(cover.first, cover.end)
                begin = times.begin[kept, cover.first]
                end = (times.begin[kept, inside] + times.took[kept, inside]).max(axis=1)
                end += task.stay_s if index == 0 and task.span else 0.0
                begins.append(times.start[kept] + begin)
                lasts.append(end - begin)
                keys.append(mix(parts[cover.first].keys[pick] ^ np.uint64(text_key("span", cover.op, index))))
                variables.append({n: v[pick] for n, v in parts[cover.first].variables.items()})
                self._base[number, index] = place * len(kept)
                if cover.outer >= 0:
                    outer.append(self._base[number, cover.outer] + np.arange(len(kept)))
            block = self._block(
                routes.route(self._program, key[1]), np.concatenate(keys), np.concatenate(begins),
                np.concatenate(lasts), np.tile(parts[0].lanes[pick], len(indexes)),
            )  # fmt: skip
            block.variables = {n: np.concatenate([v[n] for v in variables]) for n in variables[0]}
            if outer:
                around = self._blocks[_key(number, found, found[indexes[0]].outer)]
                block.origin = Origin(around, 0, np.concatenate(outer), "span")
                around.followers.append(block)
            self._blocks[key] = block

    def _before(self, tasks: list[Task], plan: Plan, times: Times) -> list[Block]:
        """What is looked up before tasks, each in a trace of its own."""
        users = self._program.users
        general = users.checks if users is not None else ""
        kept = np.flatnonzero(times.kept)
        if not len(kept) or not (general or any(task.checks for task in tasks)):
            return []
        done = np.concatenate([r.tasks for r in plan.rounds])[kept]
        keys = np.concatenate([r.keys for r in plan.rounds])[kept]
        lanes = np.concatenate([r.users for r in plan.rounds])[kept]
        start = times.start[kept].copy()
        found = []
        for name in dict.fromkeys([*(task.checks for task in tasks), general]):
            which = np.array([name in (task.checks, general) for task in tasks])[done]
            if name and which.any():
                salt = np.uint64(text_key("check", name))
                own = mix(keys[which] ^ salt)
                draws = (own >> np.uint64(52)).astype(np.int64)
                took = self._table(self._program.ops[name])[draws].astype(float) * 1e-3
                start[which] -= took
                route = plan.routes.route(self._program, name)
                found.append(self._block(route, own, start[which], took, lanes[which]))
        return found

    def _table(self, op: Op) -> NDArray[np.float32]:
        if op.name not in self._tables:
            self._tables[op.name] = lognormal_table(op.time)
            assert len(self._tables[op.name]) == QUANTILES
        return self._tables[op.name]

    def _block(
        self, route: Route, keys: NDArray[np.uint64], start: Floats, took_s: Floats, lanes: NDArray[np.int64]
    ) -> Block:
        count = len(keys)
        zeros, took = np.zeros((1, count), np.float32), (took_s * 1e3).astype(np.float32)[None, :]
        run = np.full((1, count), self._run.number, np.int32)
        block = Block(route, keys, start, run, zeros, took, zeros, took, None, None, None)
        block.client, block.connection = run[0], lanes.astype(np.int32)
        return block


def innermost(task: Task) -> list[int]:
    """The cover that each request of a task is inside of and passes on, -1 for none."""
    found = covers(task)
    inside = []
    for position, request in enumerate(task.requests):
        around = [i for i, c in enumerate(found) if c.first <= position < c.end]
        inside.append(around[-1] if around and request.propagates else -1)
    return inside


def _key(number: int, found: list[Cover], index: int) -> Key:
    cover = found[index]
    return number, cover.op, found[cover.outer].op if cover.outer >= 0 else ""
