"""What exporters read from the world: cumulative counters and gauges at one instant.

Rows are parallel: entry ``i`` of every array belongs to ``labels[i]``. Arrays belong to the snapshot and
may be kept. Label lists are shared between snapshots and must not be changed; ``generation`` is equal in two
snapshots exactly when the label lists are, so a reader can keep what it derived from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Upper bounds of the span-metrics connector's default histogram, milliseconds; the last one is +Inf.
SPAN_BOUNDS_MS = (2, 4, 6, 8, 10, 50, 100, 200, 400, 800, 1000, 1400, 2000, 5000, 10000, 15000, float("inf"))

# Columns of ``NodeCounters.cpu_seconds``, in the order of node-exporter's ``mode`` label.
CPU_MODES = ("idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user")


class ContainerLabels(NamedTuple):
    """Identity of one container run."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    attempt: int  # restart count of this run
    image: str
    node: str


class PodLabels(NamedTuple):
    """Identity of one pod's network namespace."""

    namespace: str
    pod: str
    pod_uid: str
    node: str


class SpanSeries(NamedTuple):
    """Labels of one span-metrics series. Kinds and codes are the connector's spellings."""

    service_name: str
    span_name: str
    span_kind: str  # SPAN_KIND_SERVER | SPAN_KIND_CLIENT
    status_code: str  # STATUS_CODE_UNSET | STATUS_CODE_ERROR
    namespace: str
    pod: str
    node: str


@dataclass(slots=True)
class ContainerCounters:
    """One row per running container run. ``cpu_limit_cores`` is NaN and ``memory_limit_bytes`` 0 when unset;
    the three ``cfs_*`` columns mean something only where there is a CPU limit."""

    generation: int
    labels: list[ContainerLabels]
    cpu_seconds: FloatArray
    cpu_system_seconds: FloatArray
    cpu_limit_cores: FloatArray
    cfs_periods: IntArray
    cfs_throttled_periods: IntArray
    cfs_throttled_seconds: FloatArray
    memory_working_set_bytes: IntArray
    memory_rss_bytes: IntArray
    memory_cache_bytes: IntArray
    memory_usage_bytes: IntArray
    memory_max_usage_bytes: IntArray
    memory_limit_bytes: IntArray
    processes: IntArray
    threads: IntArray
    sockets: IntArray
    file_descriptors: IntArray
    oom_events: IntArray
    start_time: FloatArray  # Unix seconds


@dataclass(slots=True)
class PodCounters:
    """One row per pod with at least one running container; cumulative since the pod started."""

    generation: int
    labels: list[PodLabels]
    rx_bytes: IntArray
    rx_packets: IntArray
    tx_bytes: IntArray
    tx_packets: IntArray


@dataclass(slots=True)
class NodeCounters:
    """One row per node. ``cpu_seconds`` has shape (nodes, len(CPU_MODES)), summed over the node's cores."""

    generation: int
    names: list[str]
    cores: IntArray
    cpu_seconds: FloatArray
    memory_total_bytes: IntArray
    memory_available_bytes: IntArray
    memory_cached_bytes: IntArray
    rx_bytes: IntArray
    rx_packets: IntArray
    tx_bytes: IntArray
    tx_packets: IntArray
    retransmitted_segments: IntArray
    boot_time: FloatArray  # Unix seconds
    stored_bytes: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))  # what containers wrote to the disk
    oom_kills: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))  # empty: none anywhere


@dataclass(slots=True)
class SpanCounters:
    """Span-metrics histograms. Series are only ever appended: an index names one series for good, and a
    series does not exist before its first span. ``buckets`` is cumulative over ``SPAN_BOUNDS_MS``,
    shape (series, 17); its last column equals ``count``."""

    labels: list[SpanSeries]
    buckets: IntArray
    count: IntArray
    sum_ms: FloatArray


@dataclass(frozen=True, slots=True)
class GroupCounters:
    """A consumer group of a message topic; offsets count messages from the beginning."""

    namespace: str
    topic: str
    group: str
    end_offset: int
    offset: int
    members: int


@dataclass(slots=True)
class DnsCounters:
    """Questions that the cluster's name server answered, by (record type, response code)."""

    answers: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(slots=True)
class CounterSnapshot:
    """Everything an exporter shows, at virtual time ``now`` (Unix seconds)."""

    now: float
    containers: ContainerCounters
    pods: PodCounters
    nodes: NodeCounters
    spans: SpanCounters
    dns: DnsCounters = field(default_factory=DnsCounters)
    groups: list[GroupCounters] = field(default_factory=list)  # of running brokers, in order of name
