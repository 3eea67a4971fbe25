"""The eviction manager of the virtual kubelets: pods that outgrow their storage limits, and nodes short of memory.

Thresholds are those of a kind node: memory.available below 100 Mi is a hard threshold, disks have none. Logs do not
count as ephemeral storage.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from aiopslab.sim.core import quantity
from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.ports import Held
from aiopslab.sim.core.store import Key, Obj

if TYPE_CHECKING:
    from aiopslab.sim.core.kubelet.agent import Kubelets, NodeAgent
    from aiopslab.sim.core.kubelet.worker import PodWorker

LOOK_S = 10.0
MIB = 1024**2
MEMORY_THRESHOLD_BYTES = 100 * MIB
PRESSURE_S = 300.0  # how long a node says that it is under pressure after it no longer is
SYSTEM_BYTES = 640 * MIB  # what kubelet, runtime and system services of a node hold
GRACE_S = 1.0
CRITICAL_PRIORITY = 2_000_000_000
STORAGE = "ephemeral-storage"
NOTHING = Held({}, {}, {})


@dataclass(slots=True)
class Pressure:
    """Memory of one node: when it was last short, and whether its condition says so."""

    short_at: float = 0.0
    shown: bool = False
    images: list[Obj] = field(default_factory=list)


class Evictions:
    """Looks at all nodes every ten seconds while there are pods."""

    def __init__(self, agent: Kubelets) -> None:
        self._agent = agent
        self._kernel = agent.kernel
        self._pressure: dict[str, Pressure] = {}
        self._looking = False

    def later(self) -> None:
        """Look again in ten seconds."""
        if not self._looking:
            self._looking = True
            self._kernel.call_after(LOOK_S, "kubelet/evictions", self._look)

    def under_pressure(self, node: str) -> bool:
        """Whether a node says that it is short of memory."""
        return node in self._pressure and self._pressure[node].shown

    def _look(self) -> None:
        self._looking = False
        held = self._agent.world.held(self._kernel.now)
        for node, workers in self._agent.by_node():
            active = [worker for worker in workers if not worker.ended and not worker.stopper.ending]
            pressure = self._pressure.setdefault(node.name, Pressure())
            outgrown = [_outgrown(worker.pod["spec"], held.get(worker.uid, NOTHING)) for worker in active]
            for worker, message in zip(active, outgrown, strict=True):
                if message:
                    evict(worker, message)
            if not any(outgrown):
                self._memory(node, pressure, active, held)
            self._images(node, pressure)
        if self._agent.busy:
            self.later()

    # Memory ---------------------------------------------------------------------------------------------------------

    def _memory(self, node: NodeAgent, pressure: Pressure, active: list[PodWorker], held: dict[str, Held]) -> None:
        now, stored = self._kernel.now, self._agent.node_object(node.name)
        capacity = int(podlib.quantity((stored.get("status") or {}).get("capacity", {}).get("memory")))
        if not capacity:
            return
        used = SYSTEM_BYTES + sum(sum(held.get(worker.uid, NOTHING).memory.values()) for worker in active)
        available = max(0, capacity - used)
        if available < MEMORY_THRESHOLD_BYTES:
            pressure.short_at = now
            self._show(node, pressure, True)
            self._agent.node_event(node.name, "Warning", "EvictionThresholdMet", "Attempting to reclaim memory")
            for worker in sorted(active, key=lambda one: _rank(one, held.get(one.uid, NOTHING))):
                if not is_critical(worker.pod):
                    evict(worker, _low_message(worker.pod, held.get(worker.uid, NOTHING), available))
                    return
        elif pressure.shown and now - pressure.short_at >= PRESSURE_S:
            self._show(node, pressure, False)

    def _show(self, node: NodeAgent, pressure: Pressure, short: bool) -> None:
        if pressure.shown == short:
            return
        pressure.shown = short
        amount = "Insufficient" if short else "Sufficient"
        message = f"kubelet has {amount.lower()} memory available"
        now = self._kernel.timestamp()
        entry = {
            "type": "MemoryPressure",
            "status": "True" if short else "False",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
            "reason": f"KubeletHas{amount}Memory",
            "message": message,
        }
        self._agent.change_node(node.name, lambda status: _with_condition(status, entry))
        reason = f"NodeHas{amount}Memory"
        self._agent.node_event(node.name, "Normal", reason, f"Node {node.name} status is now: {reason}")

    # Images ---------------------------------------------------------------------------------------------------------

    def _images(self, node: NodeAgent, pressure: Pressure) -> None:
        """The images that were pulled, in the node's status."""
        found = node.images.listed()
        if found != pressure.images:
            pressure.images = found
            self._agent.change_node(node.name, lambda status: {**status, "images": found})


