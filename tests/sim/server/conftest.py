"""A small cluster behind a real HTTP server, with a world whose containers are scripted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from aiopslab.sim.assemble import Assembly, assemble
from aiopslab.sim.core.api import Api, WriteOptions
from aiopslab.sim.core.kubelet import BareWorld
from aiopslab.sim.core.ports import ContainerRef, ExecResult, LogLine, LogQuery, Usage
from aiopslab.sim.server.app import SERVER, build_app
from aiopslab.sim.server.auth import ADMIN
from aiopslab.sim.server.policy import Policy

Obj = dict[str, Any]

START = 1748854800.0  # 2025-06-02T09:00:00Z
MACHINE_NOW = START + 1_000_000.0
TOKEN = "admin-token"


class ScriptedWorld(BareWorld):
    """Writes a log line per virtual second and answers exec with what it was given."""

    def logs(self, ref: ContainerRef, query: LogQuery) -> list[LogLine] | None:
        """``line N`` at each whole second since the start of the cluster."""
        until = int((query.until or START) - START)
        lines = [LogLine(START + n, f"line {n}") for n in range(until + 1)]
        if query.since is not None:
            lines = [line for line in lines if line.at >= query.since]
        return lines[-query.tail :] if query.tail else lines if query.tail is None else []

    def exec(self, ref: ContainerRef, argv: list[str], stdin: bytes, now: float) -> ExecResult:
        """``exit N`` ends with that code; anything else echoes the command and stdin."""
        if argv[0] == "exit":
            return ExecResult(stderr=b"failed\n", exit_code=int(argv[1]))
        return ExecResult(stdout=" ".join(argv).encode() + b"|" + stdin)

    def usage(self, ref: ContainerRef, now: float) -> Usage | None:
        """A quarter of a core, 64 MiB."""
        return Usage(0.25, 64 << 20)


def deployment(name: str = "web", **spec: Any) -> Obj:
    """A Deployment of one container."""
    labels = {"app": name}
    pod = {"containers": [{"name": "c", "image": "nginx:1.25"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    body = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template, **spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": body,
    }


def pod(name: str = "p", **spec: Any) -> Obj:
    """A pod of one container that nobody schedules."""
    body = {"schedulerName": "manual", "containers": [{"name": "c", "image": "nginx:1.25"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def config_map(name: str = "m", **data: str) -> Obj:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data or {"a": "1"}}


class Make:
    """Makers of objects, as one fixture."""

    deployment = staticmethod(deployment)
    pod = staticmethod(pod)
    config_map = staticmethod(config_map)


@pytest.fixture
def make() -> type[Make]:
    """Object makers."""
    return Make


@pytest.fixture
def cluster() -> Assembly:
    """A settled cluster with metrics and add-ons left out."""
    return assemble(7, START, ScriptedWorld(), bare=True, root_ca="PEM")


@pytest.fixture
def api(cluster: Assembly) -> Api:
    """The cluster's API."""
    return cluster.api


@pytest.fixture
def options() -> WriteOptions:
    """Write options of an anonymous test client."""
    return WriteOptions("test")


class Client:
    """The HTTP client with the administrator's token; ``json`` of answers is read at once."""

    def __init__(self, http: TestClient, assembly: Assembly) -> None:
        self.http = http
        self.cluster = assembly
        self.activity = http.server.app[SERVER].activity  # type: ignore[union-attr]

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
        """``(code, JSON or text, headers)``. Header names are given with underscores."""
        sent = {"Authorization": f"Bearer {TOKEN}"}
        if body is not None:
            sent["Content-Type"] = "application/json"
        sent |= {k.replace("_", "-"): v for k, v in headers.items()}
        raw = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        async with self.http.request(method, path, headers=sent, data=raw) as response:
            if response.content_type == "application/json":
                return response.status, await response.json(), response.headers
            return response.status, await response.text(), response.headers


@pytest.fixture
async def client(cluster: Assembly) -> AsyncIterator[Client]:
    """A served cluster."""
    policy = Policy(machine_now=lambda: MACHINE_NOW)
    app = build_app(cluster.api, cluster.world, {TOKEN: ADMIN}, policy)
    server = TestServer(app)
    await server.start_server()
    async with TestClient(server) as http:
        yield Client(http, cluster)
