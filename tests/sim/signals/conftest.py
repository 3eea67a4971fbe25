"""A cluster of hand-made objects that runs a synthetic application, with the means to break it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.ports import ContainerRef, ContainerSpec, LogQuery
from aiopslab.sim.core.store import Key, Obj
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.world import SimWorld
from aiopslab.testing.coredns import COREFILE, coredns
from aiopslab.testing.topologies import ENTRY, HTTP_PORT, IMAGES, USERS, Service, Synthetic, synthetic

START = 1_748_854_800.0
NAMESPACE = "lab"
NODES = ("n1", "n2", "n3")


class Town:
    """A synthetic application in a world: one pod per replica, Services, users."""

    def __init__(self, app: Synthetic, folder: Path, seed: int = 5, *, users: int = 10) -> None:
        app.write(folder)
        self.app = app
        self.kernel = Kernel(seed, START)
        self.store = self.kernel.store
        self.world = SimWorld(self.kernel, self.store, Programs.load([folder]), seed)
        self.refs: dict[str, ContainerRef] = {}
        self._made = 0
        for name in NODES:
            self.put("nodes", "", name, {"status": {"capacity": {"cpu": "64", "memory": "256Gi"}}})
        self.put("namespaces", "", NAMESPACE, {})
        self.dns()
        for number, service in enumerate(app.services):
            for _ in range(service.replicas):
                self.start(service)
            ports = [{"name": "main", "port": service.port, "targetPort": service.port}]
            address = f"10.96.{number // 200}.{10 + number % 200}"
            self.put("services", NAMESPACE, service.name, {"spec": {"clusterIP": address, "ports": ports}})
            self.route(service)
        self.advance(5)
        env = {"TARGET": f"{ENTRY}:{HTTP_PORT}", "USERS": str(users), "RATE": str(users)}
        self._pod(USERS, f"{IMAGES}/{USERS}:1.0", env)

    def dns(self, corefile: str = COREFILE) -> None:
        """CoreDNS and its Service."""
        spec = coredns(self.put, NODES[0], corefile)
        self.refs["coredns"] = spec.ref
        self.world.start(spec, self.now)

    @property
    def now(self) -> float:
        return self.kernel.now

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.kernel.advance(min(end, self.now + 15.0))
            self.world.run_until(self.now)

    def put(self, resource: str, namespace: str, name: str, obj: Obj) -> None:
        meta = {"name": name, "namespace": namespace, **obj.get("metadata", {})}
        self.store.put(Key(resource, namespace, name), {**obj, "metadata": meta})

    def start(self, service: Service) -> str:
        return self._pod(service.name, f"{service.image}:1.0", service.env(self.app.ports))

    def pods(self, name: str) -> list[str]:
        found = [p["metadata"] for p in self.store.list("pods", NAMESPACE)]
        return [meta["name"] for meta in found if meta["labels"]["app"] == name]

    def route(self, service: Service, target: int | None = None) -> None:
        """Endpoints of a Service: its pods, at ``target`` or the right port."""
        addresses = [self.store.get(Key("pods", NAMESPACE, p))["status"]["podIP"] for p in self.pods(service.name)]  # type: ignore[index]
        self.put("discovery.k8s.io/endpointslices", NAMESPACE, f"{service.name}-x", {
            "metadata": {"labels": {"kubernetes.io/service-name": service.name}},
            "ports": [{"name": "main", "port": target or service.port}],
            "endpoints": [{"addresses": [ip], "conditions": {"ready": True}} for ip in addresses],
        })  # fmt: skip

    def restart(self, service: Service, target: int | None = None) -> None:
        """Replace all pods of a service; new connections go to ``target``."""
        for pod in self.pods(service.name):
            self.world.ended(self.refs[pod], self.now)
            self.store.remove(Key("pods", NAMESPACE, pod))
        for _ in range(service.replicas):
            self.start(service)
        self.route(service, target)

    def drain(self) -> None:
        """The users leave; what they asked for last is answered or given up."""
        for pod in self.pods(USERS):
            self.world.ended(self.refs[pod], self.now)
        self.advance(60)

    def chaos(self, kind: str, spec: Obj, service: Service) -> None:
        """An injected chaos object on all pods of a service."""
        container = "/server" if kind == "stresschaos" else ""
        records = [
            {"id": f"{NAMESPACE}/{pod}{container}", "selectorKey": ".", "phase": "Injected"}
            for pod in self.pods(service.name)
        ]
        obj = {"spec": {"mode": "all", "selector": {}, **spec}}
        obj["status"] = {"experiment": {"containerRecords": records}}
        self.put(f"chaos-mesh.org/{kind}", "chaos-mesh", f"{kind}-{service.name}", obj)

    def lines(self, pod: str) -> list[str]:
        found = self.world.logs(self.refs[pod], LogQuery())
        return [line.text for line in found or []]

    def spans_counted(self) -> dict[tuple[str, str, str], int]:
        """Span metrics by (service, kind, status), over pods and names."""
        found: dict[tuple[str, str, str], int] = {}
        metrics = self.world.counters(self.now).spans
        for series, count in zip(metrics.labels, metrics.count, strict=True):
            key = (series.service_name, series.span_kind[10:], series.status_code[12:])
            found[key] = found.get(key, 0) + int(count)
        return found

    def _pod(self, name: str, image: str, env: dict[str, str]) -> str:
        self._made += 1
        pod, ip = f"{name}-{self._made:04d}", f"10.{128 + self._made // 200}.0.{10 + self._made % 200}"
        node = NODES[self._made % len(NODES)]
        self.put("pods", NAMESPACE, pod, {
            "metadata": {"labels": {"app": name}, "uid": f"u-{pod}"}, "spec": {"nodeName": node},
            "status": {"podIP": ip},
        })  # fmt: skip
        ref = self.refs[pod] = ContainerRef(NAMESPACE, pod, f"u-{pod}", "server", 0)
        spec = ContainerSpec(ref, image, (), env, {}, {"app": name}, node, ip, 0.5, 128 << 20)
        self.world.start(spec, self.now)
        return pod


def break_something(town: Town, what: str, place: float) -> None:
    """One fault on the service at ``place`` (0..1 of all services)."""
    services = town.app.services
    service = services[min(int(place * len(services)), len(services) - 1)]
    direction = {"direction": "to"}
    if what == "delay":
        town.chaos("networkchaos", {**direction, "action": "delay", "delay": {"latency": "80ms"}}, service)
    elif what == "loss":
        town.chaos("networkchaos", {**direction, "action": "loss", "loss": {"loss": "20"}}, service)
    elif what == "partition":
        town.chaos("networkchaos", {**direction, "action": "partition"}, service)
    elif what == "stress":
        town.chaos("stresschaos", {"stressors": {"cpu": {"workers": 2, "load": 100}}}, service)
    elif what == "restart":
        town.restart(service)
    elif what == "port":
        town.restart(service, 9999)


@pytest.fixture
def make_town(tmp_path: Path) -> Any:
    """Towns by number of services and seed; ``layout`` is the seed of the application when it is another."""

    def make(services: int, seed: int = 5, *, layout: int | None = None, **more: Any) -> Town:
        app = synthetic(services, seed if layout is None else layout)
        return Town(app, tmp_path / f"{services}-{seed}", seed, **more)

    return make


@pytest.fixture
def break_it() -> Any:
    """``break_something``."""
    return break_something


@pytest.fixture
def rows() -> Any:
    """Container counters of a snapshot as dicts by label."""

    def read(snapshot: Any) -> dict[Any, dict[str, float]]:
        names = [n for n in snapshot.containers.__slots__ if n not in ("generation", "labels")]
        columns = {n: np.asarray(getattr(snapshot.containers, n), float) for n in names}
        return {
            label: {n: float(columns[n][i]) for n in names} for i, label in enumerate(snapshot.containers.labels)
        }

    return read
