"""ResourceQuota: what objects use, which quotas watch them, and the refusal of what would exceed one.

The quota controller shows ``usage`` in ``status.used``; admission counts anew, so that it never lags.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from aiopslab.sim.core.apierrors import forbidden
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.quantity import canonical, is_binary, parse, text
from aiopslab.sim.core.store import Store
from aiopslab.sim.core.strategy import qos_class

Obj = dict[str, Any]
Amounts = dict[str, tuple[Fraction, bool]]  # name -> (value, written with a binary suffix)

ZERO = (Fraction(0), False)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_COUNTED = {
    "pods", "services", "configmaps", "secrets", "replicationcontrollers", "resourcequotas",
    "persistentvolumeclaims",
}  # fmt: skip


def check(store: Store, kind: Kind, obj: Obj) -> None:
    """Raises 403 when a quota of the object's namespace does not allow it."""
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    for quota in store.list("resourcequotas", namespace):
        hard = (quota.get("spec") or {}).get("hard") or {}
        if not _in_scope(quota, kind.resource, obj):
            continue
        asked = {k: v for k, v in object_usage(kind.resource, kind.qualified, obj).items() if k in hard}
        missing = _unspecified(kind.resource, obj, hard)
        label = quota["metadata"]["name"]
        if missing:
            raise forbidden(kind, name, f"failed quota: {label}: must specify {missing}")
        if not asked:
            continue
        used = usage(store, quota)
        over = sorted(k for k in asked if used.get(k, ZERO)[0] + asked[k][0] > parse(hard[k]))
        if over:
            why = (
                f"exceeded quota: {label}, requested: {_listed({k: asked[k] for k in over})}, "
                f"used: {_listed({k: used.get(k, ZERO) for k in over})}, "
                f"limited: {','.join(f'{k}={canonical(hard[k])}' for k in over)}"
            )
            raise forbidden(kind, name, why)


def usage(store: Store, quota: Obj) -> Amounts:
    """What the objects in a quota's scope use of everything it limits."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    total: Amounts = {name: (Fraction(0), False) for name in hard}
    for resource in store.resources():
        qualified = ".".join(reversed(resource.split("/")))
        if not any(_concerns(name, resource, qualified) for name in hard):
            continue
        for obj in store.list(resource, quota["metadata"]["namespace"]):
            if resource == "pods" and (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                continue
            if not _in_scope(quota, resource, obj):
                continue
            for name, (value, binary) in object_usage(resource, qualified, obj).items():
                if name in total:
                    before = total[name]
                    total[name] = (before[0] + value, before[1] or binary)
    return total


def usage_text(amounts: Amounts) -> dict[str, str]:
    """Amounts as quantities, for ``status.used``."""
    return {name: text(value, binary) for name, (value, binary) in sorted(amounts.items())}


def object_usage(resource: str, qualified: str, obj: Obj) -> Amounts:
    """What one object counts as, by quota name."""
    one = (Fraction(1), False)
    amounts: Amounts = {f"count/{qualified}": one}
    if resource in _COUNTED:
        amounts[resource] = one
    spec = obj.get("spec") or {}
    if resource == "pods":
        for field in ("requests", "limits"):
            for name, amount in pod_total(spec, field).items():
                amounts[f"{field}.{name}"] = amount
                if field == "requests" and name in _COMPUTE:
                    amounts[name] = amount
    elif resource == "services":
        if spec.get("type") == "LoadBalancer":
            amounts["services.loadbalancers"] = one
        ports = Fraction(sum(1 for p in spec.get("ports") or [] if p.get("nodePort")))
        amounts["services.nodeports"] = (ports, False)
    elif resource == "persistentvolumeclaims":
        storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")
        amounts["requests.storage"] = (parse(storage), is_binary(storage))
        if class_name := spec.get("storageClassName"):
            suffix = f"{class_name}.storageclass.storage.k8s.io/"
            amounts[f"{suffix}requests.storage"] = amounts["requests.storage"]
            amounts[f"{suffix}persistentvolumeclaims"] = one
    return amounts


def pod_total(spec: Obj, field: str) -> Amounts:
    """Sum over containers, or the largest init container where that is more."""
    total: Amounts = {}
    for container in spec.get("containers") or []:
        for name, value in ((container.get("resources") or {}).get(field) or {}).items():
            before, binary = total.get(name, (Fraction(0), False))
            total[name] = (before + parse(value), binary or is_binary(value))
    for container in spec.get("initContainers") or []:
        for name, value in ((container.get("resources") or {}).get(field) or {}).items():
            if parse(value) > total.get(name, (Fraction(0), False))[0]:
                total[name] = (parse(value), is_binary(value))
    return total


def _concerns(name: str, resource: str, qualified: str) -> bool:
    if name == f"count/{qualified}" or name == resource:
        return True
    if resource == "pods":
        return name.startswith(("requests.", "limits.")) or name in _COMPUTE
    if resource == "services":
        return name.startswith("services.")
    return resource == "persistentvolumeclaims" and ("storage" in name or "persistentvolumeclaims" in name)


def _in_scope(quota: Obj, resource: str, obj: Obj) -> bool:
    spec = quota.get("spec") or {}
    scopes = list(spec.get("scopes") or [])
    terms = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if not scopes and not terms:
        return True
    if resource != "pods":
        return False
    pod = obj.get("spec") or {}
    best_effort = qos_class(pod) == "BestEffort"
    terminating = pod.get("activeDeadlineSeconds") is not None
    verdicts = {
        "BestEffort": best_effort, "NotBestEffort": not best_effort,
        "Terminating": terminating, "NotTerminating": not terminating,
    }  # fmt: skip
    return all(verdicts.get(s, True) for s in scopes) and all(_term(t, pod, verdicts) for t in terms)


def _term(term: Obj, pod: Obj, verdicts: dict[str, bool]) -> bool:
    if term.get("scopeName") != "PriorityClass":
        return verdicts.get(term.get("scopeName", ""), True)
    found, values = pod.get("priorityClassName", ""), term.get("values") or []
    outcomes = {
        "In": found in values,
        "NotIn": found not in values,
        "Exists": bool(found),
        "DoesNotExist": not found,
    }
    return outcomes.get(term.get("operator", ""), False)


def _unspecified(resource: str, obj: Obj, hard: Obj) -> str:
    """``limits.memory for: c; requests.cpu for: c``: compute resources that a quota limits but some
    container does not give."""
    if resource != "pods":
        return ""
    missing = []
    for name in sorted(hard):
        field, _, compute = name.rpartition(".")
        if name in _COMPUTE:
            field, compute = "requests", name
        if field not in ("requests", "limits") or compute not in _COMPUTE:
            continue
        without = [
            c["name"] for c in obj["spec"].get("containers") or []
            if compute not in ((c.get("resources") or {}).get(field) or {})
        ]  # fmt: skip
        if without:
            missing.append(f"{name} for: {','.join(without)}")
    return "; ".join(missing)


def _listed(amounts: Amounts) -> str:
    return ",".join(f"{k}={text(*amounts[k])}" for k in sorted(amounts))
