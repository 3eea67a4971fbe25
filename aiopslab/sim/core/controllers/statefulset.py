"""StatefulSet: pods with ordinals, ordered start and stop, updates from the highest ordinal, claims."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.controllers import history
from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers.claims import claim
from aiopslab.sim.core.controllers.common import (
    Base,
    controller_of,
    deleting,
    error_text,
    key_of,
    labels_of,
    namespace_is_ending,
    owner_reference,
)
from aiopslab.sim.core.controllers.labels import label_selector_matches
from aiopslab.sim.core.store import Change, Key, Obj

RESOURCE = "apps/statefulsets"
CLAIMS = "persistentvolumeclaims"
REVISION_LABEL = "controller-revision-hash"
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


@dataclass(slots=True)
class Plan:
    """One sync of a StatefulSet: what should be, and what is."""

    key: Key
    obj: Obj
    current: str  # names of the ControllerRevisions
    update: str
    pods: dict[int, Obj]

    @property
    def first(self) -> int:
        """The lowest ordinal."""
        return (self.obj["spec"].get("ordinals") or {}).get("start", 0)

    @property
    def wanted(self) -> range:
        """Ordinals that should exist."""
        count = self.obj["spec"].get("replicas")
        return range(self.first, self.first + (1 if count is None else count))

    @property
    def ordered(self) -> bool:
        """Whether pods are handled one at a time."""
        return self.obj["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady"

    @property
    def partition(self) -> int:
        """Ordinals below it keep their old revision."""
        rolling = (self.obj["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        return rolling.get("partition", 0)


class StatefulSets(Base):
    """The statefulset-controller."""

    name = "statefulset-controller"

    def keys(self, change: Change) -> Iterable[Key]:
        """StatefulSets, and their pods by owner or, for orphans, by selector."""
        if change.key.resource == RESOURCE:
            return (change.key,)
        if change.key.resource != "pods":
            return ()
        owner = controller_of(change.obj)
        if owner is not None:
            mine = owner["kind"] == "StatefulSet"
            return (Key(RESOURCE, change.key.namespace, owner["name"]),) if mine else ()
        return [
            key_of(RESOURCE, one)
            for one in self.index.listed(RESOURCE, change.key.namespace)
            if label_selector_matches(one["spec"].get("selector"), labels_of(change.obj))
        ]

    def reconcile(self, key: Key) -> None:
        """One sync."""
        obj = self.store.get(key)
        if obj is None:
            self.forget(key)
            return
        if deleting(obj):
            return
        update = history.revision_of(self, obj)["metadata"]["name"]
        current = (obj.get("status") or {}).get("currentRevision") or update
        plan = Plan(key, obj, current, update, self._pods(obj))
        try:
            self._sync(plan)
            self.forget(key)
        except ApiError as error:
            if not namespace_is_ending(error):
                self.retry(key)
        self._write_status(plan)

    def _pods(self, obj: Obj) -> dict[int, Obj]:
        found = {}
        for pod in claim(self, "pods", obj):
            ordinal = ordinal_of(obj["metadata"]["name"], pod["metadata"]["name"])
            if ordinal is not None:
                found[ordinal] = pod
        return dict(sorted(found.items()))

    def _sync(self, plan: Plan) -> None:
        for ordinal in plan.wanted:
            if not self._keep(plan, ordinal) and plan.ordered:
                return
        condemned = [n for n in sorted(plan.pods, reverse=True) if n not in plan.wanted]
        for ordinal in condemned:
            pod = plan.pods[ordinal]
            if not deleting(pod):
                self._delete(plan, pod)
            if plan.ordered:
                return
        self._roll(plan)

    def _keep(self, plan: Plan, ordinal: int) -> bool:
        """Make one ordinal exist. False while the next one has to wait for it."""
        pod = plan.pods.get(ordinal)
        if pod is None:
            self._create(plan, ordinal)
            return False
        if podlib.finished(pod) and not deleting(pod):
            meta = plan.obj["metadata"]
            who = f"StatefulSet {plan.key.namespace}/{meta['name']}"
            text = f"{who} is recreating failed Pod {pod['metadata']['name']}"
            self.event(plan.obj, "Warning", "RecreatingFailedPod", text)
            self.delete(key_of("pods", pod), pod["metadata"]["uid"])
            return False
        return not deleting(pod) and self._available(plan, pod)

    def _available(self, plan: Plan, pod: Obj) -> bool:
        min_ready_s = plan.obj["spec"].get("minReadySeconds", 0)
        if podlib.available(pod, min_ready_s, self.kernel.now):
            return True
        if (since := podlib.ready_since(pod)) is not None:
            self.requeue_after(since + min_ready_s - self.kernel.now, plan.key)
        return False

    def _roll(self, plan: Plan) -> None:
        """Replace pods of an old revision, from the highest ordinal, one at a time."""
        if (plan.obj["spec"].get("updateStrategy") or {}).get("type") == "OnDelete":
            return
        for ordinal in reversed(plan.wanted):
            pod = plan.pods.get(ordinal)
            if pod is None or ordinal < plan.partition:
                return
            if labels_of(pod).get(REVISION_LABEL) != plan.update and not deleting(pod):
                self._delete(plan, pod)
                return
            if deleting(pod) or not podlib.ready(pod):
                return

    def _delete(self, plan: Plan, pod: Obj) -> None:
        self.delete(key_of("pods", pod), pod["metadata"]["uid"])
        name, owner = pod["metadata"]["name"], plan.obj["metadata"]["name"]
        text = f"Delete Pod {name} in StatefulSet {owner} successful"
        self.event(plan.obj, "Normal", "SuccessfulDelete", text)

    def _create(self, plan: Plan, ordinal: int) -> None:
        owner = plan.obj["metadata"]["name"]
        name = f"{owner}-{ordinal}"
        try:
            self._create_claims(plan, name)
            self.api.create("pods", plan.key.namespace, self._pod(plan, ordinal, name), self.options)
        except ApiError as error:
            text = f"Create Pod {name} in StatefulSet {owner} failed error: {error_text(error)}"
            self.event(plan.obj, "Warning", "FailedCreate", text)
            raise
        text = f"Create Pod {name} in StatefulSet {owner} successful"
        self.event(plan.obj, "Normal", "SuccessfulCreate", text)

    def _pod(self, plan: Plan, ordinal: int, name: str) -> Obj:
        spec = plan.obj["spec"]
        revision = plan.current if ordinal < plan.partition else plan.update
        pod = podlib.from_template(self._template(plan, revision), plan.obj, name)
        pod["metadata"]["generateName"] = f"{plan.obj['metadata']['name']}-"
        pod["metadata"]["labels"] = {
            **labels_of(pod),
            INDEX_LABEL: str(ordinal),
            REVISION_LABEL: revision,
            POD_NAME_LABEL: name,
        }
        claims = {template["metadata"]["name"] for template in spec.get("volumeClaimTemplates") or ()}
        kept = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in claims]
        mounted = [
            {"name": one, "persistentVolumeClaim": {"claimName": f"{one}-{name}"}} for one in sorted(claims)
        ]
        if kept or mounted:
            pod["spec"]["volumes"] = mounted + kept
        pod["spec"]["hostname"] = name
        if spec.get("serviceName"):
            pod["spec"]["subdomain"] = spec["serviceName"]
        return pod

    def _template(self, plan: Plan, revision: str) -> Obj:
        if revision != plan.update:
            stored = self.store.get(Key(history.RESOURCE, plan.key.namespace, revision))
            if stored is not None:
                template = stored["data"]["spec"]["template"]
                return {name: value for name, value in template.items() if name != "$patch"}
        return plan.obj["spec"]["template"]

    def _create_claims(self, plan: Plan, pod: str) -> None:
        spec = plan.obj["spec"]
        for template in spec.get("volumeClaimTemplates") or ():
            meta = template["metadata"]
            name = f"{meta['name']}-{pod}"
            if self.store.get(Key(CLAIMS, plan.key.namespace, name)) is not None:
                continue
            labels = {**(meta.get("labels") or {}), **((spec.get("selector") or {}).get("matchLabels") or {})}
            metadata: Obj = {"name": name, "namespace": plan.key.namespace, "labels": labels}
            if meta.get("annotations"):
                metadata["annotations"] = meta["annotations"]
            policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
            if policy.get("whenDeleted") == "Delete":
                metadata["ownerReferences"] = [owner_reference(plan.obj)]
            body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
            self.api.create(CLAIMS, plan.key.namespace, {**body, "spec": template["spec"]}, self.options)
            owner = plan.obj["metadata"]["name"]
            text = f"Create Claim {name} Pod {pod} in StatefulSet {owner} success"
            self.event(plan.obj, "Normal", "SuccessfulCreate", text)

    def _write_status(self, plan: Plan) -> None:
        pods = list(self._pods(plan.obj).values())
        alive = [pod for pod in pods if not podlib.finished(pod)]
        ready = [pod for pod in alive if podlib.ready(pod)]
        min_ready_s = plan.obj["spec"].get("minReadySeconds", 0)
        available = [pod for pod in ready if podlib.available(pod, min_ready_s, self.kernel.now)]
        updated = sum(labels_of(pod).get(REVISION_LABEL) == plan.update for pod in alive)
        whole = updated == len(alive) == len(ready) == len(plan.wanted) and self._rolls(plan)
        current = plan.update if whole else plan.current
        at_current = sum(labels_of(pod).get(REVISION_LABEL) == current for pod in alive)
        counts = {"readyReplicas": len(ready), "currentReplicas": at_current, "updatedReplicas": updated}
        status: Obj = {
            "observedGeneration": plan.obj["metadata"].get("generation", 1),
            "replicas": len(alive),
            "availableReplicas": len(available),
            **{name: count for name, count in counts.items() if count},
            "currentRevision": current,
            "updateRevision": plan.update,
            "collisionCount": (plan.obj.get("status") or {}).get("collisionCount") or 0,
        }
        self.update_status(plan.key, status)
        in_use = {labels_of(pod).get(REVISION_LABEL, "") for pod in pods} | {current, plan.update}
        history.forget_old(self, plan.obj, in_use)

    def _rolls(self, plan: Plan) -> bool:
        strategy = (plan.obj["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
        return strategy == "RollingUpdate" and plan.partition <= plan.first


def ordinal_of(owner: str, pod: str) -> int | None:
    """The ordinal in a pod's name, None when the name is not of this StatefulSet."""
    match = re.fullmatch(rf"{re.escape(owner)}-(\d+)", pod)
    return int(match[1]) if match else None
