"""The arithmetic of a HorizontalPodAutoscaler: replicas from the usage of pods, rate limits, stabilisation.

desired = ceil(ratio * pods), ratio = usage / target, nothing within a tolerance of 0.1; pods without metrics
count as using all they asked for when the rest would shrink, and as idle when it would grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from aiopslab.sim.core.store import Obj

TOLERANCE = 0.1
DEFAULT_DOWN_WINDOW_S, DEFAULT_UP_WINDOW_S = 300.0, 0.0
DEFAULT_UP_POLICIES = (
    {"type": "Pods", "value": 4, "periodSeconds": 15},
    {"type": "Percent", "value": 100, "periodSeconds": 15},
)
DEFAULT_DOWN_POLICIES = ({"type": "Percent", "value": 100, "periodSeconds": 15},)


@dataclass(frozen=True, slots=True)
class PodSample:
    """One pod: usage and request in the metric's unit (cores or bytes); usage None without a sample."""

    usage: float | None
    request: float
    ready: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """Outcome for one metric: proposed replicas, average per pod, and utilization in percent (or None)."""

    replicas: int
    average: float
    utilization: int | None


def by_utilization(samples: list[PodSample], target_percent: int, current: int) -> Reading | None:
    """Replicas for a target in percent of the request; None without any sample."""
    measured = [one for one in samples if one.usage is not None and one.ready]
    if not measured:
        return None
    usage = sum(one.usage or 0.0 for one in measured)
    request = sum(one.request for one in measured)
    if not request:
        return None
    percent = int(usage * 100 / request)
    ratio = percent / target_percent

    def rebalanced(assumed: list[float], everyone: list[PodSample]) -> float:
        total = sum(one.request for one in everyone)
        return (usage + sum(assumed)) * 100 / total / target_percent

    full = max(100, target_percent) / 100
    replicas = _replicas(ratio, samples, current, lambda one: one.request * full, rebalanced)
    return Reading(replicas, usage / len(measured), percent)


def by_average(samples: list[PodSample], target: float, current: int) -> Reading | None:
    """Replicas for a target per pod in absolute terms; None without any sample."""
    measured = [one for one in samples if one.usage is not None and one.ready]
    if not measured:
        return None
    usage = sum(one.usage or 0.0 for one in measured)
    ratio = usage / len(measured) / target

    def rebalanced(assumed: list[float], everyone: list[PodSample]) -> float:
        return (usage + sum(assumed)) / len(everyone) / target

    replicas = _replicas(ratio, samples, current, lambda _: target, rebalanced)
    return Reading(replicas, usage / len(measured), None)


def _replicas(
    ratio: float,
    samples: list[PodSample],
    current: int,
    full: Callable[[PodSample], float],
    rebalanced: Callable[[list[float], list[PodSample]], float],
) -> int:
    """Replicas for a usage ratio. ``full`` is what a pod without a sample is taken to use when the rest
    would shrink; ``rebalanced`` gives the ratio with such assumed usages added."""
    measured = [one for one in samples if one.usage is not None and one.ready]
    missing = [one for one in samples if one.usage is None and one.ready]
    unready = [one for one in samples if not one.ready] if ratio > 1 else []
    if not missing and not unready:
        return current if abs(1 - ratio) <= TOLERANCE else math.ceil(ratio * len(measured) - 1e-9)
    assumed = [full(one) if ratio < 1 else 0.0 for one in missing] + [0.0] * len(unready)
    everyone = [*measured, *missing, *unready]
    adjusted = rebalanced(assumed, everyone)
    if abs(1 - adjusted) <= TOLERANCE or (ratio < 1) != (adjusted < 1):
        return current
    proposed = math.ceil(adjusted * len(everyone) - 1e-9)
    wrong_way = (adjusted < 1 and proposed > current) or (adjusted > 1 and proposed < current)
    return current if wrong_way else proposed


def rules(hpa: Obj, direction: str) -> tuple[float, list[Obj], str]:
    """(stabilisation window in seconds, policies, select policy) of ``scaleUp`` or ``scaleDown``."""
    own = ((hpa["spec"].get("behavior") or {}).get(direction)) or {}
    up = direction == "scaleUp"
    window = own.get("stabilizationWindowSeconds")
    if window is None:
        window = DEFAULT_UP_WINDOW_S if up else DEFAULT_DOWN_WINDOW_S
    policies = own.get("policies") or list(DEFAULT_UP_POLICIES if up else DEFAULT_DOWN_POLICIES)
    return float(window), policies, own.get("selectPolicy", "Max")


def rate_limit(hpa: Obj, current: int, changes: list[tuple[float, int]], now: float, up: bool) -> int:
    """The furthest that the policies allow from ``current`` now. ``changes``: (time, replicas added)."""
    _, policies, select = rules(hpa, "scaleUp" if up else "scaleDown")
    if select == "Disabled":
        return current
    limits = []
    for policy in policies:
        recent = [delta for at, delta in changes if now - at < policy["periodSeconds"]]
        moved = sum(delta for delta in recent if (delta > 0) == up)
        start = current - moved
        if policy["type"] == "Pods":
            limits.append(start + policy["value"] if up else start - policy["value"])
        elif up:
            limits.append(math.ceil(start * (1 + policy["value"] / 100)))
        else:
            limits.append(int(start * (1 - policy["value"] / 100)))
    widest = (select == "Max") == up
    return max(limits) if widest else min(limits)
