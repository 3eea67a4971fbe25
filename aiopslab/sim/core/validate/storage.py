"""PersistentVolumes, StorageClasses, and the check of claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.affinity import check_node_selector
from aiopslab.sim.core.validate.claims import VOLUME_MODES, check_access_modes, check_claim
from aiopslab.sim.core.validate.errors import Errors, difference
from aiopslab.sim.core.validate.internals import internal
from aiopslab.sim.core.validate.volumes import VOLUME_SOURCES, check_volume_source

Obj = dict[str, Any]
RECLAIM = ("Delete", "Recycle", "Retain")
BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
PARAMETERS_MAX, PARAMETERS_MAX_BYTES = 512, 256 * 1024


def _volume(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec", {})
    if not spec.get("accessModes"):
        errors.required("spec.accessModes")
    check_access_modes(errors, spec.get("accessModes") or [], "spec")
    capacity = spec.get("capacity") or {}
    if not capacity:
        errors.required("spec.capacity")
    if set(capacity) != {"storage"}:
        errors.not_supported("spec.capacity", capacity or None, ("storage",))
    for name, value in sorted(capacity.items()):
        if values.amount(value) <= 0:
            errors.invalid(f"spec.capacity[{name}]", values.shown_amount(value), "must be greater than zero")
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy not in RECLAIM:
        errors.not_supported("spec.persistentVolumeReclaimPolicy", policy, RECLAIM)
    if spec.get("nodeAffinity") is not None:
        _node_affinity(errors, spec["nodeAffinity"])
    _source(errors, spec)
    if spec.get("storageClassName"):
        name = spec["storageClassName"]
        errors.invalid_each("spec.storageClassName", name, values.dns_subdomain(name))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.not_supported("spec.volumeMode", mode, VOLUME_MODES)
    if old is not None:
        _volume_update(errors, spec, old.get("spec", {}))


def _node_affinity(errors: Errors, affinity: Obj) -> None:
    if affinity.get("required") is None:
        errors.required("spec.nodeAffinity.required", "must specify required node constraints")
    else:
        check_node_selector(errors, affinity["required"], "spec.nodeAffinity.required")


def _source(errors: Errors, spec: Obj) -> None:
    sources = [name for name in VOLUME_SOURCES if spec.get(name) is not None]
    if not sources:
        errors.required("spec", "must specify a volume type")
    else:
        check_volume_source(errors, sources[0], spec[sources[0]], "spec", persistent=True)
    for extra in sources[1:]:
        errors.forbidden(f"spec.{extra}", "may not specify more than 1 volume type")
    if sources[:1] == ["local"] and spec.get("nodeAffinity") is None:
        errors.required("spec.nodeAffinity", "Local volume requires node affinity")
    root = "hostPath" in sources and (spec["hostPath"].get("path", "").rstrip("/") or "/") == "/"
    if root and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        errors.forbidden("spec.persistentVolumeReclaimPolicy", detail)


def _volume_update(errors: Errors, spec: Obj, before: Obj) -> None:
    new, old = ({name: one[name] for name in VOLUME_SOURCES if name in one} for one in (spec, before))
    if new != old:
        field, shown = "spec.persistentvolumesource", [internal("PersistentVolumeSource", one) for one in (new, old)]
        errors.forbidden(field, f"{field} is immutable after creation\n{difference(*shown)}")
    if spec.get("volumeMode") != before.get("volumeMode"):
        errors.invalid("volumeMode", spec.get("volumeMode"), values.IMMUTABLE)
    affinity = before.get("nodeAffinity")
    if affinity is not None and spec.get("nodeAffinity") != affinity:
        detail = f"{values.IMMUTABLE}, except for updating from beta label to GA"
        errors.invalid("nodeAffinity", spec.get("nodeAffinity"), detail)


def _storage_class(errors: Errors, obj: Obj, old: Obj | None) -> None:
    provisioner, parameters = obj.get("provisioner", ""), obj.get("parameters") or {}
    if old is not None:
        _storage_class_update(errors, obj, old)
        return
    if not provisioner:
        errors.required("provisioner")
    else:
        errors.invalid_each("provisioner", provisioner, values.qualified_name(provisioner.lower()))
    if "" in parameters:
        errors.invalid("parameters", "", "field can not be empty.")
    if sum(len(key) + len(value) for key, value in parameters.items()) > PARAMETERS_MAX_BYTES:
        errors.too_long("parameters", PARAMETERS_MAX_BYTES)
    if obj.get("reclaimPolicy") not in ("Delete", "Retain"):
        errors.not_supported("reclaimPolicy", obj.get("reclaimPolicy", ""), ("Delete", "Retain"))
    mode = obj.get("volumeBindingMode")
    if not mode:
        errors.required("volumeBindingMode")
    elif mode not in BINDING_MODES:
        errors.not_supported("volumeBindingMode", mode, BINDING_MODES)
    for index, term in enumerate(obj.get("allowedTopologies") or ()):
        for at, item in enumerate(term.get("matchLabelExpressions") or ()):
            where, key = f"allowedTopologies[{index}].matchLabelExpressions[{at}]", item.get("key", "")
            if not item.get("values"):
                errors.required(f"{where}.values")
            errors.invalid_each(f"{where}.key", key, values.qualified_name(key))


def _storage_class_update(errors: Errors, obj: Obj, old: Obj) -> None:
    for field in ("parameters", "provisioner", "reclaimPolicy"):
        if (obj.get(field) or None) != (old.get(field) or None):
            errors.forbidden(field, f"updates to {field} are forbidden.")
    if obj.get("volumeBindingMode") != old.get("volumeBindingMode"):
        errors.invalid("volumeBindingMode", obj.get("volumeBindingMode"), values.IMMUTABLE)


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    ("", "PersistentVolumeClaim"): check_claim,
    ("", "PersistentVolume"): _volume,
    ("storage.k8s.io", "StorageClass"): _storage_class,
}
