"""The object store: what etcd is to a real control plane.

Objects are plain dicts in Kubernetes JSON form. A stored object is never changed in place: readers may
keep references, writers hand over a new dict. Every write gets the next resourceVersion of one global,
monotonic counter, and is kept in a bounded history from which watches are served.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Obj = dict[str, Any]
HISTORY_CHANGES_MAX = 20_000
# An early version such as 1 must be too old for a watch, as on a cluster that has been up for a while.
FIRST_REVISION = 400


class Key(NamedTuple):
    """Identity of an object. ``resource`` is ``plural`` for core/v1, else ``group/plural``."""

    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Change:
    """One write. ``old`` is None for ADDED; for DELETED ``obj`` is the last state with the new version."""

    revision: int
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    key: Key
    obj: Obj
    old: Obj | None


class Expired(Exception):
    """The asked-for version is older than the history. ``str`` gives both versions."""


class Store:
    """Objects by key, with history. Synchronous; one writer at a time."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[tuple[str, str], Obj]] = {}
        self._history: deque[Change] = deque(maxlen=HISTORY_CHANGES_MAX)
        self._listeners: list[Callable[[Change], None]] = []
        self.revision = FIRST_REVISION
        self._oldest = FIRST_REVISION

    def get(self, key: Key) -> Obj | None:
        """The stored object, or None. Do not change it."""
        return self._objects.get(key.resource, {}).get((key.namespace, key.name))

    def list(self, resource: str, namespace: str | None = None) -> list[Obj]:
        """Objects of a resource sorted by namespace and name; ``namespace=None`` means all."""
        found = self._objects.get(resource, {})
        names = sorted(k for k in found if namespace is None or k[0] == namespace)
        return [found[k] for k in names]

    def resources(self) -> Sequence[str]:
        """Resources that hold at least one object."""
        return sorted(r for r, found in self._objects.items() if found)

    def count(self, resource: str, namespace: str | None = None) -> int:
        """How many objects a resource has."""
        found = self._objects.get(resource, {})
        return len(found) if namespace is None else sum(1 for k in found if k[0] == namespace)

    def put(self, key: Key, obj: Obj) -> Obj:
        """Create or replace. Sets ``metadata.resourceVersion`` on a shallow copy and returns it."""
        found = self._objects.setdefault(key.resource, {})
        old = found.get((key.namespace, key.name))
        obj = self._stamp(obj)
        found[(key.namespace, key.name)] = obj
        self._record(Change(self.revision, "ADDED" if old is None else "MODIFIED", key, obj, old))
        return obj

    def remove(self, key: Key) -> Obj | None:
        """Delete. Returns the last state (with the deletion's resourceVersion), or None if absent."""
        old = self._objects.get(key.resource, {}).pop((key.namespace, key.name), None)
        if old is None:
            return None
        obj = self._stamp(old)
        self._record(Change(self.revision, "DELETED", key, obj, old))
        return obj

    def since(self, revision: int) -> Iterator[Change]:
        """Changes after ``revision`` in order. Raises Expired when the history does not reach back."""
        if revision < self._oldest:
            raise Expired(f"too old resource version: {revision} ({self.revision})")
        return iter([c for c in self._history if c.revision > revision])

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call ``listener`` after each write, in order. Returns the function that ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def renumber(self) -> None:
        """Give every object a fresh version in key order and forget the history.

        After a Helm release was installed while the clock stood still, this removes the order in which
        concurrent requests happened to arrive. Open watches must not exist.
        """
        for resource in sorted(self._objects):
            found = self._objects[resource]
            for name in sorted(found):
                found[name] = self._stamp(found[name])
        self._history.clear()
        self._oldest = self.revision

    def _stamp(self, obj: Obj) -> Obj:
        self.revision += 1
        return {**obj, "metadata": {**obj.get("metadata", {}), "resourceVersion": str(self.revision)}}

    def _record(self, change: Change) -> None:
        if len(self._history) == HISTORY_CHANGES_MAX:
            self._oldest = self._history[0].revision
        self._history.append(change)
        for listener in list(self._listeners):
            listener(change)
