"""The shop on an embedded cluster inside this process: deploy, load, break, read the figures.

No sockets and no lab: the objects of the chart go to the cluster's API as they are, faults are the chaos objects
that the lab would make, and the figures are counters at each scrape and the columns that all spans are read
from. Times are virtual seconds, figures in the units of their names.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import yaml
from numpy.typing import NDArray

from aiopslab.kube.tools import Tools
from aiopslab.sim.assemble import equip, make_core
from aiopslab.sim.core.options import WriteOptions
from aiopslab.sim.core.ports import LogQuery
from aiopslab.sim.world import chaos
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.programspec import Task, UserRequest
from aiopslab.sim.world.world import SimWorld

ROOT = Path(__file__).resolve().parents[1]
START = 1_748_854_800.0  # 2025-06-02T09:00:00Z
NAMESPACE = "hipster-shop"
LAB = "lab-system"
SCRAPE_S = 15.0
SETTLE_S = 90.0  # from deployment to ready pods
THINK_S = 5.5  # mean of the stock users' pause, uniform in 1 to 10 s
MILLI = 1e3
Floats = NDArray[np.float64]
# Upper bounds (ms) of the service mesh's request-duration histogram.
MESH_BOUNDS_MS = (0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000)
ROUTES = {
    "home": UserRequest("GET /"),
    "product": UserRequest("GET /product/{product}"),
    "view-cart": UserRequest("GET /cart"),
    "add-to-cart": UserRequest("POST /cart", adds={"cart": "product"}),
    "checkout": UserRequest("POST /cart/checkout", clears=["cart"]),
    "no-rpc": UserRequest("POST /setCurrency", keeps={"currency": "choice"}),
}
ENDPOINTS = {request.route: name for name, request in ROUTES.items()}


@dataclass(slots=True, eq=False)
class Calls:
    """Calls of one kind, in parallel arrays: start (Unix seconds), durations in ms as the caller and the callee see
    them, which failed at the caller, which reached a container."""

    start: Floats
    took: Floats
    served: Floats
    failed: NDArray[np.bool_]
    reached: NDArray[np.bool_]

    def within(self, start: float, end: float) -> Calls:
        """Those that ended in ``(start, end]``."""
        ends = self.start + self.took / MILLI
        pick = (ends > start) & (ends <= end)
        return self.only(pick)

    def only(self, pick: NDArray[np.bool_]) -> Calls:
        """The picked ones."""
        return Calls(self.start[pick], self.took[pick], self.served[pick], self.failed[pick], self.reached[pick])


@dataclass(slots=True)
class Samples:
    """What the exporters showed at each scrape: ``times``, and per service and column one value per scrape."""

    times: list[float] = field(default_factory=list)
    columns: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def series(self, service: str, column: str) -> Floats:
        """One value per scrape."""
        return np.array(self.columns[service][column])

    def rate(self, service: str, column: str, window_s: float) -> tuple[Floats, Floats]:
        """(times, increase per second over the last ``window_s``); a counter that started anew counts from zero."""
        times, values = np.array(self.times), self.series(service, column)
        steps = np.diff(values)
        total = np.concatenate([[0.0], np.cumsum(np.where(steps < 0, values[1:], steps))])
        back = round(window_s / SCRAPE_S)
        return times[back:], (total[back:] - total[:-back]) / (times[back:] - times[:-back])


class Shop:
    """One cluster with the shop. ``values`` are Helm values; ``shares`` gives the users' mix of endpoints, None
    the stock users'. ``edit`` changes the chart's objects before they are written."""

    def __init__(
        self,
        seed: int,
        values: Mapping[str, Any],
        shares: Mapping[str, float] | None = None,
        edit: Callable[[dict[str, Any]], None] = lambda obj: None,
        settle_s: float = SETTLE_S,
    ) -> None:
        programs = Programs.load([ROOT])
        if shares is not None:
            generator = next(p for p in programs.named("loadgenerator") if p.users is not None)
            users = generator.users
            assert users is not None
            tasks = [Task("index", shares["home"], [ROUTES["home"]])]
            tasks += [Task(n, shares[n], [r]) for n, r in ROUTES.items() if n != "home" and shares[n] > 0]
            generator.users = msgspec.structs.replace(users, tasks=tasks)
        self.kernel, self.api = make_core(seed, START - 900)
        self.world = SimWorld(self.kernel, self.kernel.store, programs, seed)
        equip(self.kernel, self.api, self.world)
        chaos.install(self.kernel, self.api, self.world)
        self.kernel.advance(START)
        self.samples = Samples()
        for name in (NAMESPACE, LAB, "chaos-mesh"):
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "")
        for obj in chart(values):
            edit(obj)
            self.create(obj, NAMESPACE)
        self.advance(settle_s)

    @property
    def now(self) -> float:
        """Virtual time."""
        return self.kernel.now

    def create(self, obj: dict[str, Any], namespace: str) -> None:
        """Write one object through the API."""
        kind = self.api.kinds.by_gvk(obj["apiVersion"], obj["kind"])
        assert kind is not None, obj["kind"]
        where = namespace if kind.namespaced else ""
        self.api.create(kind.resource, where, obj, WriteOptions("bench"))
        self.kernel.settle()

    def advance(self, seconds: float) -> None:
        """Let time pass; counters are read at each scrape."""
        end = self.now + seconds
        while self.now < end:
            self.kernel.advance(min(end, self.now + SCRAPE_S))
            self._sample()

    def users(self, count: int, warm_up_s: float = 120.0) -> None:
        """Start users, all of them within ten seconds, and let them warm up."""
        text = (ROOT / "workloads/locust-users/deployment.yaml").read_text()
        words = {
            "namespace": LAB, "entry_service": "frontend", "app_namespace": NAMESPACE, "entry_port": 80,
            "users": count, "spawn_rate": max(1, count // 10),
        }  # fmt: skip
        for name, value in words.items():
            text = text.replace("{{" + name + "}}", str(value))
        self.create(yaml.safe_load(text), LAB)
        self.advance(warm_up_s)

    def pods(self, service: str) -> list[str]:
        """Names of a service's pods."""
        pods = [p["metadata"] for p in self.kernel.store.list("pods", NAMESPACE)]
        return sorted(m["name"] for m in pods if m["labels"].get("app") == service)

    def chaos(self, kind: str, service: str, **spec: Any) -> None:
        """Create a chaos object that selects the pods of a service."""
        selector = {"namespaces": [NAMESPACE], "labelSelectors": {"app": service}}
        meta = {"name": f"{kind.lower()}-{service}", "namespace": "chaos-mesh"}
        body = {"mode": "all", "selector": selector, **spec}
        obj = {"apiVersion": "chaos-mesh.org/v1alpha1", "kind": kind, "metadata": meta, "spec": body}
        self.create(obj, "chaos-mesh")

    def served(self, since: float, key: Callable[[Any, Any], str | None]) -> dict[str, Calls]:
        """Calls that started after ``since`` by ``key(node, caller node or None)``; None leaves a call out."""
        found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for blocks in reversed(list(self.world._pieces.all())):
            for block in blocks:
                if not block.count or block.ends().max() < since:
                    continue
                for node in block.route.nodes:
                    name = key(node, block.route.nodes[node.parent] if node.parent >= 0 else None)
                    if name is not None:
                        found[name].append(_column(block, node.index, since))
        return {n: Calls(*(np.concatenate(c) for c in zip(*parts, strict=True))) for n, parts in found.items()}

    def log_lines(self, service: str, since: float) -> list[str]:
        """All log lines of a service's pods after ``since``, oldest first."""
        lines = []
        for run in self.world.runs.all:
            if run.ref.namespace == NAMESPACE and run.ref.pod.startswith(service + "-"):
                found = self.world.logs(run.ref, LogQuery(since=since, rotated=True)) or []
                lines += [line.text for line in found]
        return lines

    def _sample(self) -> None:
        counters = self.world.counters(self.now)
        self.samples.times.append(self.now)
        seen: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        rows = counters.containers
        for row, labels in enumerate(rows.labels):
            if labels.namespace == NAMESPACE:
                into = seen[service_of(labels.pod)]
                into["cpu_s"] += float(rows.cpu_seconds[row])
                into["throttled_s"] += float(rows.cfs_throttled_seconds[row])
                into["memory"] += float(rows.memory_working_set_bytes[row])
        for row, pod in enumerate(counters.pods.labels):
            if pod.namespace == NAMESPACE:
                seen[service_of(pod.pod)]["rx_packets"] += float(counters.pods.rx_packets[row])
                seen[service_of(pod.pod)]["tx_packets"] += float(counters.pods.tx_packets[row])
        before = len(self.samples.times) - 1
        for service, columns in seen.items():
            for column, value in columns.items():
                known = self.samples.columns[service][column]
                known += [0.0] * (before - len(known))
                known.append(value)
        for columns_of in self.samples.columns.values():
            for known in columns_of.values():
                if len(known) == before:  # no container of it runs: the counters stand still
                    known.append(known[-1])


