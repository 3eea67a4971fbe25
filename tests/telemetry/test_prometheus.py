"""PromQL over HTTP: times are explicit, answers are typed, failures are named."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from aiopslab.errors import TelemetryError
from aiopslab.telemetry.prometheus import Prometheus, Sample, Series


def vector(*values: tuple[dict[str, str], str]) -> dict[str, Any]:
    rows = [{"metric": labels, "value": [100, value]} for labels, value in values]
    return {"status": "success", "data": {"resultType": "vector", "result": rows}}


@pytest.fixture
def prometheus(server: Any) -> Iterator[Prometheus]:
    client = Prometheus(server.url + "/")
    yield client
    client.close()


async def test_an_instant_query(server: Any, prometheus: Prometheus) -> None:
    server.answers["/api/v1/query"] = vector(({"pod": "b"}, "2"), ({"pod": "a"}, "+Inf"))
    found = await prometheus.query("up", 1_748_865_600.125)
    assert found == [Sample({"pod": "a"}, 100, math.inf), Sample({"pod": "b"}, 100, 2)]
    assert server.seen == [("/api/v1/query", {"query": ["up"], "time": ["1748865600.125"]})]


async def test_a_scalar(server: Any, prometheus: Prometheus) -> None:
    server.answers["/api/v1/query"] = {"data": {"resultType": "scalar", "result": [100, "4.5"]}}
    assert await prometheus.query("4.5", 100) == [Sample({}, 100, 4.5)]


@pytest.mark.parametrize(("rows", "value"), [((), None), ((({}, "NaN"),), None), ((({}, "3"),), 3.0)])
async def test_one_value(server: Any, prometheus: Prometheus, rows: Any, value: float | None) -> None:
    server.answers["/api/v1/query"] = vector(*rows)
    assert await prometheus.value("x", 100) == value


async def test_several_values_are_not_one(server: Any, prometheus: Prometheus) -> None:
    server.answers["/api/v1/query"] = vector(({"a": "1"}, "1"), ({"a": "2"}, "2"))
    with pytest.raises(TelemetryError, match="`rate x` gives 2 series; aggregate it"):
        await prometheus.value("rate\n   x", 100)


async def test_a_range_query_keeps_fractions_of_seconds(server: Any, prometheus: Prometheus) -> None:
    row = {"metric": {"pod": "a"}, "values": [[100.5, "1"], [115.5, "NaN"]]}
    server.answers["/api/v1/query_range"] = {"data": {"resultType": "matrix", "result": [row]}}
    (found,) = await prometheus.query_range("up", 100.5, 130.5, 15.0)
    assert isinstance(found, Series)
    assert found.points[0] == (100.5, 1.0)
    assert math.isnan(found.points[1][1])
    assert server.seen[0][1] == {"query": ["up"], "start": ["100.5"], "end": ["130.5"], "step": ["15.0"]}


async def test_names_and_labels(server: Any, prometheus: Prometheus) -> None:
    server.answers["/api/v1/label/__name__/values"] = {"data": ["up", "down"]}
    server.answers["/api/v1/series"] = {"data": [{"a": "2"}, {"a": "1"}]}
    assert await prometheus.label_values("__name__") == ["down", "up"]
    assert await prometheus.series(["up"], 0, 10) == [{"a": "1"}, {"a": "2"}]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((400, {"error": "parse error"}), "Prometheus refuses `up`: .*parse error"),
        (b"<html>", "does not answer like Prometheus"),
        ({"data": {}}, "does not answer like Prometheus"),
        ({"data": {"result": [{"metric": {}}]}}, "does not answer like Prometheus"),
    ],
)
async def test_a_strange_answer_is_named(server: Any, prometheus: Prometheus, answer: Any, says: str) -> None:
    server.answers["/api/v1/query"] = answer
    with pytest.raises(TelemetryError, match=says):
        await prometheus.query("up", 100)


async def test_a_dead_server_is_named() -> None:
    prometheus = Prometheus("http://127.0.0.1:9")
    with pytest.raises(TelemetryError, match=r"Prometheus at http://127\.0\.0\.1:9 does not answer: .*refused"):
        await prometheus.query_range("up", 0, 10, 5)
    prometheus.close()
