"""``exec`` and ``attach`` over WebSockets (channel protocols v5 and v4), and what is refused.

A binary frame starts with its channel: 0 stdin, 1 stdout, 2 stderr, 3 the final Status, 4 resize; in v5 the
client ends a channel with ``0xFF`` and its number.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import WSMsgType, web

from aiopslab.sim.core.apierrors import ApiError, bad_request, internal
from aiopslab.sim.core.ports import ContainerRef, ExecResult, World
from aiopslab.sim.server import podlogs, portforward, proxying
from aiopslab.sim.server.call import Call
from aiopslab.sim.server.requestinfo import truthy

Obj = dict[str, Any]

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
FRAME_BYTES = 16_384
# v4 has no end of stdin, and the Python client (which names itself on no WebSocket, or as Python) does not send it
# by itself: one that sends nothing for this long (wall time) has said all.
QUIET_S = 0.5
SHELLS = ("sh", "bash", "ash", "/bin/sh", "/bin/bash", "/bin/ash")
# Lines that change nothing but the shell they are typed into.
_STATE = re.compile(r"\s*(cd|export|set|unset|alias)\b[^;|&]*|\s*[A-Za-z_]\w*=\S*\s*")
STDIN_BYTES_MAX = 64 << 20
POLL_S = 0.01


async def exec_(call: Call) -> web.StreamResponse:
    """Run a command in a running container."""
    ref, missing = _addressed(call)
    argv = list(call.request.query.getall("command", []))
    if not argv:
        raise bad_request("you must specify at least 1 command for the container")
    world = _world(call)
    socket = await _upgrade(call)
    if missing is not None:
        return await _refuse(socket, missing)
    ends = _ends_stdin(call, socket)
    if truthy(call.query.get("stdin")) and not ends and argv[0] in SHELLS and len(argv) == 1:
        return await _type_into_shell(call, socket, (world, ref, argv))
    stdin = await _read_stdin(socket, ends) if truthy(call.query.get("stdin")) else b""
    now = call.api.kernel.now
    world.run_until(now)
    result = world.exec(ref, argv, stdin, now)
    await _let_pass(call, socket, now + result.duration_s)
    if not socket.closed:
        await _send_result(socket, call, result)
        await socket.close()
    call.api.kernel.settle()
    return socket


async def attach(call: Call) -> web.StreamResponse:
    """Show what a container writes from now on, until it ends."""
    ref, missing = _addressed(call)
    world = _world(call)
    socket = await _upgrade(call)
    if missing is not None:
        return await _refuse(socket, missing)
    options = podlogs.LogOptions(ref.container, True, False, False, None, call.api.kernel.now, None)
    follower = podlogs.Follower(call, world, ref, options)
    reader = asyncio.ensure_future(_discard(socket))
    try:
        while not socket.closed and not call.server.closing and not reader.done():
            ended = follower.ended()
            if body := podlogs.render(follower.new_lines(), False):
                await _send(socket, STDOUT, body)
            if ended:
                # Attaching went well, whatever the container's exit code: clients read that from the pod.
                await _send_status(socket, exit_status(0))
                break
            await asyncio.sleep(POLL_S)
        await socket.close()
    except ConnectionError:
        pass  # the client left
    finally:
        reader.cancel()
    return socket


def _addressed(call: Call) -> tuple[ContainerRef, ApiError | None]:
    """The addressed run of a container, and what the kubelet says when it is not running. Raises 400."""
    pod = call.api.get("pods", call.namespace, call.info.name)
    container = podlogs.container_name(pod, call.query.get("container", ""))
    meta = pod["metadata"]
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {meta['name']} does not have a host assigned")
    status = podlogs.container_status(pod, container) or {}
    ref = ContainerRef(meta["namespace"], meta["name"], meta["uid"], container, status.get("restartCount", 0))
    if "running" in (status.get("state") or {}):
        return ref, None
    return ref, internal(f'unable to upgrade connection: container not found ("{container}")')


async def _refuse(socket: web.WebSocketResponse, error: ApiError) -> web.WebSocketResponse:
    """The API server has accepted the stream before it asks the kubelet: the refusal comes as the Status."""
    await _send_status(socket, error.status)
    await socket.close()
    return socket


def _world(call: Call) -> World:
    if call.server.world is None:
        raise internal("no container runtime")
    return call.server.world


async def _upgrade(call: Call) -> web.WebSocketResponse:
    headers = call.request.headers
    if headers.get("Upgrade", "").lower() != "websocket":
        raise bad_request("Upgrade request required")
    offered = [p.strip() for p in headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if not set(offered) & set(PROTOCOLS):
        raise bad_request(f"unable to upgrade: no common WebSocket protocol; supported: {', '.join(PROTOCOLS)}")
    socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0, timeout=1.0)
    await socket.prepare(call.request)
    return socket


def _ends_stdin(call: Call, socket: web.WebSocketResponse) -> bool:
    """Whether the client says when its stdin is at its end."""
    agent = call.request.headers.get("User-Agent", "").lower()
    return socket.ws_protocol == PROTOCOLS[0] and agent != "" and "python" not in agent


async def _type_into_shell(
    call: Call, socket: web.WebSocketResponse, command: tuple[World, ContainerRef, list[str]]
) -> web.WebSocketResponse:
    """A program that types lines into a shell and reads what each prints before it types the next."""
    world, ref, argv = command
    state: list[str] = []
    typed = b""
    code = 0
    while True:
        message = await socket.receive()
        data = message.data.encode() if isinstance(message.data, str) else message.data
        if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT) or data[:1] == bytes([CLOSE]):
            break
        if data[:1] != bytes([STDIN]):
            continue
        typed += data[1:]
        lines, newline, typed = typed.rpartition(b"\n")
        if not newline:
            continue
        text = lines.decode(errors="replace")
        now = call.api.kernel.now
        world.run_until(now)
        result = world.exec(ref, argv, ("\n".join([*state, text]) + "\n").encode(), now)
        state += [line for line in text.split("\n") if _STATE.fullmatch(line)]
        code = result.exit_code
        await _let_pass(call, socket, now + result.duration_s)
        await _send_output(socket, call, result)
        call.api.kernel.settle()
        if any(line.split()[:1] == ["exit"] for line in text.split("\n")):
            break
    if not socket.closed:
        await _send_status(socket, exit_status(code))
        await socket.close()
    return socket


async def _read_stdin(socket: web.WebSocketResponse, half_close: bool) -> bytes:
    """Everything the client sends on stdin until it ends it."""
    parts: list[bytes] = []
    size = 0
    while size < STDIN_BYTES_MAX:
        try:
            message = await asyncio.wait_for(socket.receive(), None if half_close else QUIET_S)
        except TimeoutError:
            break
        if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
            break
        data = message.data.encode() if isinstance(message.data, str) else message.data
        if data[:1] == bytes([CLOSE]):
            break
        if data[:1] == bytes([STDIN]):
            parts.append(data[1:])
            size += len(data) - 1
    return b"".join(parts)


async def _let_pass(call: Call, socket: web.WebSocketResponse, until: float) -> None:
    """A command that takes cluster time answers when the clock is there."""
    while call.api.kernel.now < until and not socket.closed and not call.server.closing:
        await asyncio.sleep(POLL_S)


async def _send_output(socket: web.WebSocketResponse, call: Call, result: ExecResult) -> None:
    merged = truthy(call.query.get("tty"))
    if result.stdout:
        await _send(socket, STDOUT, result.stdout)
    if result.stderr:
        await _send(socket, STDOUT if merged else STDERR, result.stderr)


async def _send_result(socket: web.WebSocketResponse, call: Call, result: ExecResult) -> None:
    await _send_output(socket, call, result)
    if result.error:
        error: ApiError = internal(result.error)
        await _send_status(socket, error.status)
    else:
        await _send_status(socket, exit_status(result.exit_code))


def exit_status(code: int) -> Obj:
    """The Status of a command that ended: success, or NonZeroExitCode with the code as a cause."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {}, "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }  # fmt: skip


async def _send(socket: web.WebSocketResponse, channel: int, data: bytes) -> None:
    for start in range(0, len(data), FRAME_BYTES):
        await socket.send_bytes(bytes([channel]) + data[start : start + FRAME_BYTES])


async def _send_status(socket: web.WebSocketResponse, status: Obj) -> None:
    await socket.send_bytes(bytes([ERROR]) + orjson.dumps(status))


async def _discard(socket: web.WebSocketResponse) -> None:
    async for _ in socket:
        pass


HANDLERS: dict[str, Callable[[Call], Awaitable[web.StreamResponse]]] = {
    "log": podlogs.log,
    "exec": exec_,
    "attach": attach,
    "portforward": portforward.port_forward,
    "proxy": proxying.proxy,
}
