"""The arithmetic of Deployment rollouts, as pure functions over a Deployment and its ReplicaSets.

Rules: new pods up to replicas + maxSurge; old pods down so that replicas - maxUnavailable stay available;
unhealthy old pods go first; scaling during a rollout keeps the proportions.
"""

from __future__ import annotations

from aiopslab.sim.core.controllers.common import annotations_of, int_or_percent
from aiopslab.sim.core.store import Obj

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


def replicas(obj: Obj) -> int:
    """``spec.replicas``, 1 when unset."""
    value = obj["spec"].get("replicas")
    return 1 if value is None else value


def counted(obj: Obj, name: str) -> int:
    """A counter of ``status``, 0 when unset."""
    return (obj.get("status") or {}).get(name) or 0


def is_rolling(deployment: Obj) -> bool:
    """Whether the strategy is RollingUpdate (also the default)."""
    return (deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate") == "RollingUpdate"


def fence_posts(deployment: Obj) -> tuple[int, int]:
    """(surge, unavailable) in pods. Surge rounds up, unavailable down; not both may be 0."""
    if not is_rolling(deployment):
        return 0, 0
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    total = replicas(deployment)
    surge = int_or_percent(rolling.get("maxSurge", "25%"), total, round_up=True)
    unavailable = int_or_percent(rolling.get("maxUnavailable", "25%"), total, round_up=False)
    return (surge, unavailable) if surge or unavailable else (0, 1)


def max_surge(deployment: Obj) -> int:
    """How many pods may exist beyond ``spec.replicas``."""
    return fence_posts(deployment)[0]


def max_unavailable(deployment: Obj) -> int:
    """How many of ``spec.replicas`` may be missing; never more than there are."""
    return min(fence_posts(deployment)[1], replicas(deployment)) if replicas(deployment) else 0


def revision(replica_set: Obj) -> int:
    """The revision annotation as a number, 0 when absent."""
    text = annotations_of(replica_set).get(REVISION, "")
    return int(text) if text.isdigit() else 0


def desired_annotation(replica_set: Obj) -> int | None:
    """For how many replicas of the Deployment this ReplicaSet was last sized."""
    text = annotations_of(replica_set).get(DESIRED, "")
    return int(text) if text.isdigit() else None


def size_annotations(deployment: Obj, replica_set: Obj) -> dict[str, str]:
    """The ReplicaSet's annotations with desired and maximal replicas brought up to date."""
    total = replicas(deployment)
    return {
        **annotations_of(replica_set),
        DESIRED: str(total),
        MAXIMUM: str(total + max_surge(deployment)),
    }


def new_size(deployment: Obj, sets: list[Obj], new: Obj) -> int:
    """How many replicas the newest ReplicaSet may have now."""
    wanted, have = replicas(deployment), replicas(new)
    if not is_rolling(deployment) or have >= wanted:
        return wanted
    room = wanted + max_surge(deployment) - sum(replicas(one) for one in sets)
    return have if room <= 0 else have + min(room, wanted - have)


def initial_size(deployment: Obj, old: list[Obj]) -> int:
    """How many replicas a ReplicaSet starts with when it is created."""
    wanted = replicas(deployment)
    if not is_rolling(deployment):
        return wanted
    room = wanted + max_surge(deployment) - sum(replicas(one) for one in old)
    return max(0, min(room, wanted))


def unhealthy_cuts(deployment: Obj, sets: list[Obj], new: Obj) -> list[tuple[Obj, int]]:
    """(old ReplicaSet, new size): removes old replicas that are not available, oldest set first."""
    old = _old(sets, new)
    floor = replicas(deployment) - max_unavailable(deployment)
    missing = replicas(new) - counted(new, "availableReplicas")
    budget = sum(replicas(one) for one in sets) - floor - missing
    cuts = []
    for one in old:
        unhealthy = replicas(one) - counted(one, "availableReplicas")
        cut = min(budget, unhealthy)
        if cut > 0:
            cuts.append((one, replicas(one) - cut))
            budget -= cut
    return cuts


def healthy_cuts(deployment: Obj, sets: list[Obj], new: Obj) -> list[tuple[Obj, int]]:
    """(old ReplicaSet, new size): removes available old replicas while enough stay available."""
    floor = replicas(deployment) - max_unavailable(deployment)
    missing = replicas(new) - counted(new, "availableReplicas")
    if sum(replicas(one) for one in sets) - floor - missing <= 0:
        return []
    budget = sum(counted(one, "availableReplicas") for one in sets) - floor
    cuts = []
    for one in _old(sets, new):
        cut = min(budget, replicas(one))
        if cut > 0:
            cuts.append((one, replicas(one) - cut))
            budget -= cut
    return cuts


def proportional(deployment: Obj, active: list[Obj]) -> list[tuple[Obj, int]]:
    """(ReplicaSet, new size) for a Deployment that is scaled in the middle of a rollout."""
    wanted = replicas(deployment)
    allowed = wanted + max_surge(deployment) if wanted else 0
    to_add = allowed - sum(replicas(one) for one in active)
    newest_first = to_add > 0
    order = sorted(
        active, key=lambda one: (-replicas(one), -revision(one) if newest_first else revision(one))
    )
    sizes: list[int] = []
    added = 0
    for one in order:
        share = _share(deployment, one)
        left = to_add - added
        share = min(share, left) if to_add > 0 else max(share, left)
        if to_add == 0:
            share = 0
        sizes.append(replicas(one) + share)
        added += share
    if sizes and to_add:
        sizes[0] = max(0, sizes[0] + to_add - added)
    return list(zip(order, sizes, strict=True))


def saturated(deployment: Obj, new: Obj) -> bool:
    """Whether the new ReplicaSet alone carries the whole Deployment."""
    wanted = replicas(deployment)
    return replicas(new) == wanted == desired_annotation(new) and counted(new, "availableReplicas") == wanted


def complete(deployment: Obj) -> bool:
    """Whether the status says that the rollout is finished."""
    wanted = replicas(deployment)
    return (
        counted(deployment, "updatedReplicas") == wanted
        and counted(deployment, "replicas") == wanted
        and counted(deployment, "availableReplicas") == wanted
        and counted(deployment, "observedGeneration") >= deployment["metadata"].get("generation", 0)
    )


def idle(replica_set: Obj) -> bool:
    """Whether a ReplicaSet has no replicas and its status has caught up."""
    seen = counted(replica_set, "observedGeneration") >= replica_set["metadata"].get("generation", 0)
    return seen and replicas(replica_set) == 0 and counted(replica_set, "replicas") == 0


def newest(sets: list[Obj]) -> Obj | None:
    """The ReplicaSet with the highest revision."""
    return max(sets, key=revision, default=None)


def _old(sets: list[Obj], new: Obj) -> list[Obj]:
    return [one for one in sets if one["metadata"]["name"] != new["metadata"]["name"] and replicas(one) > 0]


def _share(deployment: Obj, replica_set: Obj) -> int:
    """By how much one ReplicaSet should change to keep its part of the whole."""
    have = replicas(replica_set)
    if replicas(deployment) == 0:
        return -have
    text = annotations_of(replica_set).get(MAXIMUM, "")
    before = int(text) if text.isdigit() else counted(deployment, "replicas")
    if not before or not have:
        return 0
    after = replicas(deployment) + max_surge(deployment)
    return int(have * after / before + 0.5) - have
