"""A cluster on a clock that only moves when told, and a shell on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aiopslab.actions.sandbox.room import RoomTools
from aiopslab.actions.shell import Shell, ShellLimits
from aiopslab.cluster.base import ClusterInfo
from aiopslab.kube.tools import find_tool

START = 1748854800.0  # 2025-06-02T09:00:00Z


class SteppedClock:
    mode = "stepped"

    def __init__(self) -> None:
        self.at = START
        self.on_step: list[Callable[[], None]] = []

    async def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> float:
        self.at += seconds
        for act in self.on_step:
            act()
        return self.at


class FakeCluster:
    seed = 1

    def __init__(self) -> None:
        self.clock: Any = SteppedClock()
        self.info = ClusterInfo("embedded", Path("unused"), "http://127.0.0.1:1/prom", "http://127.0.0.1:2")
        self.streams = 0
        self.in_flight = 0
        self.entries: list[dict[str, Any]] = []

    @asynccontextmanager
    async def instant(self) -> AsyncIterator[None]:
        yield

    async def activity(self) -> dict[str, Any]:
        return {"in_flight": self.in_flight, "streams": self.streams, "serial": 0}

    async def audit(self, since: int = 0) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry["n"] > since]

    async def close(self) -> None:
        pass


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "agent-kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {server: 'https://10.9.8.7:6443'}\n"
        "users:\n- name: u\n  user: {token: secret}\ncontexts:\n- name: x\n  context: {cluster: c, user: u}\n"
        "current-context: x\n"
    )
    return path


@pytest.fixture
def tools(tmp_path: Path) -> RoomTools:
    program = tmp_path / "tool"
    program.write_text('#!/bin/bash\necho "$(basename "$0") $*"\n')
    program.chmod(0o755)
    return RoomTools(kubectl=program, helm=program, bwrap=find_tool("bwrap"))


@pytest.fixture
def limits() -> ShellLimits:
    return ShellLimits(
        wall_s=8,
        min_wall_s=1,
        processes=64,
        memory_bytes=200 << 20,
        file_bytes=2 << 20,
        disk_bytes=8 << 20,
        files=500,
        output_bytes=2 << 20,
    )


@pytest.fixture
def shell(cluster: FakeCluster, kubeconfig: Path, tools: RoomTools, limits: ShellLimits) -> Any:
    with_shell = Shell(cluster, kubeconfig, tools, limits=limits)
    yield with_shell
    with_shell.close()
