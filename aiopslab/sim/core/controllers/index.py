"""Look-ups that the store does not have: by owner, by node, by namespace, by uid.

The index holds keys, never objects, so it stays right when the store renumbers its objects. Every look-up
returns keys or objects in sorted order: nothing may depend on the order in which requests arrived.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from aiopslab.sim.core.controllers.labels import label_selector_matches
from aiopslab.sim.core.store import Change, Key, Obj, Store


class Index:
    """Secondary indexes over one store, kept by subscription."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owned: defaultdict[str, set[Key]] = defaultdict(set)
        self._namespaced: defaultdict[str, set[Key]] = defaultdict(set)
        self._by_kind: defaultdict[tuple[str, str], set[Key]] = defaultdict(set)
        self._orphans: defaultdict[tuple[str, str], set[Key]] = defaultdict(set)
        self._on_node: defaultdict[str, set[Key]] = defaultdict(set)
        self._labelled: defaultdict[tuple[str, str, str], set[Key]] = defaultdict(set)  # pods only
        self._uids: dict[str, Key] = {}
        for resource in store.resources():
            for obj in store.list(resource):
                meta = obj["metadata"]
                self._add(Key(resource, meta.get("namespace", ""), meta["name"]), obj)
        store.subscribe(self._on_change)

    def owned(self, uid: str, resource: str = "") -> list[Obj]:
        """Objects with an owner reference to ``uid``, of one resource if named."""
        keys = self._owned.get(uid, ())
        return self._objects(k for k in keys if not resource or k.resource == resource)

    def owned_keys(self, uid: str) -> list[Key]:
        """Keys of everything with an owner reference to ``uid``."""
        return sorted(self._owned.get(uid, ()))

    def orphans(self, resource: str, namespace: str) -> list[Obj]:
        """Objects of a resource in a namespace that no controller manages."""
        return self._objects(self._orphans.get((resource, namespace), ()))

    def listed(self, resource: str, namespace: str) -> list[Obj]:
        """Objects of a resource in one namespace."""
        return self._objects(self._by_kind.get((resource, namespace), ()))

    def in_namespace(self, namespace: str) -> list[Key]:
        """Keys of everything in a namespace."""
        return sorted(self._namespaced.get(namespace, ()))

    def on_node(self, node: str) -> list[Obj]:
        """Pods bound to a node."""
        return self._objects(self._on_node.get(node, ()))

    def selected(self, namespace: str, selector: Obj | None) -> list[Obj]:
        """Pods of a namespace that a LabelSelector matches; None matches nothing."""
        if selector is None:
            return []
        pairs = (selector.get("matchLabels") or {}).items()
        if pairs:
            sets = [self._labelled.get((namespace, name, value), set()) for name, value in pairs]
            keys = set.intersection(*sets)
        else:
            keys = self._by_kind.get(("pods", namespace), set())
        found = self._objects(keys)
        if not selector.get("matchExpressions"):
            return found
        return [pod for pod in found if label_selector_matches(selector, pod["metadata"].get("labels") or {})]

    def key_of_uid(self, uid: str) -> Key | None:
        """Which object has this uid now."""
        return self._uids.get(uid)

    def _objects(self, keys: Iterable[Key]) -> list[Obj]:
        found = (self._store.get(key) for key in sorted(keys))
        return [obj for obj in found if obj is not None]

    def _on_change(self, change: Change) -> None:
        old, new = change.old, None if change.type == "DELETED" else change.obj
        if change.type == "DELETED":
            self._remove(change.key, change.obj)
        elif old is None:
            self._add(change.key, change.obj)
        elif new is not None and _footprint(change.key, old) != _footprint(change.key, new):
            self._remove(change.key, old)
            self._add(change.key, new)

    def _add(self, key: Key, obj: Obj) -> None:
        meta = obj["metadata"]
        if uid := meta.get("uid"):
            self._uids[uid] = key
        if key.namespace:
            self._namespaced[key.namespace].add(key)
            self._by_kind[key.resource, key.namespace].add(key)
        managed = False
        for reference in meta.get("ownerReferences") or ():
            self._owned[reference["uid"]].add(key)
            managed = managed or bool(reference.get("controller"))
        if not managed and key.namespace:
            self._orphans[key.resource, key.namespace].add(key)
        if key.resource == "pods" and (node := obj["spec"].get("nodeName")):
            self._on_node[node].add(key)
        if key.resource == "pods":
            for name, value in (meta.get("labels") or {}).items():
                self._labelled[key.namespace, name, value].add(key)

    def _remove(self, key: Key, obj: Obj) -> None:
        meta = obj["metadata"]
        if self._uids.get(meta.get("uid", "")) == key:
            del self._uids[meta["uid"]]
        _discard(self._namespaced, key.namespace, key)
        _discard(self._by_kind, (key.resource, key.namespace), key)
        for reference in meta.get("ownerReferences") or ():
            _discard(self._owned, reference["uid"], key)
        _discard(self._orphans, (key.resource, key.namespace), key)
        if key.resource == "pods" and (node := obj["spec"].get("nodeName")):
            _discard(self._on_node, node, key)
        if key.resource == "pods":
            for name, value in (meta.get("labels") or {}).items():
                _discard(self._labelled, (key.namespace, name, value), key)


def _discard(table: dict[Any, set[Key]], name: object, key: Key) -> None:
    """Take ``key`` out of a set and drop the set when it is empty."""
    entries = table.get(name)
    if entries is not None:
        entries.discard(key)
        if not entries:
            del table[name]


def _footprint(key: Key, obj: Obj) -> tuple[object, ...]:
    meta = obj["metadata"]
    if key.resource != "pods":
        return meta.get("uid"), meta.get("ownerReferences")
    return meta.get("uid"), meta.get("ownerReferences"), obj["spec"].get("nodeName"), meta.get("labels")
