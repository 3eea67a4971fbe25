"""Damage: what the agent broke on the way, by comparing the objects before the injection with those at the end.

Four checks. ``deleted``: no object is gone. ``replicas``: no workload has fewer replicas than before.
``changes``: no object outside the blast radius is specified differently (more replicas are not counted).
``restarts``: no pod outside the blast radius was replaced or restarted by the agent.

The blast radius is the workloads that a right repair may touch, with the objects that serve them (Services and
policies that select their pods, autoscalers that scale them, configuration that their pods use), and the objects
that the injection itself changed. Objects that controllers make (pods, ReplicaSets, EndpointSlices ...)
are judged by their owners only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aiopslab.grading.components import WORKLOADS, selects, workload_of, workloads_of
from aiopslab.grading.evidence import Evidence, Obj, controller_of, name_of, objects, plural_of
from aiopslab.record import Check, Snapshot

_DERIVED = frozenset(
    {
        "pods",
        "replicasets",
        "endpoints",
        "endpointslices",
        "events",
        "controllerrevisions",
        "leases",
        "podmetrics",
    }
)
_RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"  # a rollout restart: judged by `restarts`
_HELM_RELEASE = "helm.sh/release.v1"  # Helm's own history grows with each upgrade or rollback
_READS = frozenset({"get", "list", "watch", "head", "options"})
_SHOWN = 5

Identity = tuple[str, str, str]  # plural, namespace, name


def check_damage(evidence: Evidence) -> list[Check]:
    """The four checks; unjudged without the snapshots that they compare."""
    before, end = evidence.snapshots.get("before"), evidence.snapshots.get("end")
    if before is None or end is None:
        detail = "The snapshots before the injection and at the end are both needed."
        return [
            Check(name=name, ok=None, detail=detail)
            for name in ("deleted", "replicas", "changes", "restarts")
        ]
    radius = Radius(evidence, before)
    return [
        _check_deleted(before, end),
        _check_replicas(before, end),
        _check_changes(before, end, radius),
        _check_restarts(evidence, end, radius),
    ]


class Radius:
    """What a right repair may touch."""

    def __init__(self, evidence: Evidence, before: Snapshot) -> None:
        self.workloads = frozenset(evidence.expected.blast_radius)
        self._objects = {name: obj for name, obj in workloads_of(before).items() if name in self.workloads}
        injected = evidence.record.injection.objects if evidence.record.injection else []
        self._injected = frozenset(_parts(entry) for entry in injected)

    def covers(self, identity: Identity, obj: Mapping[str, Any]) -> bool:
        """Whether a change of this object is within the radius."""
        plural, _, name = identity
        if name in self.workloads or any(
            name == other and _kind_is(kind, plural) for kind, other in self._injected
        ):
            return True
        target = ((obj.get("spec") or {}).get("scaleTargetRef") or {}).get("name")
        if target in self.workloads:
            return True
        return any(
            selects(obj, workload) or _uses(workload, plural, name) for workload in self._objects.values()
        )


def _parts(entry: str) -> tuple[str, str]:
    parts = entry.split("/")
    return parts[0] if len(parts) <= 3 else parts[-3], parts[-1]


def _kind_is(kind: str, plural: str) -> bool:
    kind = plural_of(kind).casefold()
    return plural in (kind, f"{kind}s", f"{kind}es", kind[:-1] + "ies")


def _uses(workload: Mapping[str, Any], plural: str, name: str) -> bool:
    """Whether the workload's pods name the ConfigMap, Secret, ServiceAccount or claim ``name``."""
    wanted = {
        "configmaps": {"name", "configMapName"},
        "secrets": {"name", "secretName"},
        "serviceaccounts": {"serviceAccountName", "serviceAccount"},
        "persistentvolumeclaims": {"claimName"},
    }.get(plural)
    if wanted is None:
        return False
    under = {"configmaps": "configMap", "secrets": "secret"}.get(plural, "")
    template = (workload.get("spec") or {}).get("template") or {}
    return any(
        key in wanted and value == name and (key != "name" or parent.startswith(under))
        for parent, key, value in _leaves(template)
    )


def _leaves(value: Any, parent: str = "", key: str = "") -> Iterator[tuple[str, str, Any]]:
    if isinstance(value, dict):
        for inner, item in value.items():
            yield from _leaves(item, key, inner)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, parent, key)
    else:
        yield parent, key, value


def declared(snapshot: Snapshot) -> dict[Identity, Obj]:
    """Objects that somebody declared (no controller made them), by identity."""
    found: dict[Identity, Obj] = {}
    for resource, rows in snapshot.objects.items():
        plural = plural_of(resource)
        for obj in rows if plural not in _DERIVED else ():
            if controller_of(obj) is None and obj.get("type") != _HELM_RELEASE:
                found[(plural, str((obj.get("metadata") or {}).get("namespace") or ""), name_of(obj))] = obj
    return found


def _check_deleted(before: Snapshot, end: Snapshot) -> Check:
    gone = sorted(set(declared(before)) - set(declared(end)))
    if gone:
        return Check(name="deleted", ok=False, detail=f"Gone since before the incident: {listed(gone)}.")
    return Check(name="deleted", ok=True, detail="Every object from before the incident is still there.")


