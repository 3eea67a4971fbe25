"""metadata and label selectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors

Obj = dict[str, Any]
ANNOTATIONS_MAX_BYTES = 256 * 1024
STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
NEEDS_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
NO_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
_FROZEN = ("name", "namespace", "uid", "creationTimestamp")


def check_meta(errors: Errors, obj: Obj, old: Obj | None, name_rule: Callable[[str], list[str]]) -> None:
    """``metadata`` of a new (``old`` None) or changed object."""
    meta = obj.get("metadata", {})
    if old is None:
        _check_names(errors, meta, name_rule)
    else:
        _check_frozen(errors, meta, old.get("metadata", {}))
    check_labels(errors, meta.get("labels"), "metadata.labels")
    check_annotations(errors, meta.get("annotations"), "metadata.annotations")
    _check_owners(errors, meta.get("ownerReferences") or [])
    _check_finalizers(errors, meta, old, strict=_is_core(obj.get("apiVersion", "")))


def _check_names(errors: Errors, meta: Obj, name_rule: Callable[[str], list[str]]) -> None:
    prefix, name = meta.get("generateName", ""), meta.get("name", "")
    if prefix:
        errors.invalid_each("metadata.generateName", prefix, name_rule(prefix.rstrip("-") + "a"))
    if not name:
        if not prefix:
            errors.required("metadata.name", "name or generateName is required")
        return
    errors.invalid_each("metadata.name", name, name_rule(name))


def _check_frozen(errors: Errors, meta: Obj, before: Obj) -> None:
    for field in _FROZEN:
        if before.get(field) and meta.get(field) != before[field]:
            errors.invalid(f"metadata.{field}", meta.get(field), values.IMMUTABLE)


def check_labels(errors: Errors, labels: Obj | None, path: str) -> None:
    """Keys and values of a label map."""
    for key, value in sorted((labels or {}).items()):
        errors.invalid_each(path, key, values.qualified_name(key))
        errors.invalid_each(path, value, values.label_value(value))


def check_annotations(errors: Errors, annotations: Obj | None, path: str) -> None:
    """Keys and total size of annotations."""
    size = 0
    for key, value in sorted((annotations or {}).items()):
        errors.invalid_each(path, key, values.qualified_name(key.lower()))
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_MAX_BYTES:
        errors.too_long(path, ANNOTATIONS_MAX_BYTES)


def _check_owners(errors: Errors, owners: list[Obj]) -> None:
    path, controllers = "metadata.ownerReferences", []
    for owner in owners:
        if not owner.get("apiVersion"):
            errors.invalid(f"{path}.apiVersion", "", "version must not be empty")
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                errors.invalid(f"{path}.{field}", "", "must not be empty")
        if owner.get("controller"):
            controllers.append(owner.get("name", ""))
    if len(controllers) > 1:
        detail = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{controllers[0]} and {controllers[1]}"
        )
        errors.invalid(path, owners, detail)


def _is_core(api_version: str) -> bool:
    """Whether the API server's own groups serve a version; extensions have laxer rules for finalizers."""
    group = api_version.rpartition("/")[0]
    return "." not in group or (group.endswith(".k8s.io") and group != "apiextensions.k8s.io")


def _check_finalizers(errors: Errors, meta: Obj, old: Obj | None, *, strict: bool) -> None:
    finalizers = meta.get("finalizers") or []
    for index, name in enumerate(finalizers):
        field = f"metadata.finalizers[{index}]"
        errors.invalid_each(field, name, values.qualified_name(name))
        if strict and "/" not in name and name not in STANDARD_FINALIZERS:
            errors.invalid(field, name, "name is neither a standard finalizer name nor is it fully qualified")
    before = (old or {}).get("metadata", {})
    if before.get("deletionTimestamp"):
        added = sorted(set(finalizers) - set(before.get("finalizers") or ()))
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
            errors.forbidden("metadata.finalizers", f"{detail}[]string{{{listed}}}")


def check_selector(errors: Errors, selector: Obj, path: str) -> bool:
    """A LabelSelector. Returns whether it can be evaluated."""
    before = len(errors)
    check_labels(errors, selector.get("matchLabels"), f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{index}]"
        operator, given = expression.get("operator", ""), expression.get("values") or []
        if operator in ("In", "NotIn") and not given:
            errors.required(f"{where}.values", NEEDS_VALUES)
        elif operator in ("Exists", "DoesNotExist") and given:
            errors.forbidden(f"{where}.values", NO_VALUES)
        elif operator not in OPERATORS:
            errors.invalid(f"{where}.operator", operator, "not a valid selector operator")
        key = expression.get("key", "")
        errors.invalid_each(f"{where}.key", key, values.qualified_name(key))
        for at, value in enumerate(given):
            errors.invalid_each(f"{where}.values[{at}]", value, values.label_value(value))
    return len(errors) == before


def is_empty_selector(selector: Obj) -> bool:
    """A selector that selects everything."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def selects(selector: Obj, labels: Obj | None) -> bool:
    """Whether a valid LabelSelector matches a label set."""
    labels = labels or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(item, labels) for item in selector.get("matchExpressions") or ())


def _holds(expression: Obj, labels: Obj) -> bool:
    value, given = labels.get(expression.get("key", "")), expression.get("values") or []
    operator = expression.get("operator")
    if operator == "In":
        return value in given
    if operator == "NotIn":
        return value not in given
    return (value is not None) == (operator == "Exists")


def check_same(errors: Errors, new: Any, old: Any, field: str) -> None:
    """A field that may not change; an empty selector and an absent one are the same."""
    if new != old:
        errors.invalid(field, new, values.IMMUTABLE)
