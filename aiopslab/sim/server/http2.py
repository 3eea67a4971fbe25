"""HTTP/2 beside HTTP/1.1 on one TLS port, chosen by ALPN, as a real API server serves it.

kubectl and Helm offer HTTP/2 and behave differently over it: a watch that they give up ends silently, where an
HTTP/1.1 connection that they close makes kubectl print a warning in many runs. Each HTTP/2 stream is handed to the
application as an HTTP/1.1 exchange of its own: a stream that the client resets is a client that left.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, cast

from aiohttp import web
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings

from aiopslab.sim.server.http2message import Head, ResponseReader, request_head

ALPN = ["h2", "http/1.1"]
# The application waits once this much of an answer is not sent, and goes on at half of it.
UNSENT_BYTES_MAX = 1 << 20
# What a real API server allows: bytes of a request's body under way, and streams of a connection.
WINDOW_BYTES = 256 << 10
STREAMS_MAX = 100

Handlers = Callable[[], asyncio.Protocol]


class NegotiatingSite(web.BaseSite):
    """Listens on ``(host, port)``; port 0 picks a free one."""

    def __init__(self, runner: web.AppRunner, host: str, port: int, ssl_context: ssl.SSLContext) -> None:
        super().__init__(runner, ssl_context=ssl_context)
        self._host = host
        self._port = port
        self._connections: set[Http2] = set()

    @property
    def name(self) -> str:
        """Where it listens."""
        return f"https://{self._host}:{self._port}"

    async def start(self) -> None:
        """Begin to listen."""
        await super().start()
        assert self._ssl_context is not None
        self._ssl_context.set_alpn_protocols(ALPN)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._accept, self._host, self._port, ssl=self._ssl_context, backlog=self._backlog
        )

    async def stop(self) -> None:
        """Take no new connections; those that are open end with their last stream."""
        await super().stop()
        for connection in list(self._connections):
            connection.drain()

    def _accept(self) -> asyncio.Protocol:
        return _Negotiation(cast(Handlers, self._runner.server), self._connections)


class _Negotiation(asyncio.Protocol):
    """Stands in until the TLS handshake has said which protocol the client speaks."""

    def __init__(self, handlers: Handlers, connections: set[Http2]) -> None:
        self._handlers = handlers
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        chosen = transport.get_extra_info("ssl_object").selected_alpn_protocol()
        protocol = Http2(self._handlers, self._connections) if chosen == "h2" else self._handlers()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


class Http2(asyncio.Protocol):
    """One HTTP/2 connection."""

    def __init__(self, handlers: Handlers, connections: set[Http2]) -> None:
        self._handlers = handlers
        self._connections = connections
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._streams: dict[int, _Stream] = {}
        self._transport: asyncio.Transport | None = None
        self._draining = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        limits = {
            SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
            SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS_MAX,
        }
        self._h2.local_settings = Settings(client=False, initial_values=limits)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(WINDOW_BYTES * STREAMS_MAX)
        self.flush()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._h2.receive_data(data):
                self._happened(event)
        except ProtocolError:  # the state machine has a GOAWAY ready
            self.flush()
            self._close()
            return
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._connections.discard(self)
        for stream in list(self._streams.values()):
            stream.leave()

    def pause_writing(self) -> None:
        for stream in list(self._streams.values()):
            stream.pause()

    def resume_writing(self) -> None:
        for stream in list(self._streams.values()):
            stream.resume()

    def drain(self) -> None:
        """End when no stream is open any more."""
        self._draining = True
        if not self._streams:
            self._close()

    def info(self, name: str) -> Any:
        """Of the connection below: ``peername``, ``sslcontext`` and the like."""
        return None if self._transport is None else self._transport.get_extra_info(name)

    def head(self, stream: int, head: Head) -> None:
        """Send status and headers."""
        headers = [(":status", str(head.status)), *head.headers]
        self._h2.send_headers(stream, headers)
        self.flush()

    def send(self, stream: int, data: bytearray, end: bool) -> bool:
        """Send as much of ``data`` as the client has room for and take it away; True once the stream has ended."""
        while data:
            room = min(self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size)
            if room <= 0:
                break
            part = bytes(data[:room])
            del data[:room]
            self._h2.send_data(stream, part, end_stream=end and not data)
            if end and not data:
                self.flush()
                return True
        if end and not data:
            self._h2.end_stream(stream)
        self.flush()
        return end and not data

    def reset(self, stream: int, code: ErrorCodes) -> None:
        """End a stream before its time."""
        self._h2.reset_stream(stream, code)
        self.flush()

    def forget(self, stream: int) -> None:
        """A stream is over."""
        self._streams.pop(stream, None)
        if self._draining and not self._streams:
            self._close()

    def flush(self) -> None:
        """Write what the state machine has to say."""
        data = self._h2.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)

    def _happened(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._open(event)
        elif isinstance(event, DataReceived):
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if event.stream_id in self._streams:
                self._streams[event.stream_id].receive(event.data)
        elif isinstance(event, StreamEnded):
            if event.stream_id in self._streams:
                self._streams[event.stream_id].received()
        elif isinstance(event, StreamReset):
            if event.stream_id in self._streams:
                self._streams[event.stream_id].leave()
        elif isinstance(event, WindowUpdated):
            waiting = [event.stream_id] if event.stream_id else list(self._streams)
            for number in waiting:
                if number in self._streams:
                    self._streams[number].pump()
        elif isinstance(event, ConnectionTerminated):
            self.drain()

    def _open(self, event: RequestReceived) -> None:
        headers = [(str(name), str(value)) for name, value in event.headers]
        ended = event.stream_ended is not None
        head = request_head(headers, ended)
        if head is None:
            self._h2.reset_stream(event.stream_id, ErrorCodes.PROTOCOL_ERROR)
            return
        stream = _Stream(self, event.stream_id, dict(headers)[":method"], ended)
        self._streams[event.stream_id] = stream
        stream.begin(self._handlers(), head.raw, chunked=head.chunked)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class _Stream(asyncio.Transport):
    """A stream as the transport of an HTTP/1.1 handler that serves one request."""

    def __init__(self, connection: Http2, number: int, method: str, received: bool) -> None:
        super().__init__()
        self._connection = connection
        self._number = number
        self._reader = ResponseReader(method)
        self._handler: asyncio.Protocol | None = None
        self._chunked = False
        self._received = received  # the whole request
        self._unsent = bytearray()
        self._paused = False
        self._ended = False  # nothing more may be sent
        self._closing = False

    def begin(self, handler: asyncio.Protocol, head: bytes, chunked: bool) -> None:
        """Hand the request to ``handler``; ``chunked``: its body follows in pieces."""
        self._handler = handler
        self._chunked = chunked
        handler.connection_made(self)
        handler.data_received(head)

    def receive(self, data: bytes) -> None:
        """A piece of the request's body."""
        if self._handler is not None and data:
            self._handler.data_received(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def received(self) -> None:
        """The request is complete."""
        self._received = True
        if self._handler is not None and self._chunked:
            self._chunked = False
            self._handler.data_received(b"0\r\n\r\n")

    def leave(self) -> None:
        """The client is gone, or the answer is complete: the handler hears of it as of a closed connection."""
        self._ended = self._closing = True
        self._unsent.clear()
        handler, self._handler = self._handler, None
        self._connection.forget(self._number)
        if handler is not None:
            handler.connection_lost(None)

    def pump(self) -> None:
        """Send what the client has room for."""
        if self._ended:
            return
        try:
            self._ended = self._connection.send(self._number, self._unsent, self._reader.complete)
            if self._ended and not self._received:  # answered early: the client need not send the rest
                self._connection.reset(self._number, ErrorCodes.NO_ERROR)
        except StreamClosedError:
            self.leave()
            return
        if self._ended and self._handler is None:
            self._connection.forget(self._number)
        if len(self._unsent) >= UNSENT_BYTES_MAX:
            self.pause()
        elif len(self._unsent) <= UNSENT_BYTES_MAX // 2:
            self.resume()

    def pause(self) -> None:
        """The handler is to stop writing."""
        if not self._paused and self._handler is not None:
            self._paused = True
            self._handler.pause_writing()

    def resume(self) -> None:
        """The handler may write again."""
        if self._paused and self._handler is not None and len(self._unsent) < UNSENT_BYTES_MAX:
            self._paused = False
            self._handler.resume_writing()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """What the handler answers, in HTTP/1.1."""
        if self._ended:
            return
        for part in self._reader.feed(bytes(data)):
            if isinstance(part, Head):
                self._connection.head(self._number, part)
            else:
                self._unsent += part
        self.pump()

    def close(self) -> None:
        """The handler has answered: end the stream, and tell it so when it has returned."""
        if self._closing:
            return
        self._closing = True
        self._reader.complete = True
        self.pump()
        asyncio.get_running_loop().call_soon(self._closed)

    def abort(self) -> None:
        """End at once."""
        if not self._ended:
            self._ended = True
            self._connection.reset(self._number, ErrorCodes.INTERNAL_ERROR)
        self.leave()

    def is_closing(self) -> bool:
        """Whether the handler can no longer write."""
        return self._closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As the connection below says; options of its socket are not a stream's to set."""
        found = None if name == "socket" else self._connection.info(name)
        return default if found is None else found

    def pause_reading(self) -> None:
        """Requests are small: what the window lets in is kept."""

    def resume_reading(self) -> None:
        """See ``pause_reading``."""

    def is_reading(self) -> bool:
        """Always."""
        return True

    def get_write_buffer_size(self) -> int:
        """Bytes that the client has no room for yet."""
        return len(self._unsent)

    def _closed(self) -> None:
        """After ``close``: what is unsent goes out as the client makes room, without a handler."""
        handler, self._handler = self._handler, None
        if handler is not None:
            handler.connection_lost(None)
        if self._ended:
            self._connection.forget(self._number)