def _column(block: Any, index: int, since: float) -> tuple[Any, ...]:
    start = block.start + block.begin[index].astype(float) / MILLI
    pick = (start >= since) & block.happened(index)
    failed = np.zeros(block.count, bool) if block.error is None else block.error[index] != 0
    took, served = (rows[index][pick].astype(float) for rows in (block.took, block.served))
    return start[pick], took, served, failed[pick], block.reached(index)[pick]


def service_of(pod: str) -> str:
    """The workload's name in a pod's name."""
    return pod.rsplit("-", 2)[0]


def chart(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The objects of the shop's chart."""
    command = [str(Tools.fetch().helm), "template", "hipster-shop", str(ROOT / "helm/hipster-shop")]
    words = [*command, "--namespace", NAMESPACE, "--values", "-"]
    done = subprocess.run(words, input=yaml.safe_dump(dict(values)), capture_output=True, text=True, check=True)
    return [obj for obj in yaml.safe_load_all(done.stdout) if obj]


def limits(services: Iterable[str], cpu: str, memory: Mapping[str, str]) -> dict[str, Any]:
    """Helm values that give every service the same CPU limit and its memory limit."""
    found: dict[str, Any] = {"services": {}}
    for name in services:
        wanted = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": cpu, "memory": memory[name]}}
        if name == "redis-cart":
            found["redis"] = {"resources": wanted}
        else:
            found["services"][name] = {"resources": wanted}
    return found


def mesh_quantile(durations_ms: Floats, level: float) -> float:
    """The quantile as a mesh reports it: interpolated inside one bucket of its histogram (PromQL's
    ``histogram_quantile``), so a service whose calls all fall into one bucket shows the same value for good."""
    if not len(durations_ms):
        return float("nan")
    bounds = np.array(MESH_BOUNDS_MS, float)
    places = np.minimum(np.searchsorted(bounds, durations_ms), len(bounds) - 1)
    counts = np.cumsum(np.bincount(places, minlength=len(bounds)))
    rank = level * counts[-1]
    bucket = int(np.searchsorted(counts, rank))
    low, below = (0.0, 0) if bucket == 0 else (bounds[bucket - 1], int(counts[bucket - 1]))
    return float(low + (bounds[bucket] - low) * (rank - below) / max(1, counts[bucket] - below))
