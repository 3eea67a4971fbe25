"""A cluster of plain dicts and a world with steady counters, for scrapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.store import Key
from aiopslab.sim.observe.scrape import Scraper
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.world.counters import (
    CPU_MODES,
    SPAN_BOUNDS_MS,
    ContainerCounters,
    ContainerLabels,
    CounterSnapshot,
    NodeCounters,
    PodCounters,
    PodLabels,
    SpanCounters,
    SpanSeries,
)

START = 1_748_854_800.0  # 2025-06-02T09:00:00Z
NODES = ("node-a", "node-b")
CREATED = "2025-06-02T08:00:00Z"


def node(name: str, ready: str = "True") -> dict[str, Any]:
    number = NODES.index(name) + 2
    return {
        "metadata": {"name": name, "creationTimestamp": CREATED, "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {},
        "status": {
            "addresses": [{"type": "InternalIP", "address": f"10.0.0.{number}"}],
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def pod(name: str, number: int = 0, *, restarts: int = 0) -> dict[str, Any]:
    state = {"running": {"startedAt": CREATED}}
    status: dict[str, Any] = {
        "name": "server", "image": "shop/server:1", "ready": True, "restartCount": restarts, "state": state,
        "containerID": f"containerd://{number:064x}", "lastState": {},
    }  # fmt: skip
    if restarts:
        status["lastState"] = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": CREATED}}
    return {
        "metadata": {
            "name": name, "namespace": "shop", "uid": f"uid-{name}", "creationTimestamp": CREATED,
            "ownerReferences": [{"kind": "ReplicaSet", "name": name.rpartition("-")[0], "controller": True}],
        },
        "spec": {
            "nodeName": NODES[number % 2],
            "containers": [{
                "name": "server", "image": "shop/server:1",
                "resources": {
                    "requests": {"cpu": "100m", "memory": "64Mi"},
                    "limits": {"cpu": "200m", "memory": "128Mi"},
                },
            }],
        },
        "status": {
            "phase": "Running", "podIP": f"10.1.0.{number}", "qosClass": "Burstable", "startTime": CREATED,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": CREATED}],
            "containerStatuses": [status],
        },
    }  # fmt: skip


class SteadyWorld:
    """Counters that grow in proportion to time; pods can be added and removed."""

    def __init__(self) -> None:
        self.containers: list[tuple[str, str, str]] = []  # (namespace, pod, node)
        self.generation = 0
        self.simulated = 0.0
        self.spans = [
            SpanSeries("web", "GET /", "SPAN_KIND_SERVER", "STATUS_CODE_UNSET", "shop", "web-0", "node-a")
        ]

    def set_pods(self, containers: list[tuple[str, str, str]]) -> None:
        self.containers = containers
        self.generation += 1

    def run_until(self, now: float) -> None:
        self.simulated = now

    def counters(self, now: float) -> CounterSnapshot:
        n, age = len(self.containers), now - START
        ints = np.full(n, int(age), np.int64)
        containers = ContainerCounters(
            self.generation,
            [ContainerLabels(ns, p, f"uid-{p}", "server", 0, "shop/server:1", at) for ns, p, at in self.containers],
            np.full(n, 0.1 * age), np.full(n, 0.02 * age), np.full(n, 0.2), ints, ints // 2, np.full(n, 0.05 * age),
            *(np.full(n, size << 20, np.int64) for size in (50, 40, 10, 60, 70, 128)),
            *(np.full(n, count, np.int64) for count in (1, 8, 12, 20, 0)), np.full(n, START),
        )  # fmt: skip
        sandboxes = [PodLabels(ns, p, f"uid-{p}", at) for ns, p, at in self.containers]
        pods = PodCounters(self.generation, sandboxes, ints * 1000, ints, ints * 500, ints)
        m = len(NODES)
        cpu = np.zeros((m, len(CPU_MODES)))
        cpu[:, 0], cpu[:, -1] = 3.0 * age, 1.0 * age
        sizes = (8 << 30, 6 << 30, 1 << 30, *[int(age)] * 4, 0)
        whole = [np.full(m, size, np.int64) for size in sizes]
        nodes = NodeCounters(0, list(NODES), np.full(m, 4, np.int64), cpu, *whole, np.full(m, START))
        count = np.full(len(self.spans), int(age), np.int64)
        buckets = np.repeat(count[:, None], len(SPAN_BOUNDS_MS), axis=1)
        return CounterSnapshot(now, containers, pods, nodes, SpanCounters(self.spans, buckets, count, count * 1.5))


class Lab:
    """Kernel, store, world, series and scraper, wired."""

    def __init__(self, pods: int) -> None:
        self.kernel = Kernel(7, START)
        self.world = SteadyWorld()
        self.series = SeriesStore()
        for name in NODES:
            self.put("nodes", node(name))
        names = [f"web-{i}" for i in range(pods)]
        for i, name in enumerate(names):
            self.put("pods", pod(name, i))
        self.world.set_pods([("shop", name, NODES[i % 2]) for i, name in enumerate(names)])
        self.scraper = Scraper(self.kernel, self.kernel.store, self.world, self.series)

    def put(self, resource: str, obj: dict[str, Any]) -> None:
        meta = obj["metadata"]
        self.kernel.store.put(Key(resource, meta.get("namespace", ""), meta["name"]), obj)

    def run(self, seconds: float) -> None:
        self.kernel.advance(self.kernel.now + seconds)


@pytest.fixture
def lab() -> Lab:
    """Two nodes, four pods, scraping."""
    made = Lab(4)
    made.scraper.start()
    return made


@pytest.fixture
def make_lab() -> type[Lab]:
    """The class, for other sizes."""
    return Lab


@pytest.fixture
def make_node() -> Any:
    """Node objects by name and readiness."""
    return node


@pytest.fixture
def make_pod() -> Any:
    """Pod objects by name and number."""
    return pod
