"""kubectl speaks HTTP/2: a watch that it gives up, and a server that ends under it, leave nothing behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aiopslab.kube.tools import Tools
from aiopslab.sim.assemble import Assembly, assemble
from aiopslab.sim.server.app import build_app, serve
from aiopslab.sim.server.auth import ADMIN
from aiopslab.sim.server.kubeconfig import kubeconfig
from aiopslab.sim.server.tls import make_tls

START = 1748854800.0
WATCHERS = 3


class Served:
    """A cluster behind TLS, and kubectl."""

    def __init__(self, cluster: Assembly, runner: Any, file: Path) -> None:
        self.cluster = cluster
        self.runner = runner
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(file.parent), "KUBECONFIG": str(file)}

    @property
    def listeners(self) -> int:
        """How many follow the store."""
        return len(self.cluster.kernel.store._listeners)

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        """Start kubectl."""
        pipe = asyncio.subprocess.PIPE
        program = str(Tools.find().kubectl)
        return await asyncio.create_subprocess_exec(
            program, *words, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, env=self._environment
        )


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A fresh cluster on a port of its own."""
    tls = make_tls()
    cluster = assemble(7, START, bare=True, root_ca=tls.ca_pem)
    runner, port = await serve(build_app(cluster.api, cluster.world, {"t": ADMIN}), tls.context, 0)
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig(f"https://127.0.0.1:{port}", tls.ca_pem, "t"))
    yield Served(cluster, runner, file)
    await runner.cleanup()


async def test_watches_that_are_killed(served, eventually):
    before, tasks = served.listeners, len(asyncio.all_tasks())
    running = [await served.start("get", "namespaces", "-w") for _ in range(WATCHERS)]
    await eventually(lambda: served.listeners == before + WATCHERS)
    for process in running:
        process.kill()
        await process.communicate()
    await eventually(lambda: served.listeners == before and len(asyncio.all_tasks()) <= tasks)


async def test_a_server_that_ends_under_a_watch(served, eventually):
    before = served.listeners
    watching = await served.start("get", "namespaces", "-w")
    await eventually(lambda: served.listeners == before + 1)
    await served.runner.cleanup()
    assert served.listeners == before
    out, _ = await asyncio.wait_for(watching.communicate(), 5)
    assert b"kube-system" in out
