"""Binary operators: arithmetic, comparison and set operators, and the matching of vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aiopslab.sim.observe.matchers import NAME, Labels
from aiopslab.sim.observe.promql.ast import Matching
from aiopslab.sim.observe.promql.errors import ExecutionError
from aiopslab.sim.observe.promql.lexer import COMPARISONS
from aiopslab.sim.observe.promql.values import (
    Bools,
    Floats,
    Ints,
    Vector,
    drop_labels,
    drop_name,
    keep_labels,
    labels_text,
    merge_rows,
    set_label,
)


def _power(base: Floats, exponent: Floats) -> Floats:
    """C99 ``pow``. Numpy takes a shortcut for exponent 0.5 that makes a NaN of negative infinity."""
    result = np.power(base, exponent)
    return np.where((base == -np.inf) & (exponent == 0.5), np.inf, result)


_OPERATORS: dict[str, Callable[[Floats, Floats], np.ndarray]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod, "^": _power,
    "atan2": np.arctan2, "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal,
    ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


def scalars(op: str, left: Floats, right: Floats) -> Floats:
    """Scalar with scalar; comparisons give 0 or 1."""
    return np.asarray(_OPERATORS[op](left, right), float)


def vector_scalar(op: str, vector: Vector, scalar: Floats, *, swapped: bool, return_bool: bool) -> Vector:
    """Vector with scalar, ``swapped`` when the scalar stands on the left."""
    left, right = (scalar, vector.values) if swapped else (vector.values, scalar)
    result = _OPERATORS[op](left, right)
    if op in COMPARISONS and not return_bool:
        return Vector(vector.labels, vector.values, vector.present & result).without_gaps()
    return vector.map(np.asarray(result, float))


def signature(labels: Labels, matching: Matching) -> Labels:
    """The labels by which two samples are matched."""
    if matching.on:
        return keep_labels(labels, matching.labels)
    return drop_labels(labels, (*matching.labels, NAME))


# -- set operators


def sets(op: str, left: Vector, right: Vector, matching: Matching) -> Vector:
    """``and``, ``or``, ``unless``: presence on the other side, per step."""
    groups: dict[Labels, int] = {}
    left_group = [groups.setdefault(signature(found, matching), len(groups)) for found in left.labels]
    right_group = [groups.setdefault(signature(found, matching), len(groups)) for found in right.labels]
    steps = left.values.shape[1]
    if op == "or":
        there = _any_by_group(left_group, left.present, len(groups), steps)
        present = right.present & ~there[right_group] if right.labels else right.present
        return merge_rows(
            left.labels + right.labels,
            np.concatenate([left.values, right.values]),
            np.concatenate([left.present, present]),
        ).without_gaps()
    there = _any_by_group(right_group, right.present, len(groups), steps)
    if left.labels:
        mask = there[left_group]
        left = Vector(left.labels, left.values, left.present & (mask if op == "and" else ~mask))
    return left.without_gaps()


def _any_by_group(group: list[int], present: Bools, groups: int, steps: int) -> Bools:
    result = np.zeros((groups, steps), bool)
    np.logical_or.at(result, group, present)
    return result


# -- one-to-one and many-to-one


def vectors(op: str, left: Vector, right: Vector, matching: Matching, return_bool: bool) -> Vector:
    """Arithmetic or comparison between two vectors."""
    swapped = matching.group == "right"
    many, one = (right, left) if swapped else (left, right)
    steps = left.values.shape[1]
    by_signature: dict[Labels, list[int]] = {}
    for row, labels in enumerate(one.labels):
        by_signature.setdefault(signature(labels, matching), []).append(row)
    _refuse_duplicates(many, one, by_signature, "left" if swapped else "right")
    many_rows: list[int] = []
    one_rows: list[int] = []
    keys: list[Labels] = []
    for row, labels in enumerate(many.labels):
        key = signature(labels, matching)
        for other in by_signature.get(key, ()):
            many_rows.append(row)
            one_rows.append(other)
            keys.append(key)
    if not many_rows:
        return Vector.empty(steps)
    values, present = _combine(op, many.rows(many_rows), one.rows(one_rows), swapped, return_bool)
    drops_name = return_bool or op not in COMPARISONS
    labels_of = [
        _result_labels(many.labels[a], one.labels[b], matching, drops_name)
        for a, b in zip(many_rows, one_rows, strict=True)
    ]
    if matching.group:
        grouped = list(zip(keys, labels_of, strict=True))
        _refuse_overlap(grouped, present, "multiple matches for labels: grouping labels must ensure unique matches")
    else:
        message = "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
        _refuse_overlap(keys, present, message)
    return merge_rows(labels_of, values, present).without_gaps()


def _combine(op: str, many: Vector, one: Vector, swapped: bool, return_bool: bool) -> tuple[Floats, Bools]:
    left, right = (one.values, many.values) if swapped else (many.values, one.values)
    result = _OPERATORS[op](left, right)
    present = many.present & one.present
    if op in COMPARISONS and not return_bool:
        return left, present & result
    return np.asarray(result, float), present


def _result_labels(many: Labels, one: Labels, matching: Matching, drops_name: bool) -> Labels:
    result = drop_name(many) if drops_name else many
    if not matching.group:
        if matching.on:
            return keep_labels(result, matching.labels)
        return drop_labels(result, matching.labels)
    given = dict(one)
    for name in matching.include:
        result = set_label(result, name, given.get(name, ""))
    return result


def _refuse_duplicates(many: Vector, one: Vector, by_signature: dict[Labels, list[int]], side: str) -> None:
    """On the "one" side, a match group may have one sample at a step at which the other side has any."""
    relevant = many.present.any(axis=0)
    for key, rows in by_signature.items():
        if len(rows) > 1:
            crowded = np.flatnonzero((one.present[rows].sum(axis=0) > 1) & relevant)
            if len(crowded):
                there: Ints = np.flatnonzero(one.present[rows, crowded[0]])
                first, second = (labels_text(one.labels[rows[int(i)]]) for i in there[:2])
                raise ExecutionError(
                    f"found duplicate series for the match group {labels_text(key)} on the {side} hand-side of the "
                    f"operation: [{second}, {first}];many-to-many matching not allowed: matching labels must be "
                    "unique on one side"
                )


def _refuse_overlap(keys: list, present: Bools, message: str) -> None:
    """Pairs with the same key must not both have a result at one step."""
    seen: dict[object, Bools] = {}
    for row, key in enumerate(keys):
        before = seen.get(key)
        if before is None:
            seen[key] = present[row]
        elif (before & present[row]).any():
            raise ExecutionError(message)
        else:
            seen[key] = before | present[row]
