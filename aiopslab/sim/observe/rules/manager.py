"""Evaluation of rule groups on the virtual clock.

A rule is a function of samples that are in the store already, so nothing is evaluated until somebody asks. Then all
evaluations that are due are made up, each at its own time: expressions over many times at once, their results in
order. What a reader sees is what a server that evaluates on time would show.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from aiopslab.sim.core.kernel import parse_time
from aiopslab.sim.core.store import Key, Store
from aiopslab.sim.observe.matchers import NAME
from aiopslab.sim.observe.promql.errors import QueryError
from aiopslab.sim.observe.promql.evaluate import Engine
from aiopslab.sim.observe.promql.values import Vector
from aiopslab.sim.observe.rules.files import Group, RuleFile
from aiopslab.sim.observe.rules.states import ALERTS, FOR_STATE, RuleProblem, RuleState, Sample
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.world.hashing import text_key

STEPS_MAX = 240  # evaluations made up in one go
_WORD = re.compile(r"[a-zA-Z_:][\w:]*")
Began = Callable[[str], float | None]


class GroupState:
    """A group with its rules' states. ``next_ms`` is its next evaluation, None while its file is not loaded."""

    def __init__(self, group: Group, namespace: str) -> None:
        self.group = group
        self.namespace = namespace
        self.rules = [RuleState(rule) for rule in group.rules]
        self.next_ms: int | None = None
        self.last_ms: int | None = None
        # As in Prometheus, groups spread over their interval by a hash of their identity.
        self._slot_ms = text_key(group.file, group.name) % group.interval_ms

    def first_after(self, t_ms: int) -> int:
        """The group's first evaluation time after ``t_ms``."""
        interval = self.group.interval_ms
        return (t_ms - self._slot_ms) // interval * interval + interval + self._slot_ms

    def due(self, until_ms: int) -> list[int]:
        """Evaluation times up to ``until_ms``."""
        return [] if self.next_ms is None else list(range(self.next_ms, until_ms + 1, self.group.interval_ms))


class RuleManager:
    """All groups over one store. ``began`` gives the time since which a namespace exists (Unix seconds), or None
    while there is none; without it every file is loaded from ``start`` on. Nothing is evaluated after ``until``."""

    def __init__(
        self,
        store: SeriesStore,
        engine: Engine,
        files: Sequence[RuleFile],
        start: float,
        began: Began | None = None,
        until: float = math.inf,
    ) -> None:
        self._store, self._engine, self._began = store, engine, began
        self._start, self._until = start, until
        self.groups = [GroupState(g, file.namespace) for file in files for g in file.groups]
        self._in_step = _depend_backwards(self.groups)

    def active(self) -> list[GroupState]:
        """Groups whose file is loaded, in order of file and group."""
        return [state for state in self.groups if state.next_ms is not None]

    def catch_up(self, now: float) -> None:
        """Make up every evaluation that is due at ``now`` (Unix seconds)."""
        now_ms = round(min(now, self._until) * 1000)
        for state in self.groups:
            self._load(state, now_ms)
        while True:
            times = sorted({t for state in self.active() for t in state.due(now_ms)[:STEPS_MAX]})
            if not times:
                return
            if self._in_step:
                for t_ms in times:
                    self._advance(t_ms)
            else:
                self._advance(times[min(len(times), STEPS_MAX) - 1])

    def _load(self, state: GroupState, now_ms: int) -> None:
        """A file comes and goes with its namespace."""
        since = self._start if self._began is None or not state.namespace else self._began(state.namespace)
        if since is not None and state.next_ms is None:
            state.next_ms = state.first_after(max(round(since * 1000), round(self._start * 1000)))
        elif since is None and state.next_ms is not None:
            gone = [labels for rule in state.rules for labels in rule.ended([])]
            self._store.mark_stale(now_ms, [self._store.series(labels) for labels in gone])
            state.rules = [RuleState(rule) for rule in state.group.rules]
            state.next_ms = state.last_ms = None

    def _advance(self, until_ms: int) -> None:
        for state in self.active():
            times = state.due(until_ms)
            if not times:
                continue
            for rule in state.rules:
                self._evaluate(rule, np.array(times, np.int64), state.group.limit)
            state.last_ms, state.next_ms = times[-1], times[-1] + state.group.interval_ms

    def _evaluate(self, state: RuleState, times: np.ndarray, limit: int) -> None:
        try:
            columns = self._columns(state.rule.expr, times)
        except QueryError as problem:
            state.evaluated_ms, state.error = int(times[-1]), str(problem)
            return
        for t_ms, rows in zip(times.tolist(), columns, strict=True):
            state.evaluated_ms, state.error = t_ms, ""
            try:
                samples = state.step(rows, t_ms, limit)
            except RuleProblem as problem:  # what was shown before ages out by itself, as in Prometheus
                state.error = str(problem)
                continue
            ids = [self._store.series(labels) for labels, _ in samples]
            self._store.append(t_ms, ids, [value for _, value in samples])
            self._store.mark_stale(t_ms, [self._store.series(labels) for labels in state.ended(samples)])

    def _columns(self, expr: str, times: np.ndarray) -> list[list[Sample]]:
        """The vector at each time; a scalar is one row without labels."""
        value = self._engine.range(expr, times).value
        if isinstance(value, Vector):
            return [
                [(value.labels[row], float(value.values[row, i])) for row in np.flatnonzero(value.present[:, i])]
                for i in range(len(times))
            ]
        if isinstance(value, np.ndarray):
            return [[((), float(number))] for number in value]
        raise RuleTypeError("rule result is not a vector or scalar")


def began(store: Store) -> Began:
    """Since when a namespace of the cluster exists."""

    def since(namespace: str) -> float | None:
        found = store.get(Key("namespaces", "", namespace))
        return None if found is None else parse_time(found["metadata"]["creationTimestamp"])

    return since


class RuleTypeError(QueryError):
    """A rule whose expression gives a range or a text."""


def _depend_backwards(groups: Sequence[GroupState]) -> bool:
    """Whether some rule reads a series that is recorded later than itself: then times must be taken one by one."""
    written: set[str] = set()
    everything = {ALERTS, FOR_STATE} | {r.rule.name for g in groups for r in g.rules if not r.rule.alert}
    for group in groups:
        for state in group.rules:
            words = set(_WORD.findall(state.rule.expr)) - written
            if words & everything or NAME in words:
                return True
            if not state.rule.alert:
                written.add(state.rule.name)
        written.clear()  # another group has its own times
    return False
