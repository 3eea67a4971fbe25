"""What the scheduler knows of the nodes: capacity, what is reserved, which pods are there. Kept by
subscription, so that placing a pod does not have to look at all others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers.common import controller_of, labels_of
from aiopslab.sim.core.store import Change, Key, Obj, Store

# A pod without requests still counts for these amounts when nodes are compared.
DEFAULT_CPU_CORES, DEFAULT_MEMORY_BYTES = 0.1, 200 * 2**20


@dataclass(slots=True)
class PodUse:
    """What one bound pod takes."""

    obj: Obj
    requests: dict[str, float]
    ports: set[tuple[str, str, int]]
    group: str


@dataclass(slots=True)
class NodeInfo:
    """One node with everything that is bound to it."""

    node: Obj
    allocatable: dict[str, float]
    pods: dict[Key, PodUse] = field(default_factory=dict)
    requested: Counter[str] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)
    averse: dict[Key, PodUse] = field(default_factory=dict)  # those with required anti-affinity

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node["metadata"]["name"]

    @property
    def labels(self) -> dict[str, str]:
        """The node's labels."""
        return labels_of(self.node)

    def free(self, resource: str) -> float:
        """What of a resource is not reserved."""
        return self.allocatable.get(resource, 0.0) - self.requested[resource]

    def add(self, key: Key, use: PodUse) -> None:
        """A pod was bound here."""
        self.pods[key] = use
        self.requested.update(use.requests)
        self.groups[use.group] += 1
        if (use.obj["spec"].get("affinity") or {}).get("podAntiAffinity"):
            self.averse[key] = use

    def remove(self, key: Key) -> None:
        """A pod ended or went."""
        use = self.pods.pop(key, None)
        self.averse.pop(key, None)
        if use is not None:
            self.requested.subtract(use.requests)
            self.groups[use.group] -= 1

    def without(self, keys: set[Key]) -> NodeInfo:
        """A copy as it would be if these pods were gone; the original stays."""
        copy = NodeInfo(self.node, self.allocatable)
        for key, use in self.pods.items():
            if key not in keys:
                copy.add(key, use)
        return copy


class ClusterView:
    """All nodes with their bound pods."""

    def __init__(self, store: Store) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        self._lost: dict[str, dict[Key, PodUse]] = {}  # pods bound to nodes that do not exist
        self._where: dict[Key, str] = {}
        for node in store.list("nodes"):
            self._put_node(node)
        for pod in store.list("pods"):
            meta = pod["metadata"]
            self._put_pod(Key("pods", meta["namespace"], meta["name"]), pod)
        store.subscribe(self._on_change)

    def nodes(self) -> list[NodeInfo]:
        """All nodes by name."""
        return [self._nodes[name] for name in sorted(self._nodes)]

    def node(self, name: str) -> NodeInfo | None:
        """One node."""
        return self._nodes.get(name)

    def _on_change(self, change: Change) -> None:
        if change.key.resource == "nodes":
            if change.type == "DELETED":
                gone = self._nodes.pop(change.key.name, None)
                if gone is not None:
                    self._lost[change.key.name] = gone.pods
            else:
                self._put_node(change.obj)
        elif change.key.resource == "pods":
            if change.type == "DELETED" or podlib.finished(change.obj):
                self._drop_pod(change.key)
            else:
                self._put_pod(change.key, change.obj)

    def _put_node(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        listed = (node.get("status") or {}).get("allocatable") or {}
        allocatable = {resource: podlib.quantity(value) for resource, value in listed.items()}
        info = self._nodes.get(name)
        if info is not None:
            info.node, info.allocatable = node, allocatable
            return
        info = self._nodes[name] = NodeInfo(node, allocatable)
        for key, use in self._lost.pop(name, {}).items():
            info.add(key, use)

    def _put_pod(self, key: Key, pod: Obj) -> None:
        name = pod["spec"].get("nodeName")
        if not name or podlib.finished(pod):
            return
        if self._where.get(key) == name:
            info = self._nodes.get(name)
            known = info.pods.get(key) if info is not None else None
            if known is not None and known.obj["spec"] == pod["spec"]:
                known.obj = pod
                return
        self._drop_pod(key)
        self._where[key] = name
        use = PodUse(pod, podlib.requests(pod), podlib.host_ports(pod), group_of(pod))
        info = self._nodes.get(name)
        if info is not None:
            info.add(key, use)
        else:
            self._lost.setdefault(name, {})[key] = use

    def _drop_pod(self, key: Key) -> None:
        name = self._where.pop(key, None)
        if name is None:
            return
        if name in self._nodes:
            self._nodes[name].remove(key)
        else:
            self._lost.get(name, {}).pop(key, None)


def group_of(pod: Obj) -> str:
    """Pods with equal groups are spread over nodes: those of one controller."""
    owner = controller_of(pod)
    return owner["uid"] if owner is not None else pod["metadata"].get("uid", "")
