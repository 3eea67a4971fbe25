"""ResourceQuota: what objects use, which quotas watch them, and the refusal of what would exceed one.

The quota controller shows ``usage`` in ``status.used``; admission counts anew, so that it never lags.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from aiopslab.sim.core.apierrors import forbidden
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.quantity import canonical, is_binary, parse, text
from aiopslab.sim.core.store import Store
from aiopslab.sim.core.strategy import qos_class
from aiopslab.sim.core.totals import ZERO, Amounts, pod_total
from aiopslab.sim.core.validate.resources import is_extended

Obj = dict[str, Any]

ONE = (Fraction(1), False)
CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
# What a quota makes every container ask for.
_DEMANDED = ("cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory")
_COUNTED = {
    "pods", "services", "configmaps", "secrets", "replicationcontrollers", "resourcequotas",
    "persistentvolumeclaims",
}  # fmt: skip
# Writes besides creation that can change what an object uses: resource -> subresource.
_CHANGING = {"services": "", "persistentvolumeclaims": "", "pods": "resize"}


def check(store: Store, kind: Kind, obj: Obj, old: Obj | None = None, subresource: str = "") -> None:
    """Raises 403 when a quota of the object's namespace does not allow it."""
    if old is not None and _CHANGING.get(kind.resource) != subresource:
        return
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    concerned = [
        quota for quota in store.list("resourcequotas", namespace)
        if _in_scope(quota, kind.resource, obj) and _concerned(_hard(quota), kind)
    ]  # fmt: skip
    for quota in concerned:
        if missing := _unspecified(kind.resource, obj, _hard(quota)):
            label = quota["metadata"]["name"]
            raise forbidden(kind, name, f"failed quota: {label}: must specify {missing}")
    for quota in concerned:
        if why := _exceeded(store, quota, kind, obj, old):
            raise forbidden(kind, name, why)


def _hard(quota: Obj) -> Obj:
    return (quota.get("spec") or {}).get("hard") or {}


def _exceeded(store: Store, quota: Obj, kind: Kind, obj: Obj, old: Obj | None) -> str:
    hard, more = _hard(quota), object_usage(kind.resource, kind.qualified, obj)
    if old is not None and _in_scope(quota, kind.resource, old):
        before = object_usage(kind.resource, kind.qualified, old)
        more = {k: (v[0] - before.get(k, ZERO)[0], v[1]) for k, v in more.items()}
    asked = {k: v for k, v in more.items() if k in hard and v[0] > 0}
    if not asked:
        return ""
    used = usage(store, quota)
    over = sorted(k for k in asked if used.get(k, ZERO)[0] + asked[k][0] > parse(hard[k]))
    if not over:
        return ""
    return (
        f"exceeded quota: {quota['metadata']['name']}, requested: {_listed({k: asked[k] for k in over})}, "
        f"used: {_listed({k: used.get(k, ZERO) for k in over})}, "
        f"limited: {','.join(f'{k}={canonical(hard[k])}' for k in over)}"
    )


