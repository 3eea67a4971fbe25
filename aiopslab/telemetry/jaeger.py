"""Traces: the Jaeger query API, in its legacy form and in v3 (newer servers have dropped the legacy search).

Which form a server speaks is found out with the first request. Calls run in threads.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson
import requests

from aiopslab.errors import TelemetryError
from aiopslab.telemetry.http import new_session, reason

REQUEST_TIMEOUT_WALL_S = 30
DEFAULT_LIMIT = 100
_KINDS = {0: "unspecified", 1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
_STATUS_ERROR = 2


class Event(msgspec.Struct, frozen=True):
    """Something that happened in a span, at microseconds since the Unix epoch."""

    at_us: int
    name: str
    attributes: dict[str, Any]


class Link(msgspec.Struct, frozen=True):
    """Another span, mostly of another trace, that a span belongs to."""

    trace_id: str
    span_id: str
    attributes: dict[str, Any]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span. Times in microseconds since the Unix epoch; ``parent_id`` is "" for a root.

    ``tags`` are its attributes, ``process`` those of the process (pod, node).
    """

    trace_id: str
    span_id: str
    parent_id: str
    service: str
    operation: str
    kind: str
    start_us: int
    duration_us: int
    error: bool
    status_message: str
    tags: dict[str, Any]
    process: dict[str, Any]
    events: tuple[Event, ...] = ()
    links: tuple[Link, ...] = ()


class Dependency(msgspec.Struct, frozen=True):
    """How often one service called another."""

    parent: str
    child: str
    calls: int


class Jaeger:
    """A Jaeger server. Times are Unix seconds of cluster time. Every method raises TelemetryError."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._session = new_session(self.url)
        self._legacy: bool | None = None

    def close(self) -> None:
        """Give back the connections."""
        self._session.close()

    async def services(self) -> list[str]:
        """Names of the services that sent spans, sorted."""
        return sorted(await asyncio.to_thread(self._services))

    async def operations(self, service: str) -> list[str]:
        """Names of a service's operations, sorted."""
        if await self._speaks_legacy():
            body = await asyncio.to_thread(self._get, "/api/operations", {"service": service})
            rows = body.get("data")
        else:
            body = await asyncio.to_thread(self._get, "/api/v3/operations", {"service": service})
            rows = body.get("operations")
        return sorted({row["name"] for row in rows or []})

    async def traces(
        self, service: str, start: float, end: float, *, operation: str = "", limit: int = DEFAULT_LIMIT
    ) -> list[list[Span]]:
        """Traces that ``service`` took part in, newest ``limit`` of the stretch, oldest first; spans by start."""
        if await self._speaks_legacy():
            params = {
                "service": service,
                "operation": operation,
                "start": str(int(start * 1e6)),
                "end": str(int(end * 1e6)),
                "limit": str(limit),
            }
            body = await asyncio.to_thread(self._get, "/api/traces", _given(params))
            traces = self._read(body, legacy=True)
        else:
            params = {
                "query.serviceName": service,
                "query.operationName": operation,
                "query.startTimeMin": _rfc3339(start),
                "query.startTimeMax": _rfc3339(end),
                "query.searchDepth": str(limit),
            }
            body = await asyncio.to_thread(self._get, "/api/v3/traces", _given(params))
            traces = self._read(body, legacy=False)
        return sorted(traces, key=lambda spans: (spans[0].start_us, spans[0].trace_id))

    async def trace(self, trace_id: str) -> list[Span]:
        """The spans of one trace by start; empty when the server does not have it."""
        if await self._speaks_legacy():
            body = await asyncio.to_thread(self._get, f"/api/traces/{trace_id}", {})
            found = self._read(body, legacy=True)
        else:
            body = await asyncio.to_thread(self._get, f"/api/v3/traces/{trace_id}", {})
            found = self._read(body, legacy=False)
        return found[0] if found else []

    async def dependencies(self, end: float, lookback_s: float) -> list[Dependency]:
        """Calls between services in the ``lookback_s`` before ``end``, sorted by caller and callee."""
        params = {"endTs": str(int(end * 1e3)), "lookback": str(int(lookback_s * 1e3))}
        body = await asyncio.to_thread(self._get, "/api/dependencies", params)
        rows = body.get("data") or []
        found = [Dependency(row["parent"], row["child"], int(row["callCount"])) for row in rows]
        return sorted(found, key=lambda row: (row.parent, row.child))

    async def _speaks_legacy(self) -> bool:
        if self._legacy is None:
            await asyncio.to_thread(self._services)
        return bool(self._legacy)

    def _services(self) -> list[str]:
        if self._legacy is not False:
            body = self._get("/api/services", {})
            if body:
                self._legacy = True
                return list(body.get("data") or [])
            self._legacy = False
        return list(self._get("/api/v3/services", {}).get("services") or [])

    def _read(self, body: dict[str, Any], *, legacy: bool) -> list[list[Span]]:
        try:
            if legacy:
                return [_legacy_trace(trace) for trace in body.get("data") or []]
            return _otlp_traces(body)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TelemetryError(f"{self.url} sends traces that cannot be read: {error!r}") from error

    def _get(self, path: str, params: dict[str, str]) -> dict[str, Any]:
        """The answer's body; empty for 404, which Jaeger answers when it finds nothing."""
        try:
            answer = self._session.get(self.url + path, params=params, timeout=REQUEST_TIMEOUT_WALL_S)
        except requests.RequestException as error:
            raise TelemetryError(f"Jaeger at {self.url} does not answer: {reason(error)}") from error
        if answer.status_code == 404:
            return {}
        if answer.status_code != 200:
            raise TelemetryError(f"Jaeger refuses {path}: HTTP {answer.status_code}: {answer.text[:300]}")
        try:
            body = orjson.loads(answer.content)
        except orjson.JSONDecodeError as error:
            raise TelemetryError(f"{self.url}{path} does not answer like Jaeger: {error}") from error
        if not isinstance(body, dict):
            raise TelemetryError(f"{self.url}{path} does not answer like Jaeger: not an object")
        return body


