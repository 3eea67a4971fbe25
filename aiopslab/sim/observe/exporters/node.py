"""node-exporter, one endpoint per node at port 9100."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from aiopslab.sim.observe.exporters.page import Cluster, Endpoint, Floats, Layout, Page, Pairs, describe
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.world.counters import CPU_MODES, CounterSnapshot, NodeCounters

JOB = "node-exporter"
_LOAD_MINUTES = (1, 5, 15)
_ETH0: Pairs = (("device", "eth0"),)
_SIMPLE: tuple[tuple[str, Pairs, Callable[[NodeCounters], np.ndarray], str, str], ...] = (
    ("node_memory_MemTotal_bytes", (), lambda n: n.memory_total_bytes, "gauge",
     "Memory information field MemTotal"),
    ("node_memory_MemAvailable_bytes", (), lambda n: n.memory_available_bytes, "gauge",
     "Memory information field MemAvailable"),
    ("node_memory_MemFree_bytes", (), lambda n: np.maximum(n.memory_available_bytes - n.memory_cached_bytes, 0),
     "gauge", "Memory information field MemFree"),
    ("node_memory_Cached_bytes", (), lambda n: n.memory_cached_bytes, "gauge",
     "Memory information field Cached"),
    ("node_memory_Buffers_bytes", (), lambda n: np.zeros(len(n.names)), "gauge",
     "Memory information field Buffers"),
    ("node_boot_time_seconds", (), lambda n: n.boot_time, "gauge", "Node boot time, in unixtime"),
    ("node_network_receive_bytes_total", _ETH0, lambda n: n.rx_bytes, "counter", "Received bytes"),
    ("node_network_receive_packets_total", _ETH0, lambda n: n.rx_packets, "counter", "Received packets"),
    ("node_network_transmit_bytes_total", _ETH0, lambda n: n.tx_bytes, "counter", "Transmitted bytes"),
    ("node_network_transmit_packets_total", _ETH0, lambda n: n.tx_packets, "counter", "Transmitted packets"),
    ("node_network_up", _ETH0, lambda n: np.ones(len(n.names)), "gauge", "1 when the interface is up"),
    ("node_netstat_Tcp_RetransSegs", (), lambda n: n.retransmitted_segments, "untyped", "Statistic TcpRetransSegs"),
)  # fmt: skip


class NodeExporter:
    """Host CPU, memory, load and network."""

    metadata = describe(
        [
            *((name, kind, text) for name, _, _, kind, text in _SIMPLE),
            ("node_cpu_seconds_total", "counter", "Seconds the CPUs spent in each mode"),
            ("node_time_seconds", "gauge", "System time in seconds since epoch"),
            ("node_uname_info", "gauge", "Labeled system information as provided by uname"),
            *((f"node_load{m}", "gauge", f"{m}m load average") for m in _LOAD_MINUTES),
        ]
    )

    def __init__(self, series: SeriesStore) -> None:
        self._series = series
        self._key: object = None
        self._ids = np.empty(0, np.int64)
        self._counts: dict[Endpoint, int] = {}
        self._rows = np.empty(0, np.int64)
        self._names: list[str] = []
        self._before: tuple[float, Floats] | None = None
        self._load = np.zeros((len(_LOAD_MINUTES), 0))

    def collect(self, snapshot: CounterSnapshot, cluster: Cluster) -> Page:
        """All rows of nodes that answer."""
        nodes = snapshot.nodes
        key = (nodes.generation, cluster.silent, tuple(sorted(cluster.addresses.items())))
        if key != self._key:
            self._lay_out(nodes, cluster)
            self._key = key
        load = self._smoothed_load(snapshot)
        rows = self._rows
        shares = np.repeat(nodes.cpu_seconds[rows] / nodes.cores[rows, None], nodes.cores[rows], axis=0)
        parts = [np.asarray(read(nodes), float)[rows] for _, _, read, _, _ in _SIMPLE]
        parts += [np.full(len(rows), snapshot.now), np.ones(len(rows)), load[:, rows].ravel(), shares.ravel()]
        return Page(self._ids, np.concatenate(parts), self._counts)

    def _lay_out(self, nodes: NodeCounters, cluster: Cluster) -> None:
        layout = Layout(self._series)
        self._rows = np.array([i for i, name in enumerate(nodes.names) if name not in cluster.silent], np.int64)
        names = [nodes.names[row] for row in self._rows.tolist()]
        at = [Endpoint(JOB, f"{cluster.addresses.get(name, name)}:9100", name) for name in names]
        for metric, extra, _, _, _ in _SIMPLE:
            for endpoint in at:
                layout.add(metric, endpoint, extra)
        for endpoint in at:
            layout.add("node_time_seconds", endpoint)
        for endpoint in at:
            system = (("sysname", "Linux"), ("machine", "x86_64"), ("nodename", endpoint.node))
            layout.add("node_uname_info", endpoint, system)
        for minutes in _LOAD_MINUTES:
            for endpoint in at:
                layout.add(f"node_load{minutes}", endpoint)
        for endpoint, row in zip(at, self._rows.tolist(), strict=True):
            for core in range(int(nodes.cores[row])):
                for mode in CPU_MODES:
                    layout.add("node_cpu_seconds_total", endpoint, (("cpu", str(core)), ("mode", mode)))
        self._ids, self._counts = layout.array(), dict(layout.counts)

    def _smoothed_load(self, snapshot: CounterSnapshot) -> Floats:
        """Load averages: busy cores since the last scrape, damped as the kernel does."""
        nodes = snapshot.nodes
        busy = nodes.cpu_seconds.sum(axis=1) - nodes.cpu_seconds[:, 0]
        if self._names != nodes.names:
            self._names, self._before = list(nodes.names), None
            self._load = np.zeros((len(_LOAD_MINUTES), len(nodes.names)))
        if self._before is not None and snapshot.now > self._before[0]:
            passed = snapshot.now - self._before[0]
            cores = np.maximum(busy - self._before[1], 0) / passed
            keep = np.array([[math.exp(-passed / (60 * m))] for m in _LOAD_MINUTES])
            self._load = self._load * keep + cores * (1 - keep)
        self._before = (snapshot.now, busy)
        return np.round(self._load, 2)
