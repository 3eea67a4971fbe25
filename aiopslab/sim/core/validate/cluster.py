"""Nodes, storage, quotas, limit ranges, priority classes, events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_selector
from aiopslab.sim.core.validate.pod import EFFECTS
from aiopslab.sim.core.validate.resources import below, check_amount, check_quota_amounts

Obj = dict[str, Any]
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
RECLAIM = ("Delete", "Recycle", "Retain")
BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
PREEMPTION = ("Never", "PreemptLowerPriority")
QUOTA_SCOPES = (
    "Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)  # fmt: skip
SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
USER_PRIORITY_MAX = 1000000000
CLAIM_FROZEN = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
VOLUME_SOURCES = ("hostPath", "nfs", "csi", "local", "iscsi", "fc", "awsElasticBlockStore", "gcePersistentDisk")
LIMIT_FIELDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
EVENT_TYPES = ("Normal", "Warning")


def _node(errors: Errors, obj: Obj, old: Obj | None) -> None:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(obj.get("spec", {}).get("taints") or ()):
        path = f"metadata.taints[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors.invalid_each(f"{path}.key", key, values.qualified_name(key))
        if problems := values.label_value(value):
            errors.invalid(f"{path}.value", value, ";".join(problems))
        if not effect:
            errors.required(f"{path}.effect")
        elif effect not in EFFECTS:
            errors.not_supported(f"{path}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            errors.duplicate(path, taint)
        seen.add((key, effect))
    if old is not None:
        before = old.get("spec", {})
        for field in ("podCIDR", "providerID"):
            if before.get(field) and obj.get("spec", {}).get(field) != before[field]:
                detail = "node updates may only change labels, taints, or capacity (or configSource)"
                errors.forbidden(f"spec.{field}", detail)


def _claim(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec", {})
    modes = spec.get("accessModes") or []
    if not modes:
        errors.required("spec.accessModes", "at least 1 access mode is required")
    if spec.get("selector") is not None:
        check_selector(errors, spec["selector"], "spec.selector")
    _access_modes(errors, modes)
    requests = spec.get("resources", {}).get("requests") or {}
    if "storage" not in requests:
        errors.required("spec.resources[storage]")
    elif values.amount(requests["storage"]) <= 0:
        shown = values.shown_amount(requests["storage"])
        errors.invalid("spec.resources[storage]", shown, "must be greater than zero")
    name, mode = spec.get("storageClassName"), spec.get("volumeMode")
    if name:
        errors.invalid_each("spec.storageClassName", name, values.dns_subdomain(name))
    if mode is not None and mode not in VOLUME_MODES:
        errors.not_supported("spec.volumeMode", mode, VOLUME_MODES)
    if old is not None:
        _claim_update(errors, spec, old)


def _access_modes(errors: Errors, modes: list[str]) -> None:
    for mode in modes:
        if mode not in ACCESS_MODES:
            errors.not_supported("spec.accessModes", mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        errors.forbidden("spec.accessModes", detail)


def _claim_update(errors: Errors, spec: Obj, old: Obj) -> None:
    before = old.get("spec", {})
    bound = old.get("status", {}).get("phase") == "Bound"

    def frozen(found: Obj) -> Obj:
        kept = {key: value for key, value in found.items() if key != "volumeAttributesClassName"}
        if bound:
            kept["resources"] = {**found.get("resources", {}), "requests": None}
        if not before.get("volumeName"):
            kept.pop("volumeName", None)
        if before.get("storageClassName") is None:
            kept.pop("storageClassName", None)
        return kept

    if frozen(spec) != frozen(before):
        errors.forbidden("spec", CLAIM_FROZEN)
        return
    new = spec.get("resources", {}).get("requests") or {}
    capacity = old.get("status", {}).get("capacity") or {}
    had = before.get("resources", {}).get("requests") or {}
    if bound and "storage" in new and "storage" in had:
        asked = values.amount(new["storage"])
        if asked < values.amount(had["storage"]) and asked <= values.amount(capacity.get("storage", "0")):
            errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")


def _volume(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec", {})
    if not spec.get("accessModes"):
        errors.required("spec.accessModes")
    _access_modes(errors, spec.get("accessModes") or [])
    capacity = spec.get("capacity") or {}
    if not capacity:
        errors.required("spec.capacity")
    elif "storage" not in capacity:
        errors.not_supported("spec.capacity", capacity, ("storage",))
    elif values.amount(capacity["storage"]) <= 0:
        shown = values.shown_amount(capacity["storage"])
        errors.invalid("spec.capacity[storage]", shown, "must be greater than zero")
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy not in RECLAIM:
        errors.not_supported("spec.persistentVolumeReclaimPolicy", policy, RECLAIM)
    sources = [name for name in VOLUME_SOURCES if spec.get(name) is not None]
    if not sources:
        errors.required("spec", "must specify a volume type")
    for extra in sources[1:]:
        errors.forbidden(f"spec.{extra}", "may not specify more than 1 volume type")
    if "local" in sources and not (spec.get("nodeAffinity") or {}).get("required"):
        errors.required("spec.nodeAffinity", "Local volume requires node affinity")
    if old is not None:
        before = old.get("spec", {})
        if any(spec.get(name) != before.get(name) for name in VOLUME_SOURCES):
            field = "spec.persistentvolumesource"
            errors.forbidden(field, f"{field} is immutable after creation")


def _storage_class(errors: Errors, obj: Obj, old: Obj | None) -> None:
    if not obj.get("provisioner"):
        errors.required("provisioner")
    if obj.get("reclaimPolicy") not in ("Delete", "Retain"):
        errors.not_supported("reclaimPolicy", obj.get("reclaimPolicy", ""), ("Delete", "Retain"))
    if obj.get("volumeBindingMode") not in BINDING_MODES:
        errors.not_supported("volumeBindingMode", obj.get("volumeBindingMode", ""), BINDING_MODES)
    if old is None:
        return
    for field in ("parameters", "provisioner", "reclaimPolicy"):
        if (obj.get(field) or None) != (old.get(field) or None):
            errors.forbidden(field, f"updates to {field} are forbidden.")
    if obj.get("volumeBindingMode") != old.get("volumeBindingMode"):
        errors.invalid("volumeBindingMode", obj.get("volumeBindingMode"), values.IMMUTABLE)


def _quota(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec", {})
    check_quota_amounts(errors, spec.get("hard") or {}, "spec.hard")
    scopes = spec.get("scopes") or []
    unknown = [scope for scope in scopes if scope not in QUOTA_SCOPES]
    for _ in unknown:
        errors.invalid("spec.scopes", scopes, "unsupported scope")
    for first, second in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if first in scopes and second in scopes:
            errors.invalid("spec.scopes", scopes, "conflicting scopes")
    if old is not None:
        before = old.get("spec", {}).get("scopes") or []
        if sorted(before) != sorted(scopes):
            errors.invalid("spec.scopes", scopes, values.IMMUTABLE)


def _limit_range(errors: Errors, obj: Obj, old: Obj | None) -> None:
    seen: set[str] = set()
    for index, item in enumerate(obj.get("spec", {}).get("limits") or ()):
        path, kind = f"spec.limits[{index}]", item.get("type", "")
        if kind in seen:
            errors.duplicate(f"{path}.type", kind)
        seen.add(kind)
        for field in LIMIT_FIELDS:
            for name, value in sorted((item.get(field) or {}).items()):
                check_amount(errors, name, value, f"{path}.{field}[{name}]")
        if kind == "Pod":
            for field in ("default", "defaultRequest"):
                if item.get(field):
                    errors.forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
        _limit_order(errors, item, path)


def _limit_order(errors: Errors, item: Obj, path: str) -> None:
    """min <= defaultRequest <= default <= max, per resource."""
    order = (("min", "max"), ("min", "defaultRequest"), ("defaultRequest", "max"),
             ("defaultRequest", "default"), ("default", "max"))  # fmt: skip
    words = {
        "min": "min value",
        "max": "max value",
        "default": "default value",
        "defaultRequest": "default request value",
    }
    for low, high in order:
        for name, value in sorted((item.get(low) or {}).items()):
            if below(item.get(high) or {}, name, value) is None:
                continue
            shown, most = values.shown_amount(value), values.shown_amount(item[high][name])
            detail = f"{words[low]} {shown} is greater than {words[high]} {most}"
            errors.invalid(f"{path}.{low}[{name}]", shown, detail)


def _priority_class(errors: Errors, obj: Obj, old: Obj | None) -> None:
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if old is not None:
        if value != old.get("value", 0):
            errors.forbidden("value", "may not be changed in an update.")
        if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
            errors.invalid("preemptionPolicy", obj.get("preemptionPolicy"), values.IMMUTABLE)
        return
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value:
            known = f"{name} is not a known system priority class"
            if name in SYSTEM_PRIORITIES:
                known = f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
            detail = "priority class names with 'system-' prefix are reserved for system use only. error: "
            errors.forbidden("metadata.name", detail + known)
    elif value > USER_PRIORITY_MAX:
        detail = f"maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}"
        errors.forbidden("value", detail)
    policy = obj.get("preemptionPolicy")
    if policy is not None and policy not in PREEMPTION:
        errors.not_supported("preemptionPolicy", policy, PREEMPTION)


def _event(errors: Errors, obj: Obj, old: Obj | None) -> None:
    """What both event groups ask: the event lives where its object lives."""
    involved = obj.get("involvedObject") or obj.get("regarding") or {}
    here, there = obj["metadata"].get("namespace", ""), involved.get("namespace", "")
    fine = here in ("", "default") if not there else here == there
    if not fine:
        errors.invalid("involvedObject.namespace", there, "does not match event.namespace")


def _new_event(errors: Errors, obj: Obj, old: Obj | None) -> None:
    _event(errors, obj, old)
    if old is not None:
        return
    if not obj.get("eventTime"):
        errors.required("eventTime")
    kind = obj.get("type", "")
    if kind not in EVENT_TYPES:
        errors.invalid("type", "", f"has invalid value: {kind}")


def _lease(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec") or {}
    seconds, moves = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        errors.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if moves is not None and moves < 0:
        errors.invalid("spec.leaseTransitions", moves, "must be greater than or equal to 0")


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    ("", "Node"): _node,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "PersistentVolume"): _volume,
    ("", "ResourceQuota"): _quota,
    ("", "LimitRange"): _limit_range,
    ("", "Event"): _event,
    ("events.k8s.io", "Event"): _new_event,
    ("coordination.k8s.io", "Lease"): _lease,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
}
