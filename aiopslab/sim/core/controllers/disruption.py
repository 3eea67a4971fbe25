"""PodDisruptionBudget: how many pods may be evicted now."""

from __future__ import annotations

from collections.abc import Iterable

from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers.common import (
    Base,
    condition,
    controller_of,
    deleting,
    int_or_percent,
    key_of,
    labels_of,
)
from aiopslab.sim.core.controllers.labels import label_selector_matches
from aiopslab.sim.core.kernel import parse_time
from aiopslab.sim.core.store import Change, Key, Obj

RESOURCE = "policy/poddisruptionbudgets"
# An eviction that was allowed but did not happen is forgotten after this long.
DISRUPTED_S = 120.0
SCALABLE = {
    "ReplicaSet": "apps/replicasets",
    "StatefulSet": "apps/statefulsets",
    "ReplicationController": "replicationcontrollers",
}


class DisruptionBudgets(Base):
    """The disruption-controller (events come from ``controllermanager``)."""

    name = "controllermanager"

    def keys(self, change: Change) -> Iterable[Key]:
        """Budgets, and budgets that select a changed pod."""
        key = change.key
        if key.resource == RESOURCE:
            return (key,)
        if key.resource != "pods":
            return ()
        states = [labels_of(obj) for obj in (change.old, change.obj) if obj is not None]
        return [
            key_of(RESOURCE, budget)
            for budget in self.index.listed(RESOURCE, key.namespace)
            if any(label_selector_matches(budget["spec"].get("selector"), labels) for labels in states)
        ]

    def reconcile(self, key: Key) -> None:
        """Count again and write the status."""
        budget = self.store.get(key)
        if budget is None or deleting(budget):
            return
        selected = self.index.selected(key.namespace, budget["spec"].get("selector"))
        pods = [pod for pod in selected if not podlib.finished(pod)]
        if not pods:
            self.event(budget, "Normal", "NoPods", "No matching pods found")
        disrupted = self._disrupted(key, budget, pods)
        healthy = sum(
            podlib.ready(pod) and not deleting(pod) and pod["metadata"]["name"] not in disrupted
            for pod in pods
        )
        expected, desired = self._bounds(budget, pods)
        allowed = max(0, healthy - desired) if expected > 0 else 0
        status: Obj = {
            "observedGeneration": budget["metadata"].get("generation", 1),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": [self._condition(budget, allowed)],
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        self.update_status(key, status)

    def _disrupted(self, key: Key, budget: Obj, pods: list[Obj]) -> dict[str, str]:
        """Pods whose eviction was allowed and that are not gone yet."""
        names = {pod["metadata"]["name"] for pod in pods if not deleting(pod)}
        noted = (budget.get("status") or {}).get("disruptedPods") or {}
        now = self.kernel.now
        kept = {n: at for n, at in sorted(noted.items()) if n in names and parse_time(at) + DISRUPTED_S > now}
        if kept:
            self.requeue_after(min(parse_time(at) for at in kept.values()) + DISRUPTED_S - now, key)
        return kept

    def _bounds(self, budget: Obj, pods: list[Obj]) -> tuple[int, int]:
        """(expected pods, pods that must stay healthy)."""
        spec = budget["spec"]
        unavailable, available = spec.get("maxUnavailable"), spec.get("minAvailable")
        if unavailable is not None:
            expected = self._scale(pods)
            return expected, max(0, expected - int_or_percent(unavailable, expected, round_up=True))
        if isinstance(available, str):
            expected = self._scale(pods)
            return expected, int_or_percent(available, expected, round_up=True)
        return len(pods), available or 0

    def _scale(self, pods: list[Obj]) -> int:
        """Sum of what the pods' controllers want; a pod without a scalable controller counts for nothing."""
        owners: dict[str, int] = {}
        for pod in pods:
            reference = controller_of(pod)
            if reference is None or reference["kind"] not in SCALABLE:
                continue
            owner = self.store.get(
                Key(SCALABLE[reference["kind"]], pod["metadata"]["namespace"], reference["name"])
            )
            if owner is not None:
                parent = controller_of(owner)
                deployment = (
                    self.store.get(Key("apps/deployments", pod["metadata"]["namespace"], parent["name"]))
                    if parent is not None and parent["kind"] == "Deployment"
                    else None
                )
                top = deployment if deployment is not None else owner
                owners[top["metadata"]["uid"]] = top["spec"].get("replicas", 1)
        return sum(owners.values())

    def _condition(self, budget: Obj, allowed: int) -> Obj:
        status, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
        old = condition(budget, "DisruptionAllowed")
        same = old is not None and old["status"] == status
        return {
            "type": "DisruptionAllowed",
            "status": status,
            "observedGeneration": budget["metadata"].get("generation", 1),
            "lastTransitionTime": old["lastTransitionTime"]
            if old is not None and same
            else self.kernel.timestamp(),
            "reason": reason,
            "message": "",
        }
