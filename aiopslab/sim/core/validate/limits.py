"""ResourceQuotas and LimitRanges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.resources import (
    check_container_name,
    check_name,
    check_quota_amounts,
    is_native,
    is_quota,
)  # fmt: skip

Obj = dict[str, Any]
POD_SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort")
SCOPES = (*POD_SCOPES, "PriorityClass", "CrossNamespacePodAffinity", "VolumeAttributesClass")
CONFLICTS = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
POD_AMOUNTS = ("pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
CLAIM_AMOUNTS = ("persistentvolumeclaims", "requests.storage")
EXISTS_ONLY = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
LIMIT_FIELDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
# Pairs of fields of which the first may not exceed the second, with their names in the message and where it goes.
ORDER = (
    ("min", "max", "min value", "max value", "min"),
    ("min", "defaultRequest", "min value", "default request value", "defaultRequest"),
    ("defaultRequest", "max", "default request value", "max value", "defaultRequest"),
    ("defaultRequest", "default", "default request value", "default limit value", "defaultRequest"),
    ("min", "default", "min value", "default value", "default"),
    ("default", "max", "default value", "max value", "default"),
)


def _quota(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec", {})
    hard, scopes = spec.get("hard") or {}, spec.get("scopes") or []
    check_quota_amounts(errors, hard, "spec.hard")
    for scope in scopes:
        if scope not in SCOPES:
            errors.invalid("spec.scopes", scopes, "unsupported scope")
        for _ in _out_of_scope(scope, hard):
            errors.invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    for pair in CONFLICTS:
        if set(pair) <= set(scopes):
            errors.invalid("spec.scopes", scopes, "conflicting scopes")
    if spec.get("scopeSelector") is not None:
        _scope_selector(errors, spec["scopeSelector"], hard, scopes)
    if old is not None and set(old.get("spec", {}).get("scopes") or ()) != set(scopes):
        errors.invalid("spec.scopes", scopes or None, values.IMMUTABLE)


def _out_of_scope(scope: str, hard: Obj) -> list[str]:
    """Standard resources that a scope says nothing about."""
    known: tuple[str, ...] | None = None
    if scope == "BestEffort":
        known = ("pods",)
    elif scope in (*POD_SCOPES, "PriorityClass", "CrossNamespacePodAffinity"):
        known = POD_AMOUNTS
    elif scope == "VolumeAttributesClass":
        known = CLAIM_AMOUNTS
    return [name for name in sorted(hard) if known is not None and is_quota(name) and name not in known]


def _scope_selector(errors: Errors, selector: Obj, hard: Obj, scopes: list[str]) -> None:
    path, terms = "spec.scopeSelector.matchExpressions", selector.get("matchExpressions") or []
    for term in terms:
        scope, operator, given = term.get("scopeName", ""), term.get("operator", ""), term.get("values") or []
        if scope not in SCOPES:
            errors.invalid(f"{path}.scopeName", scope, "unsupported scope")
        for _ in _out_of_scope(scope, hard):
            shown = {"MatchExpressions": [_shown_term(one) for one in terms]}
            errors.invalid(path, shown, "unsupported scope applied to resource")
        if scope in (*POD_SCOPES, "CrossNamespacePodAffinity") and operator != "Exists":
            errors.invalid(f"{path}.operator", operator, EXISTS_ONLY)
        if operator in ("In", "NotIn"):
            if not given:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.required(f"{path}.values", detail)
        elif operator in ("Exists", "DoesNotExist"):
            if given:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                errors.invalid(f"{path}.values", given, detail)
        else:
            errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    named = {term.get("scopeName") for term in terms}
    for pair in CONFLICTS:
        if set(pair) <= named:
            errors.invalid(path.rpartition(".")[0] + ".matchExpressions", scopes or None, "conflicting scopes")


def _shown_term(term: Obj) -> Obj:
    return {
        "ScopeName": term.get("scopeName", ""),
        "Operator": term.get("operator", ""),
        "Values": term.get("values"),
    }


def _limit_range(errors: Errors, obj: Obj, old: Obj | None) -> None:
    seen: set[str] = set()
    for index, item in enumerate(obj.get("spec", {}).get("limits") or ()):
        path, kind = f"spec.limits[{index}]", item.get("type", "")
        problems = values.qualified_name(kind)
        errors.invalid_each(f"{path}.type", kind, problems)
        if not problems and "/" not in kind and kind not in LIMIT_TYPES:
            errors.invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified")
        if kind in seen:
            errors.duplicate(f"{path}.type", kind)
        seen.add(kind)
        _check_fields(errors, item, kind, path)
        for name in sorted({name for field in LIMIT_FIELDS for name in item.get(field) or ()}):
            _check_order(errors, item, name, path)


def _check_fields(errors: Errors, item: Obj, kind: str, path: str) -> None:
    check = check_container_name if kind in ("Pod", "Container") else check_name
    for field in LIMIT_FIELDS:
        if kind == "Pod" and field in ("default", "defaultRequest"):
            if item.get(field):
                errors.forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
            continue
        bounded = any("storage" in (item.get(bound) or {}) for bound in ("min", "max"))
        if field == "maxLimitRequestRatio" and kind == "PersistentVolumeClaim" and not bounded:
            detail = "either minimum or maximum storage value is required, but neither was provided"
            errors.required(f"{path}.limits", detail)
        for name in sorted(item.get(field) or ()):
            check(errors, name, f"{path}.{field}[{name}]")


def _check_order(errors: Errors, item: Obj, name: str, path: str) -> None:
    """min <= defaultRequest <= default <= max, for one resource."""
    given = {field: item[field][name] for field in LIMIT_FIELDS if name in (item.get(field) or {})}
    if item.get("type") == "Pod":
        given = {field: value for field, value in given.items() if not field.startswith("default")}
    amounts = {field: values.amount(value) for field, value in given.items()}
    shown = {field: values.shown_amount(value) for field, value in given.items()}
    for low, high, what, than, field in ORDER:
        if low in given and high in given and amounts[low] > amounts[high]:
            value = shown["min" if low == "min" else "max" if field == "default" else field]
            detail = f"{what} {shown[low]} is greater than {than} {shown[high]}"
            if (low, high) == ("min", "defaultRequest"):
                value = shown["defaultRequest"]
            errors.invalid(f"{path}.{field}[{name}]", value, detail)
    ratio = amounts.get("maxLimitRequestRatio")
    where = f"{path}.maxLimitRequestRatio[{name}]"
    if ratio is not None and ratio < 1:
        errors.invalid(where, shown["maxLimitRequestRatio"], f"ratio {shown['maxLimitRequestRatio']} is less than 1")
    if ratio is not None and amounts.get("min") and "max" in amounts and ratio > amounts["max"] / amounts["min"]:
        most = float(amounts["max"] / amounts["min"])
        detail = f"ratio {shown['maxLimitRequestRatio']} is greater than max/min = {most:f}"
        errors.invalid(where, shown["maxLimitRequestRatio"], detail)
    whole = not is_native(name) or name.startswith("hugepages-")
    if whole and amounts.get("default", 0) != amounts.get("defaultRequest", amounts.get("default", 0)):
        detail = f"default value {shown['default']} must equal to defaultRequest value {shown['defaultRequest']}"
        errors.invalid(f"{path}.defaultRequest[{name}]", shown["defaultRequest"], f"{detail} in {name}")


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    ("", "ResourceQuota"): _quota,
    ("", "LimitRange"): _limit_range,
}
