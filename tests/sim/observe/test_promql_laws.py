"""Laws that hold for any samples."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aiopslab.sim.observe.promql.evaluate import Engine
from aiopslab.sim.observe.promql.histogram import bucket_quantile
from aiopslab.sim.observe.promql.values import Vector
from aiopslab.sim.observe.series import SeriesStore

few = settings(max_examples=60, deadline=None)
numbers = st.floats(-1e6, 1e6)


def value(store: SeriesStore, query: str, at_ms: int) -> Vector:
    found = Engine(store).instant(query, at_ms).value
    assert isinstance(found, Vector)
    return found


@few
@given(st.integers(1, 50), st.integers(1, 60), st.integers(3, 40), st.integers(0, 14_999))
def test_rate_of_a_constant_slope_is_the_slope(slope: int, interval_s: int, samples: int, phase_ms: int) -> None:
    """As long as the window is full and the counter is far from zero, phase and interval do not matter."""
    store = SeriesStore()
    times = np.arange(samples + 60) * interval_s * 1000
    store.extend(store.series({"__name__": "c"}), times, 1e9 + times / 1000 * slope)
    at = int(times[-1]) + min(phase_ms, interval_s * 1000 - 1)
    window = f"[{samples * interval_s}s]"
    assert np.allclose(value(store, f"rate(c{window})", at).values, slope, rtol=1e-9)
    assert np.allclose(value(store, f"deriv(c{window})", at).values, slope, rtol=1e-6)


@few
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), numbers), min_size=1, max_size=12))
def test_partial_sums_make_the_total(rows: list[tuple[str, str, float]]) -> None:
    store = SeriesStore()
    ids = [store.series({"__name__": "m", "p": p, "q": q, "n": str(i)}) for i, (p, q, _) in enumerate(rows)]
    store.append(1000, ids, [v for _, _, v in rows])
    total = sum(v for _, _, v in rows)
    for query in ("sum(m)", "sum(sum by (p) (m))", "sum(sum without (q) (m))", "avg(m) * count(m)"):
        assert np.allclose(value(store, query, 1000).values, total, atol=1e-6)
    assert value(store, "max(m)", 1000).values[0, 0] == max(v for _, _, v in rows)
    assert len(value(store, "topk(2, m)", 1000).labels) == min(2, len(rows))


@few
@given(
    st.lists(st.floats(0.001, 1000), min_size=1, max_size=8, unique=True),
    st.lists(st.integers(0, 50), min_size=9, max_size=9),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_histogram_quantiles_are_ordered(bounds: list[float], counts: list[int], q: float, r: float) -> None:
    """A higher quantile is not lower, and none leaves the finite buckets."""
    edges = np.array([*sorted(bounds), np.inf])
    cumulative = np.cumsum(counts[: len(edges)]).astype(float)[:, None]
    assume(cumulative[-1, 0] > 0)
    assume(min(q, r) > 0 or cumulative[0, 0] > 0)  # rank 0 in an empty first bucket is 0/0, in Prometheus too
    low, high = (float(bucket_quantile(np.array([x]), edges, cumulative)[0]) for x in sorted((q, r)))
    assert 0 <= low <= high * (1 + 1e-12) <= edges[-2] * (1 + 1e-9)


@few
@given(st.lists(numbers, min_size=2, max_size=30), st.floats(0, 1))
def test_over_time_agrees_with_numpy(values: list[float], q: float) -> None:
    store = SeriesStore()
    store.extend(store.series({"__name__": "m"}), np.arange(len(values)) * 1000 + 1, values)
    at = len(values) * 1000
    window = f"[{len(values)}s]"
    for name, expected in (
        ("sum_over_time(m", np.sum(values)), ("avg_over_time(m", np.mean(values)),
        ("max_over_time(m", np.max(values)), ("stddev_over_time(m", np.std(values)),
        (f"quantile_over_time({q!r}, m", np.quantile(values, q)),
    ):  # fmt: skip
        assert np.allclose(value(store, f"{name}{window})", at).values, expected, rtol=1e-9, atol=1e-6), name


@few
@given(st.lists(st.integers(0, 20), min_size=2, max_size=40))
def test_increase_counts_every_gain_and_reset(gains: list[int]) -> None:
    """With samples on both edges of the window nothing is extrapolated at the end; resets lose nothing."""
    store = SeriesStore()
    readings, reading = [], 0.0
    for number, gain in enumerate(gains):
        reading = float(gain) if number % 7 == 6 else reading + gain
        readings.append(reading)
    store.extend(store.series({"__name__": "c"}), np.arange(len(gains)) * 1000, readings)
    expected = sum(after - before if after >= before else after for before, after in pairwise(readings))
    found = Engine(store, 2).instant(f"increase(c[{len(gains) - 1}s])", (len(gains) - 1) * 1000).value
    assert isinstance(found, Vector)
    assert np.allclose(found.values, expected)
