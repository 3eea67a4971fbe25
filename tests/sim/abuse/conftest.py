"""A small cluster behind a real HTTP server, for clients that mean no good."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from aiopslab.sim.assemble import Assembly, assemble
from aiopslab.sim.server.app import build_app
from aiopslab.sim.server.auth import ADMIN

START = 1748854800.0
TOKEN = "admin-token"
JSON = "application/json"


class Client:
    """Requests with a token, the administrator's unless another one is given."""

    def __init__(self, http: TestClient, cluster: Assembly) -> None:
        self.http = http
        self.cluster = cluster
        self.token = TOKEN

    @property
    def headers(self) -> dict[str, str]:
        """The Authorization header."""
        return {"Authorization": f"Bearer {self.token}"}

    async def __call__(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> Any:
        """``(code, JSON or text)``."""
        raw = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        headers = {**self.headers, **({"Content-Type": content_type} if body is not None else {})}
        async with self.http.request(method, path, headers=headers, data=raw) as response:
            text = await response.text(errors="replace")
            try:
                return response.status, json.loads(text)
            except ValueError:  # plain text, or the lines of a watch
                return response.status, text


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A fresh served cluster."""
    cluster = assemble(7, START, bare=False, root_ca="PEM")
    server = TestServer(build_app(cluster.api, cluster.world, {TOKEN: ADMIN}))
    await server.start_server()
    async with TestClient(server) as http:
        yield Client(http, cluster)


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Wait up to two seconds until something holds."""

    async def wait(holds: Callable[[], bool]) -> None:
        for _ in range(100):
            if holds():
                return
            await asyncio.sleep(0.02)
        pytest.fail("it never held")

    return wait
