"""``process_*`` of the components that are scraped: node agents and the cluster's own pods."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aiopslab.sim.observe.exporters.kubelet import JOB as KUBELET_JOB
from aiopslab.sim.observe.exporters.node import JOB as NODE_JOB
from aiopslab.sim.observe.exporters.page import Cluster, Endpoint, Page
from aiopslab.sim.observe.exporters.sheet import Column, Row, Sheet
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.world.counters import CounterSnapshot

MIB = 1 << 20
FILES_MAX = 1_048_576.0


class _Agent(NamedTuple):
    """A process on every node: use when idle, and what each container there adds."""

    job: str
    cores: float
    cores_per_container: float
    memory_bytes: float
    memory_per_container: float
    files: float
    files_per_container: float


_AGENTS = (
    _Agent(KUBELET_JOB, 0.012, 0.0009, 58 * MIB, 0.7 * MIB, 32, 1.5),
    _Agent(NODE_JOB, 0.0015, 0.0, 19 * MIB, 0.0, 9, 0.0),
)


class Processes:
    """CPU, memory and files of the kubelet and node-exporter processes."""

    def __init__(self, series: SeriesStore) -> None:
        self._sheet = Sheet(series, [
            Column("process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds."),
            Column("process_resident_memory_bytes", "gauge", "Resident memory size in bytes."),
            Column("process_start_time_seconds", "gauge",
                   "Start time of the process since unix epoch in seconds."),
            Column("process_open_fds", "gauge", "Number of open file descriptors."),
            Column("process_max_fds", "gauge", "Maximum number of open file descriptors."),
        ])  # fmt: skip
        self.metadata = self._sheet.metadata
        self._cpu: dict[tuple[str, str], float] = {}
        self._at: float | None = None

    def collect(self, snapshot: CounterSnapshot, cluster: Cluster) -> Page:
        """Agents of nodes that answer."""
        nodes = snapshot.nodes
        running = dict.fromkeys(nodes.names, 0)
        for label in snapshot.containers.labels:
            running[label.node] = running.get(label.node, 0) + 1
        passed = None if self._at is None else snapshot.now - self._at
        self._at = snapshot.now
        rows, values = [], []
        for agent in _AGENTS:
            for name, boot in zip(nodes.names, nodes.boot_time.tolist(), strict=True):
                count, key = running[name], (agent.job, name)
                cores = agent.cores + agent.cores_per_container * count
                since = snapshot.now - boot if passed is None or key not in self._cpu else passed
                self._cpu[key] = self._cpu.get(key, 0.0) + cores * since
                if name in cluster.silent:
                    continue
                address = f"{cluster.addresses.get(name, name)}:9100" if agent.job == NODE_JOB else name
                rows.append(Row(Endpoint(agent.job, address, name)))
                memory = agent.memory_bytes + agent.memory_per_container * count
                files = agent.files + agent.files_per_container * count
                values.append([round(self._cpu[key], 2), memory, boot + 20.0, float(int(files)), FILES_MAX])
        columns = np.array(values, float).reshape(len(rows), 5)
        return self._sheet.page(rows, list(columns.T))
