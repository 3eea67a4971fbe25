"""The kubelet's own metrics, one endpoint per node (job ``kubernetes-nodes``)."""

from __future__ import annotations

from collections import Counter

import numpy as np

from aiopslab.sim.observe.exporters.page import Cluster, Endpoint, Layout, Page, describe
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.world.counters import CounterSnapshot

JOB = "kubernetes-nodes"


class Kubelet:
    """How many pods and containers each kubelet runs."""

    metadata = describe(
        [
            ("kubelet_node_name", "gauge", "The node's name. The count is always 1."),
            ("kubelet_running_pods", "gauge", "Number of pods that have a running pod sandbox"),
            ("kubelet_running_containers", "gauge", "Number of containers currently running"),
        ]
    )

    def __init__(self, series: SeriesStore) -> None:
        self._series = series
        self._key: object = None
        self._names: list[str] = []
        self._ids = np.empty(0, np.int64)
        self._counts: dict[Endpoint, int] = {}

    def collect(self, snapshot: CounterSnapshot, cluster: Cluster) -> Page:
        """All nodes that answer."""
        key = (snapshot.nodes.generation, cluster.silent)
        if key != self._key:
            self._lay_out([name for name in snapshot.nodes.names if name not in cluster.silent])
            self._key = key
        pods = Counter(found.node for found in snapshot.pods.labels)
        containers = Counter(found.node for found in snapshot.containers.labels)
        values = [v for name in self._names for v in (1.0, float(pods[name]), float(containers[name]))]
        return Page(self._ids, np.array(values), self._counts)

    def _lay_out(self, names: list[str]) -> None:
        layout = Layout(self._series)
        for name in names:
            endpoint = Endpoint(JOB, name, name)
            layout.add("kubelet_node_name", endpoint)
            layout.add("kubelet_running_pods", endpoint)
            layout.add("kubelet_running_containers", endpoint, (("container_state", "running"),))
        self._names, self._ids, self._counts = names, layout.array(), dict(layout.counts)
