"""Span attributes as the instrumentation libraries write them."""

from __future__ import annotations

from typing import Any, NamedTuple

from aiopslab.sim.world.dialects import GRPC_NUMBERS, SERVER_FAULTS, Error, constant_name
from aiopslab.sim.world.routes import SpanShape


class SpanFacts(NamedTuple):
    """What a span's attributes depend on."""

    error: Error | None  # as this side sees it; message already filled in
    status: int  # HTTP status
    path: str
    peer_host: str
    peer_port: int
    peer_ip: str
    user_agent: str


def is_error(shape: SpanShape, error: Error | None, status: int) -> bool:
    """Whether the span's status is Error: any non-OK code at a client, the server's own faults at a server."""
    if shape.style == "otelhttp" and shape.kind == "SERVER":
        return status >= 500
    if error is None:
        return False
    return shape.kind == "CLIENT" or error.code in SERVER_FAULTS


def attributes(shape: SpanShape, facts: SpanFacts) -> dict[str, Any]:
    """All attributes of one span."""
    if shape.style == "otelhttp" and shape.kind == "SERVER":
        return _http(shape, facts)
    if shape.style in ("otelhttp", "otelgrpc"):
        return _go(shape, facts)
    return _legacy(shape, facts)


def _http(shape: SpanShape, facts: SpanFacts) -> dict[str, Any]:
    found: dict[str, Any] = {
        "http.request.method": shape.op.method,
        "url.scheme": "http",
        "url.path": facts.path,
        "server.address": facts.peer_host,
        "network.peer.address": facts.peer_ip,
        "network.peer.port": facts.peer_port,
        "network.protocol.version": "1.1",
        "user_agent.original": facts.user_agent,
        "http.response.status_code": facts.status,
        "http.response.body.size": shape.op.response_bytes,
    }
    if facts.status >= 500:
        found["error.type"] = str(facts.status)
    return found


def _go(shape: SpanShape, facts: SpanFacts) -> dict[str, Any]:
    code = facts.error.code if facts.error else "OK"
    found: dict[str, Any] = {
        "rpc.system.name": "grpc",
        "rpc.method": shape.name,
        "rpc.response.status_code": constant_name(code),
    }
    if shape.kind == "CLIENT":
        found["server.address"] = facts.peer_host
        found["server.port"] = facts.peer_port
    else:
        found["network.peer.address"] = facts.peer_ip
        found["network.peer.port"] = facts.peer_port
    if facts.error and is_error(shape, facts.error, 0):
        found["error.type"] = constant_name(code)
    return found


def _legacy(shape: SpanShape, facts: SpanFacts) -> dict[str, Any]:
    service, _, method = shape.name.lstrip("/").removeprefix("grpc.").rpartition("/")
    found: dict[str, Any] = {
        "rpc.system": "grpc",
        "rpc.service": service,
        "rpc.method": method,
        "rpc.grpc.status_code": GRPC_NUMBERS.get(facts.error.code, 2) if facts.error else 0,
    }
    if shape.style == "otel-python":
        found["rpc.user_agent"] = "grpc-go/1.76.0"
    found["net.peer.ip" if shape.kind == "SERVER" else "net.peer.name"] = (
        facts.peer_ip if shape.kind == "SERVER" else facts.peer_host
    )
    found["net.peer.port"] = facts.peer_port
    if facts.error and shape.style == "otel-js":
        found["grpc.error_name"] = constant_name(facts.error.code)
        found["grpc.error_message"] = facts.error.message
    return found
