"""What the containers of a pod ask for together: init containers run before the others, sidecars beside them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from aiopslab.sim.core.quantity import is_binary, parse

Obj = dict[str, Any]
Amounts = dict[str, tuple[Fraction, bool]]  # name -> (value, written with a binary suffix)

ZERO = (Fraction(0), False)
# What a pod as a whole may ask for in its containers' place.
POD_LEVEL = ("cpu", "memory")


def container_total(spec: Obj, field: str) -> Amounts:
    """Sum of ``requests`` or ``limits`` over containers and sidecars, or what starting takes where that is more."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _amounts(container, field))
    sidecars: Amounts = {}
    most: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = _amounts(container, field)
        if container.get("restartPolicy") == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            amounts = dict(sidecars)
        else:
            _add(amounts, sidecars)
        for name, amount in amounts.items():
            most[name] = max(most.get(name, ZERO), amount, key=lambda one: one[0])
    for name, amount in most.items():
        if name not in total or amount[0] > total[name][0]:
            total[name] = amount
    return total


def pod_total(spec: Obj, field: str, *, overhead: bool = True) -> Amounts:
    """What a pod asks for: of its own where it says so, else by its containers, and the runtime's overhead."""
    total = container_total(spec, field)
    own = _amounts(spec, field)
    total |= {name: amount for name, amount in own.items() if name in POD_LEVEL or name.startswith("hugepages-")}
    for name, value in (spec.get("overhead") or {}).items() if overhead else ():
        if field == "requests" or name in total:
            _add(total, {name: (parse(value), is_binary(value))})
    return total


def _amounts(holder: Obj, field: str) -> Amounts:
    found = (holder.get("resources") or {}).get(field) or {}
    return {name: (parse(value), is_binary(value)) for name, value in found.items()}


def _add(total: Amounts, amounts: Amounts) -> None:
    for name, (value, binary) in amounts.items():
        before = total.get(name, ZERO)
        total[name] = (before[0] + value, before[1] or binary)
