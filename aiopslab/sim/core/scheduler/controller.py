"""The scheduling queue: binds pods in order of priority, explains failures, retries when things change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from aiopslab.sim.core.api import Api, WriteOptions
from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers.common import (
    Base,
    deleting,
    find_condition,
    key_of,
    labels_of,
    without_condition,
)
from aiopslab.sim.core.controllers.index import Index
from aiopslab.sim.core.controllers.labels import label_selector_matches
from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.scheduler import preemption, scores
from aiopslab.sim.core.scheduler.filters import Failure, Wanted, check, wanted
from aiopslab.sim.core.scheduler.terms import Terms
from aiopslab.sim.core.scheduler.view import ClusterView, NodeInfo
from aiopslab.sim.core.store import Change, Key, Obj
from aiopslab.sim.core.subresources import bind

MANAGER = "kube-scheduler"
SCHEDULER_NAME = "default-scheduler"
QUEUE = Key("schedule", "", "")
GATED = "Scheduling is blocked due to non-empty scheduling gates"
NO_NODES = "no nodes available to schedule pods"
IMMEDIATE_CLAIMS = "pod has unbound immediate PersistentVolumeClaims"
NODES_TO_FIND_MIN = 100
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class Scheduler(Base):
    """The default-scheduler. One work key stands for the whole queue."""

    name = SCHEDULER_NAME

    def __init__(self, kernel: Kernel, api: Api, index: Index) -> None:
        super().__init__(kernel, api, index)
        self._view = ClusterView(self.store)
        self._pending: dict[Key, None] = {}
        self._waiting: dict[Key, None] = {}  # tried without success; tried again when something changes
        for pod in self.store.list("pods"):
            if _concerns(pod):
                self._pending[key_of("pods", pod)] = None

    def keys(self, change: Change) -> Iterable[Key]:
        """New pods, and changes that can make room for those that wait."""
        if change.key.resource == "pods":
            return self._of_pod(change)
        return self._wake() if self._waiting and self._frees(change) else ()

    def reconcile(self, key: Key) -> None:
        """Place every pod of the queue: highest priority first, then the oldest, then by name."""
        queue, self._pending = self._pending, {}
        found = [(one, self.store.get(one)) for one in queue]
        ready = [(one, pod) for one, pod in found if pod is not None and _concerns(pod)]
        for one, pod in sorted(ready, key=lambda item: _order(item[1], item[0])):
            self._schedule(one, pod)

    def _of_pod(self, change: Change) -> Iterable[Key]:
        key, pod = change.key, change.obj
        if change.type == "DELETED":
            self._pending.pop(key, None)
            self._waiting.pop(key, None)
            return self._wake() if pod["spec"].get("nodeName") else ()
        if _concerns(pod):
            fresh = change.old is None or change.old["spec"] != pod["spec"]
            if not fresh:
                return ()
            self._pending[key] = None
            self._waiting.pop(key, None)
            return (QUEUE,)
        self._waiting.pop(key, None)
        if not pod["spec"].get("nodeName"):
            return ()
        if podlib.finished(pod):
            return self._wake() if change.old is not None and not podlib.finished(change.old) else ()
        placed = change.old is None or not change.old["spec"].get("nodeName")
        if placed or labels_of(change.old or pod) != labels_of(pod):
            return self._wake(only=_depends_on_pods)
        return ()

    def _wake(self, only: Callable[[Obj], bool] | None = None) -> Iterable[Key]:
        """Put waiting pods back into the queue: all, or those whose constraints the change can fulfil."""
        found = {one: pod for one in self._waiting if (pod := self.store.get(one)) is not None}
        woken = [one for one, pod in found.items() if only is None or only(pod)]
        for one in woken:
            del self._waiting[one]
            self._pending[one] = None
        return (QUEUE,) if woken else ()

    def _frees(self, change: Change) -> bool:
        resource, old, new = change.key.resource, change.old, change.obj
        if resource == "nodes":
            if old is None or change.type == "DELETED":
                return True
            room = [(node.get("status") or {}).get("allocatable") for node in (old, new)]
            return not (room[0] == room[1] and old["spec"] == new["spec"] and labels_of(old) == labels_of(new))
        return resource in ("persistentvolumeclaims", "persistentvolumes", "storage.k8s.io/storageclasses")

    # One pod ----------------------------------------------------------------------------------------------

    def _schedule(self, key: Key, pod: Obj) -> None:
        if pod["spec"].get("schedulingGates"):
            self._set_unscheduled(key, pod, "SchedulingGated", GATED)
            return
        nodes = self._view.nodes()
        if not nodes:
            self._fail(key, pod, NO_NODES)
            return
        problem = self._claims_problem(pod)
        if problem:
            self._fail(key, pod, f"0/{len(nodes)} nodes are available: {problem}. not found")
            return
        asked = wanted(pod, Terms(pod, nodes, self._namespaces), self._volume_terms(pod))
        failures: dict[str, Failure] = {}
        fitting: list[NodeInfo] = []
        enough = nodes_to_find(len(nodes))
        for info in self._from_anywhere(nodes, key, enough):
            failure = check(asked, info)
            if failure is None:
                fitting.append(info)
                if len(fitting) == enough:
                    break
            else:
                failures[info.name] = failure
        if fitting:
            self._bind(key, pod, scores.best(asked, fitting, self.kernel.ids).name)
        else:
            self._try_preemption(key, asked, failures)

    def _from_anywhere(self, nodes: list[NodeInfo], key: Key, enough: int) -> list[NodeInfo]:
        """Nodes in the order in which they are looked at: on a large cluster each pod begins elsewhere."""
        if enough >= len(nodes):
            return nodes
        start = self.kernel.ids.number(len(nodes), "place", key.namespace, key.name)
        return nodes[start:] + nodes[:start]

    def _bind(self, key: Key, pod: Obj, node: str) -> None:
        if not self._claims_ready(pod, node):
            self._waiting[key] = None
            return
        bind(self.api, key.namespace, key.name, {"target": {"name": node}}, WriteOptions(manager=MANAGER))
        self._waiting.pop(key, None)
        text = f"Successfully assigned {key.namespace}/{key.name} to {node}"
        self.api.event(self.store.get(key) or pod, "Normal", "Scheduled", text, SCHEDULER_NAME, action="Binding")

    def _try_preemption(self, key: Key, asked: Wanted, failures: dict[str, Failure]) -> None:
        reasons = Counter(reason for failure in failures.values() for reason in failure.reasons)
        listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        text = f"0/{len(failures)} nodes are available: {listed}. no new claims to deallocate, preemption: "
        victims = preemption.plan(asked, self._view.nodes(), failures)
        if victims is None:
            self._fail(key, asked.pod, text + preemption.tail(asked, failures))
            return
        unhelped = {name: failure for name, failure in failures.items() if name != victims.node}
        tail = preemption.tail(asked, unhelped) if unhelped else ""
        self._fail(key, asked.pod, text + (tail or f"0/{len(failures)} nodes are available."))
        current = self.store.get(key)
        if current is not None:
            self.api.put_status(key, {**(current.get("status") or {}), "nominatedNodeName": victims.node}, MANAGER)
        for victim in victims.victims:
            self._evict(victim, asked.pod, victims.node)

    def _evict(self, victim: Obj, preemptor: Obj, node: str) -> None:
        key = key_of("pods", victim)
        uid = preemptor["metadata"]["uid"]
        entry = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self.kernel.timestamp(),
            "reason": "PreemptionByScheduler",
            "message": f"{SCHEDULER_NAME}: preempting to accommodate a higher priority pod",
        }
        status = dict(victim.get("status") or {})
        status["conditions"] = [*without_condition(status.get("conditions"), "DisruptionTarget"), entry]
        self.api.put_status(key, status, MANAGER)
        self.delete(key, victim["metadata"]["uid"])
        text = f"Preempted by pod {uid} on node {node}"
        self.api.event(victim, "Normal", "Preempted", text, SCHEDULER_NAME, action="Preempting")

    def _fail(self, key: Key, pod: Obj, text: str) -> None:
        self._waiting[key] = None
        self._set_unscheduled(key, pod, "Unschedulable", text)
        self.api.event(pod, "Warning", "FailedScheduling", text, SCHEDULER_NAME, action="Scheduling")

    def _set_unscheduled(self, key: Key, pod: Obj, reason: str, text: str) -> None:
        status = dict(pod.get("status") or {})
        old = find_condition(status.get("conditions"), "PodScheduled")
        if old is not None and (old.get("reason"), old.get("message")) == (reason, text):
            return
        entry = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": (old or {}).get("lastTransitionTime") or self.kernel.timestamp(),
            "observedGeneration": pod["metadata"].get("generation", 1),
            "reason": reason,
            "message": text,
        }
        status["conditions"] = [*without_condition(status.get("conditions"), "PodScheduled"), entry]
        self.api.put_status(key, status, MANAGER)

    # Volumes ----------------------------------------------------------------------------------------------

    def _claims(self, pod: Obj) -> list[tuple[str, Obj | None]]:
        names = [
            volume["persistentVolumeClaim"]["claimName"]
            for volume in pod["spec"].get("volumes") or ()
            if "persistentVolumeClaim" in volume
        ]
        namespace = pod["metadata"]["namespace"]
        return [(name, self.store.get(Key("persistentvolumeclaims", namespace, name))) for name in names]

    def _claims_problem(self, pod: Obj) -> str:
        for name, claim in self._claims(pod):
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if deleting(claim):
                return f'persistentvolumeclaim "{name}" is being deleted'
            if not claim["spec"].get("volumeName") and not self._waits_for_consumer(claim):
                return IMMEDIATE_CLAIMS
        return ""

    def _waits_for_consumer(self, claim: Obj) -> bool:
        name = claim["spec"].get("storageClassName") or ""
        storage = self.store.get(Key("storage.k8s.io/storageclasses", "", name))
        return storage is not None and storage.get("volumeBindingMode") == "WaitForFirstConsumer"

    def _claims_ready(self, pod: Obj, node: str) -> bool:
        """Ask for the volumes of claims that waited for a node; the pod is bound once they are."""
        ready = True
        for name, claim in self._claims(pod):
            if claim is None or claim["spec"].get("volumeName"):
                continue
            ready = False
            annotations = claim["metadata"].get("annotations") or {}
            if annotations.get(SELECTED_NODE) != node:
                key = Key("persistentvolumeclaims", pod["metadata"]["namespace"], name)
                meta = {**claim["metadata"], "annotations": {**annotations, SELECTED_NODE: node}}
                self.api.put(key, {**claim, "metadata": meta}, MANAGER)
        return ready

    def _volume_terms(self, pod: Obj) -> list[Obj]:
        terms = []
        for _, claim in self._claims(pod):
            name = claim["spec"].get("volumeName") if claim is not None else None
            volume = self.store.get(Key("persistentvolumes", "", name)) if name else None
            required = ((volume or {}).get("spec", {}).get("nodeAffinity") or {}).get("required")
            if required:
                terms.append(required)
        return terms

    def _namespaces(self, selector: Obj | None) -> set[str]:
        return {
            one["metadata"]["name"]
            for one in self.store.list("namespaces")
            if label_selector_matches(selector, labels_of(one))
        }


def nodes_to_find(nodes: int) -> int:
    """How many nodes that fit are enough to choose from: all of a small cluster; of a large one
    (50 - nodes / 125) %, at least 5 % and at least 100 nodes."""
    if nodes <= NODES_TO_FIND_MIN:
        return nodes
    percentage = max(5, 50 - nodes // 125)
    return max(NODES_TO_FIND_MIN, nodes * percentage // 100)


def _concerns(pod: Obj) -> bool:
    spec = pod["spec"]
    mine = spec.get("schedulerName", SCHEDULER_NAME) == SCHEDULER_NAME
    return mine and not spec.get("nodeName") and not deleting(pod) and not podlib.finished(pod)


def _order(pod: Obj, key: Key) -> tuple[int, str, Key]:
    return -preemption.priority(pod), pod["metadata"].get("creationTimestamp", ""), key


def _depends_on_pods(pod: Obj) -> bool:
    """Whether another pod's arrival can make a node fit."""
    affinity = pod["spec"].get("affinity") or {}
    return bool(affinity.get("podAffinity") or pod["spec"].get("topologySpreadConstraints"))
