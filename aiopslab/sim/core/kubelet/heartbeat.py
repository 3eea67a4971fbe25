"""Heartbeats of the virtual kubelets: leases every 10 s, node status every 5 minutes."""

from __future__ import annotations

from collections.abc import Iterable

from aiopslab.sim.core.api import Api
from aiopslab.sim.core.controllers.common import Base
from aiopslab.sim.core.controllers.index import Index
from aiopslab.sim.core.kernel import Kernel, rfc3339_micro
from aiopslab.sim.core.kubelet.agent import machine_id
from aiopslab.sim.core.store import Change, Key, Obj

LEASE_NAMESPACE = "kube-node-lease"
LEASE_S = 40
RENEW_S = 10.0
STATUS_S = 300.0
CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


class Heartbeats(Base):
    """Keeps the nodes that a virtual kubelet serves alive."""

    name = "kubelet-heartbeat"

    def __init__(self, kernel: Kernel, api: Api, index: Index) -> None:
        super().__init__(kernel, api, index)
        self._beating = False

    def keys(self, change: Change) -> Iterable[Key]:
        """Nodes that appear."""
        return (change.key,) if change.key.resource == "nodes" and change.type == "ADDED" else ()

    def reconcile(self, key: Key) -> None:
        """A served node appeared: start its heartbeat."""
        if not self._served(key):
            return
        self._renew_one(key, rfc3339_micro(self.kernel.now))
        if not self._beating:
            self._beating = True
            self.kernel.call_after(RENEW_S, f"{self.name}/lease", self._renew)
            self.kernel.call_after(STATUS_S, f"{self.name}/status", self._report)

    def _served(self, key: Key) -> bool:
        node = self.store.get(key)
        info = ((node or {}).get("status") or {}).get("nodeInfo") or {}
        return node is not None and info.get("machineID") == machine_id(self.kernel.ids, key.name)

    def _nodes(self) -> list[Key]:
        keys = [Key("nodes", "", node["metadata"]["name"]) for node in self.store.list("nodes")]
        return [key for key in keys if self._served(key)]

    def _renew(self) -> None:
        """One timer renews all leases; they bypass managedFields, whose times nobody reads here."""
        at = rfc3339_micro(self.kernel.now)
        for node in self._nodes():
            self._renew_one(node, at)
        self.kernel.call_after(RENEW_S, f"{self.name}/lease", self._renew)

    def _renew_one(self, node: Key, at: str) -> None:
        key = Key("coordination.k8s.io/leases", LEASE_NAMESPACE, node.name)
        lease = self.store.get(key)
        if lease is None:
            self.api.put(key, self._lease(node, at), "kubelet")
        else:
            self.store.put(key, {**lease, "spec": {**lease["spec"], "renewTime": at}})

    def _lease(self, node: Key, at: str) -> Obj:
        owner = (self.store.get(node) or {})["metadata"]
        reference = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": owner["uid"]}
        metadata = {"name": node.name, "namespace": LEASE_NAMESPACE, "ownerReferences": [reference]}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {"holderIdentity": node.name, "leaseDurationSeconds": LEASE_S, "renewTime": at},
        }

    def _report(self) -> None:
        """The status post that keeps ``lastHeartbeatTime`` fresh."""
        now = self.kernel.timestamp()
        for node in self._nodes():
            self.api.put_status(node, lambda obj: {**obj, "status": _beaten(obj["status"], now)}, "kubelet")
        self.kernel.call_after(STATUS_S, f"{self.name}/status", self._report)


def healthy_conditions(now: str) -> list[Obj]:
    """The four conditions of a node that has just become ready."""
    return [
        {
            "type": type_,
            "status": status,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        for type_, status, reason, message in CONDITIONS
    ]


def _beaten(status: Obj, now: str) -> Obj:
    """A node status with fresh heartbeats; conditions that went Unknown become healthy again."""
    healthy = {entry["type"]: entry for entry in healthy_conditions(now)}
    conditions = []
    for old in status.get("conditions") or ():
        entry = {**old, "lastHeartbeatTime": now} if old["type"] in healthy else old
        if old["type"] in healthy and old["status"] == "Unknown":
            entry = healthy[old["type"]]
        conditions.append(entry)
    return {**status, "conditions": conditions}
