"""What a program answers on a raw connection: the bytes behind ``kubectl port-forward``.

HTTP/1.1 requests become requests of the world, so that they show in logs, spans and metrics like those of any
other client. Only what a client needs of HTTP is read: the request line, the length of the body, keep-alive.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiopslab.sim.core.ports import Answer
from aiopslab.sim.world.runs import Run
from aiopslab.sim.world.userland.bridge import Host
from aiopslab.sim.world.userland.network import GRPC_TO_HTTP1, STATUS_TEXTS
from aiopslab.sim.world.userland.resp import serve as serve_redis

HEAD_BYTES_MAX = 1 << 16
END_OF_HEAD = b"\r\n\r\n"
BAD_REQUEST = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"400 Bad Request"
)


@dataclass(frozen=True, slots=True)
class Request:
    """One request of an HTTP connection: ``size`` bytes of it, head and body."""

    method: str
    path: str
    size: int
    keep_alive: bool


def answer(host: Host, run: Run, received: bytes) -> Answer:
    """What the program of ``run`` makes of ``received``."""
    serves = run.program.serves if run.program is not None else ""
    if serves == "http":
        return _http(host, run, received)
    if serves == "redis":
        return Answer(*serve_redis(host.key_space(run), received))
    if serves == "grpc":
        return Answer(GRPC_TO_HTTP1, len(received), close=not received.startswith(b"PRI * HTTP/2"))
    return Answer(consumed=len(received), close=True)


def parse(received: bytes) -> Request | None:
    """The first request, or None while it is not all there. Raises ValueError for what is no HTTP."""
    head, end, rest = received.partition(END_OF_HEAD)
    if not end:
        if len(received) > HEAD_BYTES_MAX:
            raise ValueError("the head of the request is too long")
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, version = first.split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(f"unknown protocol {version!r}")
    headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    body = _body_bytes(headers, rest)
    if body is None:
        return None
    connection = headers.get("connection", "").lower()
    keep = connection == "keep-alive" if version == "HTTP/1.0" else connection != "close"
    return Request(method, path, len(head) + len(end) + body, keep)


def _body_bytes(headers: dict[str, str], rest: bytes) -> int | None:
    """Length of the body at the beginning of ``rest``; None while it is not all there."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        found = 0 if rest.startswith(b"0\r\n\r\n") else rest.find(b"\r\n0\r\n\r\n") + 2
        return None if found == 1 else found + len(b"0\r\n\r\n")
    size = int(headers.get("content-length", "0"))
    return size if len(rest) >= size else None


def _http(host: Host, run: Run, received: bytes) -> Answer:
    try:
        request = parse(received)
    except ValueError:
        return Answer(BAD_REQUEST, len(received), close=True)
    if request is None:
        return Answer()
    reply = host.ask(run, run, request.method, request.path)
    head = f"HTTP/1.1 {reply.status} {STATUS_TEXTS.get(reply.status, '')}\r\n"
    head += f"Server: {reply.server}\r\n" if reply.server else ""
    head += f"Content-Type: {reply.content_type}\r\nContent-Length: {len(reply.body)}\r\n"
    head += ("" if request.keep_alive else "Connection: close\r\n") + "\r\n"
    shown = b"" if request.method == "HEAD" else reply.body
    return Answer(head.encode() + shown, request.size, not request.keep_alive, reply.took_ms / 1e3)