def _legacy_trace(trace: dict[str, Any]) -> list[Span]:
    processes = trace.get("processes") or {}
    spans = [_legacy_span(row, processes.get(row.get("processID"), {})) for row in trace.get("spans") or []]
    return sorted(spans, key=lambda span: (span.start_us, span.span_id))


def _legacy_span(row: dict[str, Any], process: dict[str, Any]) -> Span:
    tags = {tag["key"]: tag["value"] for tag in row.get("tags") or []}
    references = row.get("references") or []
    parents = [r["spanID"] for r in references if r.get("refType") == "CHILD_OF"]
    return Span(
        trace_id=row["traceID"],
        span_id=row["spanID"],
        parent_id=parents[0] if parents else row.get("parentSpanID", ""),
        service=process.get("serviceName", ""),
        operation=row["operationName"],
        kind=str(tags.pop("span.kind", "unspecified")),
        start_us=int(row["startTime"]),
        duration_us=int(row["duration"]),
        error=str(tags.pop("error", False)).lower() == "true",
        status_message=str(tags.get("otel.status_description", "")),
        tags=tags,
        process={tag["key"]: tag["value"] for tag in process.get("tags") or []},
        events=tuple(_legacy_event(log) for log in row.get("logs") or []),
        links=tuple(
            Link(r["traceID"], r["spanID"], {}) for r in references if r.get("refType") == "FOLLOWS_FROM"
        ),
    )


def _legacy_event(log: dict[str, Any]) -> Event:
    fields = {field["key"]: field["value"] for field in log.get("fields") or []}
    return Event(int(log["timestamp"]), str(fields.pop("event", "")), fields)


def _otlp_traces(body: dict[str, Any]) -> list[list[Span]]:
    traces: dict[str, list[Span]] = {}
    for resource in (body.get("result") or {}).get("resourceSpans") or []:
        process = _attributes((resource.get("resource") or {}).get("attributes"))
        service = str(process.pop("service.name", ""))
        for scope in resource.get("scopeSpans") or []:
            for row in scope.get("spans") or []:
                traces.setdefault(row["traceId"], []).append(_otlp_span(row, service, process))
    return [sorted(spans, key=lambda span: (span.start_us, span.span_id)) for spans in traces.values()]


def _otlp_span(row: dict[str, Any], service: str, process: dict[str, Any]) -> Span:
    status = row.get("status") or {}
    start, end = int(row["startTimeUnixNano"]), int(row["endTimeUnixNano"])
    return Span(
        trace_id=row["traceId"],
        span_id=row["spanId"],
        parent_id=row.get("parentSpanId", ""),
        service=service,
        operation=row.get("name", ""),
        kind=_KINDS.get(row.get("kind", 0), "unspecified"),
        start_us=start // 1000,
        duration_us=(end - start) // 1000,
        error=status.get("code") == _STATUS_ERROR,
        status_message=str(status.get("message", "")),
        tags=_attributes(row.get("attributes")),
        process=process,
        events=tuple(
            Event(int(e["timeUnixNano"]) // 1000, e.get("name", ""), _attributes(e.get("attributes")))
            for e in row.get("events") or []
        ),
        links=tuple(
            Link(link["traceId"], link["spanId"], _attributes(link.get("attributes")))
            for link in row.get("links") or []
        ),
    )


def _attributes(rows: list[dict[str, Any]] | None) -> dict[str, Any]:
    return {row["key"]: _otlp_value(row.get("value") or {}) for row in rows or []}


def _otlp_value(value: dict[str, Any]) -> Any:
    if "intValue" in value:
        return int(value["intValue"])
    if "arrayValue" in value:
        return [_otlp_value(item) for item in value["arrayValue"].get("values") or []]
    if "kvlistValue" in value:
        return _attributes(value["kvlistValue"].get("values"))
    return next(iter(value.values()), None)


def _given(params: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in params.items() if value}


def _rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
