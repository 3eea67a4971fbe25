"""Functions of range vectors, vectorised over all windows of all series.

Formulas follow Prometheus' promql/functions.go: extrapolated rate, centred least squares, population variance,
linear interpolation between order statistics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from aiopslab.sim.observe.promql.errors import ExecutionError
from aiopslab.sim.observe.promql.values import Bools, Floats, Ints, Vector, Windows

# Samples of overlapping windows that are laid out at once; bounds memory, not results.
EXPANDED_SAMPLES_MAX = 4_000_000


@dataclass(frozen=True, slots=True)
class Expanded:
    """Windows laid out one behind the other: window ``w`` has ``counts[w]`` samples from ``starts[w]``."""

    values: Floats
    times: Ints
    starts: Ints
    counts: Ints
    steps: Ints  # which step each window belongs to

    def spread(self, per_window: Floats) -> Floats:
        """One value per window, repeated for each of its samples."""
        return np.repeat(per_window, self.counts)

    def total(self, per_sample: Floats) -> Floats:
        """Sum over each window."""
        return np.asarray(np.add.reduceat(per_sample, self.starts))


def per_window(windows: Windows, compute: Callable[[Expanded], Floats], least: int = 1) -> Vector:
    """Apply ``compute`` to all windows with at least ``least`` samples; others have no result."""
    counts = windows.counts
    present = counts >= least
    result = np.zeros(counts.shape)
    flat = np.flatnonzero(present)
    low, sizes = windows.low.ravel()[flat], counts.ravel()[flat]
    steps = flat % counts.shape[1] if counts.size else flat
    cuts = np.searchsorted(np.cumsum(sizes), np.arange(EXPANDED_SAMPLES_MAX, sizes.sum(), EXPANDED_SAMPLES_MAX))
    out = result.ravel()
    edges = [0, *np.unique(cuts).tolist(), len(flat)]
    for begin, end in pairwise(edges):
        if end > begin:
            part = slice(begin, end)
            out[flat[part]] = compute(_expand(windows, low[part], sizes[part], steps[part]))
    return Vector(windows.labels, result, present)


def _expand(windows: Windows, low: Ints, sizes: Ints, steps: Ints) -> Expanded:
    starts = np.cumsum(sizes) - sizes
    index = np.repeat(low - starts, sizes) + np.arange(int(sizes.sum()))
    return Expanded(windows.values[index], windows.times[index], starts, sizes, steps)


# -- counters


def extrapolated(windows: Windows, *, counter: bool, per_second: bool, semantics: int) -> Vector:
    """``rate``, ``increase`` and ``delta``: the difference over the samples, stretched to the window.

    Prometheus 2 limits the stretch to the counter's zero before it compares with the threshold, 3 after it.
    """
    counts = windows.counts
    present = counts >= 2
    last_index = np.maximum(windows.high - 1, 0)[present]
    first_index = windows.low[present]
    size = counts[present]
    first, last = windows.values[first_index], windows.values[last_index]
    raw = last - first
    if counter:
        raw += _drops(windows, first_index, last_index)
    first_ms, last_ms = windows.times[first_index], windows.times[last_index]
    sampled = (last_ms - first_ms) / 1000.0
    average = sampled / (size - 1)
    to_start = (first_ms - np.broadcast_to(windows.starts, counts.shape)[present]) / 1000.0
    to_end = (np.broadcast_to(windows.ends, counts.shape)[present] - last_ms) / 1000.0
    threshold = average * 1.1
    if counter and semantics < 3:
        to_start = _not_below_zero(to_start, sampled, first, raw)
    to_start = np.where(to_start < threshold, to_start, average / 2)
    to_end = np.where(to_end < threshold, to_end, average / 2)
    if counter and semantics >= 3:
        to_start = _not_below_zero(to_start, sampled, first, raw)
    factor = (sampled + to_start + to_end) / sampled
    if per_second:
        factor = factor / ((windows.ends - windows.starts)[0] / 1000.0)
    result = np.zeros(counts.shape)
    result[present] = raw * factor
    return Vector(windows.labels, result, present)


def _not_below_zero(to_start: Floats, sampled: Floats, first: Floats, raw: Floats) -> Floats:
    rising = (raw > 0) & (first >= 0)
    to_zero = sampled * (first / np.where(rising, raw, 1.0))
    return np.where(rising & (to_zero < to_start), to_zero, to_start)


def _drops(windows: Windows, first_index: Ints, last_index: Ints) -> Floats:
    """Per window, the sum of values before each counter reset."""
    values = windows.values
    at = np.flatnonzero(values[1:] < values[:-1]) + 1
    lost = values[at - 1]
    begin, end = np.searchsorted(at, first_index, "right"), np.searchsorted(at, last_index, "right")
    result = np.zeros(len(first_index))
    hit = np.flatnonzero(end > begin)
    if len(hit):
        sizes = (end - begin)[hit]
        starts = np.cumsum(sizes) - sizes
        index = np.repeat(begin[hit] - starts, sizes) + np.arange(int(sizes.sum()))
        result[hit] = np.add.reduceat(lost[index], starts)
    return result


def last_two(windows: Windows, *, rate: bool) -> Vector:
    """``irate`` (per second, a reset counts from zero) and ``idelta``."""
    present = windows.counts >= 2
    end = windows.high[present]
    last, before = windows.values[end - 1], windows.values[end - 2]
    diff = np.where(last < before, last, last - before) if rate else last - before
    if rate:
        diff = diff / ((windows.times[end - 1] - windows.times[end - 2]) / 1000.0)
    result = np.zeros(present.shape)
    result[present] = diff
    return Vector(windows.labels, result, present)


def count_between(windows: Windows, *, resets: bool) -> Vector:
    """``resets`` and ``changes``: how many neighbours in the window drop, or differ."""
    before, after = windows.values[:-1], windows.values[1:]
    if resets:
        events = after < before
    else:
        events = (after != before) & ~(np.isnan(after) & np.isnan(before))
    upto = np.concatenate([[0], np.cumsum(events)])
    present = windows.counts > 0
    result = np.zeros(present.shape)
    result[present] = upto[windows.high[present] - 1] - upto[windows.low[present]]
    return Vector(windows.labels, result, present)


# -- aggregations over time


def last(windows: Windows) -> Vector:
    """``last_over_time``."""
    present = windows.counts > 0
    result = np.zeros(present.shape)
    result[present] = windows.values[windows.high[present] - 1]
    return Vector(windows.labels, result, present)


def count(windows: Windows) -> Vector:
    """``count_over_time``."""
    return Vector(windows.labels, windows.counts.astype(float), windows.counts > 0)


def there(windows: Windows) -> Vector:
    """``present_over_time``."""
    return Vector(windows.labels, np.ones(windows.counts.shape), windows.counts > 0)


def total(part: Expanded) -> Floats:
    """``sum_over_time``, compensated (Neumaier) where plain summation would lose digits."""
    sums = part.total(part.values)
    size = part.total(np.abs(part.values))
    for window in np.flatnonzero(size > 1e3 * np.abs(sums)).tolist():
        sums[window] = _exact_sum(_samples(part, window))
    return sums


def _samples(part: Expanded, window: int) -> Floats:
    start = int(part.starts[window])
    return part.values[start : start + int(part.counts[window])]


def _exact_sum(values: Floats) -> float:
    total_, lost = 0.0, 0.0
    for value in values.tolist():
        new = total_ + value
        lost += (total_ - new) + value if abs(total_) >= abs(value) else (value - new) + total_
        total_ = new
    return total_ if np.isinf(total_) else total_ + lost


def average(part: Expanded) -> Floats:
    """``avg_over_time``."""
    mean = total(part) / part.counts
    # A sum may overflow where the mean does not.
    for window in np.flatnonzero(np.isinf(mean)).tolist():
        values = _samples(part, window)
        if np.isfinite(values).all():
            mean[window] = float((values / len(values)).sum())
    return mean


def minimum(part: Expanded) -> Floats:
    """``min_over_time``; NaN only when all samples are NaN."""
    return np.asarray(np.fmin.reduceat(part.values, part.starts))


def maximum(part: Expanded) -> Floats:
    """``max_over_time``."""
    return np.asarray(np.fmax.reduceat(part.values, part.starts))


def variance(part: Expanded) -> Floats:
    """``stdvar_over_time``: population variance."""
    mean = part.total(part.values) / part.counts
    return part.total((part.values - part.spread(mean)) ** 2) / part.counts


def deviation(part: Expanded) -> Floats:
    """``stddev_over_time``."""
    return np.sqrt(variance(part))


def quantile(part: Expanded, q: Floats) -> Floats:
    """``quantile_over_time``; ``q`` per step. NaN sorts below everything."""
    window = np.repeat(np.arange(len(part.starts)), part.counts)
    order = np.lexsort((part.values, ~np.isnan(part.values), window))
    ordered = part.values[order]
    level = q[part.steps]
    rank = np.where((level >= 0) & (level <= 1), level, 0.0) * (part.counts - 1)
    low = np.maximum(np.floor(rank), 0).astype(np.int64)
    high = np.minimum(low + 1, part.counts - 1)
    weight = rank - np.floor(rank)
    result = ordered[part.starts + low] * (1 - weight) + ordered[part.starts + high] * weight
    return quantile_edges(result, level)


def quantile_edges(result: Floats, level: Floats) -> Floats:
    """Quantiles outside [0, 1] are infinite, of NaN NaN."""
    result = np.where(level < 0, -np.inf, result)
    result = np.where(level > 1, np.inf, result)
    return np.where(np.isnan(level), np.nan, result)


# -- regression


def _regression(part: Expanded, origin: Ints) -> tuple[Floats, Floats]:
    """Slope per second and value at ``origin`` (milliseconds, per window) of the least-squares line."""
    seconds = (part.times - np.repeat(origin, part.counts)) / 1000.0
    n = part.counts
    x_mean, y_mean = part.total(seconds) / n, part.total(part.values) / n
    x, y = seconds - part.spread(x_mean), part.values - part.spread(y_mean)
    slope = part.total(x * y) / part.total(x * x)
    first = part.values[part.starts]
    constant = part.total((part.values != part.spread(first)).astype(float)) == 0
    infinite = constant & np.isinf(first)
    slope = np.where(constant, np.where(infinite, np.nan, 0.0), slope)
    at_origin = np.where(constant, np.where(infinite, np.nan, first), y_mean - slope * x_mean)
    return slope, at_origin


def derivative(part: Expanded) -> Floats:
    """``deriv``: slope per second."""
    return _regression(part, part.times[part.starts])[0]


def predict(part: Expanded, at: Ints, ahead_s: Floats) -> Floats:
    """``predict_linear``: the line's value ``ahead_s`` seconds after each step's time ``at``."""
    slope, now = _regression(part, at[part.steps])
    return slope * ahead_s[part.steps] + now


def smooth(part: Expanded, factor: Floats, trend: Floats) -> Floats:
    """``holt_winters``: double exponential smoothing; ``factor`` and ``trend`` per step, both in (0, 1)."""
    result = np.empty(len(part.starts))
    for window, step in enumerate(part.steps.tolist()):
        values = _samples(part, window).tolist()
        sf, tf = float(factor[step]), float(trend[step])
        level, slope = values[0], values[1] - values[0]
        before = 0.0
        for index, value in enumerate(values[1:], 1):
            if index > 1:
                slope = tf * (level - before) + (1 - tf) * slope
            before, level = level, sf * value + (1 - sf) * (level + slope)
        result[window] = level
    return result


def check_smoothing(factor: Floats, trend: Floats) -> None:
    """Refuse factors outside (0, 1)."""
    for name, found in (("smoothing", factor), ("trend", trend)):
        wrong = found[~((found > 0) & (found < 1))]
        if len(wrong):
            raise ExecutionError(f"invalid {name} factor. Expected: 0 < {name[0]}f < 1, got: {wrong[0]:f}")


def any_present(windows: Windows) -> Bools:
    """Per step: does any series have a sample in its window?"""
    return np.asarray((windows.counts > 0).any(axis=0))
