"""A small cluster without sockets: the real Api, all controllers, and a world that does as it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from aiopslab.sim.core.api import Api, DeleteOptions, WriteOptions
from aiopslab.sim.core.bootstrap import bootstrap
from aiopslab.sim.core.control_plane import register
from aiopslab.sim.core.kernel import Kernel, parse_time
from aiopslab.sim.core.kinds import Kinds, builtin_kinds
from aiopslab.sim.core.kubelet import BareWorld
from aiopslab.sim.core.ports import ContainerExit, ContainerRef, ContainerSpec, ProbeResult, StartResult
from aiopslab.sim.core.store import Key, Obj

START = parse_time("2025-06-02T09:00:00Z")
USER = WriteOptions(manager="kubectl")


class ScriptedImages:
    """Everything can be pulled in ``seconds`` except what contains ``missing``."""

    seconds = 1.2

    def pull(self, image: str) -> str | None:
        return f"{image}: not found" if "missing" in image else None

    def runs_as_root(self, image: str) -> bool:
        """Images that say so."""
        return "root" in image

    def pull_seconds(self, image: str) -> float:
        return self.seconds

    def size_bytes(self, image: str) -> int:
        return 12345


class ScriptedWorld(BareWorld):
    """Records what it is asked; probes and exits are decided by the test."""

    def __init__(self) -> None:
        self.images = ScriptedImages()  # type: ignore[assignment]
        self.started: list[ContainerSpec] = []
        self.probe_calls = 0
        self.answer: Callable[[ContainerRef, Obj, float], ProbeResult] = lambda ref, probe, now: ProbeResult(
            ok=True
        )
        self.on_start: Callable[[ContainerSpec], StartResult] = lambda spec: BareWorld.start(self, spec, 0.0)
        self.stop_answer: tuple[float, int] = (0.2, 143)
        self.pending_exits: list[ContainerExit] = []
        self.refreshed: list[tuple[str, dict[str, str]]] = []
        self.forgotten: list[str] = []

    def start(self, spec: ContainerSpec, now: float) -> StartResult:
        self.started.append(spec)
        return self.on_start(spec)

    def stop(self, ref: ContainerRef, now: float, grace_s: float) -> tuple[float, int]:
        return min(self.stop_answer[0], grace_s), self.stop_answer[1]

    def probe(self, ref: ContainerRef, probe: Obj, now: float) -> ProbeResult:
        self.probe_calls += 1
        return self.answer(ref, probe, now)

    def exits(self, now: float) -> list[ContainerExit]:
        found, self.pending_exits = self.pending_exits, []
        return found

    def refresh_files(self, ref: ContainerRef, files: dict[str, str], now: float) -> None:
        self.refreshed.append((ref.pod, files))

    def forget(self, pod_uid: str) -> None:
        self.forgotten.append(pod_uid)


@dataclass
class Cluster:
    """What the tests talk to."""

    kernel: Kernel
    api: Api
    world: Any
    namespace: str = "shop"
    opts: WriteOptions = field(default_factory=lambda: USER)

    def create(self, resource: str, body: Obj, namespace: str | None = None) -> Obj:
        created = self.api.create(resource, self.namespace if namespace is None else namespace, body, self.opts)
        self.kernel.settle()
        return created

    def patch(self, resource: str, name: str, body: Obj, namespace: str | None = None) -> Obj:
        space = self.namespace if namespace is None else namespace
        patched = self.api.patch(resource, space, name, "merge", body, self.opts)
        self.kernel.settle()
        return patched

    def set_image(self, pod: str, image: str) -> None:
        """Change the first container's image of a pod in place."""
        ops = [{"op": "replace", "path": "/spec/containers/0/image", "value": image}]
        self.api.patch("pods", self.namespace, pod, "json", ops, self.opts)
        self.kernel.settle()

    def delete(self, resource: str, name: str, namespace: str | None = None, **options: Any) -> None:
        space = self.namespace if namespace is None else namespace
        self.api.delete(resource, space, name, DeleteOptions(manager="kubectl", **options))
        self.kernel.settle()

    def get(self, resource: str, name: str, namespace: str | None = None) -> Obj:
        return self.api.get(resource, self.namespace if namespace is None else namespace, name)

    def find(self, resource: str, name: str, namespace: str | None = None) -> Obj | None:
        return self.kernel.store.get(Key(resource, self.namespace if namespace is None else namespace, name))

    def list(self, resource: str, namespace: str | None = None) -> list[Obj]:
        return self.api.list(resource, self.namespace if namespace is None else namespace)

    def wait(self, seconds: float) -> None:
        self.kernel.advance(self.kernel.now + seconds)

    def wait_for(self, what: Callable[[], Any], most_s: float = 120.0, step_s: float = 0.25) -> Any:
        end = self.kernel.now + most_s
        while not (found := what()):
            assert self.kernel.now < end, "it never happened"
            self.wait(step_s)
        return found

    def events(self, reason: str = "", kind: str = "") -> list[str]:
        """Messages of events, oldest first."""
        found = [
            event
            for event in self.list("events")
            if reason in ("", event["reason"]) and kind in ("", event["involvedObject"]["kind"])
        ]
        order = sorted(found, key=lambda e: e["metadata"]["name"].rpartition(".")[2])
        return [event["message"] for event in order]

    def conditions(self, resource: str, name: str) -> list[tuple[str, str, str]]:
        status = self.get(resource, name).get("status") or {}
        return [(c["type"], c["status"], c.get("reason", "")) for c in status.get("conditions") or ()]

    def phases(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["status"].get("phase", "") for pod in self.list("pods")}


def make_cluster(world: Any, *, seed: int = 7, bare: bool = True) -> Cluster:
    kernel = Kernel(seed, START)
    kinds = Kinds(builtin_kinds())
    api = Api(kernel, kinds)
    register(kernel, api, world, root_ca="CA")
    bootstrap(api, bare=bare)
    kernel.settle()
    cluster = Cluster(kernel, api, world)
    cluster.create("namespaces", {"metadata": {"name": "shop"}}, namespace="")
    return cluster


def container(name: str = "c", image: str = "nginx:1.25", **fields: Any) -> Obj:
    return {"name": name, "image": image, **fields}


def pod_spec(containers: Iterable[Obj] | None = None, **fields: Any) -> Obj:
    return {"containers": list(containers or [container()]), **fields}


def workload(name: str, replicas: int | None = 1, spec: Obj | None = None, **fields: Any) -> Obj:
    labels = {"app": name}
    body: Obj = {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec or pod_spec()},
            **fields,
        },
    }
    if replicas is not None:
        body["spec"]["replicas"] = replicas
    return body


@dataclass
class Make:
    """Builders of manifests, for tests (test modules do not import each other)."""

    container: Callable[..., Obj] = container
    pod_spec: Callable[..., Obj] = pod_spec
    workload: Callable[..., Obj] = workload
    cluster: Callable[..., Cluster] = make_cluster
    world: type[ScriptedWorld] = ScriptedWorld

    def pod(self, name: str, spec: Obj | None = None, **metadata: Any) -> Obj:
        return {"metadata": {"name": name, **metadata}, "spec": spec or pod_spec()}


@pytest.fixture
def make() -> Make:
    return Make()


@pytest.fixture
def bare() -> Cluster:
    """Three plain nodes, containers without images."""
    return make_cluster(BareWorld())


@pytest.fixture
def scripted() -> Cluster:
    """Three plain nodes with a world that the test scripts."""
    return make_cluster(ScriptedWorld())
