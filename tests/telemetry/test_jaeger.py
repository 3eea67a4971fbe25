"""Traces through both forms of Jaeger's API come out as the same spans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aiopslab.errors import TelemetryError
from aiopslab.telemetry.jaeger import Dependency, Event, Jaeger, Link

LEGACY_TRACE = {
    "traceID": "0" * 31 + "1",
    "processes": {
        "p1": {"serviceName": "front", "tags": [{"key": "k8s.pod.name", "type": "string", "value": "front-1"}]},
        "p2": {"serviceName": "back", "tags": []},
    },
    "spans": [
        {
            "traceID": "0" * 31 + "1",
            "spanID": "b",
            "operationName": "work",
            "references": [{"refType": "CHILD_OF", "traceID": "0" * 31 + "1", "spanID": "a"}],
            "startTime": 2_000,
            "duration": 500,
            "logs": [
                {"timestamp": 2_100, "fields": [{"key": "event", "value": "exception"}, {"key": "n", "value": 2}]}
            ],
            "processID": "p2",
            "tags": [
                {"key": "span.kind", "type": "string", "value": "server"},
                {"key": "error", "type": "bool", "value": True},
                {"key": "otel.status_description", "type": "string", "value": "boom"},
            ],
        },
        {
            "traceID": "0" * 31 + "1",
            "spanID": "a",
            "operationName": "GET",
            "references": [{"refType": "FOLLOWS_FROM", "traceID": "0" * 31 + "2", "spanID": "c"}],
            "startTime": 1_000,
            "duration": 3_000,
            "processID": "p1",
            "tags": [
                {"key": "span.kind", "type": "string", "value": "server"},
                {"key": "http.status_code", "type": "int64", "value": 500},
            ],
        },
    ],
}


def otlp_span(span_id: str, parent: str, name: str, times_us: tuple[int, int], **more: Any) -> dict[str, Any]:
    start, end = times_us
    return {
        "traceId": "0" * 31 + "1",
        "spanId": span_id,
        "parentSpanId": parent,
        "name": name,
        "kind": 2,
        "startTimeUnixNano": str(start * 1000),
        "endTimeUnixNano": str(end * 1000),
        **more,
    }


def resource(service: str, span: dict[str, Any], **tags: str) -> dict[str, Any]:
    attributes = {"service.name": service, **tags}
    rows = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    return {"resource": {"attributes": rows}, "scopeSpans": [{"spans": [span]}]}


STATUS = {"key": "http.status_code", "value": {"intValue": "500"}}
EVENT = {"timeUnixNano": "2100000", "name": "exception", "attributes": [{"key": "n", "value": {"intValue": "2"}}]}
LINK = {"traceId": "0" * 31 + "2", "spanId": "c"}
CHILD = otlp_span("b", "a", "work", (2_000, 2_500), status={"code": 2, "message": "boom"}, events=[EVENT])
ROOT = otlp_span("a", "", "GET", (1_000, 4_000), attributes=[STATUS], links=[LINK])
V3_TRACES = {
    "result": {"resourceSpans": [resource("back", CHILD), resource("front", ROOT, **{"k8s.pod.name": "front-1"})]}
}


@pytest.fixture
def jaeger(server: Any) -> Iterator[Jaeger]:
    client = Jaeger(server.url)
    yield client
    client.close()


@pytest.fixture(params=["legacy", "v3"])
def form(request: pytest.FixtureRequest, server: Any) -> str:
    if request.param == "legacy":
        server.answers["/api/services"] = {"data": ["front", "back"]}
        server.answers["/api/operations"] = {"data": [{"name": "work", "spanKind": "server"}]}
        server.answers["/api/traces"] = {"data": [LEGACY_TRACE]}
        server.answers["/api/traces/1"] = {"data": [LEGACY_TRACE]}
    else:
        server.answers["/api/v3/services"] = {"services": ["front", "back"]}
        server.answers["/api/v3/operations"] = {"operations": [{"name": "work", "spanKind": "server"}]}
        server.answers["/api/v3/traces"] = V3_TRACES
        server.answers["/api/v3/traces/1"] = V3_TRACES
    return str(request.param)


async def test_both_forms_give_the_same_spans(form: str, server: Any, jaeger: Jaeger) -> None:
    (spans,) = await jaeger.traces("front", 10.0, 20.5, operation="GET", limit=7)
    assert spans == await jaeger.trace("1")
    root, child = spans
    assert (root.span_id, root.parent_id, root.service, root.operation) == ("a", "", "front", "GET")
    assert (root.start_us, root.duration_us, root.kind, root.error) == (1_000, 3_000, "server", False)
    assert (root.tags, root.process) == ({"http.status_code": 500}, {"k8s.pod.name": "front-1"})
    assert (child.parent_id, child.service, child.error, child.status_message) == ("a", "back", True, "boom")
    assert child.events == (Event(2_100, "exception", {"n": 2}),) and root.events == child.links == ()
    assert root.links == (Link("0" * 31 + "2", "c", {}),)
    query = next(query for path, query in server.seen if path.endswith("/traces"))
    if form == "legacy":
        assert query == {
            "service": ["front"],
            "operation": ["GET"],
            "start": ["10000000"],
            "end": ["20500000"],
            "limit": ["7"],
        }
    else:
        assert query["query.startTimeMax"] == ["1970-01-01T00:00:20.500000Z"]
        assert query["query.searchDepth"] == ["7"]


async def test_names(form: str, jaeger: Jaeger) -> None:
    assert await jaeger.services() == ["back", "front"]
    assert await jaeger.operations("front") == ["work"]


async def test_nothing_found_is_empty(server: Any, jaeger: Jaeger) -> None:
    server.answers["/api/services"] = {"data": None}
    server.answers["/api/traces"] = {"data": []}
    assert await jaeger.services() == []
    assert await jaeger.traces("x", 0, 1) == []
    assert await jaeger.trace("f" * 32) == []


async def test_dependencies(server: Any, jaeger: Jaeger) -> None:
    rows = [{"parent": "b", "child": "c", "callCount": 2}, {"parent": "a", "child": "b", "callCount": 5}]
    server.answers["/api/dependencies"] = {"data": rows}
    assert await jaeger.dependencies(100.0, 60.0) == [Dependency("a", "b", 5), Dependency("b", "c", 2)]
    assert server.seen[0][1] == {"endTs": ["100000"], "lookback": ["60000"]}


@pytest.mark.parametrize(
    ("answer", "says"),
    [((500, {"errors": []}), "Jaeger refuses /api/services: HTTP 500"), (b"<html>", "does not answer like Jaeger")],
)
async def test_a_strange_answer_is_named(server: Any, jaeger: Jaeger, answer: Any, says: str) -> None:
    server.answers["/api/services"] = answer
    with pytest.raises(TelemetryError, match=says):
        await jaeger.services()


async def test_a_trace_that_cannot_be_read_is_named(server: Any, jaeger: Jaeger) -> None:
    server.answers["/api/services"] = {"data": ["x"]}
    server.answers["/api/traces"] = {"data": [{"spans": [{"traceID": "1"}]}]}
    with pytest.raises(TelemetryError, match="sends traces that cannot be read"):
        await jaeger.traces("x", 0, 1)


async def test_a_dead_server_is_named() -> None:
    jaeger = Jaeger("http://127.0.0.1:9")
    with pytest.raises(TelemetryError, match=r"Jaeger at http://127\.0\.0\.1:9 does not answer: .*refused"):
        await jaeger.services()
    jaeger.close()
