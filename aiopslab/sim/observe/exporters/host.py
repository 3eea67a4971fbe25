"""The rest of node-exporter: file systems, disks, TCP, sockets, connection tracking, pressure.

What the world does not count by itself follows from what it does: a node's disk holds its images and is written by
image pulls, container logs and the system; tasks wait for the CPU while they are throttled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aiopslab.sim.core.quantity import parse as parse_quantity
from aiopslab.sim.core.store import Key, Store
from aiopslab.sim.observe.exporters.node import JOB
from aiopslab.sim.observe.exporters.page import Cluster, Endpoint, Floats, Page, Pairs
from aiopslab.sim.observe.exporters.sheet import Column, Row, Sheet
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.observe.targets import MetricMetadata
from aiopslab.sim.world.counters import CounterSnapshot
from aiopslab.sim.world.disks import DEFAULT_DISK_BYTES, LOG_SHARE, ROOT_SHARE, SYSTEM_DISK_BYTES
from aiopslab.sim.world.nodeuse import image_bytes

GIB = 1 << 30
DISK: Pairs = (("device", "vda"),)
ROOT: Pairs = (("device", "/dev/vda1"), ("fstype", "ext4"), ("mountpoint", "/"))
SYSTEM_WRITES_BPS = 18_000.0  # journal, kubelet state, node status
SYSTEM_READS_BPS = 400.0
BYTES_PER_WRITE, BYTES_PER_READ = 14_000.0, 28_000.0
WRITE_S, READ_S = 8e-4, 3e-4  # time of one operation
INODE_BYTES = 16_384  # ext4 makes one inode for so many bytes
FILE_BYTES = 40_000.0  # mean size of a file
SYSTEM_SOCKETS, SYSTEM_FILES = 140, 1900
CONNTRACK_LIMIT = 131_072
DNS_TRACKED_S = 30.0  # how long an answered UDP flow stays in the table
PAGE_BYTES = 4096


@dataclass(slots=True)
class Host:
    """What the columns are computed from; one entry per node."""

    age_s: Floats
    disk_bytes: Floats
    image_bytes: Floats
    sent_bytes: Floats
    sockets: Floats
    files: Floats
    anonymous_bytes: Floats
    cache_bytes: Floats
    throttled_s: Floats
    busy_s: Floats
    resent: Floats
    in_packets: Floats
    out_packets: Floats
    oom_kills: Floats
    stored_bytes: Floats

    @property
    def log_bytes(self) -> Floats:
        """What container logs hold."""
        return LOG_SHARE * self.sent_bytes

    @property
    def used_bytes(self) -> Floats:
        """Space taken on the root file system; never all of it."""
        taken = SYSTEM_DISK_BYTES + self.image_bytes + self.log_bytes + self.stored_bytes
        return np.minimum(taken, 0.999 * self.disk_bytes)

    @property
    def written_bytes(self) -> Floats:
        """Bytes written to the disk since boot."""
        return SYSTEM_WRITES_BPS * self.age_s + self.image_bytes + self.log_bytes + self.stored_bytes

    @property
    def read_bytes(self) -> Floats:
        """Bytes read from the disk since boot: what the page cache holds was read once."""
        return SYSTEM_READS_BPS * self.age_s + self.cache_bytes + 0.2 * GIB

    @property
    def io_s(self) -> Floats:
        """Seconds the disk was busy."""
        return self.written_bytes / BYTES_PER_WRITE * WRITE_S + self.read_bytes / BYTES_PER_READ * READ_S


Read = Callable[[Host], Floats]


def _zero(host: Host) -> Floats:
    return np.zeros(len(host.age_s))


def _inodes(host: Host) -> Floats:
    return np.floor(host.disk_bytes / INODE_BYTES)


_TABLE: tuple[tuple[Column, Read], ...] = (
    (Column("node_filesystem_size_bytes", "gauge", "Filesystem size in bytes.", ROOT), lambda h: h.disk_bytes),
    (Column("node_filesystem_free_bytes", "gauge", "Filesystem free space in bytes.", ROOT),
     lambda h: h.disk_bytes - h.used_bytes),
    (Column("node_filesystem_avail_bytes", "gauge",
            "Filesystem space available to non-root users in bytes.", ROOT),
     lambda h: np.maximum((1.0 - ROOT_SHARE) * h.disk_bytes - h.used_bytes, 0)),
    (Column("node_filesystem_files", "gauge", "Filesystem total file nodes.", ROOT), _inodes),
    (Column("node_filesystem_files_free", "gauge", "Filesystem total free file nodes.", ROOT),
     lambda h: _inodes(h) - np.floor(h.used_bytes / FILE_BYTES)),
    (Column("node_filesystem_readonly", "gauge", "Filesystem read-only status.", ROOT), _zero),
    (Column("node_filesystem_device_error", "gauge",
            "Whether an error occurred while getting statistics for the given device.", ROOT), _zero),
    (Column("node_disk_read_bytes_total", "counter", "The total number of bytes read successfully.", DISK),
     lambda h: h.read_bytes),
    (Column("node_disk_written_bytes_total", "counter", "The total number of bytes written successfully.", DISK),
     lambda h: h.written_bytes),
    (Column("node_disk_reads_completed_total", "counter",
            "The total number of reads completed successfully.", DISK),
     lambda h: np.floor(h.read_bytes / BYTES_PER_READ)),
    (Column("node_disk_writes_completed_total", "counter",
            "The total number of writes completed successfully.", DISK),
     lambda h: np.floor(h.written_bytes / BYTES_PER_WRITE)),
    (Column("node_disk_read_time_seconds_total", "counter",
            "The total number of seconds spent by all reads.", DISK),
     lambda h: h.read_bytes / BYTES_PER_READ * READ_S),
    (Column("node_disk_write_time_seconds_total", "counter",
            "This is the total number of seconds spent by all writes.", DISK),
     lambda h: h.written_bytes / BYTES_PER_WRITE * WRITE_S),
    (Column("node_disk_io_time_seconds_total", "counter", "Total seconds spent doing I/Os.", DISK),
     lambda h: np.minimum(h.io_s, h.age_s)),
    (Column("node_disk_io_time_weighted_seconds_total", "counter",
            "The weighted # of seconds spent doing I/Os.", DISK), lambda h: 1.1 * h.io_s),
    (Column("node_disk_io_now", "gauge", "The number of I/Os currently in progress.", DISK), _zero),
    (Column("node_sockstat_TCP_inuse", "gauge", "Number of TCP sockets in state inuse."),
     lambda h: h.sockets + SYSTEM_SOCKETS // 4),
    (Column("node_sockstat_TCP_alloc", "gauge", "Number of TCP sockets in state alloc."),
     lambda h: h.sockets + SYSTEM_SOCKETS // 3),
    (Column("node_sockstat_TCP_tw", "gauge", "Number of TCP sockets in state tw."), lambda h: h.sockets // 6),
    (Column("node_sockstat_sockets_used", "gauge", "Number of IPv4 sockets in use."),
     lambda h: h.sockets + SYSTEM_SOCKETS),
    (Column("node_netstat_Tcp_CurrEstab", "untyped", "Statistic TcpCurrEstab."),
     lambda h: h.sockets + SYSTEM_SOCKETS // 5),
    (Column("node_netstat_Tcp_InSegs", "untyped", "Statistic TcpInSegs."), lambda h: h.in_packets),
    (Column("node_netstat_Tcp_OutSegs", "untyped", "Statistic TcpOutSegs."), lambda h: h.out_packets),
    (Column("node_netstat_Tcp_ActiveOpens", "untyped", "Statistic TcpActiveOpens."),
     lambda h: np.floor(0.9 * h.age_s) + h.sockets // 2),
    (Column("node_netstat_Tcp_PassiveOpens", "untyped", "Statistic TcpPassiveOpens."),
     lambda h: np.floor(0.7 * h.age_s) + h.sockets // 2),
    (Column("node_netstat_Tcp_OutRsts", "untyped", "Statistic TcpOutRsts."), lambda h: np.floor(0.03 * h.age_s)),
    (Column("node_netstat_Tcp_InErrs", "untyped", "Statistic TcpInErrs."), _zero),
    (Column("node_netstat_TcpExt_ListenDrops", "untyped", "Statistic TcpExtListenDrops."), _zero),
    (Column("node_netstat_TcpExt_ListenOverflows", "untyped", "Statistic TcpExtListenOverflows."), _zero),
    (Column("node_netstat_TcpExt_TCPTimeouts", "untyped", "Statistic TcpExtTCPTimeouts."),
     lambda h: np.floor(0.6 * h.resent)),
    (Column("node_netstat_Udp_InErrors", "untyped", "Statistic UdpInErrors."), _zero),
    (Column("node_netstat_Udp_NoPorts", "untyped", "Statistic UdpNoPorts."), _zero),
    (Column("node_nf_conntrack_entries", "gauge",
            "Number of currently allocated flow entries for connection tracking."),
     lambda h: np.floor(1.4 * h.sockets + SYSTEM_SOCKETS + DNS_TRACKED_S)),
    (Column("node_nf_conntrack_entries_limit", "gauge", "Maximum size of connection tracking table."),
     lambda h: np.full(len(h.age_s), CONNTRACK_LIMIT)),
    (Column("node_filefd_allocated", "gauge", "File descriptor statistics: allocated."),
     lambda h: h.files + SYSTEM_FILES),
    (Column("node_filefd_maximum", "gauge", "File descriptor statistics: maximum."),
     lambda h: np.full(len(h.age_s), 9.223372036854776e18)),
    (Column("node_vmstat_oom_kill", "untyped", "/proc/vmstat information field oom_kill."), lambda h: h.oom_kills),
    (Column("node_vmstat_pgpgin", "untyped", "/proc/vmstat information field pgpgin."),
     lambda h: np.floor(h.read_bytes / 1024)),
    (Column("node_vmstat_pgpgout", "untyped", "/proc/vmstat information field pgpgout."),
     lambda h: np.floor(h.written_bytes / 1024)),
    (Column("node_vmstat_pgfault", "untyped", "/proc/vmstat information field pgfault."),
     lambda h: np.floor(h.anonymous_bytes / PAGE_BYTES + 2500 * h.busy_s)),
    (Column("node_vmstat_pgmajfault", "untyped", "/proc/vmstat information field pgmajfault."),
     lambda h: np.floor(h.read_bytes / (32 * PAGE_BYTES))),
    (Column("node_memory_AnonPages_bytes", "gauge", "Memory information field AnonPages_bytes."),
     lambda h: h.anonymous_bytes),
    (Column("node_memory_SwapTotal_bytes", "gauge", "Memory information field SwapTotal_bytes."), _zero),
    (Column("node_memory_SwapFree_bytes", "gauge", "Memory information field SwapFree_bytes."), _zero),
    (Column("node_pressure_cpu_waiting_seconds_total", "counter",
            "Total time in seconds that processes have waited for CPU time"),
     lambda h: h.throttled_s + 0.004 * h.busy_s),
    (Column("node_pressure_io_waiting_seconds_total", "counter",
            "Total time in seconds that processes have waited due to IO congestion"), lambda h: 0.3 * h.io_s),
    (Column("node_pressure_io_stalled_seconds_total", "counter",
            "Total time in seconds no process could make progress due to IO congestion"),
     lambda h: 0.2 * h.io_s),
    (Column("node_pressure_memory_waiting_seconds_total", "counter",
            "Total time in seconds that processes have waited for memory"), _zero),
    (Column("node_pressure_memory_stalled_seconds_total", "counter",
            "Total time in seconds no process could make progress due to memory congestion"), _zero),
)  # fmt: skip


class HostExporter:
    """File systems, disks, TCP and pressure of nodes that answer."""

    def __init__(self, store: Store, series: SeriesStore) -> None:
        self._store = store
        self._sheet = Sheet(series, [column for column, _ in _TABLE])
        self._floor: dict[str, Floats] = {}

    @property
    def metadata(self) -> dict[str, MetricMetadata]:
        """Type and help of its metric families."""
        return self._sheet.metadata

    def collect(self, snapshot: CounterSnapshot, cluster: Cluster) -> Page:
        """All rows of nodes that answer."""
        names = snapshot.nodes.names
        shown = [i for i, name in enumerate(names) if name not in cluster.silent]
        rows = [
            Row(Endpoint(JOB, f"{cluster.addresses.get(names[i], names[i])}:9100", names[i])) for i in shown
        ]
        host = self._host(snapshot)
        values = [self._grown(column, np.asarray(read(host), float), names)[shown] for column, read in _TABLE]
        return self._sheet.page(rows, values)

    def _grown(self, column: Column, values: Floats, names: list[str]) -> Floats:
        """Counters do not fall when a container or an image goes whose share they held."""
        if column.kind == "gauge":
            return values
        before = self._floor.get(column.metric)
        if before is not None and len(before) == len(names):
            values = np.maximum(values, before)
        self._floor[column.metric] = values
        return values

    def _host(self, snapshot: CounterSnapshot) -> Host:
        nodes, c = snapshot.nodes, snapshot.containers
        place = {name: i for i, name in enumerate(nodes.names)}
        of = np.array([place.get(label.node, -1) for label in c.labels], np.int64)
        known, size = of >= 0, len(nodes.names)

        def total(column: np.ndarray) -> Floats:
            return np.bincount(of[known], np.asarray(column, float)[known], minlength=size).astype(float)

        disk, images = self._disks(nodes.names)
        stored = nodes.stored_bytes if len(nodes.stored_bytes) else np.zeros(size)
        kills = nodes.oom_kills if len(nodes.oom_kills) else np.zeros(size)
        return Host(
            snapshot.now - nodes.boot_time, disk, images, nodes.tx_bytes.astype(float), total(c.sockets),
            total(c.file_descriptors), total(c.memory_rss_bytes), nodes.memory_cached_bytes.astype(float),
            total(c.cfs_throttled_seconds), nodes.cpu_seconds.sum(axis=1) - nodes.cpu_seconds[:, 0],
            nodes.retransmitted_segments.astype(float),
            nodes.rx_packets.astype(float), nodes.tx_packets.astype(float), np.asarray(kills, float),
            stored.astype(float),
        )  # fmt: skip

    def _disks(self, names: list[str]) -> tuple[Floats, Floats]:
        """(size, bytes of images) of each node's disk."""
        sizes, images = [], []
        for name in names:
            status = (self._store.get(Key("nodes", "", name)) or {}).get("status") or {}
            capacity = (status.get("capacity") or {}).get("ephemeral-storage")
            sizes.append(float(parse_quantity(capacity)) if capacity else float(DEFAULT_DISK_BYTES))
            images.append(float(image_bytes({"status": status})))
        return np.array(sizes), np.array(images)
