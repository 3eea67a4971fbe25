"""Both Jaeger APIs over a handful of spans."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from aiopslab.sim.observe.jaeger import TraceSource, jaeger_app
from aiopslab.sim.observe.jaeger_json import parse_go_duration, trace_json
from aiopslab.sim.world.spanevents import SpanEvent, SpanLink
from aiopslab.sim.world.spans import Span

NOW = 1_748_855_400.0
T0_US = 1_748_855_100_000_000
TRACE = "0" * 15 + "7" + "a" * 16


def spans() -> list[Span]:
    root = Span(
        TRACE, "1" * 16, "", "frontend", "GET /", "SERVER", T0_US, 30_000, "UNSET", "",
        {"http.response.status_code": 500, "big": 2**60, "ratio": 0.5, "cached": False},
        {"k8s.pod.name": "frontend-1"},
    )  # fmt: skip
    call = Span(
        TRACE, "2" * 16, "1" * 16, "cart", "GetCart", "SERVER", T0_US + 1000, 20_000, "ERROR", "no such user",
        {"rpc.system": "grpc"}, {"k8s.pod.name": "cart-1"},
        [SpanEvent(T0_US + 9000, "exception", {"exception.type": "Lost", "retries": 2})],
        [SpanLink("c" * 32, "d" * 16, {})],
    )  # fmt: skip
    return [root, call]


class FewSpans:
    """One trace; remembers how it was searched."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    def services(self, start_us: int = 0, end_us: int | None = None) -> list[str]:
        return ["frontend", "cart"]

    def operations(self, service: str) -> list[tuple[str, str]]:
        return sorted((s.operation, s.kind) for s in spans() if s.service == service)

    def search(self, service: str, operation: str = "", *rest: Any) -> list[list[Span]]:
        start, end, low, high, tags, limit = rest
        self.asked = {"start": start, "end": end, "min": low, "max": high, "tags": dict(tags), "limit": limit}
        return [spans()] if service in ("frontend", "cart") else []

    def trace(self, wanted: str, /) -> list[Span]:
        return spans() if wanted == TRACE else []

    def dependencies(self, start_us: int, end_us: int) -> list[tuple[str, str, int]]:
        return [("frontend", "cart", 4)] if start_us < T0_US < end_us else []


@pytest.fixture
def store() -> FewSpans:
    return FewSpans()


@pytest.fixture
async def server(store: FewSpans) -> AsyncIterator[TestServer]:
    async with TestServer(jaeger_app(TraceSource(store, lambda: NOW))) as running:
        yield running


async def get(server: TestServer, path: str, params: Mapping[str, str] | None = None) -> tuple[int, Any]:
    async with ClientSession() as session, session.get(server.make_url(path), params=params) as answer:
        return answer.status, await answer.json()


async def test_services_and_operations(server: TestServer) -> None:
    envelope = {"total": 2, "limit": 0, "offset": 0, "errors": None}
    assert await get(server, "/api/services") == (200, {"data": ["cart", "frontend"], **envelope})
    _, body = await get(server, "/api/services/cart/operations")
    assert body["data"] == ["GetCart"]
    _, body = await get(server, "/api/operations", {"service": "cart", "spanKind": "server"})
    assert body["data"] == [{"name": "GetCart", "spanKind": "server"}]
    status, body = await get(server, "/api/operations")
    assert (status, body["data"]) == (400, None)
    assert body["errors"] == [{"code": 400, "msg": "parameter 'service' is required"}]


async def test_search_defaults_to_two_days(server: TestServer, store: FewSpans) -> None:
    _, body = await get(server, "/api/traces", {"service": "frontend", "lookback": "5m"})
    assert [trace["traceID"] for trace in body["data"]] == [TRACE]
    assert store.asked == {
        "start": int((NOW - 172_800) * 1e6), "end": int(NOW * 1e6), "min": None, "max": None, "tags": {},
        "limit": 100,
    }  # fmt: skip


async def test_search_parameters(server: TestServer, store: FewSpans) -> None:
    await get(server, "/api/traces", {
        "service": "cart", "start": "1", "end": "2", "minDuration": "1.5ms", "maxDuration": "2s", "tag": "a:b",
        "tags": '{"error":"true"}', "limit": "3",
    })  # fmt: skip
    assert store.asked == {
        "start": 1, "end": 2, "min": 1500, "max": 2_000_000, "tags": {"a": "b", "error": "true"}, "limit": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "parameter 'service' is required"),
        (
            {"service": "a", "minDuration": "2s", "maxDuration": "1s"},
            "'maxDuration' should be greater than 'minDuration'",
        ),
        ({"service": "a", "tags": "x"}, "malformed 'tags' parameter, cannot unmarshal JSON"),
        ({"service": "a", "minDuration": "5"}, 'time: missing unit in duration "5"'),
        ({"service": "a", "start": "x"}, "unable to parse param 'start'"),
        ({"traceID": "xyz"}, "cannot parse trace ID"),
    ],
)
async def test_bad_searches(server: TestServer, params: dict[str, str], message: str) -> None:
    status, body = await get(server, "/api/traces", params)
    assert status == 400
    assert message in body["errors"][0]["msg"]


