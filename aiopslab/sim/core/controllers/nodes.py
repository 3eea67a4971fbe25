"""Node lifecycle: taints that follow conditions, lost nodes, and eviction from them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from aiopslab.sim.core.api import Api
from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers.common import (
    MANAGER,
    Base,
    condition,
    deleting,
    find_condition,
    key_of,
    without_condition,
)
from aiopslab.sim.core.controllers.index import Index
from aiopslab.sim.core.kernel import Kernel, parse_time
from aiopslab.sim.core.scheduler.filters import tolerates
from aiopslab.sim.core.store import Change, Key, Obj

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
PRESSURE = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
OURS = {NOT_READY, UNREACHABLE, UNSCHEDULABLE, *PRESSURE.values()}
KUBELET_CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
CHECK_S = 5.0
GRACE_S = 50.0
STARTUP_GRACE_S = 60.0
LEASES, LEASE_NAMESPACE = "coordination.k8s.io/leases", "kube-node-lease"


class NodeTaints(Base):
    """Keeps the taints of a node in step with its conditions and with ``spec.unschedulable``."""

    name = "node-controller"

    def keys(self, change: Change) -> Iterable[Key]:
        """Nodes."""
        return (change.key,) if change.key.resource == "nodes" and change.type != "DELETED" else ()

    def reconcile(self, key: Key) -> None:
        """Write the taints that the node should have now."""
        node = self.store.get(key)
        if node is None:
            return
        current = node["spec"].get("taints") or []
        wanted = _wanted_taints(node)
        kept = [taint for taint in current if taint["key"] not in OURS or _identity(taint) in wanted]
        have = {_identity(taint) for taint in kept}
        now = self.kernel.timestamp()
        added = [
            {"key": name, "effect": effect, "timeAdded": now}
            for name, effect in sorted(wanted, reverse=True)
            if (name, effect) not in have
        ]
        taints = kept + added
        if taints != current:
            spec = {name: value for name, value in node["spec"].items() if name != "taints"}
            self.update(key, {**node, "spec": {**spec, "taints": taints} if taints else spec})


class NodeLifecycle(Base):
    """The node-lifecycle-controller with the taint manager."""

    name = "node-controller"

    def __init__(self, kernel: Kernel, api: Api, index: Index) -> None:
        super().__init__(kernel, api, index)
        self._seen: dict[str, tuple[str, float]] = {}  # node -> last renewTime and when it was noticed
        self._since: dict[str, float] = {}
        self._watching = False

    def keys(self, change: Change) -> Iterable[Key]:
        """Nodes, and pods on them (a new pod may not tolerate a taint that is there already)."""
        key = change.key
        if key.resource == "nodes":
            old = change.old if change.type == "MODIFIED" else None
            return (key,) if old is None or old["spec"] != change.obj["spec"] else ()
        if (
            key.resource == "pods"
            and change.type != "DELETED"
            and (node := change.obj["spec"].get("nodeName"))
        ):
            bound = change.old is None or not change.old["spec"].get("nodeName")
            return (Key("nodes", "", node),) if bound else ()
        return ()

    def reconcile(self, key: Key) -> None:
        """Register a new node, forget a removed one, apply NoExecute taints."""
        node = self.store.get(key)
        if node is None:
            if self._since.pop(key.name, None) is not None:
                self._seen.pop(key.name, None)
            return
        if key.name not in self._since:
            self._since[key.name] = self.kernel.now
            self._say(
                node,
                "Normal",
                "RegisteredNode",
                f"Node {key.name} event: Registered Node {key.name} in Controller",
            )
        self._apply_no_execute(node)
        if not self._watching:
            self._watching = True
            self.kernel.call_after(CHECK_S, f"{self.name}/check", self._check)

    def _say(self, node: Obj, type_: str, reason: str, message: str) -> None:
        self.api.event(node, type_, reason, message, self.name)

    # Health -----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        for node in self.store.list("nodes"):
            self._check_node(node)
        if self._since:
            self.kernel.call_after(CHECK_S, f"{self.name}/check", self._check)
        else:
            self._watching = False

    def _check_node(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        lease = self.store.get(Key(LEASES, LEASE_NAMESPACE, name))
        renewed = ((lease or {}).get("spec") or {}).get("renewTime", "")
        ready = condition(node, "Ready")
        beat = f"{renewed}/{ready.get('lastHeartbeatTime') if ready else ''}"
        if name not in self._seen or self._seen[name][0] != beat:
            since = self.kernel.now if name in self._seen else self._since.get(name, self.kernel.now)
            self._seen[name] = (beat, since)
            return
        grace_s = GRACE_S if ready is not None else STARTUP_GRACE_S
        if self.kernel.now - self._seen[name][1] > grace_s and (
            ready is None or ready["status"] != "Unknown"
        ):
            self._mark_unknown(node)

    def _mark_unknown(self, node: Obj) -> None:
        now, name = self.kernel.timestamp(), node["metadata"]["name"]
        status = node.get("status") or {}
        conditions = list(status.get("conditions") or ())
        for type_ in KUBELET_CONDITIONS:
            old = find_condition(conditions, type_)
            entry = {
                "type": type_,
                "status": "Unknown",
                "lastHeartbeatTime": old["lastHeartbeatTime"]
                if old
                else node["metadata"]["creationTimestamp"],
                "lastTransitionTime": now,
                "reason": "NodeStatusUnknown" if old else "NodeStatusNeverUpdated",
                "message": "Kubelet stopped posting node status."
                if old
                else "Kubelet never posted node status.",
            }
            conditions = (
                [entry if one["type"] == type_ else one for one in conditions]
                if old
                else [*conditions, entry]
            )
        self.api.put_status(key_of("nodes", node), {**status, "conditions": conditions}, MANAGER)
        self._say(node, "Normal", "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        for pod in self.index.on_node(name):
            if podlib.ready(pod):
                self._mark_pod(pod)

    def _mark_pod(self, pod: Obj) -> None:
        """A pod on a lost node cannot be trusted to serve."""
        status = pod["status"]
        ready = condition(pod, "Ready") or {}
        entry = {**ready, "status": "False", "lastTransitionTime": self.kernel.timestamp()}
        conditions = [entry if one["type"] == "Ready" else one for one in status["conditions"]]
        self.api.put_status(key_of("pods", pod), {**status, "conditions": conditions}, MANAGER)
        self._say(pod, "Warning", "NodeNotReady", "Node is not ready")

    # NoExecute --------------------------------------------------------------------------------------------

    def _apply_no_execute(self, node: Obj) -> None:
        taints = [taint for taint in node["spec"].get("taints") or () if taint["effect"] == "NoExecute"]
        for pod in self.index.on_node(node["metadata"]["name"]):
            timer = f"taint-eviction/{pod['metadata']['uid']}"
            wait_s = _seconds_tolerated(pod, taints, self.kernel.now) if not deleting(pod) else None
            if wait_s is None:
                self.kernel.cancel(timer)
            else:
                key, uid = key_of("pods", pod), pod["metadata"]["uid"]
                self.kernel.call_after(wait_s, timer, partial(self._evict, key, uid))

    def _evict(self, key: Key, uid: str) -> None:
        pod = self.store.get(key)
        if pod is None or pod["metadata"]["uid"] != uid or deleting(pod):
            return
        text = f"Marking for deletion Pod {key.namespace}/{key.name}"
        self.api.event(pod, "Normal", "TaintManagerEviction", text, "taint-eviction-controller")
        entry = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self.kernel.timestamp(),
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
        status = pod.get("status") or {}
        conditions = [*without_condition(status.get("conditions"), "DisruptionTarget"), entry]
        self.api.put_status(key, {**status, "conditions": conditions}, MANAGER)
        self.delete(key, uid)


def _wanted_taints(node: Obj) -> set[tuple[str, str]]:
    """(key, effect) of every taint that conditions and cordon ask for."""
    found = set()
    ready = condition(node, "Ready")
    if ready is not None and ready["status"] != "True":
        name = NOT_READY if ready["status"] == "False" else UNREACHABLE
        found |= {(name, "NoSchedule"), (name, "NoExecute")}
    for type_, name in PRESSURE.items():
        entry = condition(node, type_)
        if entry is not None and entry["status"] == "True":
            found.add((name, "NoSchedule"))
    if node["spec"].get("unschedulable"):
        found.add((UNSCHEDULABLE, "NoSchedule"))
    return found


def _identity(taint: Obj) -> tuple[str, str]:
    return taint["key"], taint["effect"]


def _seconds_tolerated(pod: Obj, taints: list[Obj], now: float) -> float | None:
    """Seconds from now until the pod must leave; None when it may stay."""
    if not taints:
        return None
    deadlines = []
    for taint in taints:
        matching = [t for t in pod["spec"].get("tolerations") or () if tolerates(t, taint)]
        if not matching:
            return 0.0
        limits = [t["tolerationSeconds"] for t in matching if t.get("tolerationSeconds") is not None]
        if limits:
            since = parse_time(taint["timeAdded"]) if taint.get("timeAdded") else now
            deadlines.append(max(0.0, since + max(0, min(limits)) - now))
    return min(deadlines) if deadlines else None
