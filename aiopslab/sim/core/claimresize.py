"""Claims may grow when they are bound and their storage class allows it."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core.apierrors import forbidden
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.quantity import parse
from aiopslab.sim.core.store import Key, Store

Obj = dict[str, Any]
CLASSES = "storage.k8s.io/storageclasses"
FIXED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


def admit(store: Store, kind: Kind, obj: Obj, old: Obj | None, subresource: str) -> None:
    """Raises 403 for a claim that asks for more and may not."""
    if kind.resource != "persistentvolumeclaims" or old is None or subresource or _size(obj) <= _size(old):
        return
    name = obj["metadata"]["name"]
    if (old.get("status") or {}).get("phase") != "Bound":
        raise forbidden(kind, name, "Only bound persistent volume claims can be expanded")
    class_name = (old.get("spec") or {}).get("storageClassName", "")
    found = store.get(Key(CLASSES, "", class_name)) if class_name else None
    if found is None or not found.get("allowVolumeExpansion"):
        raise forbidden(kind, name, FIXED)


def _size(claim: Obj) -> Any:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return parse((resources.get("requests") or {}).get("storage", "0"))