def _check_replicas(before: Snapshot, end: Snapshot) -> Check:
    scaled = {
        ((obj.get("spec") or {}).get("scaleTargetRef") or {}).get("name"): (obj.get("spec") or {}).get(
            "minReplicas", 1
        )
        for obj in objects(end, "horizontalpodautoscalers")
    }
    lost: list[str] = []
    after = workloads_of(end)
    for name, obj in sorted(workloads_of(before).items()):
        had = (obj.get("spec") or {}).get("replicas")
        has = (after[name].get("spec") or {}).get("replicas") if name in after else 0
        if had is not None and (has or 0) < min(had, scaled.get(name, had)):
            lost.append(f"{name} has {has or 0}, had {had}")
    if lost:
        return Check(
            name="replicas", ok=False, detail="Fewer replicas than before: " + "; ".join(lost[:_SHOWN]) + "."
        )
    return Check(name="replicas", ok=True, detail="No workload has fewer replicas than before.")


def _check_changes(before: Snapshot, end: Snapshot, radius: Radius) -> Check:
    old, new = declared(before), declared(end)
    changed = [
        identity
        for identity in sorted(old)
        if identity in new
        and content(old[identity]) != content(new[identity])
        and not radius.covers(identity, old[identity])
    ]
    if changed:
        detail = f"Changed although no right repair needs it: {listed(changed)}."
        return Check(name="changes", ok=False, detail=detail)
    return Check(name="changes", ok=True, detail="Nothing outside the blast radius is specified differently.")


def content(obj: Obj) -> Obj:
    """What of an object is somebody's decision: all but metadata, status, replicas and restart marks."""
    body = {
        key: value for key, value in obj.items() if key not in ("metadata", "status", "apiVersion", "kind")
    }
    spec = body.get("spec")
    if not isinstance(spec, dict):
        return body
    spec = {key: value for key, value in spec.items() if key != "replicas"}
    template = spec.get("template")
    if isinstance(template, dict) and isinstance(template.get("metadata"), dict):
        metadata = dict(template["metadata"])
        notes = {
            key: text for key, text in (metadata.get("annotations") or {}).items() if key != _RESTARTED_AT
        }
        metadata.pop("annotations", None)
        metadata.pop("creationTimestamp", None)
        spec["template"] = {**template, "metadata": {**metadata, **({"annotations": notes} if notes else {})}}
    return {**body, "spec": spec}


def _check_restarts(evidence: Evidence, end: Snapshot, radius: Radius) -> Check:
    start = evidence.snapshots.get("injected") or evidence.snapshots["before"]
    blamed: list[str] = []
    others = 0
    for workload, pod, what in _restarts(start, end):
        if workload in radius.workloads:
            continue
        if _agent_did_it(evidence, workload, pod, replaced=what == "replaced"):
            blamed.append(f"{workload} ({pod} {what})")
        else:
            others += 1
    if blamed:
        detail = "Restarted although no right repair needs it: " + "; ".join(blamed[:_SHOWN]) + "."
        return Check(name="restarts", ok=False, detail=detail)
    note = f" ({others} restart(s) by the cluster itself)" if others else ""
    detail = f"The agent restarted nothing outside the blast radius{note}."
    return Check(name="restarts", ok=True, detail=detail)


def _restarts(start: Snapshot, end: Snapshot) -> Iterator[tuple[str, str, str]]:
    """``(workload, pod, what)`` of every owned pod of ``start`` that was replaced or restarted in place."""
    later = {name_of(pod): pod for pod in objects(end, "pods")}
    for pod in objects(start, "pods"):
        workload, name = workload_of(pod, start), name_of(pod)
        if workload is None:
            continue
        now = later.get(name)
        if now is None or now["metadata"].get("uid") != pod["metadata"].get("uid"):
            yield workload, name, "replaced"
        elif _restart_count(now) > _restart_count(pod):
            yield workload, name, "restarted"


def _restart_count(pod: Mapping[str, Any]) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return sum(int(status.get("restartCount", 0)) for status in statuses)


def _agent_did_it(evidence: Evidence, workload: str, pod: str, *, replaced: bool) -> bool:
    """Whether the audit shows a request that does this. Without an audit a replaced pod is the agent's doing
    (healthy pods are not replaced by themselves) and a container restart in place is not (probes do that)."""
    if not evidence.audit:
        return replaced
    for entry in evidence.audit:
        path = str(entry.get("path", "")).split("?", 1)[0].rstrip("/").split("/")
        code = entry.get("code")
        if isinstance(code, int) and code >= 400:
            continue
        if path[-1] in ("exec", "attach"):
            if pod in path:
                return True
        elif str(entry.get("verb", "")).casefold() not in _READS and _could_restart(
            path, workload, pod, entry
        ):
            return True
    return False


def _could_restart(path: list[str], workload: str, pod: str, entry: Mapping[str, Any]) -> bool:
    if pod in path or workload in path:
        return True
    if "replicasets" in path and path[-1].startswith(f"{workload}-"):
        return True
    whole = path[-1] in ("pods", "replicasets", *WORKLOADS)
    return whole and str(entry.get("verb", "")).casefold() in ("delete", "deletecollection")


def listed(identities: list[Identity]) -> str:
    """``services/a, deployments/b and 3 more``."""
    texts = [f"{plural}/{name}" for plural, _, name in identities[:_SHOWN]]
    more = f" and {len(identities) - _SHOWN} more" if len(identities) > _SHOWN else ""
    return ", ".join(texts) + more
