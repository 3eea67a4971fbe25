"""ControllerRevisions: the remembered pod templates of StatefulSets and DaemonSets."""

from __future__ import annotations

from aiopslab.sim.core.controllers.common import Base, controlled_by, key_of, owner_reference
from aiopslab.sim.core.controllers.revisions import template_hash
from aiopslab.sim.core.store import Key, Obj

RESOURCE = "apps/controllerrevisions"
HASH_LABEL = "controller.kubernetes.io/hash"


def revision_of(controller: Base, owner: Obj, label: str = HASH_LABEL) -> Obj:
    """The ControllerRevision of the owner's current template, created or moved to the front if needed.

    ``label`` is the label that carries the hash. Revision numbers count up; going back to an old template
    gives its revision the next number.
    """
    meta = owner["metadata"]
    data = {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}
    known = revisions(controller, owner)
    highest = max((one["revision"] for one in known), default=0)
    for one in known:
        if one.get("data") == data:
            if one["revision"] < highest:
                return controller.update(key_of(RESOURCE, one), {**one, "revision": highest + 1})
            return one
    digest = template_hash(owner["spec"]["template"], (owner.get("status") or {}).get("collisionCount"))
    labels = {**((owner["spec"]["template"].get("metadata") or {}).get("labels") or {}), label: digest}
    name = f"{meta['name']}-{digest}"
    body = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(owner)],
        },
        "data": data,
        "revision": highest + 1,
    }
    return controller.update(Key(RESOURCE, meta["namespace"], name), body)


def revisions(controller: Base, owner: Obj) -> list[Obj]:
    """All revisions of an owner, oldest first."""
    found = [
        one for one in controller.index.owned(owner["metadata"]["uid"], RESOURCE) if controlled_by(one, owner)
    ]
    return sorted(found, key=lambda one: (one["revision"], one["metadata"]["name"]))


def forget_old(controller: Base, owner: Obj, in_use: set[str]) -> None:
    """Delete the oldest revisions beyond ``revisionHistoryLimit``; those named in ``in_use`` stay."""
    limit = owner["spec"].get("revisionHistoryLimit", 10)
    idle = [one for one in revisions(controller, owner) if one["metadata"]["name"] not in in_use]
    for one in idle[: max(0, len(idle) - limit)]:
        controller.delete(key_of(RESOURCE, one))
