"""What a kubelet writes into its node's status when it changes: pressure conditions and images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiopslab.sim.core.store import Key, Obj

if TYPE_CHECKING:
    from aiopslab.sim.core.kubelet.agent import Kubelets, NodeAgent

MANAGER = "kubelet"
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
        status = {**node["status"], "conditions": self._conditions(node["status"].get("conditions") or [])}
        if images := self._node.images.report(self._kernel.now):
            status["images"] = images
        else:
            status.pop("images", None)
        self._agent.api.put_status(key, status, MANAGER)

    def _conditions(self, old: list[Obj]) -> list[Obj]:
        now, found = self._kernel.timestamp(), []
        known = {pressure.type: pressure for pressure in PRESSURES}
        for entry in old:
            pressure = known.get(entry["type"])
            wanted = "True" if entry["type"] in self.pressures else "False"
            if pressure is None or entry["status"] == wanted:
                found.append(entry)
                continue
            reason, message, event = pressure.present if wanted == "True" else pressure.absent
            found.append({
                **entry, "status": wanted, "reason": reason, "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            })  # fmt: skip
            self.event("Normal", event, f"Node {self._node.name} status is now: {event}")
        return found