def usage(store: Store, quota: Obj) -> Amounts:
    """What the objects in a quota's scope use of everything it limits."""
    total: Amounts = dict.fromkeys(_hard(quota), ZERO)
    for resource in store.resources():
        qualified = ".".join(reversed(resource.split("/")))
        if not any(_concerns(name, resource, qualified) for name in total):
            continue
        for obj in store.list(resource, quota["metadata"]["namespace"]):
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
    """What one object counts as, by quota name. Pods that are over count as objects only."""
    amounts: Amounts = {f"count/{qualified}": ONE}
    over = resource == "pods" and (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    if resource in _COUNTED and not over:
        amounts[resource] = ONE
    spec = obj.get("spec") or {}
    if resource == "pods" and not over:
        amounts |= _pod_usage(spec)
    elif resource == "services":
        amounts |= _service_usage(spec)
    elif resource == "persistentvolumeclaims":
        amounts |= _claim_usage(obj)
    return amounts


def _pod_usage(spec: Obj) -> Amounts:
    amounts: Amounts = {}
    for name, amount in pod_total(spec, "requests").items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            amounts[name] = amounts[f"requests.{name}"] = amount
        elif is_extended(name):
            amounts[f"requests.{name}"] = amount
    for name, amount in pod_total(spec, "limits").items():
        if name in _COMPUTE:
            amounts[f"limits.{name}"] = amount
    return amounts


def _service_usage(spec: Obj) -> Amounts:
    kind, ports = spec.get("type"), spec.get("ports") or []
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    exposed = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    balanced = Fraction(kind == "LoadBalancer")
    return {"services.nodeports": (Fraction(exposed), False), "services.loadbalancers": (balanced, False)}


def _claim_usage(claim: Obj) -> Amounts:
    spec = claim.get("spec") or {}
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")
    amount = (Fraction(math.ceil(parse(storage))), is_binary(storage))
    amounts: Amounts = {"requests.storage": amount}
    name = (claim["metadata"].get("annotations") or {}).get(BETA_CLASS) or spec.get("storageClassName")
    if name:
        amounts[f"{name}{CLASS_SUFFIX}requests.storage"] = amount
        amounts[f"{name}{CLASS_SUFFIX}persistentvolumeclaims"] = ONE
    return amounts


def _concerned(hard: Obj, kind: Kind) -> bool:
    return any(_concerns(name, kind.resource, kind.qualified) for name in hard)


def _concerns(name: str, resource: str, qualified: str) -> bool:
    if name == f"count/{qualified}" or (name == resource and resource in _COUNTED):
        return True
    if resource == "pods":
        compute = name.rpartition(".")[2] if name.startswith(("requests.", "limits.")) else name
        huge = name.startswith(("hugepages-", "requests.hugepages-"))
        return compute in _COMPUTE or huge or (name.startswith("requests.") and "/" in name)
    if resource == "services":
        return name in ("services.nodeports", "services.loadbalancers")
    dynamic = (f"{CLASS_SUFFIX}requests.storage", f"{CLASS_SUFFIX}persistentvolumeclaims")
    return resource == "persistentvolumeclaims" and (name == "requests.storage" or name.endswith(dynamic))


def _in_scope(quota: Obj, resource: str, obj: Obj) -> bool:
    spec = quota.get("spec") or {}
    terms: list[Obj] = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    terms += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if resource == "persistentvolumeclaims":
        return all(_claim_term(term, obj) for term in terms)
    return all(resource == "pods" and _pod_term(term, obj.get("spec") or {}) for term in terms)


def _claim_term(term: Obj, claim: Obj) -> bool:
    if term.get("scopeName") != "VolumeAttributesClass":
        return False
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    names = (spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"))
    found = [name for name in names if name] or [""]
    return any(_matches(term, name) for name in found)


def _pod_term(term: Obj, pod: Obj) -> bool:
    scope = term.get("scopeName", "")
    if scope == "PriorityClass":
        return _matches(term, pod.get("priorityClassName", ""))
    if scope in ("BestEffort", "NotBestEffort"):
        return (qos_class(pod) == "BestEffort") == (scope == "BestEffort")
    if scope in ("Terminating", "NotTerminating"):
        return (pod.get("activeDeadlineSeconds") is not None) == (scope == "Terminating")
    return scope == "CrossNamespacePodAffinity" and _reaches_out(pod.get("affinity") or {})


def _matches(term: Obj, found: str) -> bool:
    values = term.get("values") or []
    outcomes = {
        "In": bool(found) and found in values,
        "NotIn": found not in values,
        "Exists": bool(found),
        "DoesNotExist": not found,
    }
    return outcomes.get(term.get("operator", ""), False)


def _reaches_out(affinity: Obj) -> bool:
    """Whether a pod's affinity looks at pods of other namespaces."""
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        for item in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            terms.append(item.get("podAffinityTerm") or {})
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def _unspecified(resource: str, obj: Obj, hard: Obj) -> str:
    """``limits.memory for: c; requests.cpu for: c``: compute resources that a quota limits but some
    container does not give."""
    spec = obj.get("spec") or {}
    own = spec.get("resources") or {}
    if resource != "pods" or own.get("requests") or own.get("limits"):
        return ""
    missing = []
    for name in _DEMANDED:
        field, _, compute = name.rpartition(".")
        without = sorted({
            c["name"] for c in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
            if compute not in ((c.get("resources") or {}).get(field or "requests") or {})
        })  # fmt: skip
        if name in hard and without:
            missing.append(f"{name} for: {','.join(without)}")
    return "; ".join(missing)


def _listed(amounts: Amounts) -> str:
    return ",".join(f"{k}={text(*amounts[k])}" for k in sorted(amounts))
