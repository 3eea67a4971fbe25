"""What a kubelet writes into its node's status when it changes: pressure conditions and images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiopslab.sim.core.store import Key, Obj

if TYPE_CHECKING:
    from aiopslab.sim.core.kubelet.agent import Kubelets, NodeAgent

MANAGER = "kubelet"
KUBELET_CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
SYNC_S = 10.0  # how often the kubelet computes its node's status


@dataclass(frozen=True, slots=True)
class Pressure:
    """One pressure condition: reason, message and event with and without it."""

    type: str
    present: tuple[str, str, str]
    absent: tuple[str, str, str]


PRESSURES = (
    Pressure(
        "MemoryPressure",
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"),
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"),
    ),
    Pressure(
        "DiskPressure",
        ("KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"),
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"),
    ),
)


class NodeStatus:
    """Posts changes of one node's status with the kubelet's next look at it."""

    def __init__(self, agent: Kubelets, node: NodeAgent) -> None:
        self._agent, self._node, self._kernel = agent, node, agent.kernel
        self._phase_s = SYNC_S * agent.kernel.ids.unit("kubelet", node.name, "status")
        self.pressures: list[str] = []  # conditions that the eviction manager sees

    def report(self) -> None:
        """Something has changed."""
        ticks = math.floor((self._kernel.now - self._phase_s) / SYNC_S) + 1
        self._kernel.call_at(ticks * SYNC_S + self._phase_s, f"kubelet/{self._node.name}/status", self._post)

    def event(self, type_: str, reason: str, message: str) -> None:
        """An event about the node. The kubelet takes the node's name for its uid."""
        name = self._node.name
        involved = {"kind": "Node", "metadata": {"name": name, "uid": name}}
        self._agent.api.event(involved, type_, reason, message, MANAGER, host=name)

    def _post(self) -> None:
        key = Key("nodes", "", self._node.name)
        node = self._agent.store.get(key)
        if node is None:
            return
        old = node["status"].get("conditions") or []
        status = {**node["status"], "conditions": [self._judged(entry) for entry in old]}
        if images := self._node.images.report(self._kernel.now):
            status["images"] = images
        else:
            status.pop("images", None)
        if status != node["status"]:
            status["conditions"] = [self._fresh(entry) for entry in status["conditions"]]
            self._agent.api.put_status(key, status, MANAGER)

    def _judged(self, entry: Obj) -> Obj:
        """A condition as it is now; a change is an event."""
        pressure = next((one for one in PRESSURES if one.type == entry["type"]), None)
        wanted = "True" if entry["type"] in self.pressures else "False"
        if pressure is None or entry["status"] == wanted:
            return entry
        reason, message, event = pressure.present if wanted == "True" else pressure.absent
        self.event("Normal", event, f"Node {self._node.name} status is now: {event}")
        changed = {"status": wanted, "reason": reason, "message": message}
        return {**entry, **changed, "lastTransitionTime": self._kernel.timestamp()}

    def _fresh(self, entry: Obj) -> Obj:
        """Each post carries new heartbeats."""
        ours = entry["type"] in KUBELET_CONDITIONS
        return {**entry, "lastHeartbeatTime": self._kernel.timestamp()} if ours else entry