def evict(worker: PodWorker, message: str) -> None:
    """End a pod for what it uses of its node."""
    worker.event("Warning", "Evicted", message)
    worker.fail("Evicted", message, ("TerminationByKubelet", message), GRACE_S)


def is_critical(pod: Obj) -> bool:
    """Whether the kubelet never evicts a pod."""
    return int(pod["spec"].get("priority") or 0) >= CRITICAL_PRIORITY


def is_best_effort(pod: Obj) -> bool:
    """Whether no container of a pod asks for anything."""
    return (pod.get("status") or {}).get("qosClass") == "BestEffort"


def _with_condition(status: Obj, entry: Obj) -> Obj:
    conditions = [entry if old["type"] == entry["type"] else old for old in status.get("conditions") or ()]
    return {**status, "conditions": conditions}


# Storage ----------------------------------------------------------------------------------------------------------


def _outgrown(spec: Obj, held: Held) -> str:
    """Why a pod has used more storage than its limits allow; empty when it has not."""
    if not held.volumes and not any(held.files.values()):
        return ""
    limits = {c["name"]: ((c.get("resources") or {}).get("limits") or {}).get(STORAGE, "") for c in spec["containers"]}
    return _volume_outgrown(spec, held) or _pod_outgrown(spec, held, limits) or _container_outgrown(held, limits)


def _volume_outgrown(spec: Obj, held: Held) -> str:
    for volume in spec.get("volumes") or ():
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit and held.volumes.get(volume["name"], 0) > quantity.parse(limit):
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{quantity.canonical(limit)}". '
    return ""


def _pod_outgrown(spec: Obj, held: Held, limits: dict[str, str]) -> str:
    """The sum of the limits counts when every container has one; volumes in memory do not count."""
    if not all(limits.values()):
        return ""
    total = sum(map(quantity.parse, limits.values()), Fraction(0))
    on_disk = {v["name"] for v in spec.get("volumes") or () if (v.get("emptyDir") or {}).get("medium") != "Memory"}
    used = sum(held.files.values()) + sum(size for name, size in held.volumes.items() if name in on_disk)
    if used <= total:
        return ""
    shown = quantity.text(total, binary=True)
    return f"Pod ephemeral local storage usage exceeds the total limit of containers {shown}. "


def _container_outgrown(held: Held, limits: dict[str, str]) -> str:
    for name, limit in limits.items():
        if limit and held.files.get(name, 0) > quantity.parse(limit):
            shown = quantity.canonical(limit)
            return f'Container {name} exceeded its local ephemeral storage limit "{shown}". '
    return ""


# Ranking ----------------------------------------------------------------------------------------------------------


def _requested(pod: Obj) -> dict[str, Fraction]:
    containers: Iterable[Obj] = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
    return {
        c["name"]: quantity.parse(((c.get("resources") or {}).get("requests") or {}).get("memory", "0"))
        for c in containers
    }


def _rank(worker: PodWorker, held: Held) -> tuple[bool, int, float, Key]:
    """Who goes first: who uses more than it asked for, then the lowest priority, then the largest excess."""
    excess = float(sum(held.memory.values()) - sum(_requested(worker.pod).values()))
    return excess <= 0, int(worker.pod["spec"].get("priority") or 0), -excess, worker.key


def _low_message(pod: Obj, held: Held, available: int) -> str:
    threshold = quantity.text(Fraction(MEMORY_THRESHOLD_BYTES), binary=True)
    left = quantity.text(Fraction(available), binary=True)
    message = f"The node was low on resource: memory. Threshold quantity: {threshold}, available: {left}. "
    requested = _requested(pod)
    for name, used in sorted(held.memory.items()):
        asked = requested.get(name, Fraction(0))
        if used > asked:
            shown = f"{quantity.text(Fraction(used), binary=True)}, request is {quantity.text(asked, binary=True)}"
            message += f"Container {name} was using {shown}, has larger consumption of memory. "
    return message
