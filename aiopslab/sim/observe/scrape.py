"""Scrapes: every interval of virtual time, all exporters into the series store."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Protocol

import numpy as np

from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.store import Obj, Store
from aiopslab.sim.observe.exporters.cadvisor import CADVISOR_JOB, Cadvisor
from aiopslab.sim.observe.exporters.dns import CoreDns
from aiopslab.sim.observe.exporters.host import HostExporter
from aiopslab.sim.observe.exporters.kube_state import KubeStateMetrics
from aiopslab.sim.observe.exporters.kubelet import JOB as KUBELET_JOB
from aiopslab.sim.observe.exporters.kubelet import Kubelet
from aiopslab.sim.observe.exporters.messaging import Messaging
from aiopslab.sim.observe.exporters.node import JOB as NODE_JOB
from aiopslab.sim.observe.exporters.node import NodeExporter
from aiopslab.sim.observe.exporters.page import Cluster, Endpoint, Exporter, Layout, Page
from aiopslab.sim.observe.exporters.process import Processes
from aiopslab.sim.observe.exporters.spans import SpanMetrics
from aiopslab.sim.observe.exporters.storage import ContainerDisks, VolumeStats
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.observe.targets import MetricMetadata, Target
from aiopslab.sim.world.background import Background
from aiopslab.sim.world.counters import CounterSnapshot

# The lab's own namespaces, which an agent must not find in any API (docs/seams.md).
HIDDEN_NAMESPACES = frozenset({"lab-system", "chaos-mesh"})
_PER_NODE_JOBS = (CADVISOR_JOB, KUBELET_JOB, NODE_JOB)
_TARGET_METRICS = (
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
)


class Counters(Protocol):
    """What the scraper needs of the world."""

    def run_until(self, now: float) -> None:
        """Simulate up to ``now``."""

    def counters(self, now: float) -> CounterSnapshot:
        """All counters at ``now``."""


class Scraper:
    """Takes a scrape each ``interval_s`` seconds of virtual time, all targets at the same instant.

    Nothing in ``HIDDEN_NAMESPACES`` is scraped. A node whose Ready condition is Unknown does not answer: its
    targets are down and their series end. With ``background`` noise, now and then a node's cAdvisor takes too long.
    """

    def __init__(
        self,
        kernel: Kernel,
        store: Store,
        world: Counters,
        series: SeriesStore,
        interval_s: float = 15,
        background: Background | None = None,
    ) -> None:
        self._background = background or Background()
        self._kernel, self._store, self._world, self._series = kernel, store, world, series
        self.interval_s = interval_s
        cadvisor = Cadvisor(store, kernel.ids, series)
        self._exporters: list[Exporter] = [
            cadvisor,
            ContainerDisks(store, series, cadvisor),
            Kubelet(series),
            VolumeStats(store, series),
            KubeStateMetrics(store, series),
            NodeExporter(series),
            HostExporter(store, series),
            Processes(series),
            CoreDns(store, series),
            SpanMetrics(series),
            Messaging(series),
        ]
        self._shown: list[np.ndarray] = [np.empty(0, np.int64) for _ in self._exporters]
        self._target_ids: dict[Endpoint, np.ndarray] = {}
        self._targets: list[Target] = []
        self._last_ms: int | None = None

    def start(self) -> None:
        """Scrape now and then each interval."""
        self.scrape()
        self._kernel.call_after(self.interval_s, "observe/scrape", self.start)

    def scrape(self) -> None:
        """One scrape of everything at the kernel's time. A second one at the same time does nothing."""
        now = self._kernel.now
        t_ms = round(now * 1000)
        if self._last_ms is not None and t_ms <= self._last_ms:
            return
        self._last_ms = t_ms
        self._world.run_until(now)
        snapshot = self._world.counters(now)
        cluster = self._cluster()
        slow = frozenset(name for name in cluster.addresses if self._background.gap(name, t_ms))
        busy = replace(cluster, silent=cluster.silent | slow)
        pages = [
            exporter.collect(snapshot, busy if isinstance(exporter, Cadvisor | ContainerDisks) else cluster)
            for exporter in self._exporters
        ]
        for place, page in enumerate(pages):
            self._series.append(t_ms, page.ids, page.values)
            self._end_missing(t_ms, place, page)
        self._note_targets(t_ms, pages, cluster, slow)

    def targets(self) -> list[Target]:
        """The targets of the last scrape."""
        return self._targets

    def metadata(self) -> dict[str, MetricMetadata]:
        """Type and help of every metric family."""
        return {name: about for exporter in self._exporters for name, about in exporter.metadata.items()}

    def _end_missing(self, t_ms: int, place: int, page: Page) -> None:
        """Stale markers for series that the exporter showed last time and no longer shows."""
        before = self._shown[place]
        if page.ids is not before:
            self._series.mark_stale(t_ms, np.setdiff1d(before, page.ids))
            self._shown[place] = page.ids

    def _cluster(self) -> Cluster:
        nodes = self._store.list("nodes")
        silent = frozenset(node["metadata"]["name"] for node in nodes if not _answers(node))
        return Cluster({node["metadata"]["name"]: _address(node) for node in nodes}, silent, HIDDEN_NAMESPACES)

    def _note_targets(self, t_ms: int, pages: list[Page], cluster: Cluster, slow: frozenset[str]) -> None:
        counts = Counter({Endpoint("prometheus", "localhost:9090"): 0})
        for page in pages:
            counts.update(page.counts)
        down = {_node_endpoint(job, node, cluster) for job in _PER_NODE_JOBS for node in cluster.silent}
        down |= {_node_endpoint(CADVISOR_JOB, node, cluster) for node in slow}
        for endpoint in down:
            counts[endpoint] = 0
        self._targets = []
        ids, values = [], []
        for endpoint in sorted(counts):
            samples, alive = counts[endpoint], endpoint not in down
            # A scrape takes some milliseconds and then time in proportion to its size; a dead one times out.
            duration_s = round(0.004 + 2e-6 * samples, 6) if alive else 10.0
            ids.append(self._ids_of(endpoint))
            values.append([float(alive), duration_s, float(samples), float(samples)])
            self._targets.append(self._target(endpoint, t_ms / 1000, duration_s, alive))
        gone = [self._target_ids.pop(endpoint) for endpoint in sorted(set(self._target_ids) - set(counts))]
        self._series.append(t_ms, np.concatenate(ids), np.array(values).ravel())
        if gone:
            self._series.mark_stale(t_ms, np.concatenate(gone))

    def _ids_of(self, endpoint: Endpoint) -> np.ndarray:
        found = self._target_ids.get(endpoint)
        if found is None:
            layout = Layout(self._series)
            for metric in _TARGET_METRICS:
                layout.add(metric, endpoint)
            found = self._target_ids[endpoint] = layout.array()
        return found

    def _target(self, endpoint: Endpoint, at: float, duration_s: float, alive: bool) -> Target:
        error = "" if alive else f'Get "http://{endpoint.instance}/metrics": context deadline exceeded'
        labels = {name: value for name, value in endpoint.pairs() if value}
        url = f"http://{endpoint.instance}/metrics"
        return Target(labels, endpoint.job, url, at, duration_s, self.interval_s, error)


def _answers(node: Obj) -> bool:
    ready = [c for c in node.get("status", {}).get("conditions") or () if c["type"] == "Ready"]
    return not ready or ready[0]["status"] != "Unknown"


def _address(node: Obj) -> str:
    for found in node.get("status", {}).get("addresses") or ():
        if found["type"] == "InternalIP":
            return str(found["address"])
    return str(node["metadata"]["name"])


def _node_endpoint(job: str, node: str, cluster: Cluster) -> Endpoint:
    return Endpoint(job, f"{cluster.addresses[node]}:9100" if job == NODE_JOB else node, node)
