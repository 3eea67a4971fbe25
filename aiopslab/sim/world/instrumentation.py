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
    extra: dict[str, Any]  # what the application itself adds


def is_error(shape: SpanShape, error: Error | None, status: int) -> bool:
    """Whether the span's status is Error: any non-OK code at a client or inside a program, the server's own faults
    at a server."""
    if shape.server and shape.serves == "http" and shape.op.target:
        return status >= 500
    if error is None:
        return False
    return not shape.server or shape.op.local or shape.op.marks_errors or error.code in SERVER_FAULTS


def attributes(shape: SpanShape, facts: SpanFacts) -> dict[str, Any]:
    """All attributes of one span."""
    if shape.style == "otelhttp" and shape.server:
        return _http(shape, facts)
    if shape.style in ("otelhttp", "otelgrpc"):
        return _go(shape, facts)
    if shape.style in ("otel", "envoy"):
        return {**_CONVENTIONS.get(shape.serves, _none)(shape, facts), **facts.extra}
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
    found["net.peer.ip" if shape.server else "net.peer.name"] = facts.peer_ip if shape.server else facts.peer_host
    found["net.peer.port"] = facts.peer_port
    if facts.error and shape.style == "otel-js":
        found["grpc.error_name"] = constant_name(facts.error.code)
        found["grpc.error_message"] = facts.error.message
    return found


def _peer(shape: SpanShape, facts: SpanFacts) -> dict[str, Any]:
    if shape.server:
        return {"network.peer.address": facts.peer_ip, "network.peer.port": facts.peer_port}
    return {"server.address": facts.peer_host, "server.port": facts.peer_port}


def _otel_http(shape: SpanShape, facts: SpanFacts) -> dict[str, Any]:
    if shape.style == "envoy":
        return _envoy(shape, facts)
    reached = shape.server or facts.error is None or facts.error.code.isdigit()
    found: dict[str, Any] = {"http.request.method": shape.op.method} if shape.op.target else {}
    if shape.server:
        found |= {"url.scheme": "http", "url.path": facts.path.partition("?")[0]}
        found["user_agent.original"] = facts.user_agent
        if shape.op.target:
            found["http.route"] = shape.op.target.partition("?")[0]
    else:
        found["url.full"] = f"http://{facts.peer_host}:{facts.peer_port}{facts.path}"
    if reached:
        found["http.response.status_code"] = facts.status
    if facts.status >= 500 or (not shape.server and facts.error is not None):
        found["error.type"] = str(facts.status) if reached else "connect error"
    return found | _peer(shape, facts)


def _envoy(shape: SpanShape, facts: SpanFacts) -> dict[str, Any]:
    """Envoy's own tags; ``UF`` marks a failed connection to the upstream, ``UT`` its timeout."""
    code = facts.error.code if facts.error is not None else ""
    flags = {"Unavailable": "UF", "DeadlineExceeded": "UT"}.get(code, "-")
    return {
        "component": "proxy",
        "http.method": shape.op.method,
        "http.url": facts.path,
        "http.protocol": "HTTP/1.1",
        "http.status_code": str(facts.status),
        "response_flags": flags,
        "user_agent": facts.user_agent or "k6",
        "peer.address": facts.peer_ip or facts.peer_host,
        "upstream_cluster.name": facts.peer_host,
    }


def _otel_grpc(shape: SpanShape, facts: SpanFacts) -> dict[str, Any]:
    found: dict[str, Any] = {
        "rpc.system": "grpc",
        "rpc.service": shape.op.full_service,
        "rpc.method": shape.op.method,
        "rpc.grpc.status_code": GRPC_NUMBERS.get(facts.error.code, 2) if facts.error else 0,
    }
    return found | _peer(shape, facts)


def _otel_database(shape: SpanShape, facts: SpanFacts) -> dict[str, Any]:
    found: dict[str, Any] = {"db.system.name": shape.serves, "db.operation.name": shape.op.method}
    if facts.error is not None:
        found["error.type"] = facts.error.code
    return found | _peer(shape, facts)


def _otel_messages(shape: SpanShape, facts: SpanFacts) -> dict[str, Any]:
    return {"messaging.system": "kafka", **({} if shape.server else _peer(shape, facts))}


def _none(shape: SpanShape, facts: SpanFacts) -> dict[str, Any]:
    return {}


_CONVENTIONS = {
    "http": _otel_http,
    "grpc": _otel_grpc,
    "redis": _otel_database,
    "postgresql": _otel_database,
    "kafka": _otel_messages,
}
