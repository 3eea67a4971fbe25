"""Names of components: what the agent wrote → the workload it means, by the objects of the run.

A component is a workload (Deployment, StatefulSet, DaemonSet). An answer may name it directly, by one of its
pods, by its ReplicaSet or by the Service in front of it, with a kind (``deploy/x``), a namespace
(``shop/x``), a DNS suffix or a port, in any case and with any separators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from aiopslab.grading.answers import squash
from aiopslab.grading.evidence import SNAPSHOTS, Obj, controller_of, name_of, objects
from aiopslab.record import Snapshot

WORKLOADS = ("deployments", "statefulsets", "daemonsets")

_GENERATED = "[bcdfghjklmnpqrstvwxz2456789]"  # the letters Kubernetes makes name suffixes of
_POD_OF_REPLICASET = re.compile(rf"^(.+)-{_GENERATED}{{5,10}}-{_GENERATED}{{5}}$")
_NUMBERED_OR_HASHED = re.compile(rf"^(.+)-(?:\d+|{_GENERATED}{{5}}|{_GENERATED}{{8,10}})$")
_DNS_NAME = re.compile(r"^[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+){1,4}$")
_KIND_WORDS = ("service", "deployment", "statefulset", "daemonset", "pod", "microservice", "workload")


class Components:
    """The workloads of a run and every other name they go by."""

    def __init__(self, snapshots: Mapping[str, Snapshot], more: Iterable[str] = ()) -> None:
        self._canonical: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        for snapshot in (snapshots[name] for name in SNAPSHOTS if name in snapshots):
            self._learn(snapshot)
        for name in more:
            self._canonical.setdefault(squash(name), name)

    def _learn(self, snapshot: Snapshot) -> None:
        workloads = workloads_of(snapshot)
        for name in workloads:
            self._canonical.setdefault(squash(name), name)
        for plural in ("replicasets", "pods"):
            for obj in objects(snapshot, plural):
                owner = workload_of(obj, snapshot)
                if owner:
                    self._aliases.setdefault(squash(name_of(obj)), owner)
        for service in objects(snapshot, "services"):
            behind = [name for name, obj in workloads.items() if selects(service, obj)]
            if len(behind) == 1:
                self._aliases.setdefault(squash(name_of(service)), behind[0])

    def resolve(self, written: str) -> str:
        """The workload that ``written`` means; when there is none, the cleaned text itself."""
        cleaned = _strip_decoration(written)
        for candidate in _candidates(cleaned):
            key = squash(candidate)
            found = self._canonical.get(key) or self._aliases.get(key)
            if found:
                return found
        return cleaned

    def ranked(self, written: Iterable[str]) -> list[str]:
        """Each answer resolved, in order, later repetitions dropped."""
        return list(dict.fromkeys(self.resolve(name) for name in written))


def workloads_of(snapshot: Snapshot | None) -> dict[str, Obj]:
    """Workload objects by name."""
    return {name_of(obj): obj for plural in WORKLOADS for obj in objects(snapshot, plural)}


def workload_of(obj: Mapping[str, Any], snapshot: Snapshot) -> str | None:
    """The name of the workload that (through a ReplicaSet or not) owns a pod or ReplicaSet."""
    owner = controller_of(obj)
    if owner is None:
        return None
    kind, name = owner
    if kind != "ReplicaSet":
        return name
    for replica_set in objects(snapshot, "replicasets"):
        if name_of(replica_set) == name:
            above = controller_of(replica_set)
            return above[1] if above else name
    return name.rsplit("-", 1)[0]


def selects(selecting: Mapping[str, Any], workload: Mapping[str, Any]) -> bool:
    """True when a Service (or anything with a plain or ``matchLabels`` selector) picks the workload's pods."""
    spec = selecting.get("spec") or {}
    selector = spec.get("selector") or spec.get("podSelector") or {}
    wanted = selector.get("matchLabels", selector) if isinstance(selector, dict) else {}
    template = (workload.get("spec") or {}).get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def _strip_decoration(written: str) -> str:
    """``deploy/x``, ``ns/x``, ``Service: x``, ``x (why)``, ``x:8080``, ``x.ns.svc`` → ``x``."""
    text = written.split("(", 1)[0].strip(" \t\r\n\"'`.,:;*").rsplit("/", 1)[-1]
    head, colon, tail = text.rpartition(":")
    if colon:
        text = head if tail.strip().isdigit() else tail
    text = text.strip()
    return text.split(".", 1)[0] if _DNS_NAME.match(text) else text


def _candidates(text: str) -> Iterable[str]:
    """Readings of one answer, the most literal first."""
    yield text
    lowered = text.casefold()
    for pattern in (_POD_OF_REPLICASET, _NUMBERED_OR_HASHED):
        match = pattern.match(lowered)
        if match:
            yield match.group(1)
    bare = squash(text)
    for word in _KIND_WORDS:
        if bare.endswith(word) and len(bare) > len(word):
            yield bare.removesuffix(word)
        if bare.startswith(word) and len(bare) > len(word):
            yield bare.removeprefix(word)
    yield f"{bare}service"
