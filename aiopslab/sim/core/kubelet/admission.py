"""Why a kubelet refuses a pod that was bound to its node, with the reasons and texts of its admission handlers."""

from __future__ import annotations

from collections.abc import Iterable

from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.scheduler.filters import AFFINITY, PORTS, affinity_allows, tolerated
from aiopslab.sim.core.store import Obj
from aiopslab.sim.core.strategy import qos_class

EVICTED = "Evicted"
MEMORY_PRESSURE, MEMORY_TAINT = "MemoryPressure", "node.kubernetes.io/memory-pressure"
UNTOLERATED = "node(s) had taints that the pod didn't tolerate"
SYSTEM_CRITICAL = 2_000_000_000  # priorities from here on are those of critical pods
ORDER = ("pods", "cpu", "memory", "ephemeral-storage")

Refusal = tuple[str, str]  # reason and message


def critical(pod: Obj) -> bool:
    """Whether the node must keep the pod even when it is short of something."""
    return bool(pod["spec"].get("priority", 0) >= SYSTEM_CRITICAL)


def under_pressure(pod: Obj, conditions: list[str]) -> Refusal | None:
    """What the eviction manager says while the node has ``conditions``."""
    if not conditions or critical(pod):
        return None
    if conditions == [MEMORY_PRESSURE]:
        taint = {"key": MEMORY_TAINT, "effect": "NoSchedule"}
        if qos_class(pod["spec"]) != "BestEffort" or tolerated(pod, taint):
            return None
    return EVICTED, f"The node had condition: [{' '.join(conditions)}]. "


def unfit(pod: Obj, node: Obj, others: Iterable[Obj]) -> Refusal | None:
    """The first predicate that fails: resources, node affinity, host ports, NoExecute taints. ``others`` are the
    pods that are on the node already."""
    others = [other for other in others if not podlib.finished(other)]
    if short := _shortage(pod, node, others):
        return short
    if not affinity_allows(pod, node):
        return _failed("NodeAffinity", AFFINITY)
    taken = {port for other in others for port in podlib.host_ports(other)}
    if any(_collide(mine, other) for mine in podlib.host_ports(pod) for other in taken):
        return _failed("NodePorts", PORTS)
    taints = [taint for taint in node["spec"].get("taints") or () if taint["effect"] == "NoExecute"]
    if any(not tolerated(pod, taint) for taint in taints):
        return _failed("TaintToleration", UNTOLERATED)
    return None


def _failed(predicate: str, why: str) -> Refusal:
    return predicate, f"Predicate {predicate} failed: {why}"


def _collide(mine: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    return mine[1:] == other[1:] and (mine[0] == other[0] or "0.0.0.0" in (mine[0], other[0]))


def _shortage(pod: Obj, node: Obj, others: list[Obj]) -> Refusal | None:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    used: dict[str, float] = {"pods": float(len(others))}
    for other in others:
        for name, amount in podlib.requests(other).items():
            used[name] = used.get(name, 0.0) + amount
    asked = {"pods": 1.0, **podlib.requests(pod)}
    for name in (*ORDER, *sorted(asked.keys() - set(ORDER))):
        if "/" in name and name not in allocatable:
            continue  # what a node does not know may be the cluster's to give
        amount, taken = asked.get(name, 0.0), used.get(name, 0.0)
        capacity = podlib.quantity(allocatable.get(name))
        if amount and taken + amount > capacity:
            scale = 1000 if name == "cpu" else 1
            asks, has, most = (round(value * scale) for value in (amount, taken, capacity))
            text = f"Node didn't have enough resource: {name}, requested: {asks}, used: {has}, capacity: {most}"
            return f"OutOf{name}", text
    return None
