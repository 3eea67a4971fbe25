"""Pod affinity, anti-affinity and topology spread: constraints that depend on where other pods are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from aiopslab.sim.core.controllers.common import deleting, labels_of
from aiopslab.sim.core.controllers.labels import label_selector_matches
from aiopslab.sim.core.scheduler.view import NodeInfo, PodUse
from aiopslab.sim.core.store import Obj

NO_AFFINITY = "node(s) didn't match pod affinity rules"
NO_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
NO_SPREAD = "node(s) didn't match pod topology spread constraints"
NO_SPREAD_LABEL = f"{NO_SPREAD} (missing required label)"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

Domain = tuple[str, str]  # topology key, value
Eligible = Callable[[Obj], bool]


class Terms:
    """The constraints of one pod against the cluster as it is now."""

    def __init__(self, pod: Obj, nodes: list[NodeInfo], namespaces: Callable[[Obj | None], set[str]]) -> None:
        self._pod = pod
        self._namespaces = namespaces
        affinity = pod["spec"].get("affinity") or {}
        self._affinity = (affinity.get("podAffinity") or {}).get(REQUIRED) or []
        self._anti = (affinity.get("podAntiAffinity") or {}).get(REQUIRED) or []
        self._spread = [
            one
            for one in pod["spec"].get("topologySpreadConstraints") or ()
            if one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        ]
        self._affine = [self._domains(term, nodes) for term in self._affinity]
        self._averse = [self._domains(term, nodes) for term in self._anti]
        self._forbidden = self._forbidden_by_others(nodes)
        self._counts = [self._spread_counts(one, nodes) for one in self._spread]
        # The first pod of a group that wants to be near itself has nobody to be near to.
        nobody = not any(sum(domains.values()) for domains in self._affine)
        self._first = nobody and all(self._selects(t, pod, pod) for t in self._affinity)

    @property
    def empty(self) -> bool:
        """Whether no constraint concerns the pod."""
        return not (self._affinity or self._anti or self._spread or self._forbidden)

    def refuses(self, info: NodeInfo) -> tuple[str, bool] | None:
        """(text, whether preemption could help) when the node is not allowed."""
        labels = info.labels
        for constraint, counts in zip(self._spread, self._counts, strict=True):
            refusal = self._spread_refuses(constraint, counts, labels)
            if refusal is not None:
                return refusal
        for term, domains in zip(self._affinity, self._affine, strict=True):
            key = term["topologyKey"]
            if key not in labels or (not domains[key, labels[key]] and not self._first):
                return NO_AFFINITY, False
        for term, domains in zip(self._anti, self._averse, strict=True):
            key = term["topologyKey"]
            if key in labels and domains[key, labels[key]]:
                return NO_ANTI_AFFINITY, True
        if any(labels.get(key) == value for key, value in self._forbidden):
            return EXISTING_ANTI_AFFINITY, True
        return None

    def _domains(self, term: Obj, nodes: list[NodeInfo]) -> Counter[Domain]:
        """How many matching pods each topology domain holds."""
        found: Counter[Domain] = Counter()
        key = term["topologyKey"]
        for info in nodes:
            value = info.labels.get(key)
            if value is not None:
                found[key, value] += sum(self._selects(term, self._pod, use.obj) for use in info.pods.values())
        return found

    def _selects(self, term: Obj, holder: Obj, other: Obj) -> bool:
        spaces = set(term.get("namespaces") or ())
        if term.get("namespaceSelector") is not None:
            spaces |= self._namespaces(term["namespaceSelector"])
        elif not spaces:
            spaces = {holder["metadata"]["namespace"]}
        return other["metadata"]["namespace"] in spaces and label_selector_matches(
            term.get("labelSelector"), labels_of(other)
        )

    def _forbidden_by_others(self, nodes: list[NodeInfo]) -> set[Domain]:
        """Domains that the anti-affinity of running pods closes to this one."""
        closed = set()
        for info in nodes:
            for use in info.averse.values():
                for term in _anti_terms(use):
                    value = info.labels.get(term["topologyKey"])
                    if value is not None and self._selects(term, use.obj, self._pod):
                        closed.add((term["topologyKey"], value))
        return closed

    def _spread_counts(self, constraint: Obj, nodes: list[NodeInfo]) -> Counter[str]:
        key, selector = constraint["topologyKey"], constraint.get("labelSelector")
        space = self._pod["metadata"]["namespace"]
        counts: Counter[str] = Counter()
        for info in nodes:
            value = info.labels.get(key)
            if value is None:
                continue
            counts[value] += sum(
                use.obj["metadata"]["namespace"] == space
                and not deleting(use.obj)
                and label_selector_matches(selector, labels_of(use.obj))
                for use in info.pods.values()
            )
        return counts

    def _spread_refuses(
        self, constraint: Obj, counts: Counter[str], labels: dict[str, str]
    ) -> tuple[str, bool] | None:
        value = labels.get(constraint["topologyKey"])
        if value is None:
            return NO_SPREAD_LABEL, False
        fewest = min(counts.values(), default=0)
        if len(counts) < (constraint.get("minDomains") or 1):
            fewest = 0
        own = label_selector_matches(constraint.get("labelSelector"), labels_of(self._pod))
        if counts[value] + own - fewest > constraint["maxSkew"]:
            return NO_SPREAD, True
        return None


def _anti_terms(use: PodUse) -> Iterable[Obj]:
    affinity = use.obj["spec"].get("affinity")
    return ((affinity or {}).get("podAntiAffinity") or {}).get(REQUIRED) or ()


def preferred_score(pod: Obj, info: NodeInfo) -> float:
    """Weights of preferred pod (anti-)affinity that pods on this very node fulfil."""
    affinity = pod["spec"].get("affinity") or {}
    total = 0.0
    for kind, sign in (("podAffinity", 1.0), ("podAntiAffinity", -1.0)):
        for entry in (affinity.get(kind) or {}).get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            term = entry["podAffinityTerm"]
            spaces = term.get("namespaces") or [pod["metadata"]["namespace"]]
            for use in info.pods.values():
                if use.obj["metadata"]["namespace"] in spaces and label_selector_matches(
                    term.get("labelSelector"), labels_of(use.obj)
                ):
                    total += sign * entry["weight"]
    return total
