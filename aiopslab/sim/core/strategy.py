"""Per-kind rules of writes: what a client may set, what starts where, what counts as a new generation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.defaults import job_selector
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.quantity import parse

Obj = dict[str, Any]

RBAC = "rbac.authorization.k8s.io"
# Built-in kinds whose ``metadata.generation`` counts changes of what is asked.
GENERATION = {
    "pods", "replicationcontrollers", "apps/deployments", "apps/replicasets", "apps/statefulsets",
    "apps/daemonsets", "batch/jobs", "batch/cronjobs", "policy/poddisruptionbudgets",
    "networking.k8s.io/ingresses", "networking.k8s.io/networkpolicies", "networking.k8s.io/ingressclasses",
    "discovery.k8s.io/endpointslices", "apiextensions.k8s.io/customresourcedefinitions",
    "scheduling.k8s.io/priorityclasses", "podtemplates",
    "admissionregistration.k8s.io/mutatingwebhookconfigurations",
    "admissionregistration.k8s.io/validatingwebhookconfigurations",
    "admissionregistration.k8s.io/validatingadmissionpolicies",
    "admissionregistration.k8s.io/validatingadmissionpolicybindings",
}  # fmt: skip
# PUT of an absent object creates it.
CREATE_ON_UPDATE = {
    "coordination.k8s.io/leases", "endpoints", "events", "limitranges", "services",
    f"{RBAC}/roles", f"{RBAC}/rolebindings", f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings",
}  # fmt: skip
# PUT without a resourceVersion is refused.
CONDITIONAL_UPDATE = {
    "coordination.k8s.io/leases", "policy/poddisruptionbudgets",
    "apiextensions.k8s.io/customresourcedefinitions", "storage.k8s.io/volumeattachments",
    "admissionregistration.k8s.io/mutatingwebhookconfigurations",
    "admissionregistration.k8s.io/validatingwebhookconfigurations",
}  # fmt: skip
# Status of a fresh object where it is not simply empty. Resources not named here start without a status.
_FIRST_STATUS: dict[str, Obj] = {
    "namespaces": {"phase": "Active"},
    "persistentvolumes": {"phase": "Pending"},
    "persistentvolumeclaims": {"phase": "Pending"},
    "services": {"loadBalancer": {}},
    "replicationcontrollers": {"replicas": 0},
    "resourcequotas": {},
    "apps/deployments": {},
    "apps/replicasets": {"replicas": 0},
    "apps/statefulsets": {"availableReplicas": 0, "replicas": 0},
    "apps/daemonsets": {
        "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
    },
    "autoscaling/horizontalpodautoscalers": {
        "currentMetrics": None, "desiredReplicas": 0, "currentReplicas": 0,
    },
    "batch/jobs": {},
    "batch/cronjobs": {},
    "networking.k8s.io/ingresses": {"loadBalancer": {}},
    "policy/poddisruptionbudgets": {
        "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
    },
}  # fmt: skip
# Metadata that a client cannot set at creation.
_SERVER_METADATA = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
                    "selfLink", "resourceVersion")  # fmt: skip
# What a claim's ``dataSource`` may name (group last).
_OLD_SOURCES = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io"))


def has_generation(kind: Kind) -> bool:
    """Whether the server counts generations of this kind."""
    return kind.crd is not None or kind.resource in GENERATION


def may_create_on_update(kind: Kind) -> bool:
    """Whether PUT creates an absent object."""
    return kind.resource in CREATE_ON_UPDATE


def needs_version_on_update(kind: Kind) -> bool:
    """Whether PUT must carry ``metadata.resourceVersion``."""
    return kind.crd is not None or kind.resource in CONDITIONAL_UPDATE


def prepare_create(kind: Kind, obj: Obj) -> Obj:
    """A new object without what only the server sets, and with its first status."""
    meta = {k: v for k, v in obj.get("metadata", {}).items() if k not in _SERVER_METADATA}
    if has_generation(kind):
        meta["generation"] = 1
    new = {**obj, "metadata": meta}
    if kind.resource == "pods":
        new["status"] = {"phase": "Pending", "qosClass": qos_class(obj.get("spec") or {})}
    elif kind.resource in _FIRST_STATUS:
        new["status"] = dict(_FIRST_STATUS[kind.resource])
    elif kind.has_status and kind.resource != "nodes":
        new.pop("status", None)
    if kind.resource == "namespaces":
        new["spec"] = {**(obj.get("spec") or {}), "finalizers": ["kubernetes"]}
        meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta.get("name", "")}
    if kind.resource == "persistentvolumeclaims":
        _add_finalizer(meta, "kubernetes.io/pvc-protection")
        new["spec"] = _with_both_sources(obj.get("spec") or {})
    if kind.resource == "persistentvolumes":
        _add_finalizer(meta, "kubernetes.io/pv-protection")
    return new


def _with_both_sources(spec: Obj) -> Obj:
    """The spec of a claim with the old and the new field for what its volume is filled from."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    spec = {k: v for k, v in spec.items() if k != "dataSource"}
    if source is not None and (source.get("kind"), source.get("apiGroup") or "") in _OLD_SOURCES:
        spec["dataSource"] = source  # others have always been ignored
        if reference is None:
            spec["dataSourceRef"] = dict(source)
    elif reference is not None and not reference.get("namespace"):
        spec["dataSource"] = {k: v for k, v in reference.items() if k != "namespace"}
    return spec


