"""Cells that several tables share: ages, durations, selectors, joined names."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from aiopslab.sim.core.kernel import parse_time

Obj = dict[str, Any]
NONE, UNKNOWN, UNSET = "<none>", "<unknown>", "<unset>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def human_duration(seconds: float) -> str:
    """Seconds as Kubernetes shows ages: two units at most, coarser with size (``3m20s``, ``20h``, ``3d4h``)."""
    whole = math.trunc(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _pair(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _pair(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _pair(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _pair(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _pair(seconds: int, big: int, big_name: str, small: int, small_name: str) -> str:
    first, rest = divmod(seconds, big)
    second = rest // small
    return f"{first}{big_name}{second}{small_name}" if second else f"{first}{big_name}"


def since(time: str | None, now: float) -> str:
    """Age of an RFC 3339 time at ``now`` (Unix seconds); ``<unknown>`` when absent."""
    return human_duration(now - parse_time(time)) if time else UNKNOWN


def age(obj: Obj, now: float) -> str:
    """Age of an object."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def join(items: Iterable[str], empty: str = NONE) -> str:
    """Comma-joined, or ``<none>``."""
    return ",".join(items) or empty


def labels(found: Obj | None) -> str:
    """``a=b,c=d`` sorted, or ``<none>``."""
    return join(f"{key}={value}" if value else key for key, value in sorted((found or {}).items()))


def equalities(found: Obj | None) -> str:
    """A map selector: ``a=b,c=`` sorted, or ``<none>``."""
    return join(f"{key}={value}" for key, value in sorted((found or {}).items()))


def selector(label_selector: Obj | None) -> str:
    """A LabelSelector in the form of ``-l``, or ``<none>``."""
    if not label_selector:
        return NONE
    parts = [(key, f"{key}={value}") for key, value in (label_selector.get("matchLabels") or {}).items()]
    for expression in label_selector.get("matchExpressions") or ():
        key, values = expression.get("key", ""), ",".join(sorted(expression.get("values") or ()))
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append((key, forms.get(expression.get("operator", ""), key)))
    return join(text for _, text in sorted(parts))


def containers(pod_spec: Obj) -> tuple[str, str]:
    """Names and images of a template's containers, comma-joined."""
    found = pod_spec.get("containers") or []
    return ",".join(c.get("name", "") for c in found), ",".join(c.get("image", "") for c in found)


def template_spec(obj: Obj) -> Obj:
    """The pod spec inside a workload."""
    spec: Obj = (obj.get("spec", {}).get("template") or {}).get("spec") or {}
    return spec


def condition(obj: Obj, kind: str) -> Obj:
    """A status condition by type; empty when absent."""
    for found in (obj.get("status") or {}).get("conditions") or ():
        if found.get("type") == kind:
            return dict(found)
    return {}


def limited(items: list[str], most: int, empty: str) -> str:
    """At most ``most`` items, then how many more."""
    if not items:
        return empty
    text = ",".join(items[:most])
    return f"{text} + {len(items) - most} more..." if len(items) > most else text
