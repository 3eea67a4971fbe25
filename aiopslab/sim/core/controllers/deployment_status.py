"""Status of a Deployment: counters, and the conditions Available, Progressing and ReplicaFailure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiopslab.sim.core.controllers import rollout
from aiopslab.sim.core.controllers.common import condition, find_condition, key_of, without_condition
from aiopslab.sim.core.kernel import parse_time
from aiopslab.sim.core.store import Obj

if TYPE_CHECKING:
    from aiopslab.sim.core.controllers.deployment import Deployments

RESOURCE = "apps/deployments"
AVAILABLE_TEXT = "Deployment has minimum availability."
UNAVAILABLE_TEXT = "Deployment does not have minimum availability."
NO_DEADLINE_S = 2147483647
TIMED_OUT = "ProgressDeadlineExceeded"


class DeploymentStatus:
    """Computes and writes statuses for the Deployment controller."""

    def __init__(self, controller: Deployments) -> None:
        self._controller = controller
        self._kernel = controller.kernel

    def sync_only(self, deployment: Obj, sets: list[Obj], new: Obj | None) -> None:
        """Counters and Available, nothing about progress (paused, scaling or being deleted)."""
        status = self._counted(deployment, sets, new)
        self._controller.update_status(key_of(RESOURCE, deployment), status)

    def sync_rollout(self, deployment: Obj, sets: list[Obj], new: Obj | None) -> None:
        """Counters and all conditions; asks for another look when the progress deadline will pass."""
        status = self._counted(deployment, sets, new)
        conditions = status["conditions"]
        if not has_deadline(deployment):
            conditions = without_condition(conditions, "Progressing")
        else:
            conditions = self._progress(deployment, status, new)
        status["conditions"] = self._failures(conditions, sets, new)
        before = deployment.get("status") or {}
        self._controller.update_status(key_of(RESOURCE, deployment), status)
        if before == status:
            self._wait_for_deadline(deployment, status)

    def check_paused(self, deployment: Obj) -> Obj:
        """Record pausing and resuming in the Progressing condition. Returns the stored Deployment."""
        if not has_deadline(deployment):
            return deployment
        entry = condition(deployment, "Progressing")
        if entry is not None and entry.get("reason") == TIMED_OUT:
            return deployment
        noted = entry is not None and entry.get("reason") == "DeploymentPaused"
        paused = bool(deployment["spec"].get("paused"))
        if paused == noted:
            return deployment
        reason, text = ("Paused", "paused") if paused else ("Resumed", "resumed")
        key = key_of(RESOURCE, deployment)
        self._controller.set_progressing(key, "Unknown", f"Deployment{reason}", f"Deployment is {text}")
        return self._controller.store.get(key) or deployment

    def _counted(self, deployment: Obj, sets: list[Obj], new: Obj | None) -> Obj:
        available = sum(rollout.counted(one, "availableReplicas") for one in sets)
        total = sum(rollout.replicas(one) for one in sets)
        counts = {
            "observedGeneration": deployment["metadata"].get("generation", 0),
            "replicas": sum(rollout.counted(one, "replicas") for one in sets),
            "updatedReplicas": rollout.counted(new, "replicas") if new is not None else 0,
            "readyReplicas": sum(rollout.counted(one, "readyReplicas") for one in sets),
            "availableReplicas": available,
            "unavailableReplicas": max(0, total - available),
        }
        status: Obj = {name: count for name, count in counts.items() if count}
        status["terminatingReplicas"] = sum(rollout.counted(one, "terminatingReplicas") for one in sets)
        old = deployment.get("status") or {}
        if old.get("collisionCount") is not None:
            status["collisionCount"] = old["collisionCount"]
        enough = available >= rollout.replicas(deployment) - rollout.max_unavailable(deployment)
        status["conditions"] = self.changed(
            old.get("conditions"),
            "Available",
            ("True", "MinimumReplicasAvailable", AVAILABLE_TEXT)
            if enough
            else ("False", "MinimumReplicasUnavailable", UNAVAILABLE_TEXT),
        )
        return status

    def _progress(self, deployment: Obj, status: Obj, new: Obj | None) -> list[Obj]:
        conditions = status["conditions"]
        entry = find_condition(conditions, "Progressing")
        settled = (
            rollout.counted({"status": status}, "replicas")
            == rollout.counted({"status": status}, "updatedReplicas")
            and entry is not None
            and entry.get("reason") == "NewReplicaSetAvailable"
        )
        if settled:
            return conditions
        who = (
            f'ReplicaSet "{new["metadata"]["name"]}"'
            if new
            else f'Deployment "{deployment["metadata"]["name"]}"'
        )
        if rollout.complete({**deployment, "status": status}):
            text = f"{who} has successfully progressed."
            return self.changed(conditions, "Progressing", ("True", "NewReplicaSetAvailable", text))
        if self._advanced(deployment, status):
            text = f"{who} is progressing."
            if entry is not None:
                conditions = without_condition(conditions, "Progressing")
            fresh = self.changed([], "Progressing", ("True", "ReplicaSetUpdated", text))[0]
            if entry is not None and entry["status"] == "True":
                fresh["lastTransitionTime"] = entry["lastTransitionTime"]
            return [*conditions, fresh]
        if self._timed_out(deployment, entry):
            return self.changed(
                conditions, "Progressing", ("False", TIMED_OUT, f"{who} has timed out progressing.")
            )
        return conditions

    def _advanced(self, deployment: Obj, status: Obj) -> bool:
        """Whether a counter moved in the right direction since the stored status."""
        new = {"status": status}
        old_replicas = [
            rollout.counted(one, "replicas") - rollout.counted(one, "updatedReplicas")
            for one in (deployment, new)
        ]
        return old_replicas[1] < old_replicas[0] or any(
            rollout.counted(new, name) > rollout.counted(deployment, name)
            for name in ("updatedReplicas", "readyReplicas", "availableReplicas")
        )

    def _timed_out(self, deployment: Obj, entry: Obj | None) -> bool:
        if entry is None or entry.get("reason") == "NewReplicaSetAvailable":
            return False
        if entry.get("reason") == TIMED_OUT:
            return True
        deadline_s = deployment["spec"]["progressDeadlineSeconds"]
        return parse_time(entry["lastUpdateTime"]) + deadline_s < self._kernel.now

    def _wait_for_deadline(self, deployment: Obj, status: Obj) -> None:
        entry = find_condition(status["conditions"], "Progressing")
        if (
            not has_deadline(deployment)
            or entry is None
            or rollout.complete({**deployment, "status": status})
        ):
            return
        if entry.get("reason") in (TIMED_OUT, "NewReplicaSetAvailable"):
            return
        due = parse_time(entry["lastUpdateTime"]) + deployment["spec"]["progressDeadlineSeconds"] + 1
        if due > self._kernel.now:
            self._controller.requeue_after(due - self._kernel.now, key_of(RESOURCE, deployment))

    def _failures(self, conditions: list[Obj], sets: list[Obj], new: Obj | None) -> list[Obj]:
        """ReplicaFailure comes from the new ReplicaSet, else from any old one."""
        order = [*([new] if new is not None else []), *sets]
        for one in order:
            entry = condition(one, "ReplicaFailure")
            if entry is not None:
                return self.changed(
                    conditions, "ReplicaFailure", (entry["status"], entry["reason"], entry["message"])
                )
        return without_condition(conditions, "ReplicaFailure")

    def changed(self, conditions: list[Obj] | None, type_: str, state: tuple[str, str, str]) -> list[Obj]:
        """Conditions with ``type_`` in ``state`` (status, reason, message), moved to the end when status or
        reason differ; ``lastTransitionTime`` stays while the status does."""
        current = list(conditions or ())
        old = find_condition(current, type_)
        if old is not None and (old["status"], old.get("reason")) == state[:2]:
            return current
        now = self._kernel.timestamp()
        same = old is not None and old["status"] == state[0]
        entry = {
            "type": type_,
            "status": state[0],
            "lastUpdateTime": now,
            "lastTransitionTime": old["lastTransitionTime"] if old is not None and same else now,
            "reason": state[1],
            "message": state[2],
        }
        return [*without_condition(current, type_), entry]


def has_deadline(deployment: Obj) -> bool:
    """Whether the Deployment tracks progress."""
    return deployment["spec"].get("progressDeadlineSeconds") not in (None, NO_DEADLINE_S)
