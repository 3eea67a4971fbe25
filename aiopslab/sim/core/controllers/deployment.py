"""Deployment: which ReplicaSets exist, and how many replicas each gets during a rollout."""

from __future__ import annotations

from collections.abc import Iterable

from aiopslab.sim.core.api import Api
from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers import rollout
from aiopslab.sim.core.controllers.claims import claim
from aiopslab.sim.core.controllers.common import (
    Base,
    controller_of,
    deleting,
    key_of,
    labels_of,
    with_metadata,
    with_spec,
)
from aiopslab.sim.core.controllers.deployment_status import DeploymentStatus
from aiopslab.sim.core.controllers.index import Index
from aiopslab.sim.core.controllers.labels import label_selector_matches
from aiopslab.sim.core.controllers.revisions import Revisions
from aiopslab.sim.core.kernel import Kernel, parse_time
from aiopslab.sim.core.store import Change, Key, Obj

RESOURCE = "apps/deployments"
SETS = "apps/replicasets"


class Deployments(Base):
    """The deployment-controller."""

    name = "deployment-controller"

    def __init__(self, kernel: Kernel, api: Api, index: Index) -> None:
        super().__init__(kernel, api, index)
        self._revisions = Revisions(self)
        self._status = DeploymentStatus(self)

    def keys(self, change: Change) -> Iterable[Key]:
        """Deployments by themselves, ReplicaSets by owner or selector, deleted pods for Recreate."""
        if change.key.resource == RESOURCE:
            return (change.key,)
        if change.key.resource == SETS:
            return self._of_set(change)
        if change.key.resource == "pods" and (change.type == "DELETED" or podlib.finished(change.obj)):
            owner = controller_of(change.obj)
            if owner is None or owner["kind"] != "ReplicaSet":
                return ()
            parent = self.store.get(Key(SETS, change.key.namespace, owner["name"]))
            reference = controller_of(parent) if parent is not None else None
            if reference is not None and reference["kind"] == "Deployment":
                return (Key(RESOURCE, change.key.namespace, reference["name"]),)
        return ()

    def _of_set(self, change: Change) -> Iterable[Key]:
        found: dict[Key, None] = {}
        for replica_set in (change.old, change.obj):
            if replica_set is None:
                continue
            owner = controller_of(replica_set)
            if owner is not None and owner["kind"] == "Deployment":
                found[Key(RESOURCE, change.key.namespace, owner["name"])] = None
            elif owner is None:
                for deployment in self.index.listed(RESOURCE, change.key.namespace):
                    if label_selector_matches(deployment["spec"].get("selector"), labels_of(replica_set)):
                        found[key_of(RESOURCE, deployment)] = None
        return found

    def reconcile(self, key: Key) -> None:
        """One sync of the real controller's loop, on the state as it is now."""
        deployment = self.store.get(key)
        if deployment is None:
            self.forget(key)
            return
        selector = deployment["spec"].get("selector") or {}
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            message = "This deployment is selecting all pods. A non-empty selector is required."
            self.event(deployment, "Warning", "SelectingAll", message)
            return
        sets = claim(self, SETS, deployment)
        if deleting(deployment):
            self._status.sync_only(deployment, sets, self._revisions.find_new(deployment, sets))
            return
        deployment = self._status.check_paused(deployment)
        if deployment["spec"].get("paused") or self._is_scaling(deployment, sets):
            self._sync_scale(key, deployment, sets)
            return
        if (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
            self._recreate(key, deployment, sets)
        else:
            self._rolling_update(key, deployment, sets)

    def set_progressing(self, key: Key, status: str, reason: str, message: str) -> None:
        """Change only the Progressing condition of the stored Deployment."""
        deployment = self.store.get(key)
        if deployment is None:
            return
        old = deployment.get("status") or {}
        conditions = self._status.changed(old.get("conditions"), "Progressing", (status, reason, message))
        self.update_status(key, {**old, "conditions": conditions})

    def _is_scaling(self, deployment: Obj, sets: list[Obj]) -> bool:
        wanted = rollout.replicas(deployment)
        return any(
            rollout.replicas(one) > 0 and rollout.desired_annotation(one) not in (None, wanted)
            for one in sets
        )

    def _sync_scale(self, key: Key, deployment: Obj, sets: list[Obj]) -> None:
        """Paused, or ``spec.replicas`` changed: keep the proportions of the running rollout."""
        new = self._revisions.existing(deployment, sets)
        self._scale(deployment, self._fresh(sets), new)
        self._clean_up_if(bool(deployment["spec"].get("paused")), deployment, sets, new)
        self._status.sync_only(self.store.get(key) or deployment, self._fresh(sets), self._refreshed(new))

    def _scale(self, deployment: Obj, sets: list[Obj], new: Obj | None) -> None:
        active = [one for one in sets if rollout.replicas(one) > 0]
        wanted = rollout.replicas(deployment)
        if len(active) <= 1:
            only = active[0] if active else (self._refreshed(new) or rollout.newest(sets))
            if only is not None and rollout.replicas(only) != wanted:
                self._set_scale(only, wanted, deployment)
            return
        new = self._refreshed(new)
        if new is not None and rollout.saturated(deployment, new):
            for old in active:
                if old["metadata"]["uid"] != new["metadata"]["uid"]:
                    self._set_scale(old, 0, deployment)
            return
        if rollout.is_rolling(deployment):
            for one, size in rollout.proportional(deployment, active):
                self._set_scale(one, size, deployment)

    def _rolling_update(self, key: Key, deployment: Obj, sets: list[Obj]) -> None:
        new = self._revisions.get_or_create(deployment, sets)
        deployment = self.store.get(key) or deployment
        if new is None:
            self._status.sync_rollout(deployment, sets, None)
            return
        sets = self._with(sets, new)
        size = rollout.new_size(deployment, sets, new)
        if rollout.replicas(new) != size:
            self._set_scale(new, size, deployment)
        elif not self._shrink_old(deployment, sets, new):
            self._clean_up_if(rollout.complete(deployment), deployment, sets, new)
        self._status.sync_rollout(self.store.get(key) or deployment, self._fresh(sets), self._refreshed(new))

    def _shrink_old(self, deployment: Obj, sets: list[Obj], new: Obj) -> bool:
        changed = False
        for step in (rollout.unhealthy_cuts, rollout.healthy_cuts):
            sets = self._fresh(sets)
            for one, size in step(deployment, sets, self._refreshed(new) or new):
                self._set_scale(one, size, deployment)
                changed = True
        return changed

    def _recreate(self, key: Key, deployment: Obj, sets: list[Obj]) -> None:
        new = self._revisions.existing(deployment, sets)
        old = [
            one
            for one in self._fresh(sets)
            if new is None or one["metadata"]["uid"] != new["metadata"]["uid"]
        ]
        active = [one for one in old if rollout.replicas(one) > 0]
        for one in active:
            self._set_scale(one, 0, deployment)
        if not active and not self._pods_running(old):
            new = self._revisions.get_or_create(deployment, sets)
            if new is not None and rollout.replicas(new) != rollout.replicas(deployment):
                self._set_scale(new, rollout.replicas(deployment), deployment)
            self._clean_up_if(rollout.complete(deployment), deployment, sets, new)
        deployment = self.store.get(key) or deployment
        sets = self._with(sets, new) if new is not None else sets
        self._status.sync_rollout(deployment, self._fresh(sets), self._refreshed(new))

    def _pods_running(self, old: list[Obj]) -> bool:
        """Whether any pod of the old ReplicaSets still exists and has not ended; terminating ones count."""
        return any(
            not podlib.finished(pod)
            for one in old
            for pod in self.index.owned(one["metadata"]["uid"], "pods")
        )

    def _set_scale(self, replica_set: Obj, size: int, deployment: Obj) -> None:
        """Write the size with the annotations that later proportional scaling reads, and say so."""
        current = self.store.get(key_of(SETS, replica_set))
        if current is None:
            return
        before = rollout.replicas(current)
        annotations = rollout.size_annotations(deployment, current)
        self.update(
            key_of(SETS, current), with_spec(with_metadata(current, annotations=annotations), replicas=size)
        )
        if before != size:
            way = "up" if size > before else "down"
            name = current["metadata"]["name"]
            message = f"Scaled {way} replica set {name} from {before} to {size}"
            self.event(deployment, "Normal", "ScalingReplicaSet", message)

    def _clean_up_if(self, due: bool, deployment: Obj, sets: list[Obj], new: Obj | None) -> None:
        """Delete what ``revisionHistoryLimit`` no longer keeps, oldest revision first."""
        limit = deployment["spec"].get("revisionHistoryLimit")
        if not due or limit is None:
            return
        uid = new["metadata"]["uid"] if new else ""
        old = [one for one in self._fresh(sets) if one["metadata"]["uid"] != uid and not deleting(one)]
        idle = [one for one in old if rollout.idle(one)]
        for one in sorted(idle, key=rollout.revision)[: max(0, len(old) - limit)]:
            self.delete(key_of(SETS, one), one["metadata"]["uid"])

    def _refreshed(self, replica_set: Obj | None) -> Obj | None:
        return self.store.get(key_of(SETS, replica_set)) if replica_set is not None else None

    def _fresh(self, sets: list[Obj]) -> list[Obj]:
        found = [self.store.get(key_of(SETS, one)) for one in sets]
        return sorted(
            (one for one in found if one is not None),
            key=lambda one: (parse_time(one["metadata"]["creationTimestamp"]), rollout.revision(one)),
        )

    def _with(self, sets: list[Obj], new: Obj) -> list[Obj]:
        others = [one for one in sets if one["metadata"]["name"] != new["metadata"]["name"]]
        return self._fresh([*others, new])
