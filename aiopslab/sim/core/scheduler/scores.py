"""Which of the nodes that fit is best: 0 to 100 per plugin, times the plugin's weight.

Weights of the default profile: resources 1 and 1, taints 3, node affinity 2, spread 2, pod affinity 2.
"""

from __future__ import annotations

from collections.abc import Callable

from aiopslab.sim.core.ids import Ids
from aiopslab.sim.core.scheduler.filters import Wanted, term_matches, tolerated
from aiopslab.sim.core.scheduler.terms import preferred_score
from aiopslab.sim.core.scheduler.view import DEFAULT_CPU_CORES, DEFAULT_MEMORY_BYTES, NodeInfo, group_of

SCORE_MAX = 100.0
Score = Callable[[Wanted, NodeInfo], float]
EQUAL = 1e-6  # totals that differ by less are a tie


def best(wanted: Wanted, nodes: list[NodeInfo], ids: Ids) -> NodeInfo:
    """The node with the highest total; ties are broken by a hash of pod and node."""
    if len(nodes) == 1:
        return nodes[0]
    totals = [_resources(wanted, info) for info in nodes]
    group = group_of(wanted.pod)
    scorers: list[tuple[float, Score, bool]] = [(2.0, lambda _, info: info.groups[group], True)]
    if any(info.node["spec"].get("taints") for info in nodes):
        scorers.insert(0, (3.0, _bad_taints, True))
    if wanted.pod["spec"].get("affinity"):
        scorers += [(2.0, _affinity, False), (2.0, _pod_affinity, False)]
    for weight, score, reverse in scorers:
        values = _normalised(wanted, nodes, score, reverse)
        if values is not None:
            totals = [total + weight * value for total, value in zip(totals, values, strict=True)]
    meta, top = wanted.pod["metadata"], max(totals)
    equal = [info for total, info in zip(totals, nodes, strict=True) if top - total < EQUAL]
    if len(equal) == 1:
        return equal[0]
    return min(equal, key=lambda info: ids.digest("place", meta["namespace"], meta["name"], info.name))


def _resources(wanted: Wanted, info: NodeInfo) -> float:
    """LeastAllocated plus BalancedAllocation over cpu and memory."""
    cpu = _fraction(wanted, info, "cpu", DEFAULT_CPU_CORES)
    memory = _fraction(wanted, info, "memory", DEFAULT_MEMORY_BYTES)
    least = ((1.0 - cpu) + (1.0 - memory)) / 2
    balanced = 1.0 - abs(cpu - memory) / 2.0
    return SCORE_MAX * least + SCORE_MAX * balanced


def _fraction(wanted: Wanted, info: NodeInfo, name: str, default: float) -> float:
    """Share of a node's resource that is taken with the pod on it."""
    capacity = info.allocatable.get(name, 0.0)
    used = info.requested[name] + (wanted.requests.get(name) or default)
    return (used / capacity if used < capacity else 1.0) if capacity else 1.0


def _normalised(wanted: Wanted, nodes: list[NodeInfo], score: Score, reverse: bool) -> list[float] | None:
    """Scores stretched to 0..100; None when all nodes are equal."""
    raw = [score(wanted, info) for info in nodes]
    low, high = min(raw), max(raw)
    if low == high:
        return None
    scaled = [SCORE_MAX * (value - low) / (high - low) for value in raw]
    return [SCORE_MAX - value for value in scaled] if reverse else scaled


def _bad_taints(wanted: Wanted, info: NodeInfo) -> float:
    taints = info.node["spec"].get("taints") or ()
    return sum(taint["effect"] == "PreferNoSchedule" and not tolerated(wanted.pod, taint) for taint in taints)


def _affinity(wanted: Wanted, info: NodeInfo) -> float:
    affinity = (wanted.pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return sum(entry["weight"] for entry in preferred if term_matches(entry["preference"], info.node))


def _pod_affinity(wanted: Wanted, info: NodeInfo) -> float:
    return preferred_score(wanted.pod, info)
