"""Traces as OTLP/JSON files, the format that OpenTelemetry tools read (``ExportTraceServiceRequest`` per line)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

from aiopslab.telemetry.jaeger import Event, Jaeger, Link, Span

SCOPE = "aiopslab"
_KINDS = {"unspecified": 0, "internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
_STATUS_ERROR = 2
EXPORT_LIMIT = 1500  # traces of one service; Jaeger's own upper bound


async def export_otlp(
    traces: Jaeger, path: Path, start: float, end: float, *, limit: int = EXPORT_LIMIT
) -> int:
    """Write every trace of a stretch of cluster time (Unix seconds) to ``path``, one trace per line, oldest first.

    At most ``limit`` traces of each service. Returns how many traces were written. Raises TelemetryError.
    """
    found: dict[str, list[Span]] = {}
    for service in await traces.services():
        for trace in await traces.traces(service, start, end, limit=limit):
            found.setdefault(trace[0].trace_id, trace)
    ordered = sorted(found.values(), key=lambda spans: (spans[0].start_us, spans[0].trace_id))
    lines = [orjson.dumps(otlp_request(spans)) for spans in ordered]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return len(lines)


def otlp_request(spans: Iterable[Span]) -> dict[str, Any]:
    """One request with a ``resourceSpans`` entry per process, in order of first appearance."""
    resources: dict[tuple[str, bytes], dict[str, Any]] = {}
    for span in spans:
        key = (span.service, orjson.dumps(span.process, option=orjson.OPT_SORT_KEYS))
        if key not in resources:
            attributes = _attributes({"service.name": span.service, **span.process})
            resources[key] = {
                "resource": {"attributes": attributes},
                "scopeSpans": [{"scope": {"name": SCOPE}, "spans": []}],
            }
        resources[key]["scopeSpans"][0]["spans"].append(_span(span))
    return {"resourceSpans": list(resources.values())}


def _event(event: Event) -> dict[str, Any]:
    at = str(event.at_us * 1000)
    return {"timeUnixNano": at, "name": event.name, "attributes": _attributes(event.attributes)}


def _link(link: Link) -> dict[str, Any]:
    return {"traceId": link.trace_id, "spanId": link.span_id, "attributes": _attributes(link.attributes)}


def _span(span: Span) -> dict[str, Any]:
    status: dict[str, Any] = {"code": _STATUS_ERROR, "message": span.status_message} if span.error else {}
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        **({"parentSpanId": span.parent_id} if span.parent_id else {}),
        "name": span.operation,
        "kind": _KINDS.get(span.kind, 0),
        "startTimeUnixNano": str(span.start_us * 1000),
        "endTimeUnixNano": str((span.start_us + span.duration_us) * 1000),
        "attributes": _attributes(span.tags),
        **({"events": [_event(event) for event in span.events]} if span.events else {}),
        **({"links": [_link(link) for link in span.links]} if span.links else {}),
        "status": {k: v for k, v in status.items() if v},
    }


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    """64-bit integers are texts in OTLP/JSON."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _attributes(value)}}
    return {"stringValue": str(value)}
