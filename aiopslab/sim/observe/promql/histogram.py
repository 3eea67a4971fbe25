"""``histogram_quantile`` over classic histograms.

Formula (Prometheus promql/quantile.go): the bucket that holds rank ``q * total`` is found, and the value is
interpolated linearly inside it; the first bucket starts at 0 when its bound is positive.
"""

from __future__ import annotations

import numpy as np

from aiopslab.sim.observe.matchers import NAME, Labels
from aiopslab.sim.observe.promql.values import Floats, Vector, drop_labels


def histogram_quantile(level: Floats, vector: Vector) -> Vector:
    """Quantile ``level`` (per step) of each group of ``le`` buckets."""
    groups: dict[Labels, list[tuple[float, int]]] = {}
    for row, labels in enumerate(vector.labels):
        bound = parse_bound(dict(labels).get("le", ""))
        if bound is not None:
            groups.setdefault(drop_labels(labels, ("le", NAME)), []).append((bound, row))
    steps = vector.values.shape[1]
    values = np.zeros((len(groups), steps))
    present = np.zeros((len(groups), steps), bool)
    for index, buckets in enumerate(groups.values()):
        buckets.sort()
        rows = [row for _, row in buckets]
        bounds = np.array([bound for bound, _ in buckets])
        there = vector.present[rows]
        patterns, which = np.unique(there, axis=1, return_inverse=True)
        for pattern in range(patterns.shape[1]):
            on = patterns[:, pattern]
            if on.any():
                at = np.flatnonzero(which.ravel() == pattern)
                counts = vector.values[np.array(rows)[on]][:, at]
                values[index, at] = bucket_quantile(level[at], bounds[on], counts)
        present[index] = there.any(axis=0)
    return Vector(list(groups), values, present).without_gaps()


def parse_bound(text: str) -> float | None:
    """The number in an ``le`` label, or None when it is none."""
    try:
        return float(text) if text.strip() == text and "_" not in text else None
    except ValueError:
        return None


def bucket_quantile(level: Floats, bounds: Floats, counts: Floats) -> Floats:
    """Quantiles for ``counts`` of shape (buckets, steps), cumulative; ``bounds`` ascending, maybe repeated."""
    result = np.full(counts.shape[1], np.nan)
    if bounds[-1] == np.inf:
        bounds, first = np.unique(bounds, return_index=True)
        counts = _monotone(np.add.reduceat(counts, first, axis=0))
        if len(bounds) >= 2:
            result = _interpolate(level, bounds, counts)
    result = np.where(level < 0, -np.inf, result)
    result = np.where(level > 1, np.inf, result)
    return np.where(np.isnan(level), np.nan, result)


def _monotone(counts: Floats) -> Floats:
    """Bucket counts that never fall; scrapes are not atomic across buckets."""
    return np.maximum.accumulate(counts, axis=0)


def _interpolate(level: Floats, bounds: Floats, counts: Floats) -> Floats:
    columns = np.arange(counts.shape[1])
    total = counts[-1]
    rank = np.where((level >= 0) & (level <= 1), level, 0.0) * total
    last = len(bounds) - 1
    bucket = np.minimum((counts[:last] < rank).sum(axis=0), last)
    inside = np.minimum(bucket, last - 1)
    upper = bounds[inside]
    lower = np.where(inside > 0, bounds[np.maximum(inside - 1, 0)], 0.0)
    below = np.where(inside > 0, counts[np.maximum(inside - 1, 0), columns], 0.0)
    within = counts[inside, columns] - below
    with np.errstate(divide="ignore", invalid="ignore"):  # nothing in an empty bucket: NaN, as in Go
        result = lower + (upper - lower) * ((rank - below) / within)
    result = np.where((inside == 0) & (upper <= 0), upper, result)
    result = np.where(bucket == last, bounds[last - 1], result)
    return np.where((total == 0) | np.isnan(total), np.nan, result)
