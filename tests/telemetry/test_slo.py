"""Objectives over time: where there is data, where there is none, and what a person reads."""

from __future__ import annotations

from typing import Any

import pytest

from aiopslab.record import Slo, SloSeries
from aiopslab.telemetry.prometheus import Series
from aiopslab.telemetry.slo import evaluate, good, sentence, share_good, violations

FAST = Slo(name="p95 latency", expr="latency", op="<=", threshold=500, unit="ms")
BUSY = Slo(name="request rate", expr="rate", op=">=", threshold=1)


class FakePrometheus:
    """Series by expression."""

    def __init__(self, **series: list[Series]) -> None:
        self.series = series

    async def query_range(self, expr: str, start: float, end: float, step_s: float) -> list[Series]:
        return self.series.get(expr, [])


async def points(slo: Slo, *series: Series) -> Any:
    fake: Any = FakePrometheus(**{slo.expr: list(series)})
    (found,) = await evaluate(fake, [slo], 1000.0, 1045.0, origin=1030.0)
    return found.points


async def test_gaps_have_no_value() -> None:
    series = Series({}, [(1000.0, 10.0), (1015.0, float("nan")), (1045.0, 30.0)])
    assert await points(FAST, series) == [(-30.0, 10.0), (-15.0, None), (0.0, None), (15.0, 30.0)]


async def test_several_series_are_judged_by_the_worst() -> None:
    pair = (Series({"a": "1"}, [(1000.0, 10.0)]), Series({"a": "2"}, [(1000.0, 30.0)]))
    assert (await points(FAST, *pair))[0] == (-30.0, 30.0)
    assert (await points(BUSY, *pair))[0] == (-30.0, 10.0)


async def test_an_empty_stretch_has_no_points() -> None:
    fake: Any = FakePrometheus()
    assert [row.points for row in await evaluate(fake, [FAST], 10.0, 9.0, origin=0.0)] == [[]]


async def test_violations_are_sentences() -> None:
    fake: Any = FakePrometheus(latency=[Series({}, [(60.0, 812.25)])])
    assert await violations(fake, [FAST, BUSY], 60.0) == [
        "p95 latency is 812.2 ms (objective: <= 500 ms)",
        "request rate is without data (objective: >= 1)",
    ]


@pytest.mark.parametrize(
    ("op", "value", "holds"),
    [("<", 5, False), ("<=", 5, True), (">", 5, False), (">=", 5, True), ("<", 4.9, True), (">", 5.1, True)],
)
def test_good(op: str, value: float, holds: bool) -> None:
    assert good(Slo(name="x", expr="x", op=op, threshold=5), value) is holds


def test_no_data_is_not_good_unless_said() -> None:
    assert not good(FAST, None)
    assert good(Slo(name="x", expr="x", op="<", threshold=5, no_data_good=True), None)


def test_share_good() -> None:
    series = SloSeries(slo=FAST, points=[(0.0, 900.0), (15.0, 100.0), (30.0, None), (45.0, 100.0), (60.0, 100.0)])
    assert share_good(series, 15.0, 60.0) == 0.75
    assert share_good(series, 100.0, 200.0) is None


def test_sentence_without_unit() -> None:
    assert sentence(BUSY, 0.5) == "request rate is 0.5 (objective: >= 1)"
