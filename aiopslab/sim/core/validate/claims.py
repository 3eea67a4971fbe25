"""PersistentVolumeClaims, also those that pods and StatefulSets describe."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors, difference
from aiopslab.sim.core.validate.internals import internal
from aiopslab.sim.core.validate.meta import check_selector

Obj = dict[str, Any]
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
FROZEN = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
SHRUNK = "field can not be less than status.capacity"


def check_claim(errors: Errors, obj: Obj, old: Obj | None) -> None:
    """A new or changed claim."""
    check_claim_spec(errors, obj.get("spec", {}), "spec")
    if old is not None:
        _update(errors, obj, old)


def check_claim_spec(errors: Errors, spec: Obj, path: str) -> None:
    """``spec`` of a claim."""
    modes = spec.get("accessModes") or []
    if not modes:
        errors.required(f"{path}.accessModes", "at least 1 access mode is required")
    if spec.get("selector") is not None:
        check_selector(errors, spec["selector"], f"{path}.selector")
    check_access_modes(errors, modes, path)
    requests = spec.get("resources", {}).get("requests") or {}
    if "storage" not in requests:
        errors.required(f"{path}.resources[storage]")
    elif values.amount(requests["storage"]) <= 0:
        shown = values.shown_amount(requests["storage"])
        errors.invalid(f"{path}.resources[storage]", shown, "must be greater than zero")
    for field in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(field):
            errors.invalid_each(f"{path}.{field}", spec[field], values.dns_subdomain(spec[field]))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.not_supported(f"{path}.volumeMode", mode, VOLUME_MODES)
    for field in ("dataSource", "dataSourceRef"):
        if spec.get(field) is not None:
            _check_source(errors, spec[field], f"{path}.{field}")


def check_access_modes(errors: Errors, modes: list[str], path: str) -> None:
    """``accessModes`` of a claim or volume."""
    for mode in modes:
        if mode not in ACCESS_MODES:
            errors.not_supported(f"{path}.accessModes", mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(set(modes) & set(ACCESS_MODES)) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        errors.forbidden(f"{path}.accessModes", detail)


def _check_source(errors: Errors, source: Obj, path: str) -> None:
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    for field in ("name", "kind"):
        if not source.get(field):
            errors.required(f"{path}.{field}")
    if not group and kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.invalid(path, kind, detail)
    if group:
        errors.invalid_each(f"{path}.apiGroup", group, values.dns_subdomain(group))


def _update(errors: Errors, obj: Obj, old: Obj) -> None:
    spec, before, status = obj.get("spec", {}), old.get("spec", {}), old.get("status", {})
    noted, was_noted = ((one["metadata"].get("annotations") or {}).get(BETA_CLASS) for one in (obj, old))
    if noted != was_noted:
        errors.invalid(f"metadata.annotations.{BETA_CLASS}", noted or "", values.IMMUTABLE)
    frozen = _with_mutable_fields(spec, before, was_noted, bound=status.get("phase") == "Bound")
    if frozen != before:
        new, was = (internal("PersistentVolumeClaimSpec", one) for one in (frozen, before))
        errors.forbidden("spec", f"{FROZEN}\n{difference(new, was)}")
    size, had = (_storage(one) for one in (spec, before))
    if size < had and size <= values.amount((status.get("capacity") or {}).get("storage", "0")):
        errors.forbidden("spec.resources.requests.storage", SHRUNK)
    if spec.get("volumeMode") != before.get("volumeMode"):
        errors.invalid("volumeMode", spec.get("volumeMode"), values.IMMUTABLE)
    name, was = spec.get("volumeAttributesClassName"), before.get("volumeAttributesClassName")
    if was is not None and name is None:
        errors.forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")
    elif was is not None and not name:
        detail = "update from non-nil value to an empty string is forbidden"
        errors.forbidden("spec.volumeAttributesClassName", detail)


def _storage(spec: Obj) -> Any:
    return values.amount((spec.get("resources", {}).get("requests") or {}).get("storage", "0"))


def _with_mutable_fields(spec: Obj, before: Obj, noted: str | None, *, bound: bool) -> Obj:
    """The new spec with everything that may change set back to its old value."""
    kept = dict(spec)
    if not before.get("volumeName"):
        kept.pop("volumeName", None)
    if before.get("storageClassName") is None and noted in (None, spec.get("storageClassName")):
        kept.pop("storageClassName", None)
    if bound:
        resources = dict(spec.get("resources") or {})
        had = (before.get("resources", {}).get("requests") or {}).get("storage")
        if resources.get("requests") and had is not None:
            resources["requests"] = {**resources["requests"], "storage": had}
            kept["resources"] = resources
        if spec.get("volumeAttributesClassName") is not None:
            kept.pop("volumeAttributesClassName")
            if before.get("volumeAttributesClassName") is not None:
                kept["volumeAttributesClassName"] = before["volumeAttributesClassName"]
    return kept
