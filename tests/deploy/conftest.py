"""A cluster whose workloads become ready with time, and a Helm that stores objects in it."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aiopslab.catalog.manifests import App, Entry, Param, Workload
from aiopslab.errors import ClusterError
from aiopslab.kube.errors import KubeError

Obj = dict[str, Any]
RESOURCES = {"Deployment": "apps/deployments", "Job": "batch/jobs", "ConfigMap": "configmaps"}


class FakeWorld:
    """Objects, a clock, and Helm releases. Workloads are ready ``ready_after_s`` after they were stored."""

    mode = "stepped"
    seed = 1

    def __init__(self) -> None:
        self.time = 0.0
        self.ready_after_s = 10.0
        self.gone_after_s = 6.0
        self.objects: dict[tuple[str, str, str], Obj] = {}
        self.dying: dict[tuple[str, str, str], float] = {}
        self.releases_: dict[str, str] = {}
        self.held: list[str] = []
        self.holding = False
        self.fail_install = ""
        self.clock = self

    # clock and cluster
    async def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> float:
        self.time += seconds
        return self.time

    @asynccontextmanager
    async def instant(self) -> AsyncIterator[None]:
        self.holding = True
        yield
        self.holding = False

    # Kube
    async def find(self, resource: str, namespace: str, name: str) -> Obj | None:
        key = (resource, namespace, name)
        if self.dying.get(key, self.time + 1) <= self.time:
            self.dying.pop(key)
            self.objects.pop(key)
        found = self.objects.get(key)
        return self._live(found) if found else None

    async def list(self, resource: str, namespace: str) -> list[Obj]:
        return [self._live(obj) for key, obj in sorted(self.objects.items()) if key[:2] == (resource, namespace)]

    async def create(self, resource: str, namespace: str, obj: Obj) -> Obj:
        key = (resource, namespace, obj["metadata"]["name"])
        if key in self.objects:
            raise KubeError(409, "AlreadyExists", "it exists")
        return self._store(key, obj)

    async def apply(self, obj: Obj) -> Obj:
        if not self.holding:
            raise AssertionError("objects must appear at one instant")
        metadata = obj["metadata"]
        return self._store((RESOURCES[obj["kind"]], metadata["namespace"], metadata["name"]), obj)

    async def delete(self, resource: str, namespace: str, name: str) -> bool:
        key = (resource, namespace, name)
        if key not in self.objects:
            return False
        self.dying.setdefault(key, self.time + self.gone_after_s)
        return True

    async def delete_manifest(self, obj: Obj) -> bool:
        metadata = obj["metadata"]
        return await self.delete(RESOURCES[obj["kind"]], metadata["namespace"], metadata["name"])

    # Helm
    async def releases(self, namespace: str) -> list[Obj]:
        return [{"name": name, "status": status} for name, status in sorted(self.releases_.items())]

    async def install(self, release: str, chart: Path, namespace: str, values: Mapping[str, Any]) -> None:
        self.held.append("held" if self.holding else "free")
        self.releases_[release] = "failed" if self.fail_install else "deployed"
        for name in ("web", "db"):
            key = ("apps/deployments", namespace, name)
            self._store(key, {"kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": 1}})
        if self.fail_install:
            raise ClusterError(self.fail_install)

    async def uninstall(self, release: str, namespace: str) -> bool:
        for key in [key for key in self.objects if key[0] == "apps/deployments" and key[1] == namespace]:
            self.objects.pop(key)
        return self.releases_.pop(release, None) is not None

    def _store(self, key: tuple[str, str, str], obj: Obj) -> Obj:
        self.objects[key] = {**copy.deepcopy(obj), "stored": self.time}
        self.dying.pop(key, None)
        return obj

    def _live(self, obj: Obj) -> Obj:
        ready = int(self.time - obj["stored"] >= self.ready_after_s)
        status = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": ready}
        return {**obj, "metadata": {"generation": 1, **obj["metadata"]}, "status": {**status, "ready": ready}}


@pytest.fixture
def world() -> FakeWorld:
    """Cluster, Kube and Helm in one."""
    return FakeWorld()


@pytest.fixture
def app() -> App:
    """An app with two Deployments."""
    return App(
        title="Toy",
        id="toy",
        chart="toy",
        release="toy",
        namespace="toy",
        entry=Entry(service="web", port=8080),
        ready_timeout_s=60,
    )


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    """A ConfigMap and a Job."""
    (tmp_path / "load.yaml").write_text(
        "kind: ConfigMap\nmetadata: {name: script, namespace: '{{namespace}}'}\n---\n"
        "kind: Job\nmetadata: {name: load, namespace: '{{namespace}}'}\n"
        "spec: {args: ['{{rate}}', '{{entry_service}}.{{app_namespace}}:{{entry_port}}'], rate: {{rate}}}\n"
    )
    return Workload(
        title="Drip",
        id="drip",
        folder=tmp_path,
        kind="constant-rate",
        manifests=["load.yaml"],
        params={"rate": Param(type="integer", default=3)},
    )
