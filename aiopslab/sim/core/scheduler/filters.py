"""Why a node cannot take a pod. Texts and classes are those of the default plugins.

A failure is *resolvable* when removing other pods could help; the rest makes preemption "not helpful".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers.labels import requirement_matches
from aiopslab.sim.core.scheduler.terms import Terms
from aiopslab.sim.core.scheduler.view import NodeInfo
from aiopslab.sim.core.store import Obj

NODE_NAME = "node(s) didn't match the requested node name"
UNSCHEDULABLE = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY = "Too many pods"
VOLUME_NODE = "node(s) didn't match PersistentVolume's node affinity"
UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class Failure(NamedTuple):
    """Reasons of one node, and whether preemption might remove them."""

    reasons: tuple[str, ...]
    resolvable: bool


@dataclass(slots=True)
class Wanted:
    """A pod to place, with what is computed once per pod."""

    pod: Obj
    requests: dict[str, float]
    ports: set[tuple[str, str, int]]
    terms: Terms
    volume_terms: list[Obj]  # node affinity terms of its bound volumes, all of which must hold
    filters: tuple[Filter, ...] = ()  # those that can refuse this pod


Filter = Callable[[Wanted, NodeInfo], Failure | None]


def check(wanted: Wanted, info: NodeInfo) -> Failure | None:
    """The first filter that refuses the node, in the order of the real plugins; None when it fits."""
    for one in wanted.filters:
        failure = one(wanted, info)
        if failure is not None:
            return failure
    return None


def _unschedulable(wanted: Wanted, info: NodeInfo) -> Failure | None:
    if not info.node["spec"].get("unschedulable"):
        return None
    if tolerated(wanted.pod, UNSCHEDULABLE_TAINT):
        return None
    return Failure((UNSCHEDULABLE,), False)


def _node_name(wanted: Wanted, info: NodeInfo) -> Failure | None:
    name = wanted.pod["spec"].get("nodeName")
    return None if not name or name == info.name else Failure((NODE_NAME,), False)


def _taints(wanted: Wanted, info: NodeInfo) -> Failure | None:
    for taint in info.node["spec"].get("taints") or ():
        if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerated(wanted.pod, taint):
            return Failure((TAINTED,), False)
    return None


def _node_affinity(wanted: Wanted, info: NodeInfo) -> Failure | None:
    return None if affinity_allows(wanted.pod, info.node) else Failure((AFFINITY,), False)


def _volumes(wanted: Wanted, info: NodeInfo) -> Failure | None:
    for terms in wanted.volume_terms:
        if not node_selector_matches(terms, info.node):
            return Failure((VOLUME_NODE,), False)
    return None


def _ports(wanted: Wanted, info: NodeInfo) -> Failure | None:
    if not wanted.ports:
        return None
    for use in info.pods.values():
        for address, protocol, number in use.ports:
            for other in wanted.ports:
                same_address = address == other[0] or "0.0.0.0" in (address, other[0])
                if (protocol, number) == other[1:] and same_address:
                    return Failure((PORTS,), True)
    return None


def _resources(wanted: Wanted, info: NodeInfo) -> Failure | None:
    reasons, resolvable = [], True
    if len(info.pods) + 1 > info.allocatable.get("pods", 0.0):
        reasons.append(TOO_MANY)
    for name, amount in sorted(wanted.requests.items()):
        if amount and amount > info.free(name) + 1e-9:
            reasons.append(f"Insufficient {name}")
            resolvable = resolvable and amount <= info.allocatable.get(name, 0.0)
    return Failure(tuple(reasons), resolvable) if reasons else None


def _terms(wanted: Wanted, info: NodeInfo) -> Failure | None:
    refused = wanted.terms.refuses(info)
    return None if refused is None else Failure((refused[0],), refused[1])


def tolerated(pod: Obj, taint: Mapping[str, str]) -> bool:
    """Whether one of the pod's tolerations covers a taint."""
    return any(tolerates(entry, taint) for entry in pod["spec"].get("tolerations") or ())


def tolerates(toleration: Mapping[str, str], taint: Mapping[str, str]) -> bool:
    """One toleration against one taint."""
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint["effect"]:
        return False
    if key and key != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(key) and toleration.get("value", "") == taint.get("value", "")


def affinity_allows(pod: Obj, node: Obj) -> bool:
    """``nodeSelector`` and required node affinity."""
    labels = node["metadata"].get("labels") or {}
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(name) != value for name, value in selector.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or node_selector_matches(required, node)


def node_selector_matches(selector: Obj, node: Obj) -> bool:
    """A NodeSelector: one of its terms must hold; a term without requirements never does."""
    return any(term_matches(term, node) for term in selector.get("nodeSelectorTerms") or ())


def term_matches(term: Obj, node: Obj) -> bool:
    """All expressions on labels and on ``metadata.name`` must hold."""
    labels = node["metadata"].get("labels") or {}
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    names = {"metadata.name": node["metadata"]["name"]}
    return all(requirement_matches(entry, labels) for entry in expressions) and all(
        requirement_matches(entry, names) for entry in fields
    )


def fits(pod: Obj, node: Obj) -> bool:
    """Taints and node affinity only: whether a DaemonSet wants a pod on the node."""
    if not affinity_allows(pod, node):
        return False
    taints = node["spec"].get("taints") or ()
    return all(taint["effect"] not in ("NoSchedule", "NoExecute") or tolerated(pod, taint) for taint in taints)


def wanted(pod: Obj, terms: Terms, volume_terms: list[Obj]) -> Wanted:
    """Everything about a pod that the filters read, with the filters that concern it, in the real order."""
    spec, ports = pod["spec"], podlib.host_ports(pod)
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    order: tuple[tuple[Filter, bool], ...] = (
        (_unschedulable, True),
        (_node_name, bool(spec.get("nodeName"))),
        (_taints, True),
        (_node_affinity, bool(spec.get("nodeSelector") or affinity)),
        (_ports, bool(ports)),
        (_resources, True),
        (_volumes, bool(volume_terms)),
        (_terms, not terms.empty),
    )
    filters = tuple(one for one, concerned in order if concerned)
    return Wanted(pod, podlib.requests(pod), ports, terms, volume_terms, filters)
