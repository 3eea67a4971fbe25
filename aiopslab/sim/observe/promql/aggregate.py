"""Aggregation operators over matrices: rows are grouped once, columns are reduced together."""

from __future__ import annotations

import re

import numpy as np

from aiopslab.sim.observe.matchers import NAME, Labels
from aiopslab.sim.observe.promql.errors import ExecutionError
from aiopslab.sim.observe.promql.numbers import format_plain
from aiopslab.sim.observe.promql.over_time import quantile_edges
from aiopslab.sim.observe.promql.values import (
    Bools,
    Floats,
    Ints,
    Vector,
    drop_labels,
    keep_labels,
    set_label,
)

LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def group_labels(labels: Labels, grouping: tuple[str, ...], without: bool) -> Labels:
    """What ``by``/``without`` leaves of a label set."""
    if without:
        return drop_labels(labels, (*grouping, NAME))
    return keep_labels(labels, grouping)


class _Groups:
    """Rows sorted by group, so that each group is one stretch. Groups are in order of first appearance."""

    def __init__(self, vector: Vector, grouping: tuple[str, ...], without: bool) -> None:
        place: dict[Labels, int] = {}
        numbers = [place.setdefault(group_labels(found, grouping, without), len(place)) for found in vector.labels]
        self.labels = list(place)
        group = np.array(numbers, np.int64)
        self.order = np.argsort(group, kind="stable")
        sizes = np.bincount(group, minlength=len(place))
        self.starts = np.cumsum(sizes) - sizes
        self.sizes = sizes
        self.values = vector.values[self.order]
        self.present = vector.present[self.order]

    def total(self, rows: Floats | Ints) -> Floats:
        """Sum of each group's rows, shape (groups, steps)."""
        return np.asarray(np.add.reduceat(rows, self.starts, axis=0))

    def spread(self, per_group: Floats) -> Floats:
        """A group's row repeated for each of its members."""
        return np.repeat(per_group, self.sizes, axis=0)

    def members(self, group: int) -> slice:
        """The stretch of sorted rows of one group."""
        return slice(int(self.starts[group]), int(self.starts[group] + self.sizes[group]))


def aggregate(op: str, vector: Vector, grouping: tuple[str, ...], without: bool) -> Vector:
    """``sum avg min max count group stddev stdvar``."""
    if not vector.labels:
        return vector
    groups = _Groups(vector, grouping, without)
    count = groups.total(groups.present.astype(np.int64))
    present = count > 0
    return Vector(groups.labels, _reduce(op, groups, np.maximum(count, 1)), present)


def _reduce(op: str, groups: _Groups, count: Floats) -> Floats:
    if op == "count":
        return np.asarray(count, float)
    if op == "group":
        return np.ones(count.shape)
    if op in ("min", "max"):
        masked = np.where(groups.present, groups.values, np.nan)
        reduce = np.fmin if op == "min" else np.fmax
        return np.asarray(reduce.reduceat(masked, groups.starts, axis=0))
    zeroed = np.where(groups.present, groups.values, 0.0)
    sums = groups.total(zeroed)
    if op == "sum":
        return sums
    mean = sums / count
    overflown = np.isinf(mean) & (groups.total(np.isinf(zeroed).astype(np.int64)) == 0)
    if overflown.any():
        mean = np.where(overflown, groups.total(zeroed / groups.spread(count)), mean)
    if op == "avg":
        return mean
    offset = np.where(groups.present, groups.values - groups.spread(mean), 0.0)
    variance = groups.total(offset**2) / count
    return variance if op == "stdvar" else np.sqrt(variance)


def quantile(vector: Vector, level: Floats, grouping: tuple[str, ...], without: bool) -> Vector:
    """``quantile``: interpolated between order statistics; NaN sorts lowest. ``level`` per step."""
    if not vector.labels:
        return vector
    groups = _Groups(vector, grouping, without)
    steps = vector.values.shape[1]
    values = np.zeros((len(groups.labels), steps))
    present = np.zeros(values.shape, bool)
    columns = np.arange(steps)
    safe = np.where((level >= 0) & (level <= 1), level, 0.0)
    for group in range(len(groups.labels)):
        part = groups.members(group)
        there = groups.present[part]
        ordered = _sorted_columns(groups.values[part], there)
        count = there.sum(axis=0)
        rank = safe * np.maximum(count - 1, 0)
        low = np.floor(rank).astype(np.int64)
        high = np.minimum(low + 1, np.maximum(count - 1, 0))
        weight = rank - low
        mixed = ordered[low, columns] * (1 - weight) + ordered[high, columns] * weight
        values[group] = quantile_edges(mixed, level)
        present[group] = count > 0
    return Vector(groups.labels, values, present)


def _sorted_columns(values: Floats, there: Bools) -> Floats:
    """Each column ascending: NaN first, absent samples last."""
    kind = np.where(there, np.where(np.isnan(values), 0, 1), 2)
    order = np.lexsort((values, kind), axis=0)
    return np.take_along_axis(values, order, axis=0)


def count_values(vector: Vector, label: str, grouping: tuple[str, ...], without: bool) -> Vector:
    """``count_values``: one series per distinct value, the value being a label."""
    if not LABEL_NAME.fullmatch(label):
        raise ExecutionError(f'invalid label name "{label}"')
    wanted = grouping if without else (*grouping, label)
    steps = vector.values.shape[1]
    found: dict[Labels, Floats] = {}
    for labels, values, there in zip(vector.labels, vector.values, vector.present, strict=True):
        for step in np.flatnonzero(there).tolist():
            tagged = set_label(labels, label, format_plain(float(values[step])))
            key = group_labels(tagged, wanted, without)
            found.setdefault(key, np.zeros(steps))[step] += 1
    if not found:
        return Vector.empty(steps)
    counts = np.array(list(found.values()))
    return Vector(list(found), counts, counts > 0)


def rank(vector: Vector, k: Floats, grouping: tuple[str, ...], without: bool, *, largest: bool) -> Vector:
    """``topk`` and ``bottomk``: the ``k`` (per step) extreme rows of each group, labels kept. NaN comes last.

    Rows of a one-step result come best first, group by group.
    """
    for wanted in k.tolist():
        if np.isnan(wanted) or not -(2.0**63) <= wanted < 2.0**63:
            raise ExecutionError(f"Scalar value {format_plain(wanted)} overflows int64")
    if not vector.labels:
        return vector
    groups = _Groups(vector, grouping, without)
    limit = np.trunc(k)
    chosen: Bools = np.zeros(groups.present.shape, bool)
    best_first: list[int] = []
    for group in range(len(groups.labels)):
        part = groups.members(group)
        order = _rank_columns(groups.values[part], groups.present[part], largest)
        places = np.empty_like(order)
        np.put_along_axis(places, order, np.arange(len(order))[:, None], axis=0)
        chosen[part] = groups.present[part] & (places < limit)
        best_first += (order[:, 0] + part.start).tolist()
    kept = Vector([vector.labels[i] for i in groups.order.tolist()], groups.values, chosen)
    if chosen.shape[1] == 1:
        kept = kept.rows(best_first)
    return kept.without_gaps()


def _rank_columns(values: Floats, there: Bools, largest: bool) -> Ints:
    """Per column, row numbers from best to worst."""
    kind = np.where(there, np.where(np.isnan(values), 1, 0), 2)
    return np.lexsort((-values if largest else values, kind), axis=0)

