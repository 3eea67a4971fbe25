"""What injected chaos objects do to packets and CPUs. Only causes: nothing here knows about spans or logs.

An object has an effect while its status records say ``Injected`` (see ``chaos.ChaosController``), on exactly
the pods that were selected then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from aiopslab.sim.core.store import Obj, Store

NETWORK = "chaos-mesh.org/networkchaos"
STRESS = "chaos-mesh.org/stresschaos"
PodKey = tuple[str, str]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_RATE = re.compile(r"(\d+)\s*([kmgt]?)(bit|bps)")
_BITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Netem:
    """A queueing discipline on one pod's egress. ``peers`` None means packets to anybody."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0  # share of packets lost or corrupted
    rate_bps: float = 0.0  # bytes per second, 0 for no limit
    drop: bool = False  # partition
    peers: frozenset[PodKey] | None = None

    def applies(self, peer: PodKey) -> bool:
        """Whether packets to ``peer`` pass it."""
        return self.peers is None or peer in self.peers


LOST_LOSS = 0.95  # from this share of lost packets on, nothing gets through


@dataclass(frozen=True, slots=True)
class Path:
    """The two directions between a caller and a callee taken together."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    rate_bps: float = 0.0
    drop: bool = False

    @property
    def cut(self) -> bool:
        """Whether nothing gets through."""
        return self.drop or self.loss >= LOST_LOSS

    @property
    def clear(self) -> bool:
        """Whether nothing happens to packets on it."""
        return not (self.delay_ms or self.jitter_ms or self.loss or self.rate_bps or self.drop)


CLEAR = Path()


@dataclass(slots=True)
class Effects:
    """All effects at one time: egress rules by pod, stress by (pod, container)."""

    egress: dict[PodKey, list[Netem]] = field(default_factory=dict)
    cpu_workers: dict[tuple[str, str, str], float] = field(default_factory=dict)
    memory_bytes: dict[tuple[str, str, str], int] = field(default_factory=dict)
    memory_workers: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def path(self, caller: PodKey, callee: PodKey) -> Path:
        """What a packet exchange between two pods meets: requests leave the caller, answers the callee."""
        if not self.egress:
            return CLEAR
        rules = [r for r in self.egress.get(caller, ()) if r.applies(callee)]
        rules += [r for r in self.egress.get(callee, ()) if r.applies(caller)]
        return combine(rules)

    def from_outside(self, pod: PodKey) -> Path:
        """What the node itself meets when it probes a pod: only rules without a target."""
        return combine([r for r in self.egress.get(pod, ()) if r.peers is None])


def combine(rules: list[Netem]) -> Path:
    """Rules in a row: delays add, losses are independent, the lowest rate counts."""
    if not rules:
        return CLEAR
    passed = 1.0
    for rule in rules:
        passed *= 1.0 - rule.loss
    rates = [r.rate_bps for r in rules if r.rate_bps]
    return Path(
        sum(r.delay_ms for r in rules),
        sum(r.jitter_ms for r in rules),
        1.0 - passed,
        min(rates, default=0.0),
        any(r.drop for r in rules),
    )


def read_effects(store: Store) -> Effects:
    """All injected chaos objects of the store."""
    effects = Effects()
    for chaos in store.list(NETWORK):
        _network(effects, chaos)
    for chaos in store.list(STRESS):
        _stress(effects, chaos)
    return effects


def injected(chaos: Obj, selector: str = ".") -> list[str]:
    """Record ids of a chaos object that are injected."""
    records = ((chaos.get("status") or {}).get("experiment") or {}).get("containerRecords") or []
    return [
        r["id"]
        for r in records
        if r.get("selectorKey", ".") == selector and r.get("phase", "").startswith("Injected")
    ]


def _network(effects: Effects, chaos: Obj) -> None:
    spec = chaos["spec"]
    sources = [_pod(i) for i in injected(chaos)]
    targets = [_pod(i) for i in injected(chaos, ".Target")]
    direction = spec.get("direction", "to")
    peers = frozenset(targets) if spec.get("target") else None
    if direction in ("to", "both"):
        for pod in sources:
            effects.egress.setdefault(pod, []).append(_netem(spec, peers))
    if direction in ("from", "both"):
        for pod in targets:
            effects.egress.setdefault(pod, []).append(_netem(spec, frozenset(sources)))


def _netem(spec: Obj, peers: frozenset[PodKey] | None) -> Netem:
    delay = spec.get("delay") or {}
    loss = float((spec.get("loss") or {}).get("loss", 0)) / 100
    corrupt = float((spec.get("corrupt") or {}).get("corrupt", 0)) / 100
    rate = (spec.get("bandwidth") or spec.get("rate") or {}).get("rate", "")
    return Netem(
        seconds(delay.get("latency", "0ms")) * 1e3,
        seconds(delay.get("jitter", "0ms")) * 1e3,
        1 - (1 - loss) * (1 - corrupt),
        bytes_per_second(rate),
        spec.get("action") == "partition",
        peers,
    )


def _stress(effects: Effects, chaos: Obj) -> None:
    stressors = chaos["spec"].get("stressors") or {}
    cpu, memory = stressors.get("cpu"), stressors.get("memory")
    for record in injected(chaos):
        namespace, pod, container = record.split("/")
        key = (namespace, pod, container)
        if cpu:
            load = cpu.get("workers", 1) * cpu.get("load", 100) / 100
            effects.cpu_workers[key] = effects.cpu_workers.get(key, 0.0) + load
        if memory:
            effects.memory_bytes[key] = effects.memory_bytes.get(key, 0) + size_bytes(memory.get("size", "0"))
            effects.memory_workers[key] = effects.memory_workers.get(key, 0) + memory.get("workers", 1)


def _pod(record: str) -> PodKey:
    namespace, _, rest = record.partition("/")
    return (namespace, rest.partition("/")[0])


def seconds(duration: str) -> float:
    """A Go duration such as ``1m30s``."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(duration))


def bytes_per_second(rate: str) -> float:
    """A tc rate: the ``bit`` family counts bits, the ``bps`` family bytes. 0 for an empty text."""
    match = _RATE.fullmatch(rate.strip().lower())
    if match is None:
        return 0.0
    scale = _BITS[match[2]]
    return int(match[1]) * scale * (1.0 if match[3] == "bps" else 0.125)


def size_bytes(size: str) -> int:
    """A human size with decimal multiples; percentages of the node are not resolved here and count 0."""
    match = _SIZE.fullmatch(size.strip())
    if match is None:
        return 0
    power = " KMGT".index(match[2].upper() or " ")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)
