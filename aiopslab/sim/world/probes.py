"""Probes as the kubelet on the pod's node would see them answered."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from aiopslab.sim.core.ports import ProbeResult
from aiopslab.sim.world.effects import Path
from aiopslab.sim.world.queueing import Waiting
from aiopslab.sim.world.runs import Run

Obj = dict[str, Any]
OK = ProbeResult(True)
_COOKIE = re.compile(r"=([\w-]+)")
HTTP_TRIPS = 2  # handshake and answer cross a slowed interface
GRPC_TRIPS = 3
TCP_TRIPS = 1


@dataclass(frozen=True, slots=True)
class Target:
    """What a probe meets: the run, what packets meet, how calls wait."""

    run: Run
    path: Path
    waiting: Waiting
    backlog_ms: float
    draw: float  # uniform, decides whether this probe meets a throttled stretch


def answer(probe: Obj, target: Target, now: float) -> ProbeResult:
    """The outcome of an ``httpGet``, ``tcpSocket`` or ``grpc`` probe."""
    timeout_s = float(probe.get("timeoutSeconds") or 1)
    if "httpGet" in probe:
        return _http(probe["httpGet"], target, timeout_s, now)
    if "grpc" in probe:
        return _grpc(probe["grpc"], target, timeout_s, now)
    if "tcpSocket" in probe:
        return _tcp(probe["tcpSocket"], target, timeout_s, now)
    return OK


def visitor(probe: Obj) -> str:
    """Who the program takes the probe for: the value of its cookie."""
    for header in (probe.get("httpGet") or {}).get("httpHeaders") or []:
        if header.get("name", "").lower() == "cookie":
            match = _COOKIE.search(header.get("value", ""))
            return match[1] if match else ""
    return ""


def _open(target: Target, port: int, now: float) -> bool:
    run = target.run
    if run.program is None:
        return run.alive
    return run.listening(now) and (run.port == port)


def _late(target: Target, trips: int, timeout_s: float) -> bool:
    path, waiting = target.path, target.waiting
    if path.drop or path.loss >= 0.9:
        return True
    stall = waiting.stretch_ms if target.draw < waiting.hit else 0.0
    return path.delay_ms * trips + stall + waiting.queue_ms + target.backlog_ms > timeout_s * 1e3


def _http(get: Obj, target: Target, timeout_s: float, now: float) -> ProbeResult:
    run, port = target.run, int(get.get("port", 80))
    host = get.get("host") or run.spec.pod_ip
    path = "/" + str(get.get("path") or "/").lstrip("/")
    url = f'Get "{get.get("scheme", "HTTP").lower()}://{host}:{port}{path}"'
    if not _open(target, port, now):
        return ProbeResult(False, f"{url}: dial tcp {host}:{port}: connect: connection refused")
    if _late(target, HTTP_TRIPS, timeout_s):
        return ProbeResult(
            False, f"{url}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        )
    program = run.program
    if program is None:
        return OK
    if program.serves != "http":
        return ProbeResult(
            False,
            f"{url}: net/http: HTTP/1.x transport connection broken: malformed HTTP response "
            r'"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00@\x00"',
        )
    plain = path.partition("?")[0]
    known = plain in program.health_paths or any(
        o.target == plain and o.method == "GET" for o in program.ops.values()
    )
    return OK if known else ProbeResult(False, "HTTP probe failed with statuscode: 404")


def _grpc(grpc: Obj, target: Target, timeout_s: float, now: float) -> ProbeResult:
    run, port = target.run, int(grpc.get("port", 0))
    limit = f"{timeout_s:g}s"
    serves = run.program is None or run.program.serves == "grpc"
    if not _open(target, port, now) or not serves or target.path.drop or target.path.delay_ms * 2 > timeout_s * 1e3:
        return ProbeResult(
            False,
            f'timeout: failed to connect service "{run.spec.pod_ip}:{port}" within {limit}: '
            "context deadline exceeded",
        )
    if _late(target, GRPC_TRIPS, timeout_s):
        return ProbeResult(False, f"timeout: health rpc did not complete within {limit}")
    if grpc.get("service") and run.program is not None:
        return ProbeResult(
            False, "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"
        )
    return OK


def _tcp(socket: Obj, target: Target, timeout_s: float, now: float) -> ProbeResult:
    port = int(socket.get("port", 0))
    address = f"{socket.get('host') or target.run.spec.pod_ip}:{port}"
    if not _open(target, port, now):
        return ProbeResult(False, f"dial tcp {address}: connect: connection refused")
    if target.path.drop or target.path.delay_ms * TCP_TRIPS > timeout_s * 1e3:
        return ProbeResult(False, f"dial tcp {address}: i/o timeout")
    return OK
