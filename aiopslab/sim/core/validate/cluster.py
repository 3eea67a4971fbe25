"""Nodes, priority classes, events, leases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors, FieldError
from aiopslab.sim.core.validate.pod import EFFECTS
from aiopslab.sim.core.validate.resources import check_amount

Obj = dict[str, Any]
PREEMPTION = ("Never", "PreemptLowerPriority")
SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
USER_PRIORITY_MAX = 1000000000


def _node(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec, before = obj.get("spec", {}), (old or {}).get("spec", {})
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(spec.get("taints") or ()):
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
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            errors.append(FieldError(path, "Duplicate", shown, "taints must be unique by key and effect pair"))
        seen.add((key, effect))
    for field in ("capacity", "allocatable"):
        for name, amount in sorted((obj.get("status", {}).get(field) or {}).items()):
            check_amount(errors, name, amount, f"status.{field}.{name}")
    for index, network in enumerate(spec.get("podCIDRs") or ()):
        errors.invalid_each(f"spec.podCIDRs[{index}]", network, values.ip_range(network))
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        detail = 'node updates may not change podCIDR except from "" to valid'
        errors.forbidden("spec.podCIDRs", detail)
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        detail = 'node updates may not change providerID except from "" to valid'
        errors.forbidden("spec.providerID", detail)


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


def _lease(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec") or {}
    seconds, moves = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        errors.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if moves is not None and moves < 0:
        errors.invalid("spec.leaseTransitions", moves, "must be greater than or equal to 0")


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    ("", "Node"): _node,
    ("coordination.k8s.io", "Lease"): _lease,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
}
