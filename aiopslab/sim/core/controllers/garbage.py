"""Garbage collection: background, foreground, orphan, and objects whose owners do not exist."""

from __future__ import annotations

from collections.abc import Iterable

from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.controllers.common import Base, deleting, is_code, key_of, with_metadata
from aiopslab.sim.core.store import Change, Key, Obj

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
OWNER_GONE = "gone"  # pseudo resource: the key's name is the uid of an owner that went


class GarbageCollector(Base):
    """The garbage-collector-controller."""

    name = "garbage-collector-controller"

    def keys(self, change: Change) -> Iterable[Key]:
        """Objects with owners or with a deletion finalizer, and owners that have gone."""
        meta = change.obj["metadata"]
        found = []
        if change.type == "DELETED":
            uid = meta.get("uid", "")
            if self.index.owned_keys(uid):
                found.append(Key(OWNER_GONE, "", uid))
            found += [
                owner
                for reference in meta.get("ownerReferences") or ()
                if reference.get("blockOwnerDeletion")
                and (owner := self.index.key_of_uid(reference["uid"])) is not None
            ]
            return found
        old = change.old["metadata"] if change.old is not None else {}
        if meta.get("ownerReferences") and meta["ownerReferences"] != old.get("ownerReferences"):
            found.append(change.key)
        if meta.get("deletionTimestamp") and {FOREGROUND, ORPHAN} & set(meta.get("finalizers") or ()):
            found.append(change.key)
        return found

    def reconcile(self, key: Key) -> None:
        """Follow a deletion to the dependents, or check one object's owners."""
        if key.resource == OWNER_GONE:
            for dependent in self.index.owned_keys(key.name):
                self._check_owners(dependent)
            return
        obj = self.store.get(key)
        if obj is None:
            return
        finalizers = obj["metadata"].get("finalizers") or ()
        if deleting(obj) and ORPHAN in finalizers:
            self._orphan_dependents(key, obj)
        elif deleting(obj) and FOREGROUND in finalizers:
            self._delete_dependents_first(key, obj)
        else:
            self._check_owners(key)

    def _check_owners(self, key: Key) -> None:
        obj = self.store.get(key)
        if obj is None or deleting(obj):
            return
        references = obj["metadata"].get("ownerReferences") or []
        solid: list[Obj] = []
        waiting: list[Obj] = []
        for reference in references:
            owner = self._owner(key, reference)
            if owner is None:
                continue
            ends = deleting(owner) and FOREGROUND in (owner["metadata"].get("finalizers") or ())
            (waiting if ends else solid).append(reference)
        if not references or (len(solid) == len(references)):
            return
        if solid:
            self.update(key, with_metadata(obj, ownerReferences=solid))
        elif waiting:
            own = self.index.owned_keys(obj["metadata"]["uid"])
            self._delete(key, "Foreground" if own else "Background")
        else:
            finalizers = obj["metadata"].get("finalizers") or ()
            self._delete(key, "Orphan" if ORPHAN in finalizers else "Background")

    def _owner(self, key: Key, reference: Obj) -> Obj | None:
        """The owner named by a reference; None when there is no such object in reach."""
        owner = self.index.key_of_uid(reference["uid"])
        if owner is None or (owner.namespace and owner.namespace != key.namespace):
            return None
        found = self.store.get(owner)
        return found if found is not None and found["kind"] == reference["kind"] else None

    def _delete_dependents_first(self, key: Key, owner: Obj) -> None:
        uid = owner["metadata"]["uid"]
        for dependent in self.index.owned_keys(uid):
            self._check_owners(dependent)
        blocking = [
            obj
            for obj in self.index.owned(uid)
            if any(
                ref["uid"] == uid and ref.get("blockOwnerDeletion")
                for ref in obj["metadata"]["ownerReferences"]
            )
        ]
        if not blocking:
            self._drop_finalizer(key, FOREGROUND)

    def _orphan_dependents(self, key: Key, owner: Obj) -> None:
        uid = owner["metadata"]["uid"]
        for dependent in self.index.owned_keys(uid):
            obj = self.store.get(dependent)
            if obj is not None:
                kept = [ref for ref in obj["metadata"]["ownerReferences"] if ref["uid"] != uid]
                self.update(dependent, with_metadata(obj, ownerReferences=kept or None))
        self._drop_finalizer(key, ORPHAN)

    def _drop_finalizer(self, key: Key, finalizer: str) -> None:
        obj = self.store.get(key)
        if obj is not None:
            kept = [entry for entry in obj["metadata"].get("finalizers") or () if entry != finalizer]
            self.update(key, with_metadata(obj, finalizers=kept or None))

    def _delete(self, key: Key, propagation: str) -> None:
        try:
            self.delete(key, propagation=propagation)
        except ApiError as error:
            if not is_code(error, "NotFound") and not is_code(error, "Conflict"):
                raise


class PodGarbage(Base):
    """The pod-garbage-collector: pods on nodes that no longer exist are removed by force."""

    name = "pod-garbage-collector"
    QUARANTINE_S = 40.0

    def keys(self, change: Change) -> Iterable[Key]:
        """Nodes that were deleted."""
        return (change.key,) if change.key.resource == "nodes" and change.type == "DELETED" else ()

    def reconcile(self, key: Key) -> None:
        """Wait out the quarantine, then delete the pods of a node that stayed away."""
        self.kernel.call_after(self.QUARANTINE_S, f"{self.name}/{key.name}", lambda: self._sweep(key))

    def _sweep(self, node: Key) -> None:
        if self.store.get(node) is not None:
            return
        for pod in self.index.on_node(node.name):
            self.delete(key_of("pods", pod), pod["metadata"]["uid"], grace_s=0)
