"""The eviction manager of one node: storage limits of pods, and memory and disk of the node.

Every ten seconds it reads the node's statistics. A pod over one of its storage limits goes; when the node is short
of something, one pod at a time, the one first that uses most beyond its requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from aiopslab.sim.core.kubelet.admission import EVICTED, critical
from aiopslab.sim.core.kubelet.podstats import PodStats
from aiopslab.sim.core.kubelet.worker import PodWorker, Verdict
from aiopslab.sim.core.ports import NodeUse
from aiopslab.sim.core.quantity import text
from aiopslab.sim.core.store import Obj

if TYPE_CHECKING:
    from aiopslab.sim.core.kubelet.agent import Kubelets, NodeAgent

SYNC_S = 10.0
TRANSITION_S = 300.0  # a condition stays this long after it was last observed
GRACE_S = 1.0
# After an eviction it waits until the pod's containers are gone, looking once a second, and begins anew.
CLEANUP_POLL_S, CLEANUP_MOST_S = 1.0, 30.0
MIB = 1 << 20
TERMINATION = "TerminationByKubelet"


@dataclass(frozen=True, slots=True)
class Threshold:
    """A hard eviction threshold: less than ``bytes``, or than a share of the capacity."""

    signal: str  # as in the kubelet's configuration
    condition: str
    resource: str
    bytes: int = 0
    share: float = 0.0

    def quantity(self, capacity: int) -> int:
        """The threshold in bytes."""
        return self.bytes or int(capacity * self.share)


# The kubelet's defaults. Images, containers and volumes are on one file system, so both disk signals observe it.
THRESHOLDS = (
    Threshold("memory.available", "MemoryPressure", "memory", bytes=100 * MIB),
    Threshold("nodefs.available", "DiskPressure", "ephemeral-storage", share=0.10),
    Threshold("imagefs.available", "DiskPressure", "ephemeral-storage", share=0.15),
)


class EvictionManager:
    """Looks after one node from its first pod on."""

    def __init__(self, agent: Kubelets, node: NodeAgent) -> None:
        self._agent, self._node, self._kernel = agent, node, agent.kernel
        self._observed: dict[str, float] = {}  # condition -> when it was last observed
        self._timer = f"kubelet/{node.name}/eviction"
        self._waiting_until = 0.0
        self._leaving: list[PodWorker] = []
        self._running = False

    def begin(self) -> None:
        """A pod has come to the node; nothing happens when the manager is at work already."""
        if not self._running:
            self._running = True
            phase_s = SYNC_S * self._kernel.ids.unit("kubelet", self._node.name, "eviction")
            self._kernel.call_after(phase_s, self._timer, self._synchronize)

    def _synchronize(self) -> None:
        use = self._agent.world.node_use(self._node.name, self._kernel.now)
        if use is None or not (self._node.workers or self._observed):
            self._running = False
            return
        met = [threshold for threshold in THRESHOLDS if _met(threshold, use)]
        self._observe(met)
        self._leaving = self._over_limits(use) or self._reclaim(met, use)
        if self._leaving:
            self._waiting_until = self._kernel.now + CLEANUP_MOST_S
            self._kernel.call_after(CLEANUP_POLL_S, self._timer, self._await_cleanup)
        else:
            self._kernel.call_after(SYNC_S, self._timer, self._synchronize)

    def _await_cleanup(self) -> None:
        over = all(not any(run.running for run in worker.runs) for worker in self._leaving)
        if over or self._kernel.now >= self._waiting_until:
            self._synchronize()
        else:
            self._kernel.call_after(CLEANUP_POLL_S, self._timer, self._await_cleanup)

    def _observe(self, met: list[Threshold]) -> None:
        """Conditions go up at once, and down when they were not observed for a while."""
        now = self._kernel.now
        self._observed |= {threshold.condition: now for threshold in met}
        self._observed = {name: at for name, at in self._observed.items() if now - at < TRANSITION_S}
        if self._node.status.pressures != list(self._observed):
            self._node.status.pressures = list(self._observed)
            self._node.status.report()

    def _active(self) -> list[PodWorker]:
        return [worker for worker in self._node.workers.values() if not (worker.ended or worker.stopper.ending)]

    # Limits of pods ---------------------------------------------------------------------------------------

    def _over_limits(self, use: NodeUse) -> list[PodWorker]:
        gone = []
        for worker in self._active():
            if not worker.limited or not worker.sandbox_ready:
                continue
            message = PodStats(worker, use).over_limit()
            if message and self._evict(worker, message):
                gone.append(worker)
        return gone

    # Pressure ---------------------------------------------------------------------------------------------

    def _reclaim(self, met: list[Threshold], use: NodeUse) -> list[PodWorker]:
        if not met:
            return []
        first = met[0]
        self._node.status.event("Warning", "EvictionThresholdMet", f"Attempting to reclaim {first.resource}")
        if first.resource == "ephemeral-storage" and self._removed_images(use):
            return []
        capacity, available = _observation(first, use)
        low = f"The node was low on resource: {first.resource}. "
        low += f"Threshold quantity: {_text(first.quantity(capacity))}, available: {_text(available)}. "
        for stats in self._ranked(first.resource, use):
            message, annotations = stats.blame(first.resource)
            if self._evict(stats.worker, low + message, annotations, pressed=True):
                return [stats.worker]
        return []

    def _removed_images(self, use: NodeUse) -> bool:
        """Whether removing images that no container uses was enough."""
        used = {run.spec["image"] for worker in self._active() for run in worker.runs}
        before = _image_bytes(self._node.images.report(self._kernel.now))
        if not self._node.images.prune(used):
            return False
        self._node.status.report()
        use.disk_available += before - _image_bytes(self._node.images.report(self._kernel.now))
        return not any(_met(threshold, use) for threshold in THRESHOLDS)

    def _ranked(self, resource: str, use: NodeUse) -> list[PodStats]:
        """Pods that run nothing yet, then those above their requests, low priorities and large users first."""
        found = [PodStats(worker, use) for worker in self._active()]

        def order(one: PodStats) -> tuple[bool, bool, int, float]:
            above = one.used(resource) - one.requested(resource)
            return one.worker.sandbox_ready, above <= 0, one.worker.pod["spec"].get("priority", 0), -above

        return sorted(found, key=order)

    def _evict(
        self, worker: PodWorker, message: str, annotations: dict[str, str] | None = None, pressed: bool = False
    ) -> bool:
        """End a pod; critical ones stay."""
        if critical(worker.pod):
            return False
        worker.event("Warning", EVICTED, message, annotations=annotations)
        worker.fail(Verdict((EVICTED, message), (TERMINATION, message) if pressed else None, GRACE_S))
        return True


def _observation(threshold: Threshold, use: NodeUse) -> tuple[int, int]:
    """(capacity, available) of what a threshold is about."""
    if threshold.resource == "memory":
        return use.memory_bytes, use.memory_available
    return use.disk_bytes, use.disk_available


def _met(threshold: Threshold, use: NodeUse) -> bool:
    capacity, available = _observation(threshold, use)
    return available < threshold.quantity(capacity)


def _image_bytes(images: list[Obj]) -> int:
    return sum(image["sizeBytes"] for image in images)


def _text(value: int) -> str:
    return text(Fraction(value), binary=True)
