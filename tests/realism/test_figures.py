"""Verdicts follow from the day-to-day differences; the mesh's quantiles have its plateaus."""

from __future__ import annotations

import math

import numpy as np
import pytest

REFERENCE = {
    "day_to_day_relative_difference": {
        "CPU": {"n": 10, "median": 0.1, "p90": 0.2},
        "abs ac1": {"n": 10, "median": 0.04, "p90": 0.15},
    }
}


@pytest.mark.parametrize(
    ("kind", "theirs", "ours", "verdict"),
    [
        ("CPU", 100.0, 105.0, "close"),
        ("CPU", 100.0, 118.0, "inside"),
        ("CPU", 100.0, 150.0, "OUTSIDE"),
        ("CPU", 0.0, 0.0, "close"),
        ("CPU", 0.0, 1.0, "OUTSIDE"),
        ("CPU", 1.0, math.nan, "OUTSIDE"),
        ("abs ac1", 0.01, -0.02, "close"),
        ("abs ac1", 0.01, 0.15, "inside"),
        ("abs ac1", 0.01, 0.5, "OUTSIDE"),
    ],
)
def test_verdicts(bench, kind, theirs, ours, verdict):
    tolerance = bench["figures"].Tolerances(REFERENCE).of(kind)
    assert bench["figures"].Figure("group", "name", theirs, ours, tolerance).verdict == verdict


def test_a_floor_allows_what_the_unit_cannot_show(bench):
    tolerance = bench["figures"].Tolerances(REFERENCE).of("CPU", floor=1.0)
    assert tolerance.verdict(3.0, 4.0) == "inside"
    assert tolerance.verdict(3.0, 4.5) == "OUTSIDE"


def test_few_observations_widen_a_share(bench):
    tolerances = bench["figures"].Tolerances(REFERENCE)
    assert tolerances.sampled("CPU", 0.03, 200).wide > tolerances.sampled("CPU", 0.03, 20_000).wide > 0.2


def test_totals_count_close_figures_as_inside(bench):
    figures = bench["figures"]
    tolerance = figures.Tolerances(REFERENCE).of("CPU")
    found = [figures.Figure("a", str(i), 100.0, ours, tolerance) for i, ours in enumerate((100.0, 115.0, 190.0))]
    assert figures.totals(found) == [("a", 1, 2, 3), ("all", 1, 2, 3)]
    assert sum("OUTSIDE" in line for line in figures.table(found)) == 1


@pytest.mark.parametrize(
    ("durations", "level", "expected"),
    [
        ([2.0] * 100, 0.5, 3.0),  # everything in the 1 to 5 ms bucket: always 3.0 and 4.8, as real meshes show
        ([4.9] * 100, 0.95, 4.8),
        ([0.2] * 100, 0.95, 0.475),
        ([0.2] * 50 + [60.0] * 50, 0.75, 75.0),
    ],
)
def test_mesh_quantiles_show_plateaus(bench, durations, level, expected):
    assert bench["shop"].mesh_quantile(np.array(durations), level) == pytest.approx(expected)


def test_no_calls_have_no_quantile(bench):
    assert math.isnan(bench["shop"].mesh_quantile(np.zeros(0), 0.5))


def test_rates_survive_a_restart_of_the_counter(bench):
    samples = bench["shop"].Samples()
    samples.times = [0.0, 15.0, 30.0, 45.0]
    samples.columns["frontend"]["cpu_s"] = [0.0, 3.0, 1.5, 4.5]
    times, rates = samples.rate("frontend", "cpu_s", 15.0)
    assert list(times) == [15.0, 30.0, 45.0]
    assert list(rates) == pytest.approx([0.2, 0.1, 0.2])
