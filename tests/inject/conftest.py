"""A cluster in a dictionary: enough of ``Kube`` and ``Cluster`` for faults to act on."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jsonpatch
import pytest

from aiopslab.inject.engine import Injector
from aiopslab.kube.errors import KubeError

Obj = dict[str, Any]
_FLAG = {"state": "ENABLED", "variants": {"on": True, "off": False}, "defaultVariant": "off"}
FLAGS = {
    "webFailure": _FLAG,
    "idFailure": {**_FLAG, "targeting": {"if": [{"==": [{"var": "id"}, "x"]}, "off", "off"]}},
}


class FakeKube:
    """Objects by (resource, namespace, name). ``fail_on`` makes the nth write fail, counted from 1."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Obj] = {}
        self.writes: list[str] = []
        self.fail_on: int | None = None
        self.served = {"chaos-mesh.org/v1alpha1"}

    async def serves(self, api_version: str) -> bool:
        return api_version in self.served

    async def find(self, resource: str, namespace: str, name: str) -> Obj | None:
        return copy.deepcopy(self.objects.get((resource, namespace, name)))

    async def get(self, resource: str, namespace: str, name: str) -> Obj:
        found = await self.find(resource, namespace, name)
        if found is None:
            raise KubeError(404, "NotFound", f'{resource} "{name}" not found')
        return found

    async def list(self, resource: str, namespace: str, *, labels: str = "") -> list[Obj]:
        key, _, value = labels.partition("=")
        rows = [obj for (r, ns, _), obj in self.objects.items() if (r, ns) == (resource, namespace)]
        return [obj for obj in rows if not labels or obj["metadata"].get("labels", {}).get(key) == value]

    async def create(self, resource: str, namespace: str, obj: Obj) -> Obj:
        self._write("create")
        key = (resource, namespace, obj["metadata"]["name"])
        if key in self.objects:
            raise KubeError(409, "AlreadyExists", f"{key[2]} exists")
        self.objects[key] = copy.deepcopy(obj)
        return obj

    async def patch(self, resource: str, namespace: str, name: str, patch: Any, *, type: str = "merge") -> Obj:
        self._write("patch")
        obj = await self.get(resource, namespace, name)
        obj = jsonpatch.apply_patch(obj, patch) if type == "json" else merged(obj, patch)
        self.objects[resource, namespace, name] = obj
        return obj

    async def delete(self, resource: str, namespace: str, name: str) -> bool:
        self._write("delete")
        return self.objects.pop((resource, namespace, name), None) is not None

    def _write(self, verb: str) -> None:
        self.writes.append(verb)
        if self.fail_on == len(self.writes):
            raise KubeError(500, "InternalError", "the server fell over")


def merged(obj: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class FakeCluster:
    """A clock that stands at noon and a seed."""

    class Clock:
        mode = "stepped"

        async def now(self) -> float:
            return 1_748_865_600.0

        async def sleep(self, seconds: float) -> float:
            return 1_748_865_600.0 + seconds

    def __init__(self) -> None:
        self.clock, self.seed = self.Clock(), 7

    @asynccontextmanager
    async def instant(self) -> AsyncIterator[None]:
        yield


def deployment(name: str) -> Obj:
    template = {"metadata": {"labels": {"app": name}}}
    return {"metadata": {"name": name}, "spec": {"replicas": 2, "template": template}}


@pytest.fixture
def kube() -> FakeKube:
    """A namespace ``shop`` with a Deployment, its Service with two ports and two pods, and flags."""
    fake = FakeKube()
    ports = [{"port": 80, "targetPort": 8080}, {"port": 81, "targetPort": "admin"}]
    fake.objects["services", "shop", "web"] = {"metadata": {"name": "web"}, "spec": {"ports": ports}}
    fake.objects["apps/deployments", "shop", "web"] = deployment("web")
    fake.objects["apps/deployments", "shop", "flagd"] = deployment("flagd")
    config: Obj = {"metadata": {"name": "flagd-config"}, "data": {"demo.flagd.json": json.dumps({"flags": FLAGS})}}
    fake.objects["configmaps", "shop", "flagd-config"] = config
    for name in ("web-1", "web-2"):
        fake.objects["pods", "shop", name] = {"metadata": {"name": name, "labels": {"app": "web"}}}
    return fake


@pytest.fixture
def cluster() -> FakeCluster:
    """The cluster that the engine sees."""
    return FakeCluster()


@pytest.fixture
def injector(cluster: FakeCluster, kube: FakeKube) -> Injector:
    """The engine over both."""
    return Injector(cluster, kube)  # type: ignore[arg-type]
