"""HTTP/2: what kubectl speaks with the cluster, checked with a client of our own where kubectl does not show it."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.sim.server.http2message import Head, ResponseReader, request_head

WAITS = 3
WINDOW_BYTES = 65_535  # what a stream may send before its reader says more
JSON = "application/json"


class Answer:
    """What came back on one stream."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = b""
        self.ended = False
        self.reset = False


class Client:
    """Requests of one HTTP/2 connection; several may be open."""

    def __init__(self, kubeconfig: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text())
        cluster = content["clusters"][0]["cluster"]
        self._token = content["users"][0]["user"]["token"]
        host, port = cluster["server"].removeprefix("https://").split(":")
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=ca)
        context.set_alpn_protocols(["h2"])
        self.socket = context.wrap_socket(socket.create_connection((host, int(port)), 10), server_hostname=host)
        assert self.socket.selected_alpn_protocol() == "h2"
        self.h2 = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.answers: dict[int, Answer] = {}
        self.acknowledging = True

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> int:
        """Send a request; returns its stream."""
        stream = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":path", path), (":scheme", "https"), (":authority", "cluster")]
        head += [("authorization", f"Bearer {self._token}"), *((k.replace("_", "-"), v) for k, v in headers.items())]
        self.h2.send_headers(stream, head, end_stream=not body)
        answer = self.answers[stream] = Answer()
        for start in range(0, len(body), 16000):
            self._read_until(lambda: answer.reset or self.h2.local_flow_control_window(stream) >= 16000)
            if answer.reset:  # answered before it was all sent
                break
            self.h2.send_data(stream, body[start : start + 16000], end_stream=start + 16000 >= len(body))
        self.flush()
        return stream

    def flush(self) -> None:
        """Send what is to be sent."""
        self.socket.sendall(self.h2.data_to_send())

    def get(self, stream: int) -> Answer:
        """The whole answer."""
        answer = self.answers[stream]
        self._read_until(lambda: answer.ended or answer.reset)
        return answer

    def body_of(self, stream: int, size: int) -> bytes:
        """At least ``size`` bytes of an answer that goes on."""
        answer = self.answers[stream]
        self._read_until(lambda: len(answer.body) >= size)
        return answer.body

    def _read_until(self, done: Any) -> None:
        self.flush()
        while not done():
            data = self.socket.recv(65536)
            assert data, "the server closed the connection"
            for event in self.h2.receive_data(data):
                self._happened(event)
            self.flush()

    def _happened(self, event: Any) -> None:
        answer = self.answers.get(getattr(event, "stream_id", None) or 0)
        if answer is None:
            return
        if isinstance(event, ResponseReceived):
            answer.headers = {str(k): str(v) for k, v in event.headers}
        elif isinstance(event, DataReceived):
            answer.body += event.data
            if self.acknowledging:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            answer.ended = True
        elif isinstance(event, StreamReset):
            answer.reset = True


@pytest.fixture
def http2(lab: Any) -> Iterator[Client]:
    """A connection to the cluster."""
    client = Client(lab.kubeconfig)
    with closing(client.socket):
        yield client


def test_requests_share_a_connection(http2, namespace):
    watch = http2.ask("GET", f"/api/v1/namespaces/{namespace}/configmaps?watch=true&fieldSelector=metadata.name%3Da")
    body = orjson.dumps({"metadata": {"name": "a"}, "data": {"k": "v" * 100_000}})
    made = http2.get(http2.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", body, content_type=JSON))
    assert made.headers[":status"] == "201"
    assert "transfer-encoding" not in made.headers and "connection" not in made.headers
    event = orjson.loads(http2.body_of(watch, 100_000).splitlines()[0])
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
    assert not http2.answers[watch].ended
    head = http2.get(http2.ask("HEAD", "/version"))
    assert head.body == b"" and int(head.headers["content-length"]) > 0


def test_a_slow_reader_holds_up_nobody_else(http2, namespace):
    """More than the client's window: the rest comes once it has made room."""
    body = orjson.dumps({"metadata": {"name": "big"}, "data": {"k": "v" * 900_000}})
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    http2.get(http2.ask("POST", path, body, content_type=JSON))
    http2.acknowledging = False
    http2.h2.increment_flow_control_window(1 << 22)  # the connection's: the stream's is what is short
    slow = http2.ask("GET", f"{path}/big")
    assert len(http2.body_of(slow, WINDOW_BYTES)) == WINDOW_BYTES
    version = http2.get(http2.ask("GET", "/version"))
    assert version.headers[":status"] == "200" and not http2.answers[slow].ended
    http2.h2.increment_flow_control_window(1 << 20, slow)
    http2.flush()
    assert len(http2.get(slow).body) > 900_000


def test_a_stream_that_is_given_up_leaves_nothing_behind(http2, lab, namespace):
    before = lab.control("GET", "/activity")
    watch = http2.ask("GET", f"/api/v1/namespaces/{namespace}/configmaps?watch=true")
    http2.body_of(watch, 1)
    http2.h2.reset_stream(watch)
    assert http2.get(http2.ask("GET", "/healthz")).body == b"ok"
    assert lab.control("GET", "/activity")["streams"] == before["streams"]


def test_a_body_that_is_too_large(http2, namespace):
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    answer = http2.get(http2.ask("POST", path, b'"' + b"a" * (4 << 20) + b'"', content_type=JSON))
    status = orjson.loads(answer.body)
    assert (status["code"], status["reason"]) == (413, "RequestEntityTooLarge")
    assert status["message"] == "Request entity too large: limit is 3145728"


def test_a_wait_that_times_out_says_only_that(lab, kubectl, namespace):
    lab.kubectl("create", "configmap", "m", "-n", namespace)
    for _ in range(WAITS):
        done = lab.run(kubectl, "wait", "--for=delete", "configmap/m", "-n", namespace, "--timeout=1s")
        assert done.code == 1
        assert done.err == "error: timed out waiting for the condition on configmaps/m\n"


def test_requests_that_http_1_cannot_say():
    ordinary = [(":method", "GET"), (":path", "/a"), (":authority", "h")]
    assert request_head([*ordinary, ("x", "1")], ended=True).raw.startswith(b"GET /a HTTP/1.1\r\n")
    assert request_head([*ordinary, ("x", "1\r\ny: 2")], ended=True) is None
    assert request_head([(":method", "GET"), (":path", "/a b")], ended=True) is None
    assert request_head([(":method", "GET")], ended=True) is None


@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(1, 50)), st.booleans())
def test_an_answer_may_come_in_any_pieces(parts, cuts, chunked):
    if chunked:
        body = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in parts) + b"0\r\n\r\n"
        head = b"Transfer-Encoding: chunked"
    else:
        body = b"".join(parts)
        head = b"Content-Length: %d" % len(body)
    raw = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n%b\r\nX: y\r\n\r\n%b" % (head, body)
    reader = ResponseReader("GET")
    found: list[Any] = []
    for cut in [*cuts, len(raw)]:
        found += reader.feed(raw[:cut])
        raw = raw[cut:]
    first, *rest = found
    assert isinstance(first, Head) and first.status == 200 and ("x", "y") in first.headers
    assert b"".join(rest) == b"".join(parts)
    assert reader.complete
