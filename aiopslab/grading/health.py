"""Is every workload healthy at the end: as many replicas ready as wanted, no crash loop, nothing pending?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiopslab.grading.components import WORKLOADS
from aiopslab.grading.evidence import Evidence, controller_of, name_of, objects
from aiopslab.record import Check, Snapshot

_SHOWN = 4  # problems named in a detail


def check_health(evidence: Evidence) -> Check:
    """One check, ``workloads``. What was already unhealthy before the injection does not count."""
    end = evidence.snapshots.get("end")
    if end is None:
        return Check(name="workloads", ok=None, detail="There is no snapshot of the end.")
    already = set(troubles(evidence.snapshots["before"])) if "before" in evidence.snapshots else set()
    found = {subject: text for subject, text in troubles(end).items() if subject not in already}
    if found:
        texts = list(found.values())
        more = f", and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        return Check(name="workloads", ok=False, detail="; ".join(texts[:_SHOWN]) + more + ".")
    count = sum(len(objects(end, plural)) for plural in WORKLOADS)
    if count == 0:
        return Check(name="workloads", ok=False, detail="No workload is left.")
    return Check(name="workloads", ok=True, detail=f"All {count} workloads are ready.")


def troubles(snapshot: Snapshot) -> dict[str, str]:
    """What is unhealthy: subject (``deployments/x``, ``pods-of/x``) → a phrase. Pods that no controller owns
    are left out: they are somebody's tools, not the application's workloads."""
    found: dict[str, str] = {}
    for plural in WORKLOADS:
        for obj in objects(snapshot, plural):
            phrase = _workload_trouble(plural, obj)
            if phrase:
                found[f"{plural}/{name_of(obj)}"] = phrase
    for pod in objects(snapshot, "pods"):
        owner = controller_of(pod)
        phrase = _pod_trouble(pod)
        if owner and owner[0] != "Job" and phrase:
            found[f"pods-of/{owner[1]}"] = f"pod {name_of(pod)} {phrase}"
    return found


def _workload_trouble(plural: str, obj: Mapping[str, Any]) -> str:
    spec, status, name = obj.get("spec") or {}, obj.get("status") or {}, name_of(obj)
    if plural == "daemonsets":
        wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
        updated = status.get("updatedNumberScheduled", wanted)
    else:
        wanted, ready = spec.get("replicas", 1), status.get("readyReplicas", 0)
        updated = status.get("updatedReplicas", 0)
    seen = status.get("observedGeneration", 0)
    if seen < (obj.get("metadata") or {}).get("generation", 0):
        return f"{name} has a change that is not rolled out"
    if ready < wanted:
        return f"{name} has {ready} of {wanted} replicas ready"
    if updated < wanted:
        return f"{name} has {updated} of {wanted} replicas updated"
    if plural == "deployments" and status.get("replicas", 0) > updated:
        return f"{name} is in the middle of a roll-out"
    return ""


def _pod_trouble(pod: Mapping[str, Any]) -> str:
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return ""
    status = pod.get("status") or {}
    for container in (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or []):
        reason = ((container.get("state") or {}).get("waiting") or {}).get("reason", "")
        if reason and reason not in ("ContainerCreating", "PodInitializing"):
            return f"is in {reason}"
    phase = status.get("phase", "")
    if phase in ("Pending", "Failed", "Unknown"):
        return f"is {phase}"
    return ""
