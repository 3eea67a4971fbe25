"""cAdvisor and the kubelet, one endpoint each per node.

Labels are those of the plain Prometheus chart's jobs ``kubernetes-nodes-cadvisor`` and ``kubernetes-nodes``:
``instance`` is the node's name, and ``node`` repeats it so that the usual joins with kube-state-metrics work. As
on containerd, rows of a pod's own cgroup have no ``container``, ``image`` or ``name``, network rows belong to the
pod, and the node itself is ``id="/"``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from aiopslab.sim.core.ids import Ids
from aiopslab.sim.core.store import Key, Store
from aiopslab.sim.observe.exporters.page import Cluster, Endpoint, Floats, Ints, Layout, Page, Pairs, describe
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.world.counters import ContainerCounters, ContainerLabels, CounterSnapshot, PodCounters, PodLabels

_Row = ContainerLabels | PodLabels
CADVISOR_JOB = "kubernetes-nodes-cadvisor"
CFS_PERIOD_US = 100_000
PAUSE_IMAGE = "registry.k8s.io/pause:3.10"


class _Column(NamedTuple):
    metric: str
    read: Callable[[ContainerCounters], np.ndarray]
    kind: str
    help: str
    extra: Pairs = ()
    needs: str = ""  # "cpu": only with a CPU limit


def _quota(c: ContainerCounters) -> np.ndarray:
    return np.nan_to_num(c.cpu_limit_cores) * CFS_PERIOD_US


_TOTAL = (("cpu", "total"),)
_CONTAINER = (
    _Column("container_cpu_usage_seconds_total", lambda c: c.cpu_seconds, "counter",
            "Cumulative cpu time consumed", _TOTAL),
    _Column("container_cpu_system_seconds_total", lambda c: c.cpu_system_seconds, "counter",
            "Cumulative system cpu time"),
    _Column("container_cpu_user_seconds_total", lambda c: c.cpu_seconds - c.cpu_system_seconds, "counter",
            "Cumulative user cpu time"),
    _Column("container_cpu_cfs_periods_total", lambda c: c.cfs_periods, "counter",
            "Number of elapsed enforcement period intervals", needs="cpu"),
    _Column("container_cpu_cfs_throttled_periods_total", lambda c: c.cfs_throttled_periods, "counter",
            "Number of throttled period intervals", needs="cpu"),
    _Column("container_cpu_cfs_throttled_seconds_total", lambda c: c.cfs_throttled_seconds, "counter",
            "Total time the container has been throttled", needs="cpu"),
    _Column("container_memory_working_set_bytes", lambda c: c.memory_working_set_bytes, "gauge",
            "Current working set"),
    _Column("container_memory_usage_bytes", lambda c: c.memory_usage_bytes, "gauge",
            "Current memory usage, including all memory regardless of when it was accessed"),
    _Column("container_memory_rss", lambda c: c.memory_rss_bytes, "gauge", "Size of RSS"),
    _Column("container_memory_cache", lambda c: c.memory_cache_bytes, "gauge", "Bytes of page cache memory"),
    _Column("container_memory_max_usage_bytes", lambda c: c.memory_max_usage_bytes, "gauge",
            "Maximum memory usage recorded"),
    _Column("container_oom_events_total", lambda c: c.oom_events, "counter",
            "Count of out of memory events observed"),
    _Column("container_processes", lambda c: c.processes, "gauge",
            "Number of processes running inside the container"),
    _Column("container_threads", lambda c: c.threads, "gauge", "Number of threads running inside the container"),
    _Column("container_sockets", lambda c: c.sockets, "gauge", "Number of open sockets for the container"),
    _Column("container_file_descriptors", lambda c: c.file_descriptors, "gauge",
            "Number of open file descriptors for the container"),
    _Column("container_start_time_seconds", lambda c: c.start_time, "gauge", "Start time since the Unix epoch"),
    _Column("container_spec_memory_limit_bytes", lambda c: c.memory_limit_bytes, "gauge", "Memory limit"),
    _Column("container_spec_cpu_period", lambda c: np.full(len(c.labels), CFS_PERIOD_US), "gauge", "CPU period"),
    _Column("container_spec_cpu_quota", _quota, "gauge", "CPU quota", needs="cpu"),
)  # fmt: skip
# Columns that a pod's own cgroup and the node's root show too, as sums over what is inside.
_SUMMED = (
    "container_cpu_usage_seconds_total",
    "container_memory_working_set_bytes",
    "container_memory_usage_bytes",
    "container_memory_rss",
    "container_memory_cache",
)
_NETWORK: tuple[tuple[str, Callable[[PodCounters], np.ndarray]], ...] = (
    ("container_network_receive_bytes_total", lambda p: p.rx_bytes),
    ("container_network_receive_packets_total", lambda p: p.rx_packets),
    ("container_network_receive_packets_dropped_total", lambda p: np.zeros(len(p.labels))),
    ("container_network_receive_errors_total", lambda p: np.zeros(len(p.labels))),
    ("container_network_transmit_bytes_total", lambda p: p.tx_bytes),
    ("container_network_transmit_packets_total", lambda p: p.tx_packets),
    ("container_network_transmit_packets_dropped_total", lambda p: np.zeros(len(p.labels))),
    ("container_network_transmit_errors_total", lambda p: np.zeros(len(p.labels))),
)


class Cadvisor:
    """Container, pod and node resource use."""

    metadata = describe(
        [
            *((c.metric, c.kind, c.help) for c in _CONTAINER),
            *((name, "counter", "Cumulative count of " + name[18:-6].replace("_", " ")) for name, _ in _NETWORK),
            ("machine_cpu_cores", "gauge", "Number of logical CPU cores."),
            ("machine_memory_bytes", "gauge", "Amount of memory installed on the machine."),
        ]
    )

    def __init__(self, store: Store, ids: Ids, series: SeriesStore) -> None:
        self._store, self._ids, self._series = store, ids, series
        self._key: object = None
        self._plan: _Plan | None = None
        # Ids of the plan in force by metric and row: most survive when a pod comes or goes.
        self.known: dict[tuple[str, _Row], int] = {}

    def collect(self, snapshot: CounterSnapshot, cluster: Cluster) -> Page:
        """All rows of nodes that answer."""
        c = snapshot.containers
        limited = ~np.isnan(c.cpu_limit_cores)
        key = (c.generation, snapshot.pods.generation, snapshot.nodes.generation, cluster.silent, limited.tobytes())
        if self._plan is None or self._key != key:
            self._plan = _Plan(self, snapshot, cluster, limited)
            self._key = key
        return Page(self._plan.ids, self._plan.values(snapshot), self._plan.counts)

    def container_pairs(self, labels: ContainerLabels) -> Pairs:
        """Labels of a container's rows."""
        run = self._container_id(labels)
        cgroup = f"{_pod_cgroup(labels.pod_uid)}/cri-containerd-{run}.scope"
        return (
            ("id", cgroup), ("name", run), ("image", labels.image), ("container", labels.container),
            ("pod", labels.pod), ("namespace", labels.namespace),
        )  # fmt: skip

    def pod_pairs(self, labels: PodLabels) -> Pairs:
        """Labels of the pod's own cgroup."""
        return (("id", _pod_cgroup(labels.pod_uid)), ("pod", labels.pod), ("namespace", labels.namespace))

    def sandbox_pairs(self, labels: PodLabels) -> Pairs:
        """Labels of network rows: the sandbox with its pause image."""
        run = self._run_id("sandbox", labels.pod_uid)
        cgroup = f"{_pod_cgroup(labels.pod_uid)}/cri-containerd-{run}.scope"
        return (
            ("id", cgroup), ("name", run), ("image", PAUSE_IMAGE), ("interface", "eth0"),
            ("pod", labels.pod), ("namespace", labels.namespace),
        )  # fmt: skip

    def _container_id(self, labels: ContainerLabels) -> str:
        """The runtime's id as the API shows it, so that both can be joined."""
        pod = self._store.get(Key("pods", labels.namespace, labels.pod)) or {}
        status = pod.get("status", {})
        for found in (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())):
            current = found.get("restartCount", 0) == labels.attempt and found.get("containerID")
            if found.get("name") == labels.container and current:
                return str(found["containerID"]).rpartition("/")[2]
        return self._run_id(labels.pod_uid, labels.container, labels.attempt)

    def _run_id(self, *parts: object) -> str:
        return self._ids.hex(40, "container", *parts) + self._ids.hex(24, "container-tail", *parts)


