"""ReplicaSet: keeps as many pods as asked, adopts matching orphans, chooses victims as the real one does."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from aiopslab.sim.core.api import Api
from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers.claims import claim
from aiopslab.sim.core.controllers.common import (
    Base,
    annotations_of,
    condition,
    controlled_by,
    controller_of,
    deleting,
    error_text,
    find_condition,
    key_of,
    labels_of,
    namespace_is_ending,
    without_condition,
)
from aiopslab.sim.core.controllers.index import Index
from aiopslab.sim.core.controllers.labels import label_selector_matches
from aiopslab.sim.core.controllers.tally import Tally
from aiopslab.sim.core.kernel import Kernel, parse_time
from aiopslab.sim.core.store import Change, Key, Obj

RESOURCE = "apps/replicasets"
BURST_REPLICAS = 500
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSets(Base):
    """The replicaset-controller."""

    name = "replicaset-controller"

    def __init__(self, kernel: Kernel, api: Api, index: Index) -> None:
        super().__init__(kernel, api, index)
        self._tally = Tally(index)

    def keys(self, change: Change) -> Iterable[Key]:
        """ReplicaSets by themselves; pods by their owner, or by selector when nobody owns them."""
        if change.key.resource == RESOURCE:
            if change.type == "DELETED":
                self._tally.forget(change.obj["metadata"]["uid"])
            return (change.key,)
        if change.key.resource != "pods":
            return ()
        self._tally.note(change)
        found: dict[Key, None] = {}
        for pod in (change.old, change.obj):
            if pod is None:
                continue
            owner = controller_of(pod)
            if owner is not None and owner["kind"] == "ReplicaSet":
                found[Key(RESOURCE, change.key.namespace, owner["name"])] = None
            elif owner is None:
                for replica_set in self.index.listed(RESOURCE, change.key.namespace):
                    if label_selector_matches(replica_set["spec"].get("selector"), labels_of(pod)):
                        found[key_of(RESOURCE, replica_set)] = None
        return found

    def reconcile(self, key: Key) -> None:
        """Create or delete pods until the number is right, then write the status."""
        replica_set = self.store.get(key)
        if replica_set is None:
            self.forget(key)
            return
        failure: tuple[str, str] | None = None
        if self._is_settled(replica_set):
            self.forget(key)
        else:
            owned = claim(self, "pods", replica_set)
            if not deleting(replica_set):
                failure = self._manage(key, replica_set, [pod for pod in owned if podlib.active(pod)])
        self._write_status(key, replica_set, failure)

    def _is_settled(self, replica_set: Obj) -> bool:
        """Whether there is nothing to adopt, to let go of, to create or to delete."""
        counts = self._tally.counts(replica_set)
        if deleting(replica_set) or counts.strayed or counts.current != replica_set["spec"].get("replicas", 1):
            return False
        selector = replica_set["spec"].get("selector")
        orphans = self.index.orphans("pods", replica_set["metadata"]["namespace"])
        return not any(label_selector_matches(selector, labels_of(pod)) for pod in orphans)

    def _manage(self, key: Key, replica_set: Obj, current: list[Obj]) -> tuple[str, str] | None:
        difference = len(current) - replica_set["spec"].get("replicas", 1)
        if difference < 0:
            return self._create(key, replica_set, min(-difference, BURST_REPLICAS))
        for pod in self._victims(replica_set, current, difference):
            self.delete(key_of("pods", pod), pod["metadata"]["uid"])
            self.event(replica_set, "Normal", "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
        self.forget(key)
        return None

    def _create(self, key: Key, replica_set: Obj, count: int) -> tuple[str, str] | None:
        """Create in batches of 1, 2, 4 ...; a failure ends the batch. Returns (reason, message) of it."""
        batch = 1
        while count > 0:
            error: ApiError | None = None
            for _ in range(min(batch, count)):
                try:
                    self._create_pod(replica_set)
                except ApiError as caught:
                    if namespace_is_ending(caught):
                        return None
                    error = caught
                    self.event(
                        replica_set, "Warning", "FailedCreate", f"Error creating: {error_text(caught)}"
                    )
            if error is not None:
                self.retry(key)
                return "FailedCreate", error_text(error)
            count -= batch
            batch *= 2
        self.forget(key)
        return None

    def _create_pod(self, replica_set: Obj) -> None:
        meta = replica_set["metadata"]
        name = self.unused_name("pods", meta["namespace"], meta["name"], meta["uid"])
        pod = podlib.from_template(replica_set["spec"]["template"], replica_set, name, f"{meta['name']}-")
        self.api.create("pods", meta["namespace"], pod, self.options)
        self.event(replica_set, "Normal", "SuccessfulCreate", f"Created pod: {name}")

    def _victims(self, replica_set: Obj, current: list[Obj], count: int) -> list[Obj]:
        if count <= 0:
            return []
        if count >= len(current):
            return current
        siblings = Counter(
            pod["spec"].get("nodeName", "") for pod in self._related(replica_set) if podlib.active(pod)
        )
        now = self.kernel.now
        return sorted(current, key=lambda pod: _deletion_rank(pod, siblings, now))[:count]

    def _related(self, replica_set: Obj) -> list[Obj]:
        """Pods of all ReplicaSets with the same owner: their spread decides who goes."""
        owner = controller_of(replica_set)
        if owner is None:
            return self.index.owned(replica_set["metadata"]["uid"], "pods")
        sets = self.index.owned(owner["uid"], RESOURCE)
        return [pod for one in sets for pod in self.index.owned(one["metadata"]["uid"], "pods")]

    def _write_status(self, key: Key, replica_set: Obj, failure: tuple[str, str] | None) -> None:
        counts = self._tally.counts(replica_set)
        min_ready_s = replica_set["spec"].get("minReadySeconds", 0)
        waiting = self._not_yet_available(replica_set, min_ready_s) if min_ready_s else []
        status: Obj = {"replicas": counts.current}
        more = {
            "fullyLabeledReplicas": counts.labelled,
            "readyReplicas": counts.ready,
            "availableReplicas": counts.ready - len(waiting),
            "observedGeneration": replica_set["metadata"].get("generation", 0),
        }
        status |= {name: count for name, count in more.items() if count}
        status["terminatingReplicas"] = counts.terminating
        if conditions := self._conditions(replica_set, failure):
            status["conditions"] = conditions
        self.update_status(key, status)
        if waiting:
            now = self.kernel.now
            self.requeue_after(min(podlib.ready_since(pod) or now for pod in waiting) + min_ready_s - now, key)

    def _not_yet_available(self, replica_set: Obj, min_ready_s: float) -> list[Obj]:
        """Ready pods that have not been so for long enough."""
        return [
            pod
            for pod in self.index.owned(replica_set["metadata"]["uid"], "pods")
            if controlled_by(pod, replica_set)
            and podlib.active(pod)
            and podlib.ready(pod)
            and not podlib.available(pod, min_ready_s, self.kernel.now)
        ]

    def _conditions(self, replica_set: Obj, failure: tuple[str, str] | None) -> list[Obj]:
        conditions = list((replica_set.get("status") or {}).get("conditions") or ())
        if failure is None:
            return without_condition(conditions, "ReplicaFailure")
        old = find_condition(conditions, "ReplicaFailure")
        if old is not None and old["reason"] == failure[0]:
            return conditions
        entry = {
            "type": "ReplicaFailure",
            "status": "True",
            "lastTransitionTime": self.kernel.timestamp(),
            "reason": failure[0],
            "message": failure[1],
        }
        return [*without_condition(conditions, "ReplicaFailure"), entry]


def _deletion_rank(pod: Obj, siblings: Counter[str], now: float) -> tuple[object, ...]:
    """Sort key: who is deleted first comes first."""
    node = pod["spec"].get("nodeName", "")
    is_ready = podlib.ready(pod)
    try:
        cost = int(annotations_of(pod).get(DELETION_COST, "0"))
    except ValueError:
        cost = 0
    return (
        bool(node),
        PHASE_RANK.get(podlib.phase(pod), 2),
        is_ready,
        cost,
        -siblings[node],
        _age_rank(_transition(pod), now) if is_ready else 0,
        -podlib.restarts(pod),
        _age_rank(parse_time(pod["metadata"]["creationTimestamp"]), now),
        pod["metadata"]["uid"],
    )


def _transition(pod: Obj) -> float:
    entry = condition(pod, "Ready")
    return parse_time(entry["lastTransitionTime"]) if entry else 0.0


def _age_rank(since: float, now: float) -> int:
    """Ages are compared by their order of magnitude (base 2), so that victims spread over time."""
    return int(math.log2(max(1.0, now - since)))
