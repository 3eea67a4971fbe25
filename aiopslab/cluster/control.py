"""Client of the embedded cluster's control socket: HTTP over a unix socket that only the lab holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import aiohttp

from aiopslab.errors import ClusterError

# A whole baseline may be simulated in one call; a stuck process must still be noticed.
REQUEST_WALL_S_MAX = 300.0
UNIX_PATH_BYTES_MAX = 100


class Control:
    """Calls of the control socket. One connection, kept open."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._folder: int | None = None  # descriptor, for a socket whose path is too long for a socket address
        self._session: aiohttp.ClientSession | None = None

    async def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One request. Raises ClusterError when the process does not answer or refuses."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(self._address()),
                timeout=aiohttp.ClientTimeout(total=REQUEST_WALL_S_MAX),
            )
        try:
            async with self._session.request(method, f"http://control{path}", json=body) as response:
                answer = await response.json()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise ClusterError(f"the embedded cluster does not answer {method} {path}: {error!r}") from error
        if response.status >= 400:
            raise ClusterError(f"the embedded cluster refused {method} {path}: {answer.get('error', answer)}")
        return answer

    async def close(self) -> None:
        """Close the connection; safe to call twice."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def _address(self) -> str:
        if len(os.fsencode(self._socket)) <= UNIX_PATH_BYTES_MAX:
            return str(self._socket)
        try:
            self._folder = os.open(self._socket.parent, os.O_RDONLY)
        except OSError as error:
            raise ClusterError(f"the embedded cluster's folder {self._socket.parent} is gone: {error}") from error
        return f"/proc/self/fd/{self._folder}/{self._socket.name}"


class SteppedClock:
    """Virtual time: it passes only when somebody sleeps."""

    mode: Literal["stepped", "wall"] = "stepped"

    def __init__(self, control: Control) -> None:
        self._control = control

    async def now(self) -> float:
        """Virtual Unix seconds."""
        return float((await self._control.call("GET", "/state"))["now"])

    async def sleep(self, seconds: float) -> float:
        """Simulate ``seconds``; returns as soon as they are simulated."""
        answer = await self._control.call("POST", "/advance", {"seconds": max(0.0, seconds)})
        return float(answer["now"])