class _Plan:
    """Which series there are and where their values stand; valid until something comes or goes."""

    def __init__(self, owner: Cadvisor, snapshot: CounterSnapshot, cluster: Cluster, limited: np.ndarray) -> None:
        c, pods, nodes = snapshot.containers, snapshot.pods, snapshot.nodes
        layout = Layout(owner._series)
        self._owner, self._layout = owner, layout
        self._fresh: dict[tuple[str, _Row], int] = {}
        answers = np.array([_exposed(cluster, found) for found in c.labels], bool)
        self._rows = {"": np.flatnonzero(answers), "cpu": np.flatnonzero(answers & limited)}
        pairs = cache(owner.container_pairs)
        for column in _CONTAINER:
            for row in self._rows[column.needs].tolist():
                self._add(column.metric, c.labels[row], pairs, column.extra)
        self._pod_rows = np.array([i for i, p in enumerate(pods.labels) if _exposed(cluster, p)], np.int64)
        self._lay_pods(owner, pods)
        place = {(p.namespace, p.pod): i for i, p in enumerate(pods.labels)}
        self._pod_of = np.array([place.get((f.namespace, f.pod), -1) for f in c.labels], np.int64)
        self._node_rows = np.array([i for i, n in enumerate(nodes.names) if n not in cluster.silent], np.int64)
        node_place = {name: i for i, name in enumerate(nodes.names)}
        self._node_of = np.array([node_place.get(f.node, -1) for f in c.labels], np.int64)
        for metric in (*_SUMMED, "machine_cpu_cores", "machine_memory_bytes"):
            for row in self._node_rows.tolist():
                extra = _TOTAL if metric == _SUMMED[0] else ()
                root: Pairs = (("id", "/"),) if metric in _SUMMED else ()
                layout.add(metric, _endpoint(nodes.names[row]), root, extra)
        self.ids: Ints = layout.array()
        self.counts = dict(layout.counts)
        owner.known = self._fresh

    def _lay_pods(self, owner: Cadvisor, pods: PodCounters) -> None:
        own, sandbox = cache(owner.pod_pairs), cache(owner.sandbox_pairs)
        for metric in _SUMMED:
            for row in self._pod_rows.tolist():
                self._add(metric, pods.labels[row], own, _TOTAL if metric == _SUMMED[0] else ())
        for metric, _ in _NETWORK:
            for row in self._pod_rows.tolist():
                self._add(metric, pods.labels[row], sandbox, ())

    def _add(self, metric: str, row: _Row, pairs: Callable[[_Row], Pairs], extra: Pairs) -> None:
        endpoint = _endpoint(row.node)
        known = self._owner.known.get((metric, row))
        if known is None:
            self._layout.add(metric, endpoint, pairs(row), extra)
        else:
            self._layout.reuse(known, endpoint)
        self._fresh[(metric, row)] = self._layout.ids[-1]

    def values(self, snapshot: CounterSnapshot) -> Floats:
        """Values in the order of ``ids``."""
        c, pods, nodes = snapshot.containers, snapshot.pods, snapshot.nodes
        by_metric = {column.metric: np.asarray(column.read(c), float) for column in _CONTAINER}
        parts = [by_metric[column.metric][self._rows[column.needs]] for column in _CONTAINER]
        parts += [_sum_by(by_metric[m], self._pod_of, len(pods.labels))[self._pod_rows] for m in _SUMMED]
        parts += [np.asarray(read(pods), float)[self._pod_rows] for _, read in _NETWORK]
        busy = nodes.cpu_seconds.sum(axis=1) - nodes.cpu_seconds[:, 0]
        used = (nodes.memory_total_bytes - nodes.memory_available_bytes).astype(float)
        root = {
            _SUMMED[0]: busy, _SUMMED[1]: used, _SUMMED[2]: used + nodes.memory_cached_bytes,
            _SUMMED[4]: nodes.memory_cached_bytes.astype(float),
        }  # fmt: skip
        for metric in _SUMMED:
            found = root.get(metric)
            total = _sum_by(by_metric[metric], self._node_of, len(nodes.names)) if found is None else found
            parts.append(total[self._node_rows])
        parts += [np.asarray(found, float)[self._node_rows] for found in (nodes.cores, nodes.memory_total_bytes)]
        return np.concatenate(parts)


def _exposed(cluster: Cluster, labels: _Row) -> bool:
    return labels.node not in cluster.silent and labels.namespace not in cluster.hidden


def _sum_by(values: Floats, group: Ints, size: int) -> Floats:
    known = group >= 0
    return np.bincount(group[known], weights=values[known], minlength=size).astype(float)


def _endpoint(node: str) -> Endpoint:
    return Endpoint(CADVISOR_JOB, node, node)


def _pod_cgroup(uid: str) -> str:
    return f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{uid.replace('-', '_')}.slice"
