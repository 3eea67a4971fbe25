"""Spans as Jaeger's two JSON forms: the legacy one and OTLP."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiopslab.sim.world.spans import Span

SCOPE = "opentelemetry"
_SAFE_INTEGER_MAX = 2**53 - 1
_KINDS = {"UNSPECIFIED": 0, "INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_STATUS = {"UNSET": 0, "OK": 1, "ERROR": 2}
_UNITS_US = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "μs": 1.0, "ms": 1e3, "s": 1e6, "m": 6e7, "h": 3.6e9}
_DURATION = re.compile(r"([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


def parse_go_duration(text: str) -> int:
    """``1.5s`` or ``200ms`` to microseconds. Raises ValueError with Go's text."""
    found = _DURATION.fullmatch(text)
    if text in ("0", "+0", "-0"):
        return 0
    if found is None:
        bare = re.fullmatch(r"[+-]?\d+\.?\d*", text)
        reason = "missing unit in duration" if bare else "invalid duration"
        raise ValueError(f'time: {reason} "{text}"')
    total = sum(float(number) * _UNITS_US[unit] for number, unit in _PART.findall(found.group(2)))
    return -round(total) if found.group(1) == "-" else round(total)


# -- legacy


def trace_json(spans: Iterable[Span]) -> dict[str, Any]:
    """One trace with its processes ``p1``, ``p2``, ... in order of first appearance."""
    processes: dict[str, dict[str, Any]] = {}
    names: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
    shown = []
    trace_id = ""
    for span in spans:
        trace_id = span.trace_id
        key = (span.service, tuple(sorted(span.process.items())))
        if key not in names:
            names[key] = f"p{len(names) + 1}"
            tags = [_tag(name, value) for name, value in key[1]]
            processes[names[key]] = {"serviceName": span.service, "tags": tags}
        shown.append(_span_json(span, names[key]))
    return {"traceID": trace_id, "spans": shown, "processes": processes, "warnings": None}


def _span_json(span: Span, process: str) -> dict[str, Any]:
    references = []
    if span.parent_id:
        references.append({"refType": "CHILD_OF", "traceID": span.trace_id, "spanID": span.parent_id})
    for link in span.links:
        references.append({"refType": "FOLLOWS_FROM", "traceID": link.trace_id, "spanID": link.span_id})
    tags = [_tag(name, value) for name, value in span.attributes.items()]
    tags.append(_tag("span.kind", span.kind.lower()))
    if span.status != "UNSET":
        tags.append(_tag("otel.status_code", span.status))
    if span.status == "ERROR":
        tags.append(_tag("error", True))
        if span.status_message:
            tags.append(_tag("otel.status_description", span.status_message))
    return {
        "traceID": span.trace_id,
        "spanID": span.span_id,
        "flags": 1,
        "operationName": span.operation,
        "references": references,
        "startTime": span.start_us,
        "duration": span.duration_us,
        "tags": tags,
        "logs": [
            {
                "timestamp": event.at_us,
                "fields": [_tag("event", event.name), *(_tag(k, v) for k, v in event.attributes.items())],
            }
            for event in span.events
        ],
        "processID": process,
        "warnings": None,
    }


def _tag(name: str, value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"key": name, "type": "bool", "value": value}
        case int():
            safe = abs(value) <= _SAFE_INTEGER_MAX
            return {"key": name, "type": "int64", "value": value if safe else str(value)}
        case float():
            return {"key": name, "type": "float64", "value": value}
        case bytes():
            return {"key": name, "type": "binary", "value": base64.b64encode(value).decode()}
        case _:
            return {"key": name, "type": "string", "value": str(value)}


# -- OTLP


def resource_spans(traces: Iterable[Iterable[Span]]) -> list[dict[str, Any]]:
    """Spans of all traces, grouped by resource in order of first appearance."""
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[dict[str, Any]]] = {}
    for spans in traces:
        for span in spans:
            key = (span.service, tuple(sorted(span.process.items())))
            groups.setdefault(key, []).append(_otlp_span(span))
    return [
        {
            "resource": {"attributes": _attributes({"service.name": service, **dict(process)})},
            "scopeSpans": [{"scope": {"name": SCOPE}, "spans": spans}],
        }
        for (service, process), spans in groups.items()
    ]


def _otlp_span(span: Span) -> dict[str, Any]:
    status: dict[str, Any] = {}
    if span.status != "UNSET":
        status["code"] = _STATUS[span.status]
    if span.status_message:
        status["message"] = span.status_message
    shown = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "parentSpanId": span.parent_id,
        "name": span.operation,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.start_us * 1000),
        "endTimeUnixNano": str((span.start_us + span.duration_us) * 1000),
        "attributes": _attributes(span.attributes),
        "events": [
            {
                "timeUnixNano": str(event.at_us * 1000),
                "name": event.name,
                "attributes": _attributes(event.attributes),
            }
            for event in span.events
        ],
        "links": [
            {"traceId": link.trace_id, "spanId": link.span_id, "attributes": _attributes(link.attributes)}
            for link in span.links
        ],
        "status": status,
    }
    return {name: value for name, value in shown.items() if value not in ("", [])}


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _any_value(value)} for name, value in values.items()]


def _any_value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case bytes():
            return {"bytesValue": base64.b64encode(value).decode()}
        case list() | tuple():
            return {"arrayValue": {"values": [_any_value(found) for found in value]}}
        case dict():
            return {"kvlistValue": {"values": _attributes(value)}}
        case _:
            return {"stringValue": str(value)}


def summary(spans: list[Span]) -> dict[str, Any]:
    """A trace in a few numbers, as ``/api/v3/trace-summaries`` lists it."""
    ids = {span.span_id for span in spans}
    root = next((span for span in spans if not span.parent_id), spans[0])
    services = sorted({span.service for span in spans})
    return {
        "traceId": root.trace_id,
        "rootServiceName": root.service,
        "rootOperationName": root.operation,
        "minStartTimeUnixNano": str(min(span.start_us for span in spans) * 1000),
        "maxEndTimeUnixNano": str(max(span.start_us + span.duration_us for span in spans) * 1000),
        "spanCount": len(spans),
        "errorSpanCount": _errors(spans),
        "orphanSpanCount": sum(1 for span in spans if span.parent_id and span.parent_id not in ids),
        "services": [
            {"name": name, "spanCount": len(own), "errorSpanCount": _errors(own)}
            for name in services
            for own in [[span for span in spans if span.service == name]]
        ],
    }


def _errors(spans: list[Span]) -> int:
    return sum(span.status == "ERROR" for span in spans)
