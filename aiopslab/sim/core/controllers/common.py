"""What every controller shares: the base class, owner references, conditions, selectors, API errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiopslab.sim.core.api import Api, DeleteOptions, WriteOptions
from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.controllers.index import Index
from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.store import Change, Key, Obj

MANAGER = "kube-controller-manager"
# The rate limiter of the real work queues: 5 ms, doubling, at most 1000 s.
RETRY_FIRST_S = 0.005
RETRY_MOST_S = 1000.0


class Base:
    """State that every controller needs. Subclasses add ``keys`` and ``reconcile``."""

    name = ""

    def __init__(self, kernel: Kernel, api: Api, index: Index) -> None:
        self.kernel, self.api, self.index = kernel, api, index
        self.store = kernel.store
        self.options = WriteOptions(manager=MANAGER)
        self._failures: dict[Key, int] = {}
        self._named: dict[tuple[object, ...], int] = {}

    def keys(self, change: Change) -> Iterable[Key]:
        """The work keys that a change touches."""
        raise NotImplementedError

    def reconcile(self, key: Key) -> None:
        """Bring one object nearer to what is asked."""
        raise NotImplementedError

    def event(self, involved: Obj, type_: str, reason: str, message: str) -> None:
        """Write an event in this controller's name."""
        self.api.event(involved, type_, reason, message, self.name)

    def requeue_after(self, delay_s: float, key: Key) -> None:
        """Reconcile ``key`` again in ``delay_s`` virtual seconds; a later call replaces an earlier one."""
        self.kernel.call_after(max(0.0, delay_s), f"{self.name}/{'/'.join(key)}", lambda: self._again(key))

    def retry(self, key: Key) -> None:
        """Reconcile again with the exponential back-off of a rate-limited work queue."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        self.requeue_after(min(RETRY_FIRST_S * 2.0 ** (count - 1), RETRY_MOST_S), key)

    def forget(self, key: Key) -> None:
        """The last reconcile of ``key`` succeeded: the next failure starts at the first back-off."""
        self._failures.pop(key, None)

    def delete(self, key: Key, uid: str = "", propagation: str = "", grace_s: int | None = None) -> None:
        """Delete an object if it is still there and, with ``uid``, still the same one.

        ``grace_s`` 0 removes a pod at once; None gives it its own grace period.
        """
        current = self.store.get(key)
        if current is None or (uid and current["metadata"].get("uid") != uid):
            return
        options = DeleteOptions(manager=MANAGER, propagation=propagation, grace_s=grace_s)
        self.api.delete(key.resource, key.namespace, key.name, options)

    def update(self, key: Key, obj: Obj) -> Obj:
        """Write the whole object; nothing happens when it is unchanged."""
        return self.api.put(key, obj, MANAGER)

    def update_status(self, key: Key, status: Obj) -> Obj | None:
        """Replace ``status``; None when the object has gone meanwhile."""
        if self.store.get(key) is None:
            return None
        return self.api.put_status(key, lambda obj: {**obj, "status": status}, MANAGER)

    def unused_name(self, resource: str, namespace: str, prefix: str, *identity: object) -> str:
        """``prefix-xxxxx`` for the next object of the owner ``identity``; skips names that are taken."""
        while True:
            count = self._named[identity] = self._named.get(identity, 0) + 1
            name = f"{prefix[:57]}-{self.kernel.ids.suffix(5, resource, *identity, count)}"
            if self.store.get(Key(resource, namespace, name)) is None:
                return name

    def _again(self, key: Key) -> None:
        self.kernel.enqueue(self, key)


def key_of(resource: str, obj: Obj) -> Key:
    """The store key of an object whose resource is known."""
    meta = obj["metadata"]
    return Key(resource, meta.get("namespace", ""), meta["name"])


def is_code(error: ApiError, reason: str) -> bool:
    """Whether an API error has this ``reason`` (``AlreadyExists``, ``NotFound``, ``Conflict`` ...)."""
    return error.status.get("reason") == reason


def namespace_is_ending(error: ApiError) -> bool:
    """Whether a create was refused because the namespace is being terminated."""
    causes = (error.status.get("details") or {}).get("causes") or []
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def error_text(error: ApiError) -> str:
    """The message of an API error as controllers put it into events."""
    return str(error.status.get("message", ""))


def owner_reference(owner: Obj) -> Obj:
    """The controller reference that a controller puts on what it creates."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(obj: Obj) -> Obj | None:
    """The owner reference marked ``controller``, or None."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return reference
    return None


def controlled_by(obj: Obj, owner: Obj) -> bool:
    """Whether ``owner`` is the managing controller of ``obj``."""
    reference = controller_of(obj)
    return reference is not None and reference["uid"] == owner["metadata"]["uid"]


def deleting(obj: Obj) -> bool:
    """Whether deletion has been asked for."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def labels_of(obj: Obj) -> dict[str, str]:
    """``metadata.labels``, never None."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Obj) -> dict[str, str]:
    """``metadata.annotations``, never None."""
    return obj["metadata"].get("annotations") or {}


def with_metadata(obj: Obj, **changes: Any) -> Obj:
    """A copy of ``obj`` with metadata fields replaced; a value of None removes the field."""
    meta = {**obj["metadata"], **changes}
    return {**obj, "metadata": {k: v for k, v in meta.items() if v is not None}}


def with_spec(obj: Obj, **changes: Any) -> Obj:
    """A copy of ``obj`` with spec fields replaced."""
    return {**obj, "spec": {**obj["spec"], **changes}}


def condition(obj: Obj, type_: str) -> Obj | None:
    """The condition of this type in ``status.conditions``, or None."""
    return find_condition((obj.get("status") or {}).get("conditions"), type_)


def find_condition(conditions: Iterable[Obj] | None, type_: str) -> Obj | None:
    """The first condition of this type, or None."""
    for entry in conditions or ():
        if entry["type"] == type_:
            return entry
    return None


def without_condition(conditions: Iterable[Obj] | None, type_: str) -> list[Obj]:
    """The conditions without those of this type."""
    return [entry for entry in conditions or () if entry["type"] != type_]


def int_or_percent(value: int | str | None, total: int, *, round_up: bool) -> int:
    """``maxSurge``-like values: an integer, or a percentage of ``total`` rounded as told."""
    if value is None:
        return 0
    if isinstance(value, str) and value.endswith("%"):
        scaled = int(value[:-1]) * total
        return -(-scaled // 100) if round_up else scaled // 100
    return int(value)
