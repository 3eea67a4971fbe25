"""All virtual kubelets: which pods run where, node objects, exits reported by the world."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from aiopslab.sim.core.api import Api, DeleteOptions
from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers.common import Base
from aiopslab.sim.core.controllers.index import Index
from aiopslab.sim.core.ids import Ids
from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.kubelet import admission
from aiopslab.sim.core.kubelet.addresses import Addresses
from aiopslab.sim.core.kubelet.eviction import EvictionManager
from aiopslab.sim.core.kubelet.images import NodeImages
from aiopslab.sim.core.kubelet.nodestatus import NodeStatus
from aiopslab.sim.core.kubelet.volumes import VolumeSource, uses
from aiopslab.sim.core.kubelet.worker import MANAGER, PodWorker
from aiopslab.sim.core.ports import World
from aiopslab.sim.core.store import Change, Key, Obj

# How often the world is asked for containers that it ended.
EXIT_POLL_S = 5.0
REFRESH_FIRST_S, REFRESH_SPREAD_S = 60.0, 30.0
DEFAULT_POD_CIDR = "10.244.0.0/24"


def machine_id(ids: Ids, node: str) -> str:
    """``nodeInfo.machineID`` of a node that a virtual kubelet serves; others are served by nobody."""
    return ids.hex(32, "machine", node)


class NodeAgent:
    """What is kept per node: pods, images, addresses."""

    def __init__(self, node: Obj, agent: Kubelets) -> None:
        self.name: str = node["metadata"]["name"]
        self._agent = agent
        self.workers: dict[str, PodWorker] = {}  # by uid, in order of arrival
        self.images = NodeImages(agent.world.images, agent.kernel.ids, self.name)
        self.addresses = Addresses(agent.kernel.ids, node["spec"].get("podCIDR") or DEFAULT_POD_CIDR)
        self.status = NodeStatus(agent, self)
        self.evictions = EvictionManager(agent, self)
        listed = (node.get("status") or {}).get("addresses") or ()
        self.host_ip = next((a["address"] for a in listed if a["type"] == "InternalIP"), "")

    def located(self, pod: Obj, pod_ip: str) -> Obj:
        """The pod with its addresses filled in, for references in env and volumes."""
        status = {
            **(pod.get("status") or {}),
            "podIP": pod_ip,
            "podIPs": [{"ip": pod_ip}],
            "hostIP": self.host_ip,
            "hostIPs": [{"ip": self.host_ip}],
        }
        return {**pod, "status": status}

    def refusal(self, pod: Obj) -> admission.Refusal | None:
        """Why the node does not take a pod that was bound to it, as by hand with ``nodeName``."""
        if pressed := admission.under_pressure(pod, self.status.pressures):
            return pressed
        others = [worker.pod for uid, worker in self.workers.items() if uid != pod["metadata"]["uid"]]
        return admission.unfit(pod, self._agent.node_object(self.name), others)


class Kubelets(Base):
    """One controller for all virtual kubelets."""

    name = "kubelet"

    def __init__(self, kernel: Kernel, api: Api, index: Index, world: World) -> None:
        super().__init__(kernel, api, index)
        self.world = world
        self.volumes = VolumeSource(self.store.get, self._token)
        self._nodes: dict[str, NodeAgent] = {}
        self._workers: dict[str, PodWorker] = {}
        self._by_key: dict[Key, str] = {}
        self._polling = False

    def keys(self, change: Change) -> Iterable[Key]:
        """Pods on served nodes when something that a kubelet acts on changed; mounted objects."""
        resource = change.key.resource
        if resource == "pods":
            if not change.obj["spec"].get("nodeName") or not self._concerns(change):
                return ()
            return (change.key,)
        if resource in ("configmaps", "secrets") and change.type == "MODIFIED":
            return (change.key,)
        return ()

    def _concerns(self, change: Change) -> bool:
        old, new = change.old, change.obj
        if old is None or change.type == "DELETED":
            return True
        if old["spec"] != new["spec"]:
            return True
        if old["metadata"].get("deletionTimestamp") != new["metadata"].get("deletionTimestamp"):
            return True
        if new["metadata"].get("deletionTimestamp") and change.type == "MODIFIED":
            return old["metadata"].get("finalizers") != new["metadata"].get("finalizers")
        return bool(new["spec"].get("readinessGates"))

    def reconcile(self, key: Key) -> None:
        """Create, update or end the worker of a pod; plan the refresh of mounted files."""
        if key.resource != "pods":
            self._plan_refresh(key)
            return
        pod = self.store.get(key)
        uid = pod["metadata"]["uid"] if pod is not None else ""
        known = self._by_key.get(key)
        if known is not None and known != uid:
            del self._by_key[key]
            self._workers[known].stopper.vanish()
        if pod is None:
            return
        worker = self._workers.get(uid)
        if worker is not None:
            worker.update()
            return
        node = self._node(pod["spec"]["nodeName"])
        if node is None or podlib.finished(pod):
            return
        worker = PodWorker(self, node, pod)
        self._workers[uid] = node.workers[uid] = worker
        self._by_key[key] = uid
        if pod["metadata"].get("deletionTimestamp"):
            worker.update()
        else:
            worker.begin()
        node.evictions.begin()
        self._poll_later()

    def node_object(self, name: str) -> Obj:
        """The node as stored; an empty shell when it was deleted."""
        return self.store.get(Key("nodes", "", name)) or {
            "metadata": {"name": name},
            "spec": {},
            "status": {},
        }

    def linked_services(self, pod: Obj) -> list[Obj]:
        """Services whose addresses become variables: ``kubernetes``, and the pod's namespace unless off."""
        namespace = pod["metadata"]["namespace"]
        found = self.store.get(Key("services", "default", "kubernetes"))
        services = [found] if found is not None else []
        if pod["spec"].get("enableServiceLinks", True):
            services += [one for one in self.index.listed("services", namespace) if one is not found]
        return services

    def write_status(self, worker: PodWorker, status: Obj) -> None:
        """Report a pod's status; ignored when the pod was replaced or is gone."""
        current = self.store.get(worker.key)
        if current is not None and current["metadata"]["uid"] == worker.uid:
            self.api.put_status(
                worker.key, lambda obj: {**obj, "status": {**(obj.get("status") or {}), **status}}, MANAGER
            )

    def delete_now(self, key: Key, uid: str) -> None:
        """Remove a pod object whose containers have ended."""
        self.api.delete("pods", key.namespace, key.name, DeleteOptions(manager=MANAGER, grace_s=0, uid=uid))

    def drop(self, worker: PodWorker) -> None:
        """A pod has left its node."""
        worker.cancel_timers()
        self._workers.pop(worker.uid, None)
        worker.node.workers.pop(worker.uid, None)
        if self._by_key.get(worker.key) == worker.uid:
            del self._by_key[worker.key]
        self.world.forget(worker.uid)

    def _node(self, name: str) -> NodeAgent | None:
        if name not in self._nodes:
            node = self.store.get(Key("nodes", "", name))
            info = ((node or {}).get("status") or {}).get("nodeInfo") or {}
            if node is None or info.get("machineID") != machine_id(self.kernel.ids, name):
                return None
            self._nodes[name] = NodeAgent(node, self)
        return self._nodes[name]

    def _poll_later(self) -> None:
        if not self._polling:
            self._polling = True
            self.kernel.call_after(EXIT_POLL_S, "kubelet/exits", self._poll)

    def _poll(self) -> None:
        """Learn which containers the world ended: crashes and OOM kills."""
        self._polling = False
        for ended in self.world.exits(self.kernel.now):
            worker = self._workers.get(ended.ref.pod_uid)
            for run in worker.runs if worker is not None else ():
                if worker is not None and run.ref == ended.ref:
                    worker.exited(run, ended.exit_code, ended.reason)
        if self._workers:
            self._poll_later()

    def _plan_refresh(self, key: Key) -> None:
        for worker in sorted(self._workers.values(), key=lambda one: one.key):
            if worker.key.namespace == key.namespace and uses(worker.pod, key.resource, key.name):
                delay_s = REFRESH_FIRST_S + REFRESH_SPREAD_S * worker.unit("refresh", key)
                worker.after(delay_s, "refresh", partial(self._refresh, worker))

    def _refresh(self, worker: PodWorker) -> None:
        """Bring mounted files up to date; ``subPath`` mounts keep what they had at the start."""
        node = self.node_object(worker.node.name)
        pod = worker.node.located(worker.pod, worker.pod_ip)
        for run in worker.runs:
            if run.running and run.ref is not None:
                mounts = [m for m in run.spec.get("volumeMounts") or () if not m.get("subPath")]
                files = self.volumes.files(pod, {**run.spec, "volumeMounts": mounts}, node)
                self.world.refresh_files(run.ref, files, self.kernel.now)

    def _token(self, pod: Obj, source: Obj) -> str:
        parts = (pod["metadata"]["uid"], source.get("audience", ""), source.get("path", ""))
        return ".".join(self.kernel.ids.hex(40, "token", part, *parts) for part in range(3))
