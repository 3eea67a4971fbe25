"""Disk use as cAdvisor and the kubelet show it: container file systems and mounted volumes."""

from __future__ import annotations

import numpy as np

from aiopslab.sim.core.quantity import parse as parse_quantity
from aiopslab.sim.core.store import Key, Obj, Store
from aiopslab.sim.observe.exporters.cadvisor import CADVISOR_JOB, Cadvisor
from aiopslab.sim.observe.exporters.host import INODE_BYTES
from aiopslab.sim.observe.exporters.kubelet import JOB as KUBELET_JOB
from aiopslab.sim.observe.exporters.page import Cluster, Endpoint, Page, Pairs
from aiopslab.sim.observe.exporters.sheet import Column, Row, Sheet
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.world.counters import CounterSnapshot
from aiopslab.sim.world.disks import DEFAULT_DISK_BYTES

_DEVICE: Pairs = (("device", "/dev/vda"),)
_ROOT: Pairs = (("device", "/dev/vda1"),)
BYTES_PER_READ = 28_000.0
VOLUME_BASE_BYTES = 20 << 20  # an empty file system's own tables
VOLUME_INODES_BASE = 11
FILE_BYTES = 256 << 10


class ContainerDisks:
    """``container_fs_*``: on containerd, transfers per container and space of the node's root only.

    A container reads what its page cache holds and writes nothing but its log, which the runtime writes for it.
    """

    def __init__(self, store: Store, series: SeriesStore, cadvisor: Cadvisor) -> None:
        self._store, self._cadvisor = store, cadvisor
        self._containers = Sheet(series, [
            Column("container_fs_reads_bytes_total", "counter", "Cumulative count of bytes read", _DEVICE),
            Column("container_fs_reads_total", "counter", "Cumulative count of reads completed", _DEVICE),
            Column("container_fs_writes_bytes_total", "counter", "Cumulative count of bytes written", _DEVICE),
            Column("container_fs_writes_total", "counter", "Cumulative count of writes completed", _DEVICE),
        ])  # fmt: skip
        self._roots = Sheet(series, [
            Column("container_fs_limit_bytes", "gauge",
                   "Number of bytes that can be consumed by the container on this filesystem.", _ROOT),
            Column("container_fs_inodes_total", "gauge", "Number of Inodes", _ROOT),
        ])  # fmt: skip
        self.metadata = {**self._containers.metadata, **self._roots.metadata}
        self._seen: dict[tuple[str, str, int], float] = {}
        self._key: object = None
        self._rows: list[Row] = []
        self._ids = np.empty(0, np.int64)

    def collect(self, snapshot: CounterSnapshot, cluster: Cluster) -> Page:
        """Containers and nodes that answer."""
        c = snapshot.containers
        shown = [
            i for i, label in enumerate(c.labels)
            if label.node not in cluster.silent and label.namespace not in cluster.hidden
        ]  # fmt: skip
        key = (c.generation, cluster.silent)
        if key != self._key:
            self._key = key
            labels = [c.labels[i] for i in shown]
            self._rows = [
                Row(Endpoint(CADVISOR_JOB, la.node, la.node), self._cadvisor.container_pairs(la)) for la in labels
            ]
        read = c.memory_cache_bytes.astype(float)[shown]
        seen = {}
        for place, i in enumerate(shown):  # a shrinking page cache takes no read back
            own = (c.labels[i].pod_uid, c.labels[i].container, c.labels[i].attempt)
            read[place] = seen[own] = max(read[place], self._seen.get(own, 0.0))
        self._seen = seen
        none = np.zeros(len(shown))
        first = self._containers.page(self._rows, [read, np.ceil(read / BYTES_PER_READ), none, none])
        nodes = [name for name in snapshot.nodes.names if name not in cluster.silent]
        sizes = np.array([self._size(name) for name in nodes])
        rows = [Row(Endpoint(CADVISOR_JOB, name, name), (("id", "/"),)) for name in nodes]
        return self._joined(first, self._roots.page(rows, [sizes, np.floor(sizes / INODE_BYTES)]))

    def _joined(self, first: Page, second: Page) -> Page:
        """One page of two; the ids are the same object while they are equal, as the scraper expects."""
        ids = np.concatenate([first.ids, second.ids])
        if not np.array_equal(ids, self._ids):
            self._ids = ids
        counts = {at: first.counts.get(at, 0) + second.counts.get(at, 0) for at in {*first.counts, *second.counts}}
        return Page(self._ids, np.concatenate([first.values, second.values]), counts)

    def _size(self, node: str) -> float:
        status = (self._store.get(Key("nodes", "", node)) or {}).get("status") or {}
        found = (status.get("capacity") or {}).get("ephemeral-storage")
        return float(parse_quantity(found)) if found else float(DEFAULT_DISK_BYTES)