async def test_one_trace_by_short_id_or_not_at_all(server: TestServer) -> None:
    status, body = await get(server, f"/api/traces/{TRACE.lstrip('0')}")
    assert (status, len(body["data"][0]["spans"])) == (200, 2)
    status, body = await get(server, "/api/traces/abc")
    error = {"code": 404, "msg": "trace not found", "traceID": "abc".rjust(32, "0")}
    assert (status, body["errors"]) == (404, [error])


async def test_dependencies(server: TestServer) -> None:
    _, body = await get(server, "/api/dependencies", {"endTs": str(int(NOW * 1000))})
    assert body["data"] == [{"parent": "frontend", "child": "cart", "callCount": 4}]


def test_legacy_json() -> None:
    trace = trace_json(spans())
    root, call = trace["spans"]
    assert root["references"] == [] and "parentSpanID" not in root
    assert call["references"] == [
        {"refType": "CHILD_OF", "traceID": TRACE, "spanID": "1" * 16},
        {"refType": "FOLLOWS_FROM", "traceID": "c" * 32, "spanID": "d" * 16},
    ]
    fields = [("event", "string", "exception"), ("exception.type", "string", "Lost"), ("retries", "int64", 2)]
    shown = [{"key": key, "type": kind, "value": value} for key, kind, value in fields]
    assert root["logs"] == [] and call["logs"] == [{"timestamp": T0_US + 9000, "fields": shown}]
    tags = {tag["key"]: (tag["type"], tag["value"]) for tag in root["tags"]}
    assert tags == {
        "http.response.status_code": ("int64", 500), "big": ("int64", str(2**60)), "ratio": ("float64", 0.5),
        "cached": ("bool", False), "span.kind": ("string", "server"),
    }  # fmt: skip
    tags = {tag["key"]: tag["value"] for tag in call["tags"]}
    assert tags["error"] is True
    assert tags["otel.status_code"] == "ERROR" and tags["otel.status_description"] == "no such user"
    process = trace["processes"][call["processID"]]
    tag = {"key": "k8s.pod.name", "type": "string", "value": "cart-1"}
    assert process == {"serviceName": "cart", "tags": [tag]}


WINDOW = {"query.startTimeMin": "2025-06-02T09:00:00Z", "query.startTimeMax": "2025-06-02T10:00:00.123456789Z"}


async def test_version_3(server: TestServer, store: FewSpans) -> None:
    assert await get(server, "/api/v3/services") == (200, {"services": ["cart", "frontend"]})
    _, body = await get(server, "/api/v3/operations", {"service": "cart"})
    assert body == {"operations": [{"name": "GetCart", "spanKind": "server"}]}
    params = {**WINDOW, "query.service_name": "cart", "query.searchDepth": "5", "query.attributes": '{"a":"b"}'}
    _, body = await get(server, "/api/v3/traces", params)
    resources = body["result"]["resourceSpans"]
    assert [r["resource"]["attributes"][0]["value"]["stringValue"] for r in resources] == ["frontend", "cart"]
    span = resources[1]["scopeSpans"][0]["spans"][0]
    assert (span["traceId"], span["parentSpanId"], span["kind"]) == (TRACE, "1" * 16, 2)
    assert span["startTimeUnixNano"] == str((T0_US + 1000) * 1000)
    assert span["status"] == {"code": 2, "message": "no such user"}
    attributes = [
        {"key": "exception.type", "value": {"stringValue": "Lost"}},
        {"key": "retries", "value": {"intValue": "2"}},
    ]
    at = str((T0_US + 9000) * 1000)
    assert span["events"] == [{"timeUnixNano": at, "name": "exception", "attributes": attributes}]
    assert span["links"] == [{"traceId": "c" * 32, "spanId": "d" * 16, "attributes": []}]
    assert not {"events", "links"} & resources[0]["scopeSpans"][0]["spans"][0].keys()
    assert store.asked["limit"] == 5 and store.asked["tags"] == {"a": "b"}
    assert store.asked["end"] == 1_748_858_400_123_456
    _, body = await get(server, "/api/v3/trace-summaries", {**WINDOW, "query.serviceName": "cart"})
    (found,) = body["summaries"]
    assert (found["spanCount"], found["errorSpanCount"], found["rootServiceName"]) == (2, 1, "frontend")
    status, body = await get(server, f"/api/v3/traces/{TRACE}")
    assert status == 200 and body["result"]["resourceSpans"]


@pytest.mark.parametrize(
    ("path", "params", "status", "message"),
    [
        ("traces", {**WINDOW, "query.serviceName": "x"}, 404, "No traces found"),
        ("traces", {"query.serviceName": "x"}, 400, "query.startTimeMin and query.startTimeMax are required"),
        ("traces", {"query.startTimeMin": "5", "query.startTimeMax": "6"}, 400, "is not an RFC 3339 time"),
        ("traces/1", {}, 404, "No traces found"),
        ("operations", {}, 400, "service"),
    ],
)
async def test_version_3_errors(
    server: TestServer, path: str, params: dict[str, str], status: int, message: str
) -> None:
    got, body = await get(server, f"/api/v3/{path}", params)
    assert (got, body["error"]["httpCode"]) == (status, status)
    assert message in body["error"]["message"]


@pytest.mark.parametrize(
    ("text", "us"),
    [("1s", 1_000_000), ("1.5ms", 1500), ("1m30s", 90_000_000), ("0", 0), ("-2us", -2), ("500ns", 0)],
)
def test_go_durations(text: str, us: int) -> None:
    assert parse_go_duration(text) == us
