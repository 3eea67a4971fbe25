"""Adoption and release: which objects a controller with a selector owns."""

from __future__ import annotations

from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.controllers.common import (
    Base,
    controlled_by,
    deleting,
    key_of,
    labels_of,
    owner_reference,
    with_metadata,
)
from aiopslab.sim.core.controllers.labels import label_selector_matches
from aiopslab.sim.core.store import Obj


def claim(controller: Base, resource: str, owner: Obj) -> list[Obj]:
    """Objects of ``resource`` that ``owner`` manages, after adopting matching orphans and letting go of
    owned ones that no longer match its selector. Sorted by name.

    Nothing is adopted by an owner that is being deleted, and nothing that is being deleted is adopted.
    """
    selector = owner["spec"].get("selector")
    uid = owner["metadata"]["uid"]
    kept: list[Obj] = []
    for obj in controller.index.owned(uid, resource):
        if not controlled_by(obj, owner):
            continue
        if label_selector_matches(selector, labels_of(obj)):
            kept.append(obj)
        elif not deleting(obj):
            _release(controller, resource, obj, uid)
    if not deleting(owner):
        for obj in controller.index.orphans(resource, owner["metadata"]["namespace"]):
            if deleting(obj) or not label_selector_matches(selector, labels_of(obj)):
                continue
            if resource == "pods" and (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                continue
            adopted = _adopt(controller, resource, obj, owner)
            if adopted is not None:
                kept.append(adopted)
    return sorted(kept, key=lambda obj: obj["metadata"]["name"])


def _adopt(controller: Base, resource: str, obj: Obj, owner: Obj) -> Obj | None:
    references = [*(obj["metadata"].get("ownerReferences") or ()), owner_reference(owner)]
    try:
        return controller.update(key_of(resource, obj), with_metadata(obj, ownerReferences=references))
    except ApiError:
        return None


def _release(controller: Base, resource: str, obj: Obj, uid: str) -> None:
    references = [ref for ref in obj["metadata"]["ownerReferences"] if ref["uid"] != uid]
    controller.update(key_of(resource, obj), with_metadata(obj, ownerReferences=references or None))