class VolumeStats:
    """``kubelet_volume_stats_*`` of claims that running pods mount."""

    def __init__(self, store: Store, series: SeriesStore) -> None:
        self._store = store
        self._sheet = Sheet(series, [
            Column("kubelet_volume_stats_capacity_bytes", "gauge", "Capacity in bytes of the volume"),
            Column("kubelet_volume_stats_used_bytes", "gauge", "Number of used bytes in the volume"),
            Column("kubelet_volume_stats_available_bytes", "gauge", "Number of available bytes in the volume"),
            Column("kubelet_volume_stats_inodes", "gauge", "Maximum number of inodes in the volume"),
            Column("kubelet_volume_stats_inodes_used", "gauge", "Number of used inodes in the volume"),
            Column("kubelet_volume_stats_inodes_free", "gauge", "Number of free inodes in the volume"),
        ])  # fmt: skip
        self.metadata = self._sheet.metadata

    def collect(self, snapshot: CounterSnapshot, cluster: Cluster) -> Page:
        """Claims by node, namespace and name. What a pod's page cache holds is taken for the volume's data."""
        cached: dict[tuple[str, str], float] = {}
        for label, size in zip(snapshot.containers.labels, snapshot.containers.memory_cache_bytes, strict=True):
            pod = (label.namespace, label.pod)
            cached[pod] = cached.get(pod, 0.0) + float(size)
        rows: dict[Row, tuple[float, float]] = {}
        for obj in self._store.list("pods") if self._store.count("persistentvolumeclaims") else ():
            name, node = (obj["metadata"]["namespace"], obj["metadata"]["name"]), obj["spec"].get("nodeName", "")
            if name not in cached or node in cluster.silent or name[0] in cluster.hidden:
                continue
            for claim in _claims(obj):
                size = self._capacity(name[0], claim)
                labels = (("namespace", name[0]), ("persistentvolumeclaim", claim))
                if size:
                    used = min(VOLUME_BASE_BYTES + cached[name], size)
                    rows[Row(Endpoint(KUBELET_JOB, node, node), labels)] = (size, used)
        return self._filled(rows)

    def _filled(self, rows: dict[Row, tuple[float, float]]) -> Page:
        """One page of (capacity, used) by row."""
        ordered = sorted(rows)
        capacity, used = (np.array([rows[row][i] for row in ordered]) for i in (0, 1))
        inodes = np.floor(capacity / INODE_BYTES)
        taken = np.minimum(VOLUME_INODES_BASE + np.ceil(used / FILE_BYTES), inodes)
        return self._sheet.page(ordered, [capacity, used, capacity - used, inodes, taken, inodes - taken])

    def _capacity(self, namespace: str, claim: str) -> float:
        found = self._store.get(Key("persistentvolumeclaims", namespace, claim)) or {}
        storage = (found.get("status", {}).get("capacity") or {}).get("storage")
        return float(parse_quantity(storage)) if storage else 0.0


def _claims(pod: Obj) -> list[str]:
    volumes = pod["spec"].get("volumes") or ()
    return sorted({v["persistentVolumeClaim"]["claimName"] for v in volumes if v.get("persistentVolumeClaim")})
