"""What expressions evaluate to: matrices with one row per series and one column per evaluation step.

A scalar is a float64 array of shape (steps,), a string a ``str``. All times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aiopslab.sim.observe.matchers import NAME, Labels
from aiopslab.sim.observe.promql.errors import ExecutionError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SAME_LABELSET = "vector cannot contain metrics with the same labelset"


@dataclass(slots=True)
class Vector:
    """An instant vector over steps. ``values`` and ``present`` have shape (series, steps); where ``present``
    is False there is no sample, whatever the value says. Row order is output order of instant queries."""

    labels: list[Labels]
    values: Floats
    present: Bools

    @staticmethod
    def empty(steps: int) -> Vector:
        """No series at all."""
        return Vector([], np.empty((0, steps)), np.empty((0, steps), bool))

    def rows(self, keep: npt.ArrayLike) -> Vector:
        """A choice of rows, by index or mask."""
        index = np.asarray(keep)
        index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.int64)
        labels = [self.labels[i] for i in index.tolist()]
        return Vector(labels, self.values[index], self.present[index])

    def without_gaps(self) -> Vector:
        """Only rows that have a sample somewhere."""
        some = self.present.any(axis=1)
        return self if some.all() else self.rows(some)

    def relabel(self, change: Callable[[Labels], Labels]) -> Vector:
        """New label sets; rows that become the same are merged, or refused when both have a sample."""
        return merge_rows([change(found) for found in self.labels], self.values, self.present)

    def map(self, values: Floats) -> Vector:
        """The same series without their name, with new values."""
        return Vector(self.labels, values, self.present).relabel(drop_name)


@dataclass(slots=True)
class Windows:
    """A range vector over steps: samples of all series one behind the other, and per series and step the part
    ``[low, high)`` of them (absolute indices, shape (series, steps)). ``starts``/``ends`` bound the window of
    each step, shape (steps,)."""

    labels: list[Labels]
    times: Ints
    values: Floats
    low: Ints
    high: Ints
    starts: Ints
    ends: Ints

    @property
    def counts(self) -> Ints:
        """Samples in each window, shape (series, steps)."""
        return self.high - self.low


Value = Vector | Windows | Floats | str


def drop_name(labels: Labels) -> Labels:
    """The label set without the metric name."""
    return tuple(pair for pair in labels if pair[0] != NAME)


def keep_labels(labels: Labels, names: Iterable[str]) -> Labels:
    """Only these labels."""
    wanted = frozenset(names)
    return tuple(pair for pair in labels if pair[0] in wanted)


def drop_labels(labels: Labels, names: Iterable[str]) -> Labels:
    """All but these labels."""
    unwanted = frozenset(names)
    return tuple(pair for pair in labels if pair[0] not in unwanted)


def set_label(labels: Labels, name: str, value: str) -> Labels:
    """With one label set, or removed when the value is empty."""
    rest = [pair for pair in labels if pair[0] != name]
    if value:
        rest.append((name, value))
        rest.sort()
    return tuple(rest)


def merge_rows(labels: list[Labels], values: Floats, present: Bools) -> Vector:
    """Rows with equal labels become one; at one step only one of them may have a sample."""
    place: dict[Labels, int] = {}
    group = [place.setdefault(found, len(place)) for found in labels]
    if len(place) == len(labels):
        return Vector(labels, values, present)
    shape = (len(place), values.shape[1])
    merged = Vector(list(place), np.zeros(shape), np.zeros(shape, bool))
    for row, target in enumerate(group):
        if (merged.present[target] & present[row]).any():
            raise ExecutionError(SAME_LABELSET)
        merged.values[target] = np.where(present[row], values[row], merged.values[target])
        merged.present[target] |= present[row]
    return merged


def labels_text(labels: Labels) -> str:
    """``{a="b", c="d"}`` with the name among the labels, as in error texts."""
    return "{" + ", ".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
