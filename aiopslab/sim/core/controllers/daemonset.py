"""DaemonSet: one pod on every node that accepts it, replaced node by node when the template changes."""

from __future__ import annotations

from collections.abc import Iterable

from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.controllers import history
from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers.claims import claim
from aiopslab.sim.core.controllers.common import (
    Base,
    annotations_of,
    controller_of,
    deleting,
    error_text,
    int_or_percent,
    key_of,
    labels_of,
    namespace_is_ending,
)
from aiopslab.sim.core.scheduler.filters import fits
from aiopslab.sim.core.store import Change, Key, Obj

RESOURCE = "apps/daemonsets"
REVISION_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"
GENERATION = "deprecated.daemonset.template.generation"
TOLERATIONS = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


class DaemonSets(Base):
    """The daemonset-controller."""

    name = "daemonset-controller"

    def keys(self, change: Change) -> Iterable[Key]:
        """DaemonSets, their pods, and all of them when a node's placement changes."""
        resource = change.key.resource
        if resource == RESOURCE:
            return (change.key,)
        if resource == "pods":
            owner = controller_of(change.obj)
            mine = owner is not None and owner["kind"] == "DaemonSet"
            return (Key(RESOURCE, change.key.namespace, owner["name"]),) if owner and mine else ()
        if resource == "nodes" and _placement_changed(change):
            return [key_of(RESOURCE, one) for one in self.store.list(RESOURCE)]
        return ()

    def reconcile(self, key: Key) -> None:
        """One sync."""
        obj = self.store.get(key)
        if obj is None:
            self.forget(key)
            return
        if deleting(obj):
            return
        revision = labels_of(history.revision_of(self, obj, REVISION_LABEL))[REVISION_LABEL]
        by_node = self._by_node(obj)
        try:
            self._manage(obj, by_node, revision)
            self.forget(key)
        except ApiError as error:
            if not namespace_is_ending(error):
                self.event(obj, "Warning", "FailedCreate", f"Error creating: {error_text(error)}")
                self.retry(key)
        self._roll(obj, self._by_node(obj), revision)
        self._write_status(key, obj, self._by_node(obj), revision)

    def _by_node(self, obj: Obj) -> dict[str, list[Obj]]:
        found: dict[str, list[Obj]] = {}
        for pod in claim(self, "pods", obj):
            found.setdefault(_target(pod), []).append(pod)
        return found

    def _wanted_on(self, obj: Obj, node: Obj) -> bool:
        template = obj["spec"]["template"]
        spec = {**template["spec"], "tolerations": _tolerations(template["spec"])}
        return fits({"metadata": {"name": ""}, "spec": spec}, node)

    def _manage(self, obj: Obj, by_node: dict[str, list[Obj]], revision: str) -> None:
        nodes = self.store.list("nodes")
        for node in nodes:
            name = node["metadata"]["name"]
            pods = by_node.get(name, [])
            if not self._wanted_on(obj, node):
                for pod in pods:
                    self._delete(obj, pod)
                continue
            alive = [pod for pod in pods if not deleting(pod) and not podlib.finished(pod)]
            for pod in pods:
                if podlib.phase(pod) == "Failed" and not deleting(pod):
                    where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']} on node {name}"
                    text = f"Found failed daemon pod {where}, will try to kill it"
                    self.event(obj, "Warning", "FailedDaemonPod", text)
                    self.delete(key_of("pods", pod), pod["metadata"]["uid"])
            if not alive and not any(deleting(pod) for pod in pods):
                self._create(obj, name, revision)
            for pod in alive[1:]:
                self._delete(obj, pod)
        known = {node["metadata"]["name"] for node in nodes}
        for name in sorted(set(by_node) - known):
            for pod in by_node[name]:
                if not pod["spec"].get("nodeName"):
                    self._delete(obj, pod)

    def _delete(self, obj: Obj, pod: Obj) -> None:
        if not deleting(pod):
            self.delete(key_of("pods", pod), pod["metadata"]["uid"])
            self.event(obj, "Normal", "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")

    def _create(self, obj: Obj, node: str, revision: str) -> None:
        meta = obj["metadata"]
        name = self.unused_name("pods", meta["namespace"], meta["name"], meta["uid"], node)
        pod = podlib.from_template(obj["spec"]["template"], obj, name, f"{meta['name']}-")
        pod["metadata"]["labels"] = {
            **labels_of(pod),
            REVISION_LABEL: revision,
            GENERATION_LABEL: annotations_of(obj).get(GENERATION, "1"),
        }
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        affinity = pod["spec"].get("affinity") or {}
        own = {
            **(affinity.get("nodeAffinity") or {}),
            "requiredDuringSchedulingIgnoredDuringExecution": required,
        }
        pod["spec"]["affinity"] = {**affinity, "nodeAffinity": own}
        pod["spec"]["tolerations"] = _tolerations(pod["spec"])
        self.api.create("pods", meta["namespace"], pod, self.options)
        self.event(obj, "Normal", "SuccessfulCreate", f"Created pod: {name}")

    def _roll(self, obj: Obj, by_node: dict[str, list[Obj]], revision: str) -> None:
        """Delete pods of an old template while not too many nodes are without an available pod."""
        strategy = obj["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        nodes = [node["metadata"]["name"] for node in self.store.list("nodes") if self._wanted_on(obj, node)]
        rolling = strategy.get("rollingUpdate") or {}
        budget = int_or_percent(rolling.get("maxUnavailable", 1), len(nodes), round_up=True)
        old = []
        for name in nodes:
            pods = [pod for pod in by_node.get(name, ()) if not deleting(pod)]
            good = any(self._available(obj, pod) for pod in pods)
            budget -= not good
            stale = [pod for pod in pods if labels_of(pod).get(REVISION_LABEL) != revision]
            old += [(good, name, pod) for pod in stale]
        for good, _, pod in sorted(old, key=lambda item: (item[0], item[1])):
            if good and budget <= 0:
                break
            budget -= good
            self._delete(obj, pod)

    def _available(self, obj: Obj, pod: Obj) -> bool:
        return podlib.available(pod, obj["spec"].get("minReadySeconds", 0), self.kernel.now)

    def _write_status(self, key: Key, obj: Obj, by_node: dict[str, list[Obj]], revision: str) -> None:
        desired = current = ready = available = updated = misplaced = 0
        for node in self.store.list("nodes"):
            pods = by_node.get(node["metadata"]["name"], [])
            if not self._wanted_on(obj, node):
                misplaced += bool(pods)
                continue
            desired += 1
            if not pods:
                continue
            current += 1
            newest = max(
                pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"])
            )
            ready += podlib.ready(newest)
            available += self._available(obj, newest)
            updated += labels_of(newest).get(REVISION_LABEL) == revision
            if podlib.ready(newest) and not self._available(obj, newest):
                since = podlib.ready_since(newest) or self.kernel.now
                self.requeue_after(since + obj["spec"]["minReadySeconds"] - self.kernel.now, key)
        status: Obj = {
            "currentNumberScheduled": current,
            "numberMisscheduled": misplaced,
            "desiredNumberScheduled": desired,
            "numberReady": ready,
            "observedGeneration": obj["metadata"].get("generation", 1),
        }
        optional = {
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "numberUnavailable": desired - available,
        }
        status |= {name: count for name, count in optional.items() if count}
        self.update_status(key, status)
        in_use = {f"{obj['metadata']['name']}-{revision}"}
        for pods in by_node.values():
            in_use |= {f"{obj['metadata']['name']}-{labels_of(pod).get(REVISION_LABEL)}" for pod in pods}
        history.forget_old(self, obj, in_use)


def _tolerations(spec: Obj) -> list[Obj]:
    own = list(spec.get("tolerations") or ())
    wanted = list(TOLERATIONS)
    if spec.get("hostNetwork"):
        wanted.append(("network-unavailable", "NoSchedule"))
    for name, effect in wanted:
        entry = {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
        if entry not in own:
            own.append(entry)
    return own


def _target(pod: Obj) -> str:
    """The node a daemon pod is for, also before it is bound."""
    if pod["spec"].get("nodeName"):
        return pod["spec"]["nodeName"]
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name":
                return field["values"][0]
    return ""


def _placement_changed(change: Change) -> bool:
    old, new = change.old, change.obj
    if old is None or change.type == "DELETED":
        return True
    return labels_of(old) != labels_of(new) or old["spec"] != new["spec"]