def select_own_pods(job: Obj) -> Obj:
    """A new Job that selects its pods by its own uid; without labels it shows those of its template."""
    selecting = job_selector(job, job["metadata"]["uid"])
    meta = selecting["metadata"]
    if not meta.get("labels"):
        labels = (selecting["spec"]["template"].get("metadata") or {}).get("labels") or {}
        meta = {**meta, "labels": labels}
    return {**selecting, "metadata": meta}


def prepare_update(kind: Kind, new: Obj, old: Obj, subresource: str) -> Obj:
    """The object to store: the part that the path may change from ``new``, all else from ``old``."""
    if subresource == "status":
        merged = {k: v for k, v in old.items() if k != "status"}
        if "status" in new:
            merged["status"] = new["status"]
        merged["metadata"] = _status_metadata(kind, new["metadata"], old["metadata"])
        return merged
    if subresource in POD_PARTS:
        new = {**old, "spec": POD_PARTS[subresource](new.get("spec") or {}, old["spec"])}
    meta = {**new["metadata"], **_kept(old["metadata"])}
    merged = {**new, "metadata": meta}
    if kind.has_status or kind.resource in ("pods", "namespaces"):
        merged.pop("status", None)
        if "status" in old:
            merged["status"] = old["status"]
    if kind.resource == "namespaces" and subresource != "finalize":
        merged["spec"] = old.get("spec", {})
        meta["labels"] = {
            **(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta["name"],
        }  # fmt: skip
    if has_generation(kind) and asked(merged) != asked(old):
        meta["generation"] = old["metadata"].get("generation", 0) + 1
    return merged


def asked(obj: Obj) -> Obj:
    """What a client asks for: everything but metadata and status."""
    return {k: v for k, v in obj.items() if k not in ("metadata", "status", "apiVersion", "kind")}


RESIZE_FIELDS = ("resources", "resizePolicy")


def qos_class(spec: Obj) -> str:
    """Guaranteed, Burstable or BestEffort from the containers' cpu and memory."""
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    seen = False
    guaranteed = bool(containers)
    for container in containers:
        resources = container.get("resources") or {}
        limits = _compute(resources.get("limits"))
        requests = _compute(resources.get("requests"))
        seen = seen or bool(limits or requests)
        if set(limits) != {"cpu", "memory"} or {**limits, **requests} != limits:
            guaranteed = False
    if not seen:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(resources: Obj | None) -> dict[str, Any]:
    found = {}
    for name in ("cpu", "memory"):
        try:
            value = parse((resources or {}).get(name, "0"))
        except ValueError:
            continue
        if value:
            found[name] = value
    return found


def _with_ephemeral(new: Obj, old: Obj) -> Obj:
    return {**old, "ephemeralContainers": new.get("ephemeralContainers") or []}


def _with_resources(new: Obj, old: Obj) -> Obj:
    resized = dict(old)
    for field in ("containers", "initContainers"):
        wanted = {c.get("name"): c for c in new.get(field) or []}
        if field in old:
            resized[field] = [_resized(one, wanted.get(one["name"], one)) for one in old[field] or ()]
    return resized


def _resized(container: Obj, wanted: Obj) -> Obj:
    kept = {k: v for k, v in container.items() if k not in RESIZE_FIELDS}
    return {**kept, **{k: wanted[k] for k in RESIZE_FIELDS if k in wanted}}


# Subresources that change one part of a pod's spec: (new spec, old spec) -> spec.
POD_PARTS: dict[str, Callable[[Obj, Obj], Obj]] = {
    "ephemeralcontainers": _with_ephemeral,
    "resize": _with_resources,
}


def _kept(old: Obj) -> Obj:
    keys = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
            "namespace", "generateName")  # fmt: skip
    return {k: old[k] for k in keys if k in old}


def _status_metadata(kind: Kind, new: Obj, old: Obj) -> Obj:
    """Status writes leave the metadata alone, except labels and annotations of pods and nodes."""
    meta = dict(old)
    if "managedFields" in new:
        meta["managedFields"] = new["managedFields"]
    if kind.resource in ("nodes", "pods"):
        for field in ("labels", "annotations"):
            if field in new:
                meta[field] = new[field]
            else:
                meta.pop(field, None)
    return meta


def _add_finalizer(meta: Obj, finalizer: str) -> None:
    found = list(meta.get("finalizers") or [])
    if finalizer not in found:
        meta["finalizers"] = [*found, finalizer]
