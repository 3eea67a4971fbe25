"""Resource names and amounts: containers, quotas, limit ranges."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors

Obj = dict[str, Any]
CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
OBJECT_COUNTS = (
    "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
)  # fmt: skip
QUOTA_RESOURCES = (
    *CONTAINER_RESOURCES, *OBJECT_COUNTS, "requests.cpu", "requests.memory", "requests.storage",
    "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
)  # fmt: skip
STANDARD = frozenset({*QUOTA_RESOURCES, "storage"})
_HUGE = "hugepages-"


def is_standard(name: str) -> bool:
    """Names that need no domain."""
    return name in STANDARD or name.startswith((_HUGE, f"requests.{_HUGE}"))


def is_integer(name: str) -> bool:
    """Resources that only come in whole pieces."""
    return name in OBJECT_COUNTS or name.startswith("count/") or is_extended(name)


def is_extended(name: str) -> bool:
    """``example.com/gpu``: not native to Kubernetes."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def check_amount(errors: Errors, name: str, value: Any, path: str) -> None:
    """An amount is not negative and, where that is due, whole."""
    found = values.amount(value)
    if found < 0:
        errors.invalid(path, values.shown_amount(value), values.NON_NEGATIVE)
    if is_integer(name) and found.denominator != 1:
        errors.invalid(path, values.shown_amount(value), "must be an integer")


def _check_container_name(errors: Errors, name: str, path: str) -> None:
    errors.invalid_each(path, name, values.qualified_name(name))
    if "/" not in name:
        if not is_standard(name):
            errors.invalid(path, name, "must be a standard resource type or fully qualified")
        if name not in CONTAINER_RESOURCES and not name.startswith(_HUGE):
            errors.invalid(path, name, "must be a standard resource for containers")
    elif name.startswith("requests."):
        errors.invalid(path, name, "doesn't follow extended resource name standard")


def check_resources(errors: Errors, resources: Obj, path: str) -> None:
    """``limits`` and ``requests`` of a container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, value in sorted(limits.items()):
        _check_container_name(errors, name, f"{path}.limits[{name}]")
        check_amount(errors, name, value, f"{path}.limits[{name}]")
    for name, value in sorted(requests.items()):
        _check_container_name(errors, name, f"{path}.requests[{name}]")
        check_amount(errors, name, value, f"{path}.requests[{name}]")
        whole = is_extended(name) or name.startswith(_HUGE)
        if name not in limits:
            if whole:
                errors.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
            continue
        _check_against_limit(errors, (name, value), limits[name], whole, f"{path}.requests")


def _check_against_limit(
    errors: Errors, request: tuple[str, Any], limit: Any, whole: bool, path: str
) -> None:
    name, value = request
    asked, most = values.amount(value), values.amount(limit)
    if whole and asked != most:
        detail = f"must be equal to {name} limit of {values.shown_amount(limit)}"
        errors.invalid(path, values.shown_amount(value), detail)
    elif asked > most:
        detail = f"must be less than or equal to {name} limit of {values.shown_amount(limit)}"
        errors.invalid(path, values.shown_amount(value), detail)


def check_quota_amounts(errors: Errors, amounts: Obj, path: str) -> None:
    """``hard`` or ``used`` of a ResourceQuota."""
    for name, value in sorted(amounts.items()):
        field = f"{path}[{name}]"
        errors.invalid_each(field, name, values.qualified_name(name))
        if "/" not in name and not is_standard(name):
            errors.invalid(field, name, "must be a standard resource for quota")
        check_amount(errors, name, value, field)


def below(limits: Obj, name: str, value: Any) -> Fraction | None:
    """The amount of ``name`` in ``limits`` when it is smaller than ``value``, else None."""
    if name not in limits:
        return None
    most = values.amount(limits[name])
    return most if most < values.amount(value) else None
