"""Preemption: which pods of lower priority would have to go so that a pod fits somewhere."""

from __future__ import annotations

from dataclasses import dataclass

from aiopslab.sim.core.controllers.common import deleting
from aiopslab.sim.core.kernel import parse_time
from aiopslab.sim.core.scheduler.filters import Failure, Wanted, check
from aiopslab.sim.core.scheduler.view import NodeInfo
from aiopslab.sim.core.store import Key, Obj

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


@dataclass(frozen=True, slots=True)
class Preemption:
    """A node, and the pods that must leave it."""

    node: str
    victims: list[Obj]


def priority(pod: Obj) -> int:
    """``spec.priority``, 0 when unset."""
    return pod["spec"].get("priority") or 0


def plan(wanted: Wanted, nodes: list[NodeInfo], failures: dict[str, Failure]) -> Preemption | None:
    """The cheapest preemption: lowest top victim, least sum of priorities, fewest victims, then by name."""
    if wanted.pod["spec"].get("preemptionPolicy") == "Never":
        return None
    options = []
    for info in nodes:
        if failures[info.name].resolvable:
            victims = _victims(wanted, info)
            if victims:
                ranks = [priority(pod) for pod in victims]
                options.append((max(ranks), sum(ranks), len(ranks), info.name, victims))
    if not options:
        return None
    *_, name, victims = min(options, key=lambda option: option[:4])
    return Preemption(name, victims)


def tail(wanted: Wanted, failures: dict[str, Failure]) -> str:
    """What follows ``preemption: `` in the message of a pod that nothing can be done for."""
    total = len(failures)
    if wanted.pod["spec"].get("preemptionPolicy") == "Never":
        return "not eligible due to preemptionPolicy=Never."
    helpless = sum(not failure.resolvable for failure in failures.values())
    parts = [
        f"{count} {text}" for count, text in ((helpless, NOT_HELPFUL), (total - helpless, NO_VICTIMS)) if count
    ]
    return f"0/{total} nodes are available: {', '.join(sorted(parts))}."


def _victims(wanted: Wanted, info: NodeInfo) -> list[Obj]:
    """The fewest pods of lower priority whose removal makes the pod fit; none when it cannot fit."""
    own = priority(wanted.pod)
    lower = {key: use.obj for key, use in info.pods.items() if priority(use.obj) < own and not deleting(use.obj)}
    if not lower or check(wanted, info.without(set(lower))) is not None:
        return []
    gone: set[Key] = set(lower)
    keep_first = sorted(lower, key=lambda key: (-priority(lower[key]), _started(lower[key]), key))
    for key in keep_first:
        if check(wanted, info.without(gone - {key})) is None:
            gone.discard(key)
    return [lower[key] for key in sorted(gone)]


def _started(pod: Obj) -> float:
    text = (pod.get("status") or {}).get("startTime")
    return parse_time(text) if text else 0.0
