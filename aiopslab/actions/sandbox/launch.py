"""Starts one command in a room, serves its sockets, and makes sure that nothing of it stays."""

from __future__ import annotations

import array
import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiopslab.actions.sandbox.output import Output
from aiopslab.actions.sandbox.processes import ProcessTree
from aiopslab.actions.sandbox.relay import Handler, Listeners
from aiopslab.actions.sandbox.room import ARGS_FD, Room
from aiopslab.errors import LabFailure

START_WALL_S = 20.0
_DRAIN_WALL_S = 2.0


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start: the command, its environment, resource limits by ``resource`` name, handlers by port
    inside.
    """

    command: str
    environment: Mapping[str, str]
    limits: Mapping[str, int]
    handlers: Mapping[int, Handler]


@dataclass(slots=True)
class Running:
    """One command in flight."""

    process: asyncio.subprocess.Process
    output: Output
    listeners: Listeners
    tree: ProcessTree
    drained: asyncio.Event = field(default_factory=asyncio.Event)
    pipe: asyncio.ReadTransport | None = None
    first: int | None = None  # the sandbox's first process, a child of ``process``

    async def end(self) -> None:
        """Kill whatever still runs, take the rest of the output, close the sockets. Safe to call twice."""
        _kill(self)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_WALL_S):
                await self.process.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_WALL_S):
                await self.drained.wait()
        if self.pipe is not None:
            self.pipe.close()
        await self.listeners.close()


async def start(room: Room, launch: Launch) -> Running:
    """Start the command. Raises LabFailure when the room cannot be made."""
    ours, theirs = socket.socketpair()
    read_end, write_end = os.pipe()
    ours.setblocking(False)
    line = room.command_line(theirs.fileno(), dict(launch.environment))
    options = _as_file(line.options)
    try:
        process = await asyncio.create_subprocess_exec(
            *(str(options) if word == ARGS_FD else word for word in line.argv),
            executable=line.program,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
            pass_fds=[theirs.fileno(), options],
            cwd=str(room.home),
            env=dict(launch.environment),
            start_new_session=True,
        )
    except OSError as error:
        os.close(read_end)
        ours.close()
        raise LabFailure(f"the shell cannot be started: {error}") from error
    finally:
        theirs.close()
        os.close(write_end)
        os.close(options)
    running = Running(process, Output(), Listeners(), ProcessTree(process.pid))
    try:
        await _collect(running, read_end)
        async with asyncio.timeout(START_WALL_S):
            await _open_up(ours, room, launch, running)
    except (OSError, ValueError, TimeoutError) as error:
        await running.end()
        why = running.output.text().strip() or str(error) or "no answer"
        raise LabFailure(
            f"the sandbox does not start: {why} (it needs Linux namespaces; see --unsafe-shell)"
        ) from error
    except BaseException:
        await running.end()
        raise
    finally:
        ours.close()
    return running


def _as_file(options: list[str]) -> int:
    descriptor = os.memfd_create("options")
    os.write(descriptor, b"".join(option.encode() + b"\0" for option in options))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


async def _collect(running: Running, descriptor: int) -> None:
    class Collector(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            running.output.add(data)

        def connection_lost(self, _: Exception | None) -> None:
            running.drained.set()

    pipe = os.fdopen(descriptor, "rb", 0)
    running.pipe, _ = await asyncio.get_running_loop().connect_read_pipe(Collector, pipe)


async def _open_up(ours: socket.socket, room: Room, launch: Launch, running: Running) -> None:
    """Talk to the helper: configure it, take its sockets and serve them, let it go."""
    loop = asyncio.get_running_loop()
    ports = sorted(launch.handlers)
    config = {
        "ports": ports,
        "uid": room.uid,
        "gid": room.uid,
        "argv": ["/bin/bash", "-c", launch.command],
        "limits": dict(launch.limits),
    }
    await loop.sock_sendall(ours, json.dumps(config).encode() + b"\n")
    answer, sockets = await _receive(ours, len(ports))
    if "error" in answer or len(sockets) != len(ports):
        for item in sockets:
            item.close()
        raise OSError(answer.get("error", "sockets are missing"))
    for port, item in zip(ports, sockets, strict=True):
        await running.listeners.serve(item, launch.handlers[port])
    if room.sandboxed:
        running.first = next(iter(running.tree.children()), None)
    await loop.sock_sendall(ours, b"g")


async def _receive(ours: socket.socket, count: int) -> tuple[dict[str, Any], list[socket.socket]]:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(ours.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(ours.fileno())
    descriptors = array.array("i")
    data, ancillary, _, _ = ours.recvmsg(65536, socket.CMSG_SPACE(max(1, count) * descriptors.itemsize))
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    if not data:
        return {"error": "the helper ended"}, sockets
    answer: dict[str, Any] = json.loads(data)
    return answer, sockets


def _kill(running: Running) -> None:
    """Kill the process group and every descendant. The sandbox's first process goes first: the kernel ends all of
    the sandbox with it, however fast the rest multiplies.
    """
    if running.first is not None and running.process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(running.first, signal.SIGKILL)
    for _ in range(3):
        members = running.tree.sample().pids
        if not members and running.process.returncode is not None:
            return
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if running.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(running.process.pid, signal.SIGKILL)
