"""Serves the sandbox's listening sockets from outside: each connection is carried to a real address."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

_CHUNK_BYTES = 1 << 16

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class Traffic:
    """Bytes carried so far, both directions of all connections."""

    bytes: int = 0


def forward_to(host: str, port: int, traffic: Traffic) -> Handler:
    """A handler that carries a connection to ``host:port``; an unreachable target closes it."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(_carry(reader, far_writer, traffic), _carry(far_reader, writer, traffic))
        finally:
            for end in (writer, far_writer):
                end.close()

    return handle


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, traffic: Traffic) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            traffic.bytes += len(chunk)
            writer.write(chunk)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        if writer.can_write_eof():
            writer.write_eof()


class Listeners:
    """Servers on sockets of a sandbox. ``close`` ends them and every connection."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(self, listener: socket.socket, handler: Handler) -> None:
        """Serve ``listener``, which this object closes in the end."""

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async def run() -> None:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    await handler(reader, writer)
                writer.close()

            task = asyncio.ensure_future(run())
            self._tasks[task] = writer
            task.add_done_callback(lambda done: self._tasks.pop(done, None))

        listener.setblocking(False)
        self._servers.append(await asyncio.start_server(accept, sock=listener))

    async def close(self) -> None:
        """End all servers and connections."""
        for server in self._servers:
            server.close()
        open_now = dict(self._tasks)
        for task, writer in open_now.items():
            task.cancel()
            writer.transport.abort()  # a task that never ran cannot close it
        await asyncio.gather(*open_now, return_exceptions=True)
        await asyncio.sleep(0)
        self._servers.clear()
