"""Resource names and amounts: containers, quotas, limit ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core import quantity
from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors, FieldError

Obj = dict[str, Any]
CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
POD_RESOURCES = ("cpu", "memory")
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
    return name in STANDARD or is_quota_huge(name)


def is_quota_huge(name: str) -> bool:
    """Huge pages, as containers or as quotas name them."""
    return name.startswith((_HUGE, f"requests.{_HUGE}"))


def is_native(name: str) -> bool:
    """Names of Kubernetes' own: without domain, or below its domain."""
    return "/" not in name or "kubernetes.io/" in name


def is_integer(name: str) -> bool:
    """Resources that only come in whole pieces."""
    return name in OBJECT_COUNTS or is_extended(name)


def is_extended(name: str) -> bool:
    """``example.com/gpu``: not native to Kubernetes."""
    return not is_native(name) and not name.startswith("requests.") and not values.qualified_name(f"requests.{name}")


def check_amount(errors: Errors, name: str, value: Any, path: str) -> None:
    """An amount is not negative and, where that is due, whole."""
    found = values.amount(value)
    if found < 0:
        errors.invalid(path, values.shown_amount(value), values.NON_NEGATIVE)
    if is_integer(name) and found.denominator != 1:
        errors.invalid(path, values.shown_amount(value), "must be an integer")


def check_name(errors: Errors, name: str, path: str) -> None:
    """A resource is standard or has a domain."""
    problems = values.qualified_name(name)
    errors.invalid_each(path, name, problems)
    if not problems and "/" not in name and not is_standard(name):
        errors.invalid(path, name, "must be a standard resource type or fully qualified")


def check_container_name(errors: Errors, name: str, path: str) -> None:
    """A resource that a container may ask for."""
    check_name(errors, name, path)
    if "/" not in name:
        if name not in CONTAINER_RESOURCES and not name.startswith(_HUGE):
            errors.invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        errors.invalid(path, name, "doesn't follow extended resource name standard")


def check_pod_name(errors: Errors, name: str, path: str) -> None:
    """A resource that a pod as a whole may ask for."""
    before = len(errors)
    check_name(errors, name, path)
    if len(errors) == before and name not in POD_RESOURCES and not name.startswith(_HUGE):
        errors.not_supported(path, name, sorted(POD_RESOURCES))


def check_resources(
    errors: Errors, resources: Obj, path: str, check: Callable[[Errors, str, str], None] = check_container_name
) -> None:
    """``limits`` and ``requests`` of a container, or with ``check_pod_name`` of a pod."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, value in sorted(limits.items()):
        check(errors, name, f"{path}.limits[{name}]")
        check_amount(errors, name, value, f"{path}.limits[{name}]")
        _check_pages(errors, name, value, f"{path}.limits[{name}]")
    for name, value in sorted(requests.items()):
        check(errors, name, f"{path}.requests[{name}]")
        check_amount(errors, name, value, f"{path}.requests[{name}]")
        whole = not is_native(name) or name.startswith(_HUGE)
        if name in limits:
            _check_against_limit(errors, (name, value), limits[name], whole, f"{path}.requests")
        elif whole:
            errors.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        _check_pages(errors, name, value, f"{path}.requests[{name}]")
    named = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in named) and not named & {"cpu", "memory"}:
        errors.forbidden(path, "HugePages require cpu or memory")


def _check_pages(errors: Errors, name: str, value: Any, path: str) -> None:
    if not name.startswith(_HUGE):
        return
    try:
        size = quantity.parse(name.removeprefix(_HUGE))
    except ValueError:
        return
    if size and (values.amount(value) / size).denominator != 1:
        shown = values.shown_amount(value)
        errors.invalid(path, shown, f"{shown} is not positive integer multiple of {name}")


def check_claim_names(errors: Errors, claims: list[Obj], known: tuple[str, ...], path: str) -> None:
    """``resources.claims`` name claims of the pod, each once."""
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where, name, request = f"{path}[{index}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.required(where)
            continue
        key = f"{name}/{request}" if request else name
        if request:
            errors.invalid_each(f"{where}.request", request, values.dns_label(request))
        if name in seen or key in seen:
            errors.duplicate(where, name if name in seen else key)
        seen.add(key)
        if name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
            errors.append(FieldError(where, "NotFound", name, detail))


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
        check_name(errors, name, field)
        if "/" not in name and not is_quota(name):
            errors.invalid(field, name, "must be a standard resource for quota")
        check_amount(errors, name, value, field)


def is_quota(name: str) -> bool:
    """What a quota may limit without a domain."""
    return name in QUOTA_RESOURCES or is_quota_huge(name)
