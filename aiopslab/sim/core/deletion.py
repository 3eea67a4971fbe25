"""DELETE: preconditions, grace periods, finalizers and propagation.

An object goes at once when nothing holds it. Otherwise it gets a ``deletionTimestamp`` and stays until the
holder is done: the kubelet for a pod with a grace period, whoever owns a finalizer, the garbage collector
for ``foregroundDeletion`` and ``orphan``, the namespace controller for a namespace's ``kubernetes``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiopslab.sim.core import strategy
from aiopslab.sim.core.apierrors import Cause, conflict, forbidden, invalid
from aiopslab.sim.core.kernel import parse_time, rfc3339
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.options import DeleteOptions
from aiopslab.sim.core.store import Key

if TYPE_CHECKING:
    from aiopslab.sim.core.api import Api

Obj = dict[str, Any]

PROPAGATION_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
IMMORTAL_NAMESPACES = {"default", "kube-system", "kube-public"}
DEFAULT_POD_GRACE_S = 30
LEGACY_NEGATIVE_GRACE_S = 1


class Deleter:
    """Carries out deletions for an ``Api``."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def delete(self, kind: Kind, old: Obj, opts: DeleteOptions) -> tuple[Obj, bool]:
        """Returns the object as stored (or its last state) and whether it is gone."""
        meta = old["metadata"]
        key = Key(kind.resource, meta.get("namespace", ""), meta["name"])
        self._check(kind, meta, opts)
        grace_s = self._grace(kind, old, opts)
        finalizers = _finalizers(meta, opts.propagation)
        held = bool(finalizers) or grace_s > 0 or self._held_namespace(kind, old)
        if not held:
            if opts.dry_run:
                return old, True
            last = self._api.store.remove(key)
            return self._with_deletion(kind, last or old, finalizers, grace_s), True
        new = self._with_deletion(kind, old, finalizers, grace_s)
        if new == old or opts.dry_run:
            return (old if new == old else new), False
        return self._api.store.put(key, new), False

    def released(self, kind: Kind, obj: Obj) -> bool:
        """Whether a written object that is being deleted has nothing left that holds it."""
        meta = obj["metadata"]
        if "deletionTimestamp" not in meta or meta.get("finalizers"):
            return False
        if kind.resource == "namespaces":
            return not (obj.get("spec") or {}).get("finalizers")
        return not meta.get("deletionGracePeriodSeconds")

    def _check(self, kind: Kind, meta: Obj, opts: DeleteOptions) -> None:
        name = meta["name"]
        if kind.resource == "namespaces" and name in IMMORTAL_NAMESPACES:
            raise forbidden(kind, name, "this namespace may not be deleted")
        if opts.uid and opts.uid != meta.get("uid"):
            why = f"Precondition failed: UID in precondition: {opts.uid}, UID in object meta: {meta.get('uid')}"
            raise conflict(kind, name, why)
        if opts.resource_version and opts.resource_version != meta["resourceVersion"]:
            why = (
                f"Precondition failed: ResourceVersion in precondition: {opts.resource_version}, "
                f"ResourceVersion in object meta: {meta['resourceVersion']}"
            )
            raise conflict(kind, name, why)

    def _grace(self, kind: Kind, old: Obj, opts: DeleteOptions) -> int:
        """Seconds that the pod gets; 0 for all other kinds and for pods that no kubelet runs."""
        if kind.resource != "pods":
            return 0
        spec, meta = old.get("spec") or {}, old["metadata"]
        if not spec.get("nodeName") or (old.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        grace_s = opts.grace_s
        if grace_s is None:
            grace_s = spec.get("terminationGracePeriodSeconds", DEFAULT_POD_GRACE_S)
        if grace_s < 0:
            grace_s = LEGACY_NEGATIVE_GRACE_S
        if "deletionTimestamp" in meta:
            return min(grace_s, meta.get("deletionGracePeriodSeconds", grace_s))
        return grace_s

    def _held_namespace(self, kind: Kind, old: Obj) -> bool:
        return kind.resource == "namespaces" and bool((old.get("spec") or {}).get("finalizers"))

    def _with_deletion(self, kind: Kind, old: Obj, finalizers: list[str], grace_s: int) -> Obj:
        meta = {**old["metadata"]}
        now = self._api.kernel.now
        if "deletionTimestamp" not in meta:
            meta["deletionTimestamp"] = rfc3339(now + grace_s)
            meta["deletionGracePeriodSeconds"] = grace_s
            if meta.get("generation") and strategy.has_generation(kind):
                meta["generation"] += 1
        elif grace_s < meta.get("deletionGracePeriodSeconds", 0):
            asked_at = parse_time(meta["deletionTimestamp"]) - meta["deletionGracePeriodSeconds"]
            meta["deletionTimestamp"] = rfc3339(asked_at + grace_s)
            meta["deletionGracePeriodSeconds"] = grace_s
        if finalizers != (meta.get("finalizers") or []):
            meta["finalizers"] = finalizers
        new = {**old, "metadata": meta}
        if kind.resource == "namespaces":
            new["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
            meta.pop("deletionGracePeriodSeconds", None)
        return new


def _finalizers(meta: Obj, propagation: str) -> list[str]:
    """The object's finalizers once ``propagation`` is asked for; the garbage collector's own are replaced."""
    found: list[str] = list(meta.get("finalizers") or [])
    if not propagation:
        return found
    wanted = PROPAGATION_FINALIZERS.get(propagation)
    others = [f for f in found if f not in PROPAGATION_FINALIZERS.values() or f == wanted]
    if wanted and wanted not in others:
        others.append(wanted)
    return others


def check_propagation(text: str) -> None:
    """Raises 422 for a propagationPolicy that does not exist."""
    if text in ("", "Foreground", "Background", "Orphan"):
        return
    message = f'Unsupported value: "{text}": supported values: "Foreground", "Background", "Orphan", "nil"'
    cause = Cause("FieldValueNotSupported", message, "propagationPolicy")
    raise invalid(("DeleteOptions", "meta.k8s.io"), "", [cause])
