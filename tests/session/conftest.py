"""A run on a cluster made of a few lines: real catalogue, record, loop and graders; no processes, no sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiopslab.actions.lab import Lab
from aiopslab.actions.shell import ShellResult
from aiopslab.cluster.base import ClusterInfo
from aiopslab.record import Injection, Snapshot
from aiopslab.session.options import RunOptions
from aiopslab.telemetry.prometheus import Series

START = 1748854800.0


class Clock:
    mode = "stepped"

    def __init__(self) -> None:
        self.at = START

    async def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> float:
        self.at += seconds
        return self.at


class World:
    """The fake cluster and everything on it. ``events`` lists what was done; ``fail`` names where it breaks."""

    seed = 7

    def __init__(self) -> None:
        self.clock = Clock()
        self.info = ClusterInfo("kubeconfig", Path("admin"), "http://127.0.0.1:1", "http://127.0.0.1:2", "v1.36.2")
        self.events: list[str] = []
        self.fail: dict[str, BaseException] = {}
        self.broken = False
        self.healthy = True
        self.entries: list[dict[str, Any]] = []
        self.at: dict[str, Callable[[], None]] = {}

    def did(self, what: str) -> None:
        self.events.append(what)
        if what in self.at:
            self.at[what]()
        if what in self.fail:
            raise self.fail[what]

    # the cluster
    @asynccontextmanager
    async def instant(self) -> AsyncIterator[None]:
        yield

    async def activity(self) -> dict[str, Any]:
        return {"in_flight": 0, "streams": 0, "serial": 0}

    async def audit(self, since: int = 0) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry["n"] > since]

    async def close(self) -> None:
        self.did("close")

    # engines, Kubernetes, Prometheus
    async def deploy(self, app: Any) -> None:
        self.did("deploy")

    async def undeploy(self, app: Any) -> None:
        self.did("undeploy")

    async def start(self, workload: Any, app: Any, params: Any) -> None:
        self.did("load")

    async def stop(self) -> None:
        self.did("unload")

    async def inject(self, fault: Any, params: dict[str, Any], journal: Path, namespace: str) -> Injection:
        journal.write_text("{}")
        self.broken = True
        self.did("inject")
        return Injection(
            fault=fault.id, params=params, targets=[], objects=[], injected_at=self.clock.at, symptom_after_s=None
        )

    async def recover(self, journal: Path) -> bool:
        self.broken = False
        self.did("recover")
        return True

    async def list(self, resource: str, namespace: str | None = None, **_: Any) -> list[dict[str, Any]]:
        return []

    async def list_all(self, namespace: str, at_s: float = 0.0) -> Snapshot:
        return Snapshot(at_s=at_s, objects={"pods": []})

    async def value(self, expr: str, at: float) -> float | None:
        return 0.5 if self.broken else 0.0

    async def query_range(self, expr: str, start: float, end: float, step_s: float) -> list[Series]:
        good = 100.0 if "bucket" in expr else 1.0
        value = good if self.healthy else (9999.0 if "bucket" in expr else 0.0)
        count = int((end - start) / step_s + 1e-6) + 1
        return [Series({}, [(start + i * step_s, value) for i in range(count)])]


class FakeShell:
    """Answers every command with its own text."""

    def __init__(self, world: World, home: Path) -> None:
        self._world, self._home = world, home
        self.room = SimpleNamespace(shown_home="/home/oncall", home=home, outside=lambda path: None)

    async def run(self, command: str, timeout_s: float | None = None) -> ShellResult:
        self._world.did(f"shell {command}")
        return ShellResult(f"ran {command}\n", 0, "", 0.0, 0.0)

    async def put(self, relative: str, data: bytes) -> str:
        path = self._home / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return f"/home/oncall/{relative}"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    world = World()

    @asynccontextmanager
    async def open_stage(options: RunOptions) -> AsyncIterator[Any]:
        world.did("up")
        try:
            yield SimpleNamespace(
                cluster=world,
                kube=world,
                metrics=world,
                traces=world,
                deployer=world,
                loader=world,
                injector=world,
                shared=True,
                folder=tmp_path,
            )
        finally:
            await world.close()

    @asynccontextmanager
    async def open_agent_side(stage: Any, app: Any, hidden: Any, unsafe: bool) -> AsyncIterator[Lab]:
        world.did("agent side")
        shell: Any = FakeShell(world, tmp_path / "home")
        anything: Any = world
        yield Lab(anything, anything, shell, anything, anything, app.namespace, tuple(app.services))

    monkeypatch.setattr("aiopslab.session.run.open_stage", open_stage)
    monkeypatch.setattr("aiopslab.session.run.open_agent_side", open_agent_side)
    return world


@pytest.fixture
def options(tmp_path: Path) -> RunOptions:
    return RunOptions(seed=7, out=tmp_path / "records", max_steps=5)


class Scripted:
    """An agent that gives these replies; a callable among them is called with the state."""

    def __init__(self, *replies: Any) -> None:
        self._replies = list(replies)
        self.seen: list[str] = []
        self.briefing: tuple[str, str, dict[str, str]] | None = None

    def init_context(self, problem_desc: str, instructions: str, apis: dict[str, str]) -> None:
        self.briefing = (problem_desc, instructions, apis)

    async def get_action(self, state: str) -> Any:
        self.seen.append(state)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return await reply(state) if callable(reply) else reply


@pytest.fixture
def scripted() -> type[Scripted]:
    return Scripted
