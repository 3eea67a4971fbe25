"""The Jaeger query API over a span store: the legacy JSON API and version 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import orjson
from aiohttp import web

from aiopslab.sim.observe.jaeger_json import parse_go_duration, resource_spans, summary, trace_json

if TYPE_CHECKING:
    from aiopslab.sim.world.spans import Span

LOOKBACK_US = 48 * 3600 * 1_000_000
DEPENDENCY_LOOKBACK_MS = 24 * 3600 * 1000
LIMIT = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HEX = frozenset("0123456789abcdefABCDEF")


class Spans(Protocol):
    """Queries over finished spans; times and durations in microseconds."""

    def services(self, start_us: int = 0, end_us: int | None = None) -> list[str]:
        """Names of services with spans in the time range."""

    def operations(self, service: str) -> list[tuple[str, str]]:
        """(name, kind) pairs of a service."""

    @property
    def search(self) -> Callable[..., list[list[Span]]]:
        """Whole traces, newest first: ``(service, operation, start_us, end_us, min_us, max_us, tags, limit)``."""

    def trace(self, wanted: str, /) -> list[Span]:
        """One trace, or nothing."""

    def dependencies(self, start_us: int, end_us: int) -> list[tuple[str, str, int]]:
        """(caller, callee, calls)."""


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class TraceSource:
    """What the API serves. ``now`` gives Unix seconds; ``refresh`` is called before an answer."""

    spans: Spans
    now: Callable[[], float]
    refresh: Callable[[], None] = _nothing


class _Refused(Exception):
    def __init__(self, code: int, message: str, trace_id: str = "") -> None:
        super().__init__(message)
        self.code, self.trace_id = code, trace_id


@dataclass(frozen=True, slots=True)
class _Search:
    service: str
    operation: str
    start_us: int
    end_us: int
    min_us: int | None
    max_us: int | None
    tags: Mapping[str, str]
    limit: int

    def run(self, spans: Spans) -> list[list[Span]]:
        window, bounds = (self.start_us, self.end_us), (self.min_us, self.max_us)
        return spans.search(self.service, self.operation, *window, *bounds, self.tags, self.limit)


def jaeger_app(source: TraceSource) -> web.Application:
    """An aiohttp application with both APIs."""
    legacy, v3 = _Legacy(source), _Version3(source)
    app = web.Application()
    for path, handler in {
        "services": legacy.services,
        "services/{service}/operations": legacy.operation_names,
        "operations": legacy.operations,
        "traces": legacy.search,
        "traces/{trace_id}": legacy.trace,
        "dependencies": legacy.dependencies,
    }.items():
        app.router.add_get(f"/api/{path}", legacy.answering(handler))
    for path, handler in {
        "services": v3.services,
        "operations": v3.operations,
        "traces": v3.search,
        "traces/{trace_id}": v3.trace,
        "trace-summaries": v3.summaries,
    }.items():
        app.router.add_get(f"/api/v3/{path}", v3.answering(handler))
    app.router.add_get("/", _alive)
    return app


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="jaeger-query\n")


def _respond(body: object, code: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=code, content_type="application/json")


def _trace_id(text: str) -> str:
    if not text or len(text) > 32 or not _HEX.issuperset(text):
        raise _Refused(400, f"cannot parse trace ID {text!r}: it must be 1 to 32 hexadecimal digits")
    return text.lower().rjust(32, "0")


class _Legacy:
    """``/api``: every answer has the same envelope."""

    def __init__(self, source: TraceSource) -> None:
        self._source = source

    def answering(self, handler: Callable[[web.Request], tuple[Any, int]]) -> Any:
        """Wrap a handler that returns data and ``total``."""

        async def answer(request: web.Request) -> web.Response:
            self._source.refresh()
            try:
                data, total = handler(request)
            except _Refused as refused:
                error = {"code": refused.code, "msg": str(refused)}
                if refused.trace_id:
                    error["traceID"] = refused.trace_id
                return _respond(_envelope(None, 0, [error]), refused.code)
            return _respond(_envelope(data, total, None))

        return answer

    def services(self, _: web.Request) -> tuple[Any, int]:
        names = sorted(self._source.spans.services())
        return names, len(names)

    def operation_names(self, request: web.Request) -> tuple[Any, int]:
        names = sorted({name for name, _ in self._source.spans.operations(request.match_info["service"])})
        return names, len(names)

    def operations(self, request: web.Request) -> tuple[Any, int]:
        service = request.query.get("service", "")
        if not service:
            raise _Refused(400, "parameter 'service' is required")
        wanted = request.query.get("spanKind", "").lower()
        rows = [
            {"name": name, "spanKind": kind.lower()}
            for name, kind in self._source.spans.operations(service)
            if wanted in ("", kind.lower())
        ]
        return rows, len(rows)

    def search(self, request: web.Request) -> tuple[Any, int]:
        ids = request.query.getall("traceID", [])
        if ids:
            found = [spans for text in ids if (spans := self._source.spans.trace(_trace_id(text)))]
        else:
            found = self._query(request).run(self._source.spans)
        return [trace_json(spans) for spans in found], 0

    def trace(self, request: web.Request) -> tuple[Any, int]:
        trace_id = _trace_id(request.match_info["trace_id"])
        spans = self._source.spans.trace(trace_id)
        if not spans:
            raise _Refused(404, "trace not found", trace_id)
        return [trace_json(spans)], 0

    def dependencies(self, request: web.Request) -> tuple[Any, int]:
        end_ms = _integer(request, "endTs", round(self._source.now() * 1000), "unable to parse param")
        lookback_ms = _integer(request, "lookback", DEPENDENCY_LOOKBACK_MS, "unable to parse param")
        rows = self._source.spans.dependencies((end_ms - lookback_ms) * 1000, end_ms * 1000)
        service = request.query.get("service", "")
        shown = [
            {"parent": parent, "child": child, "callCount": calls}
            for parent, child, calls in rows
            if service in ("", parent, child)
        ]
        return shown, 0

    def _query(self, request: web.Request) -> _Search:
        query = request.query
        if not query.get("service"):
            raise _Refused(400, "parameter 'service' is required")
        now_us = round(self._source.now() * 1e6)
        bounds = [_duration(query.get(name, ""), name) for name in ("minDuration", "maxDuration")]
        if None not in bounds and bounds[1] < bounds[0]:  # type: ignore[operator]
            raise _Refused(400, "'maxDuration' should be greater than 'minDuration'")
        return _Search(
            query["service"],
            query.get("operation", ""),
            _integer(request, "start", now_us - LOOKBACK_US, "unable to parse param"),
            _integer(request, "end", now_us, "unable to parse param"),
            bounds[0],
            bounds[1],
            _legacy_tags(query.getall("tag", []), query.getall("tags", [])),
            _integer(request, "limit", LIMIT, "unable to parse param"),
        )


def _envelope(data: Any, total: int, errors: list[dict[str, Any]] | None) -> dict[str, Any]:
    return {"data": data, "total": total, "limit": 0, "offset": 0, "errors": errors}


def _integer(request: web.Request, name: str, default: int, complaint: str) -> int:
    text = request.query.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise _Refused(400, f"{complaint} '{name}': strconv.ParseInt: parsing \"{text}\": invalid syntax") from None


def _duration(text: str, name: str) -> int | None:
    if not text:
        return None
    try:
        return parse_go_duration(text)
    except ValueError as error:
        raise _Refused(400, f"unable to parse param '{name}': {error}") from None


def _legacy_tags(pairs: list[str], objects: list[str]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for pair in pairs:
        name, colon, value = pair.partition(":")
        if not colon or not name:
            raise _Refused(400, f"malformed 'tag' parameter, expecting key:value, received: {pair}")
        tags[name] = value
    for text in objects:
        tags.update(_json_tags(text, "malformed 'tags' parameter"))
    return tags


def _json_tags(text: str, complaint: str) -> dict[str, str]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _Refused(400, f"{complaint}, cannot unmarshal JSON: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise _Refused(400, f"{complaint}, cannot unmarshal JSON: values must be strings")
    return found


class _Version3:
    """``/api/v3``: OTLP out, errors as ``{"error": {...}}``."""

    def __init__(self, source: TraceSource) -> None:
        self._source = source

    def answering(self, handler: Callable[[web.Request], Any]) -> Any:
        """Wrap a handler that returns the body."""

        async def answer(request: web.Request) -> web.Response:
            self._source.refresh()
            try:
                return _respond(handler(request))
            except _Refused as refused:
                return _respond({"error": {"httpCode": refused.code, "message": str(refused)}}, refused.code)

        return answer

    def services(self, _: web.Request) -> Any:
        return {"services": sorted(self._source.spans.services())}

    def operations(self, request: web.Request) -> Any:
        service = request.query.get("service", "")
        if not service:
            raise _Refused(400, "malformed parameter service: value is required")
        wanted = (request.query.get("spanKind") or request.query.get("span_kind") or "").lower()
        rows = [(name, kind.lower() or "internal") for name, kind in self._source.spans.operations(service)]
        return {"operations": [{"name": n, "spanKind": kind} for n, kind in rows if wanted in ("", kind)]}

    def search(self, request: web.Request) -> Any:
        return {"result": {"resourceSpans": resource_spans(self._found(request))}}

    def summaries(self, request: web.Request) -> Any:
        return {"summaries": [summary(spans) for spans in self._found(request)]}

    def trace(self, request: web.Request) -> Any:
        spans = self._source.spans.trace(_trace_id(request.match_info["trace_id"]))
        if not spans:
            raise _Refused(404, "No traces found")
        return {"result": {"resourceSpans": resource_spans([spans])}}

    def _found(self, request: web.Request) -> list[list[Span]]:
        found = self._query(request).run(self._source.spans)
        if not found:
            raise _Refused(404, "No traces found")
        return found

    def _query(self, request: web.Request) -> _Search:
        start, end = (self._time(request, name) for name in ("startTimeMin", "startTimeMax"))
        if end <= start:
            raise _Refused(400, "query.startTimeMin must be before query.startTimeMax")
        depth = _v3(request, "searchDepth") or request.query.get("query.num_traces", "")
        if depth and not depth.isdigit():
            raise _Refused(400, f"malformed parameter query.searchDepth: {depth}")
        attributes = _v3(request, "attributes")
        complaint = "malformed parameter query.attributes"
        return _Search(
            _v3(request, "serviceName"),
            _v3(request, "operationName"),
            start,
            end,
            _duration(_v3(request, "durationMin"), "query.durationMin"),
            _duration(_v3(request, "durationMax"), "query.durationMax"),
            _json_tags(attributes, complaint) if attributes else {},
            int(depth) if depth else LIMIT,
        )

    def _time(self, request: web.Request, name: str) -> int:
        text = _v3(request, name)
        if not text:
            raise _Refused(400, "query.startTimeMin and query.startTimeMax are required")
        try:
            at = datetime.fromisoformat(text)  # digits beyond microseconds are cut off
            return (at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
        except ValueError:
            raise _Refused(400, f"malformed parameter query.{name}: {text} is not an RFC 3339 time") from None


def _v3(request: web.Request, name: str) -> str:
    """A ``query.`` parameter in camel case or snake case."""
    snake = "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
    return request.query.get(f"query.{name}") or request.query.get(f"query.{snake}") or ""
