"""Counts of the pods of each ReplicaSet, kept while pods change: a status costs the same for ten pods and thousands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers.common import controller_of, deleting, key_of, labels_of
from aiopslab.sim.core.controllers.index import Index
from aiopslab.sim.core.controllers.labels import label_selector_matches
from aiopslab.sim.core.store import Change, Key, Obj


class Counts(NamedTuple):
    """Pods of a ReplicaSet. ``current`` are neither finished nor being deleted, ``ready`` and ``labelled`` (with all
    labels of the template) are among them; ``strayed`` no longer match the selector."""

    current: int = 0
    ready: int = 0
    labelled: int = 0
    terminating: int = 0
    strayed: int = 0


@dataclass(slots=True)
class _Entry:
    selector: Obj | None
    labels: dict[str, str]
    pods: dict[Key, Counts] = field(default_factory=dict)
    sums: list[int] = field(default_factory=lambda: [0] * len(Counts._fields))

    def put(self, key: Key, counts: Counts | None) -> None:
        """Replace what a pod adds to the sums; None takes it away."""
        for sign, each in ((-1, self.pods.pop(key, None)), (1, counts)):
            if each is not None:
                self.sums = [total + sign * one for total, one in zip(self.sums, each, strict=True)]
        if counts is not None:
            self.pods[key] = counts

    def of(self, pod: Obj) -> Counts:
        """What one pod adds."""
        labels, current = labels_of(pod), podlib.active(pod)
        return Counts(
            current,
            current and podlib.ready(pod),
            current and self.labels.items() <= labels.items(),
            deleting(pod) and not podlib.finished(pod),
            not label_selector_matches(self.selector, labels),
        )


class Tally:
    """The counts of every ReplicaSet that was asked for."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._entries: dict[str, _Entry] = {}

    def note(self, change: Change) -> None:
        """Take a change of a pod into account."""
        owners = [None if pod is None else controller_of(pod) for pod in (change.old, change.obj)]
        uids = [owner["uid"] if owner else "" for owner in owners]
        if change.type == "DELETED":
            uids[1] = ""
        if uids[0] != uids[1] and (entry := self._entries.get(uids[0])):
            entry.put(change.key, None)
        if entry := self._entries.get(uids[1]):
            entry.put(change.key, entry.of(change.obj))

    def forget(self, uid: str) -> None:
        """Drop the counts of a ReplicaSet that has gone."""
        self._entries.pop(uid, None)

    def counts(self, replica_set: Obj) -> Counts:
        """The counts of a ReplicaSet now."""
        uid, spec = replica_set["metadata"]["uid"], replica_set["spec"]
        labels = (spec["template"].get("metadata") or {}).get("labels") or {}
        entry = self._entries.get(uid)
        if entry is None or (entry.selector, entry.labels) != (spec.get("selector"), labels):
            entry = self._entries[uid] = _Entry(spec.get("selector"), labels)
            for pod in self._index.owned(uid, "pods"):
                owner = controller_of(pod)
                if owner is not None and owner["uid"] == uid:
                    entry.put(key_of("pods", pod), entry.of(pod))
        return Counts(*entry.sums)
