"""``pods/portforward``: connections from a client's machine to ports of a simulated pod.

Two ways of carrying them over a WebSocket: SPDY frames in binary messages (kubectl), where each connection is a
pair of streams, ``error`` and ``data``; and numbered channels (the Python client), two for each port in the query,
the even one for data and the odd one for the error, each beginning with the port's number.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from aiopslab.sim.core.apierrors import bad_request, internal
from aiopslab.sim.core.ports import ContainerRef, World
from aiopslab.sim.server import podlogs, spdy
from aiopslab.sim.server.call import Call

Obj = dict[str, Any]

TUNNEL = "SPDY/3.1+portforward.k8s.io"
CHANNELS = "v4.channel.k8s.io"
BUFFER_BYTES_MAX = 1 << 20  # of an unfinished request
PORTS_MAX = 128
POLL_S = 0.01


async def port_forward(call: Call) -> web.StreamResponse:
    """Connections to ports of a running pod."""
    target = _target(call)
    if call.request.headers.get("Upgrade", "").lower() != "websocket":
        raise bad_request("Upgrade request required")
    offered = [p.strip() for p in call.request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if TUNNEL in offered:
        return await _serve(call, TUNNEL, Tunnel(target))
    if CHANNELS in offered:
        ports = _asked_ports(call)
        return await _serve(call, CHANNELS, Channels(target, ports))
    raise bad_request(f"unable to upgrade: no common WebSocket protocol; supported: {TUNNEL}, {CHANNELS}")


@dataclass(frozen=True, slots=True)
class Target:
    """A pod, as connections from inside its network namespace see it."""

    call: Call
    world: World
    sandbox: str
    refs: tuple[ContainerRef, ...]

    def listener(self, port: int) -> ContainerRef | None:
        """The container that accepts connections on a port now."""
        now = self.call.api.kernel.now
        return next((ref for ref in self.refs if self.world.listens(ref, port, now)), None)

    def refusal(self, port: int) -> str:
        """What the node's container runtime says when nobody listens."""
        return (
            f"error forwarding port {port} to pod {self.sandbox}, uid : failed to execute portforward in network "
            f'namespace "/var/run/netns/cni-{self.sandbox[:8]}": failed to connect to localhost:{port} inside '
            f'namespace "{self.sandbox}", IPv4: dial tcp4 127.0.0.1:{port}: connect: connection refused IPv6 dial '
            f"tcp6 [::1]:{port}: connect: connection refused "
        )


@dataclass(slots=True)
class Link:
    """One connection to a port: what has arrived on it and is not answered yet."""

    port: int
    ref: ContainerRef
    received: bytearray = field(default_factory=bytearray)

    def feed(self, target: Target, data: bytes) -> tuple[list[tuple[float, bytes]], bool]:
        """Take bytes in; gives replies as (cluster seconds until then, bytes), and whether the pod hangs up."""
        self.received += data
        replies: list[tuple[float, bytes]] = []
        while self.received:
            now = target.call.api.kernel.now
            answer = target.world.converse(self.ref, self.port, bytes(self.received), now)
            del self.received[: answer.consumed]
            if answer.reply:
                replies.append((answer.delay_s, answer.reply))
            if answer.close or len(self.received) > BUFFER_BYTES_MAX:
                return replies, True
            if not answer.consumed:
                break
        return replies, False


