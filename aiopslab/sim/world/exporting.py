"""Counter snapshots: the meter's state in the form exporters read."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.core.store import Obj, Store
from aiopslab.sim.world.background import Background
from aiopslab.sim.world.connections import Connections
from aiopslab.sim.world.counters import (
    CPU_MODES,
    ContainerCounters,
    ContainerLabels,
    CounterSnapshot,
    DnsCounters,
    NodeCounters,
    PodCounters,
    PodLabels,
)
from aiopslab.sim.world.disks import tmpfs_bytes
from aiopslab.sim.world.effects import Effects
from aiopslab.sim.world.hashing import text_key, unit_int
from aiopslab.sim.world.images import MIB
from aiopslab.sim.world.metering import Meter, SpanMetrics, Usages
from aiopslab.sim.world.retransmissions import Retransmissions
from aiopslab.sim.world.runs import Run, Runs

Bytes = TypeVar("Bytes", int, NDArray[np.int64])
WARM_UP_S = 90.0
HEAP_STEP = 256 << 10  # bytes in which a runtime takes memory for calls from the system
PAGE = 4096
SYSTEM_SHARE = 0.3  # of CPU time, spent in the kernel
NODE_IDLE_CORES = 0.06  # kubelet, runtime, kernel
NODE_BASE_BYTES = 900 * MIB
UNKNOWN_MIB = 12.0
STRESSOR_MIB = 8.5  # the processes of a CPU stressor
SYSTEM_TX_BPS = 1200
UP_SINCE_S = 86_400.0  # nodes booted this long before the world began
_SUFFIXES = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 1000, "M": 10**6, "G": 10**9}


def memory_bytes(run: Run, now: float, usage: Usages, effects: Effects) -> tuple[int, int]:
    """(anonymous memory, page cache) of a run: warm-up, slow growth, a collector's saw-tooth, calls in flight,
    what calls left behind, what a stressor and files in memory hold; never above the limit."""
    resources = run.program.resources if run.program is not None else None
    age = max(0.0, now - run.started)
    luck = unit_int(text_key("memory", run.ref))
    base = (resources.memory_mib if resources else UNKNOWN_MIB) * (0.95 + 0.1 * luck)
    warm = 0.7 + 0.3 * (1.0 - math.exp(-age / (WARM_UP_S / 3)))
    size = base * warm
    cache, heap = 2.0, 0
    if resources:
        saw = (age / resources.memory_wave_s + luck) % 1.0
        size += resources.memory_wave_mib * saw + resources.memory_growth_mib_h * age / 3600
        size += usage.leaked_mib
        heap = int(resources.memory_per_inflight_mib * usage.inflight * MIB)
        cache = resources.cache_mib * (1.0 - 0.5 * math.exp(-age / WARM_UP_S))  # files are read at the start
    key = (run.ref.namespace, run.ref.pod, run.ref.container)
    held = effects.memory_bytes.get(key, 0) + (tmpfs_bytes(run) if run.files else 0)
    if effects.cpu_workers.get(key):
        held += int(STRESSOR_MIB * MIB)
    rss = int(size * MIB) // PAGE * PAGE + heap // HEAP_STEP * HEAP_STEP + held
    limit = run.spec.memory_limit_bytes
    if limit:
        rss = min(rss, int(limit * 0.985) // PAGE * PAGE)
        return rss, max(0, min(int(cache * MIB), limit - rss))
    return rss, int(cache * MIB)


def working_set(rss: Bytes, cache: Bytes) -> Bytes:
    """What the kernel cannot give back at once, in whole pages."""
    return (rss + cache // 3) // PAGE * PAGE


class Exporter:
    """Builds snapshots; keeps label lists while the set of running containers stays the same."""

    def __init__(
        self, runs: Runs, meter: Meter, spans: SpanMetrics, store: Store, began: float, background: Background
    ) -> None:
        self._background = background
        self._runs = runs
        self._meter = meter
        self._spans = spans
        self._store = store
        self._began = began
        self._generation = 0
        self._known: list[int] = []
        self._labels: list[ContainerLabels] = []
        self._pods: list[PodLabels] = []
        self._pod_rows: list[int] = []  # row of PodCounters of each run
        self._pod_carry: dict[str, NDArray[np.float64]] = {}  # pod uid -> network counters of earlier runs
        self._node_carry: dict[str, NDArray[np.float64]] = {}  # node -> CPU and network of ended runs
        self._node_names: list[str] = []

    def ended(self, run: Run) -> None:
        """Keep a run's counters for its pod and its node."""
        totals = self._totals(run)
        self._pod_carry[run.ref.pod_uid] = self._pod_carry.get(run.ref.pod_uid, 0.0) + totals[1:]
        self._node_carry[run.spec.node] = self._node_carry.get(run.spec.node, 0.0) + totals

    def _totals(self, run: Run) -> NDArray[np.float64]:
        """CPU seconds, received bytes and packets, sent bytes and packets."""
        usage = self._meter.usage(run)
        return np.array([usage.cpu_s, usage.rx_bytes, usage.rx_packets, usage.tx_bytes, usage.tx_packets])

    def forget(self, pod_uid: str) -> None:
        """The pod is gone."""
        self._pod_carry.pop(pod_uid, None)

    def snapshot(
        self, now: float, effects: Effects, connections: Connections, resent: Retransmissions
    ) -> CounterSnapshot:
        """All counters at ``now``, up to which traffic must have been simulated."""
        runs = list(self._runs.alive())
        names = [node["metadata"]["name"] for node in self._store.list("nodes")]
        self._relabel(runs, names)
        containers = self._containers(runs, now, effects, connections)
        nodes = self._nodes(runs, containers, now)
        nodes.retransmitted_segments += np.array([int(resent.by_node.get(n, 0.0)) for n in names], np.int64)
        nodes.oom_kills = self._oom_kills(names)
        dns = DnsCounters(dict(connections.lookups.counts))
        return CounterSnapshot(now, containers, self._network(runs), nodes, self._spans.snapshot(), dns)

    def _oom_kills(self, names: list[str]) -> NDArray[np.int64]:
        """Kills by node, those of ended runs too."""
        found = np.zeros(len(names), np.int64)
        for number, usage in enumerate(self._meter.usages):
            node = self._runs[number].spec.node
            if usage.ooms and node in names:
                found[names.index(node)] += usage.ooms
        return found

    def _relabel(self, runs: list[Run], nodes: list[str]) -> None:
        numbers = [r.number for r in runs]
        if numbers == self._known and nodes == self._node_names:
            return
        self._node_names = nodes
        self._generation += 1
        self._known = numbers
        self._labels = [
            ContainerLabels(
                r.ref.namespace, r.ref.pod, r.ref.pod_uid, r.ref.container, r.ref.attempt, r.spec.image, r.spec.node
            )
            for r in runs
        ]
        rows: dict[str, int] = {}
        self._pods, self._pod_rows = [], []
        for run in runs:
            if run.ref.pod_uid not in rows:
                rows[run.ref.pod_uid] = len(self._pods)
                self._pods.append(PodLabels(run.ref.namespace, run.ref.pod, run.ref.pod_uid, run.spec.node))
            self._pod_rows.append(rows[run.ref.pod_uid])

    def _containers(
        self, runs: list[Run], now: float, effects: Effects, connections: Connections
    ) -> ContainerCounters:
        floats = {n: np.zeros(len(runs)) for n in ("cpu", "limit", "throttled_s", "start")}
        names = (
            "periods",
            "throttled",
            "rss",
            "cache",
            "peak",
            "memory_limit",
            "processes",
            "threads",
            "sockets",
            "ooms",
        )
        ints = {n: np.zeros(len(runs), np.int64) for n in names}
        open_channels = connections.counts()
        for row, run in enumerate(runs):
            usage = self._meter.usage(run)
            resources = run.program.resources if run.program is not None else None
            key = (run.ref.namespace, run.ref.pod, run.ref.container)
            workers = math.ceil(effects.cpu_workers.get(key, 0)) + effects.memory_workers.get(key, 0)
            rss, cache = memory_bytes(run, now, usage, effects)
            usage.max_memory = max(usage.max_memory, rss + cache)
            floats["cpu"][row], floats["throttled_s"][row] = usage.cpu_s, usage.throttled_s
            limit = run.spec.cpu_limit_cores
            floats["limit"][row], floats["start"][row] = math.nan if limit is None else limit, run.started
            ints["periods"][row], ints["throttled"][row] = int(usage.periods), int(usage.throttled_periods)
            ints["rss"][row], ints["cache"][row], ints["peak"][row] = rss, cache, usage.max_memory
            ints["memory_limit"][row] = run.spec.memory_limit_bytes or 0
            extra = workers + 1 if workers else 0
            ints["processes"][row] = (resources.processes if resources else 1) + extra
            ints["threads"][row] = (resources.threads if resources else 1) + extra + min(20, int(usage.inflight))
            ints["sockets"][row] = 1 + open_channels.get(run.number, 0)
            ints["ooms"][row] = usage.ooms
        held, cached = ints["rss"], ints["cache"]
        return ContainerCounters(
            self._generation,
            self._labels,
            floats["cpu"],
            floats["cpu"] * SYSTEM_SHARE,
            floats["limit"],
            ints["periods"],
            ints["throttled"],
            floats["throttled_s"],
            working_set(held, cached),
            held,
            cached,
            held + cached,
            ints["peak"],
            ints["memory_limit"],
            ints["processes"],
            ints["threads"],
            ints["sockets"],
            ints["sockets"] + 8,
            ints["ooms"],
            floats["start"],
        )

    def _network(self, runs: list[Run]) -> PodCounters:
        totals = np.zeros((4, len(self._pods)))
        for row, pod in enumerate(self._pods):
            carry = self._pod_carry.get(pod.pod_uid)
            if carry is not None:
                totals[:, row] += carry
        for run, row in zip(runs, self._pod_rows, strict=True):
            totals[:, row] += self._totals(run)[1:]
        whole = totals.astype(np.int64)
        return PodCounters(self._generation, self._pods, whole[0], whole[1], whole[2], whole[3])

    def sent_bytes(self, here: list[Run], node: str, now: float) -> float:
        """What a node has sent since it booted; ``here`` runs on it."""
        carry = self._node_carry.get(node)
        sent = sum(self._meter.usage(run).tx_bytes for run in here) + (carry[3] if carry is not None else 0.0)
        return float(sent + SYSTEM_TX_BPS * (now - self._began + UP_SINCE_S))

    def _nodes(self, runs: list[Run], containers: ContainerCounters, now: float) -> NodeCounters:
        nodes = self._store.list("nodes")
        names = [n["metadata"]["name"] for n in nodes]
        rows = {name: i for i, name in enumerate(names)}
        age = now - self._began + UP_SINCE_S
        cores = np.array([int(quantity(capacity(n, "cpu", "4"))) for n in nodes], np.int64)
        total = np.array([int(quantity(capacity(n, "memory", "8Gi"))) for n in nodes], np.int64)
        busy, memory, traffic = (
            np.array([age * NODE_IDLE_CORES + self._background.housekeeping_s(name, age) for name in names]),
            np.full(len(nodes), NODE_BASE_BYTES),
            np.zeros((4, len(nodes))),
        )
        for row, run in enumerate(runs):
            at = rows.get(run.spec.node)
            if at is not None:
                memory[at] += int(containers.memory_working_set_bytes[row])
        for name, carry in self._node_carry.items():
            if name in rows:
                busy[rows[name]] += carry[0]
                traffic[:, rows[name]] += carry[1:]
        for run in runs:
            at = rows.get(run.spec.node)
            if at is not None:
                totals = self._totals(run)
                busy[at] += totals[0]
                traffic[:, at] += totals[1:]
        cpu = np.zeros((len(nodes), len(CPU_MODES)))
        shares = {"user": 0.68, "system": 0.29, "softirq": 0.02, "iowait": 0.01}
        for mode, share in shares.items():
            cpu[:, CPU_MODES.index(mode)] = busy * share
        cpu[:, CPU_MODES.index("idle")] = np.maximum(age * cores - busy, 0)
        whole = traffic.astype(np.int64) + np.array([[900], [4], [SYSTEM_TX_BPS], [4]]) * np.int64(age)
        boot = np.full(len(nodes), self._began - UP_SINCE_S)
        return NodeCounters(
            self._generation,
            names,
            cores,
            cpu,
            total,
            np.maximum(total - memory, 0),
            memory // 3,
            whole[0],
            whole[1],
            whole[2],
            whole[3],
            np.full(len(nodes), int(age * 0.02)),
            boot,
        )


def capacity(node: Obj, name: str, default: str) -> str:
    """One of a node's capacities."""
    return str(((node.get("status") or {}).get("capacity") or {}).get(name, default))


def quantity(text: str) -> float:
    """A Kubernetes quantity."""
    for suffix, scale in _SUFFIXES.items():
        if text.endswith(suffix):
            return float(text[: -len(suffix)]) * scale
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)
