"""Exports of traces as OTLP/JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aiopslab.telemetry.jaeger import Event, Jaeger, Link, Span
from aiopslab.telemetry.otlp import export_otlp, otlp_request


def span(**changes: Any) -> Span:
    known: dict[str, Any] = {
        "trace_id": "ab" * 16, "span_id": "cd" * 8, "parent_id": "", "service": "web", "operation": "GET /",
        "kind": "server", "start_us": 1_000_000, "duration_us": 2500, "error": False, "status_message": "",
        "tags": {"http.status_code": 200, "ok": True, "share": 0.5, "list": [1, "a"]}, "process": {"host": "h"},
    }  # fmt: skip
    return Span(**{**known, **changes})


def test_a_request_has_a_resource_per_process_and_texts_for_integers() -> None:
    request = otlp_request([
        span(), span(span_id="ef" * 8, parent_id="cd" * 8, kind="client"),
        span(service="cart", error=True, status_message="no"),
    ])  # fmt: skip
    web, cart = request["resourceSpans"]
    assert web["resource"]["attributes"][0] == {"key": "service.name", "value": {"stringValue": "web"}}
    first, second = web["scopeSpans"][0]["spans"]
    assert (first["kind"], second["kind"], second["parentSpanId"]) == (2, 3, "cd" * 8)
    assert "parentSpanId" not in first and first["status"] == {}
    assert (first["startTimeUnixNano"], first["endTimeUnixNano"]) == ("1000000000", "1002500000")
    values = {a["key"]: a["value"] for a in first["attributes"]}
    assert values["http.status_code"] == {"intValue": "200"} and values["ok"] == {"boolValue": True}
    assert values["list"] == {"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "a"}]}}
    assert cart["scopeSpans"][0]["spans"][0]["status"] == {"code": 2, "message": "no"}


async def test_a_file_has_each_trace_once_and_can_be_read_back(tmp_path: Path, server: Any) -> None:
    events = (Event(1_001_000, "exception", {"exception.type": "Lost", "tries": 2}),)
    early = span(events=events, links=(Link("34" * 16, "56" * 8, {"n": 1}),))
    late = span(trace_id="12" * 16, start_us=5_000_000)
    body = {"resourceSpans": [*otlp_request([late])["resourceSpans"], *otlp_request([early])["resourceSpans"]]}
    server.answers["/api/v3/services"] = {"services": ["web", "cart"]}
    server.answers["/api/v3/traces"] = {"result": body}
    traces = Jaeger(server.url)
    path = tmp_path / "traces.jsonl"
    assert await export_otlp(traces, path, 0.0, 10.0) == 2
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    ids = [r["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] for r in lines]
    assert ids == [early.trace_id, late.trace_id]
    server.answers[f"/api/v3/traces/{early.trace_id}"] = {"result": lines[0]}
    assert await traces.trace(early.trace_id) == [early]
    traces.close()
