"""A small cluster without an API server: hand-made objects in a store, containers started by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.ports import ContainerRef, ContainerSpec, LogQuery
from aiopslab.sim.core.store import Key, Obj
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.world import SimWorld
from aiopslab.testing.coredns import COREFILE, coredns

ROOT = Path(__file__).resolve().parents[3]
START = 1748854800.0  # 2025-06-02T09:00:00Z
SHOP = "shop"
REPOSITORY = "us-central1-docker.pkg.dev/online-boutique-ci/microservices-demo"
ADDRESSES = {
    "PRODUCT_CATALOG_SERVICE_ADDR": "productcatalogservice:3550",
    "CURRENCY_SERVICE_ADDR": "currencyservice:7000",
    "CART_SERVICE_ADDR": "cartservice:7070",
    "RECOMMENDATION_SERVICE_ADDR": "recommendationservice:8080",
    "SHIPPING_SERVICE_ADDR": "shippingservice:50051",
    "CHECKOUT_SERVICE_ADDR": "checkoutservice:5050",
    "AD_SERVICE_ADDR": "adservice:9555",
    "PAYMENT_SERVICE_ADDR": "paymentservice:50051",
    "EMAIL_SERVICE_ADDR": "emailservice:5000",
    "REDIS_ADDR": "redis-cart:6379",
}
# name -> (service port, container port, millicores, memory limit MiB)
SERVICES = {
    "frontend": (80, 8080, 200, 128),
    "adservice": (9555, 9555, 300, 300),
    "cartservice": (7070, 7070, 300, 256),
    "checkoutservice": (5050, 5050, 200, 128),
    "currencyservice": (7000, 7000, 200, 256),
    "emailservice": (5000, 8080, 200, 128),
    "paymentservice": (50051, 50051, 200, 256),
    "productcatalogservice": (3550, 3550, 200, 128),
    "recommendationservice": (8080, 8080, 200, 450),
    "shippingservice": (50051, 50051, 200, 128),
    "redis-cart": (6379, 6379, 125, 256),
}
TRACED = frozenset(SERVICES) - {"adservice", "cartservice", "shippingservice", "redis-cart"}


class Lab:
    """A world with the means to change its cluster."""

    def __init__(self, seed: int = 7) -> None:
        self.kernel = Kernel(seed, START)
        self.store = self.kernel.store
        self.world = SimWorld(self.kernel, self.store, Programs.load([ROOT]), seed)
        self.refs: dict[str, ContainerRef] = {}
        self._pods = 0
        for number in (1, 2, 3):
            capacity = {"cpu": "4", "memory": "16Gi"}
            self.put("nodes", "", f"worker-{number}", {"status": {"capacity": capacity}})
        self.put("namespaces", "", SHOP, {})
        self.dns()

    def dns(self, corefile: str = COREFILE) -> None:
        """CoreDNS and its Service."""
        spec = coredns(self.put, "worker-1", corefile)
        self.refs["coredns"] = spec.ref
        self.world.start(spec, self.now)

    @property
    def now(self) -> float:
        return self.kernel.now

    def advance(self, seconds: float, step: float = 15.0) -> None:
        """Let time pass, reading the counters as a scraper would."""
        end = self.now + seconds
        while self.now < end:
            self.kernel.advance(min(end, self.now + step))
            self.world.counters(self.now)

    def put(self, resource: str, namespace: str, name: str, obj: Obj) -> None:
        meta = {"name": name, "namespace": namespace, **obj.get("metadata", {})}
        self.store.put(Key(resource, namespace, name), {**obj, "metadata": meta})

    def service(self, name: str, port: int, target: int, index: int) -> None:
        ports = [{"name": "main", "port": port, "targetPort": target}]
        spec = {"clusterIP": f"10.96.7.{index}", "ports": ports, "selector": {"app": name}}
        self.put("services", SHOP, name, {"spec": spec})

    def slice(self, name: str, target: int, pods: list[str] | None = None) -> None:
        """Endpoints of a Service: its running pods, or the given ones."""
        alive = pods if pods is not None else self.pods(name)
        endpoints = [
            {"addresses": [self.store.get(Key("pods", SHOP, p))["status"]["podIP"]], "conditions": {"ready": True}}
            for p in alive
        ]
        self.put(
            "discovery.k8s.io/endpointslices",
            SHOP,
            f"{name}-abcde",
            {
                "metadata": {"labels": {"kubernetes.io/service-name": name}},
                "ports": [{"name": "main", "port": target}],
                "endpoints": endpoints,
            },
        )

    def pods(self, name: str) -> list[str]:
        found = [p["metadata"] for p in self.store.list("pods", SHOP)]
        return [meta["name"] for meta in found if meta["labels"]["app"] == name]

    def pod(self, name: str, image: str, limits: tuple[int, int] | None, env: dict[str, str], **more: Any) -> str:
        self._pods += 1
        pod = f"{name}-{self._pods:03d}"
        ip = f"10.244.{1 + self._pods % 3}.{10 + self._pods}"
        meta = {"labels": {"app": name}, "uid": f"u-{pod}"}
        self.put("pods", SHOP, pod, {"metadata": meta, "status": {"podIP": ip}})
        cpu, memory = (limits[0] / 1000, limits[1] << 20) if limits else (None, None)
        ref = ContainerRef(SHOP, pod, f"u-{pod}", "server", 0)
        self.refs[pod] = ref
        spec = ContainerSpec(
            ref,
            image,
            more.get("command", ()),
            env,
            more.get("files", {}),
            {"app": name},
            f"worker-{1 + self._pods % 3}",
            ip,
            cpu,
            memory,
        )
        self.result = self.world.start(spec, self.now)
        return pod

    def app(self, name: str, replicas: int, **env: str) -> None:
        _, _, cpu, memory = SERVICES[name]
        tracing = {"ENABLE_TRACING": "1"} if name in TRACED else {}
        port = {} if name in ("cartservice", "redis-cart") else {"PORT": str(SERVICES[name][1])}
        image = "redis:alpine" if name == "redis-cart" else f"{REPOSITORY}/{name}:v0.10.6"
        for _ in range(replicas):
            self.pod(name, image, (cpu, memory), {**ADDRESSES, **port, **tracing, **env})

    def remove(self, pod: str, *, grace_s: float = 0.0) -> None:
        """A pod ends and its object goes."""
        if grace_s:
            self.world.stop(self.refs[pod], self.now, grace_s)
        self.world.ended(self.refs[pod], self.now)
        self.store.remove(Key("pods", SHOP, pod))

    def shop(self, replicas: int = 1, **by_name: int) -> None:
        """The whole application, ready."""
        for index, (name, (port, target, _, _)) in enumerate(SERVICES.items(), 11):
            count = 1 if name == "redis-cart" else replicas
            self.app(name, by_name.get(name.replace("-", "_"), count))
            self.service(name, port, target, index)
            self.slice(name, target)
        self.advance(10)

    def users(self, count: int = 10, rate: int = 5) -> str:
        env = {"FRONTEND_ADDR": "frontend:80", "USERS": str(count), "RATE": str(rate)}
        return self.pod("loadgenerator", f"{REPOSITORY}/loadgenerator:v0.10.6", (500, 512), env)

    def logs(self, pod: str, **query: Any) -> list[str]:
        lines = self.world.logs(self.refs[pod], LogQuery(**query))
        assert lines is not None
        return [line.text for line in lines]

    def spans(self, **labels: str) -> dict[tuple[str, ...], int]:
        """Span counts by (service, name, kind, status), over pods."""
        found: dict[tuple[str, ...], int] = {}
        metrics = self.world.counters(self.now).spans
        for series, count in zip(metrics.labels, metrics.count, strict=True):
            if all(getattr(series, k) == v for k, v in labels.items()):
                key = (series.service_name, series.span_name, series.span_kind[10:], series.status_code[12:])
                found[key] = found.get(key, 0) + int(count)
        return found

    def chaos(self, kind: str, name: str, spec: Obj, *records: tuple[str, str]) -> None:
        """An injected chaos object; records are (id, selector key)."""
        found = [{"id": i, "selectorKey": s, "phase": "Injected"} for i, s in records]
        status = {"experiment": {"containerRecords": found}}
        self.put(f"chaos-mesh.org/{kind}", "chaos-mesh", name, {"spec": spec, "status": status})


@pytest.fixture
def lab() -> Lab:
    """An empty cluster."""
    return Lab()


@pytest.fixture
def shop() -> Lab:
    """The application with one pod per service and ten users, two minutes after the start."""
    lab = Lab()
    lab.shop()
    lab.users()
    lab.advance(120)
    return lab


@pytest.fixture
def make_lab() -> type[Lab]:
    """For tests that need several clusters."""
    return Lab


@pytest.fixture(scope="session")
def lab_class() -> type[Lab]:
    """For fixtures that are shared by a module."""
    return Lab
