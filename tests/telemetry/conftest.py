"""A small HTTP server in a thread that answers with what a test puts in."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest


class FakeServer:
    """``answers`` by path: a body, a (status, body) pair, or a function of the query; ``seen`` are the requests."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.seen: list[tuple[str, dict[str, list[str]]]] = []
        self.url = ""

    def answer(self, target: str) -> tuple[int, bytes]:
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        self.seen.append((parts.path, query))
        found = self.answers.get(parts.path, (404, {"errors": [{"msg": "not found"}]}))
        if callable(found):
            found = found(query)
        status, body = found if isinstance(found, tuple) else (200, found)
        return status, body if isinstance(body, bytes) else json.dumps(body).encode()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A running FakeServer."""
    fake = FakeServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            status, body = fake.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield fake
    http.shutdown()
    thread.join()
    http.server_close()