class Tunnel:
    """SPDY frames in messages."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._spdy = spdy.Connection()
        self._errors: dict[str, int] = {}  # requestID -> error stream
        self._requests: dict[int, str] = {}  # data stream -> requestID
        self._links: dict[int, Link] = {}

    @property
    def ended(self) -> bool:
        """Whether the client has said goodbye."""
        return self._spdy.closed

    def greeting(self) -> list[bytes]:
        """Messages before anything arrives."""
        return []

    async def receive(self, message: bytes) -> list[bytes]:
        """Messages in answer to one."""
        for event in self._spdy.receive(message):
            if isinstance(event, spdy.Opened):
                self._opened(event)
            elif isinstance(event, spdy.Data):
                await self._data(event)
            else:
                self._drop(event.stream)
        sent = self._spdy.take()
        return [sent] if sent else []

    def _opened(self, event: spdy.Opened) -> None:
        request = event.headers.get("requestid", "")
        self._spdy.accept(event.stream)
        if event.headers.get("streamtype") == "error":
            self._errors[request] = event.stream
            return
        port = event.headers.get("port", "")
        if not port.isdigit() or not 0 < int(port) < 65536:
            self._finish(event.stream, request, f'"{port}" is not a valid port')
            return
        ref = self._target.listener(int(port))
        if ref is None:
            self._finish(event.stream, request, self._target.refusal(int(port)))
            return
        self._links[event.stream] = Link(int(port), ref)
        self._requests[event.stream] = request

    async def _data(self, event: spdy.Data) -> None:
        link = self._links.get(event.stream)
        if link is None:
            return
        replies, closed = link.feed(self._target, event.data)
        for delay_s, reply in replies:
            await _let_pass(self._target.call, delay_s)
            self._spdy.send(event.stream, reply)
        if closed or event.ended:
            self._finish(event.stream, self._requests[event.stream], "")

    def _finish(self, stream: int, request: str, problem: str) -> None:
        """End a connection: the error stream first, so that the client finds it when the data ends."""
        error = self._errors.pop(request, None)
        if error is not None:
            self._spdy.send(error, problem.encode(), end=True)
        self._spdy.send(stream, b"", end=True)
        self._drop(stream)

    def _drop(self, stream: int) -> None:
        self._links.pop(stream, None)
        self._requests.pop(stream, None)


class Channels:
    """Numbered channels, one connection for each port of the query."""

    def __init__(self, target: Target, ports: list[int]) -> None:
        self._target = target
        self._ports = ports
        self._links: dict[int, Link] = {}
        self._refused: list[bytes] = []
        for number, port in enumerate(ports):
            ref = target.listener(port)
            if ref is None:
                self._refused.append(bytes([2 * number + 1]) + target.refusal(port).encode())
            else:
                self._links[2 * number] = Link(port, ref)

    @property
    def ended(self) -> bool:
        """Whether no connection is left."""
        return not self._links

    def greeting(self) -> list[bytes]:
        """The port's number on each channel, then what was refused."""
        channels = [(2 * n + k, port) for n, port in enumerate(self._ports) for k in (0, 1)]
        return [bytes([c]) + struct.pack("<H", port) for c, port in channels] + self._refused

    async def receive(self, message: bytes) -> list[bytes]:
        """Messages in answer to one."""
        link = self._links.get(message[0]) if message else None
        if link is None:
            return []
        replies, closed = link.feed(self._target, message[1:])
        sent = []
        for delay_s, reply in replies:
            await _let_pass(self._target.call, delay_s)
            sent.append(message[:1] + reply)
        if closed:
            del self._links[message[0]]
        return sent


def _target(call: Call) -> Target:
    """The addressed pod and its running containers. Raises what the API server and the kubelet say."""
    pod = call.api.get("pods", call.namespace, call.info.name)
    meta = pod["metadata"]
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {meta['name']} does not have a host assigned")
    if call.server.world is None:
        raise internal("no container runtime")
    ids = call.api.kernel.ids
    sandbox = ids.hex(40, "sandbox", meta["uid"]) + ids.hex(24, "sandbox", meta["uid"], "end")
    return Target(call, call.server.world, sandbox, podlogs.running_refs(pod))


def _asked_ports(call: Call) -> list[int]:
    words = [w for value in call.request.query.getall("ports", []) for w in value.split(",")]
    if not words:
        raise bad_request('query parameter "ports" is required')
    for word in words:
        if not word.isdigit() or not 0 < int(word) < 65536:
            raise bad_request(f"unable to parse {word!r} as a port")
    if len(words) > PORTS_MAX:
        raise bad_request(f"at most {PORTS_MAX} ports can be forwarded at once")
    return [int(word) for word in words]


async def _serve(call: Call, protocol: str, session: Tunnel | Channels) -> web.StreamResponse:
    socket = web.WebSocketResponse(protocols=(protocol,), max_msg_size=0, timeout=1.0)
    await socket.prepare(call.request)
    try:
        for greeting in session.greeting():
            await socket.send_bytes(greeting)
        while not session.ended and not call.server.closing:
            message = await socket.receive()
            if message.type is not WSMsgType.BINARY:
                break
            for answer in await session.receive(message.data):
                await socket.send_bytes(answer)
            call.api.kernel.settle()
        await socket.close()
    except spdy.ProtocolError as error:
        await socket.close(code=1002, message=str(error).encode())
    except ConnectionError:
        pass  # the client left
    return socket


async def _let_pass(call: Call, delay_s: float) -> None:
    """A slow answer comes when the cluster's clock is there."""
    until = call.api.kernel.now + delay_s
    while call.api.kernel.now < until and not call.server.closing:
        await asyncio.sleep(POLL_S)
