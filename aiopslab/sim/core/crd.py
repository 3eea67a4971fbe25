"""CustomResourceDefinitions: they are accepted at once, and their kinds are served from then on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiopslab.sim.core import cel, structural
from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.kinds import VERBS, Kind, Kinds, custom_subresource
from aiopslab.sim.core.store import Change, Key, Store
from aiopslab.sim.core.structural import SchemaError

Obj = dict[str, Any]

CRDS = "apiextensions.k8s.io/customresourcedefinitions"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class CustomResources:
    """Keeps the table of kinds in step with the stored CRDs, and treats custom objects by their schemas."""

    def __init__(self, store: Store, kinds: Kinds) -> None:
        self._kinds = kinds
        store.subscribe(self._changed)

    def is_definition(self, kind: Kind) -> bool:
        """Whether objects of ``kind`` are CRDs."""
        return kind.resource == CRDS

    def prepare(self, obj: Obj, old: Obj | None, now: str) -> Obj:
        """A CRD with defaulted names and the status of one that the server has accepted."""
        spec = dict(obj.get("spec") or {})
        names = dict(spec.get("names") or {})
        if names.get("kind"):
            names.setdefault("singular", names["kind"].lower())
            names.setdefault("listKind", f"{names['kind']}List")
        spec["names"] = names
        spec.setdefault("conversion", {"strategy": "None"})
        status = dict(((old or {}).get("status")) or {})
        if not status.get("conditions"):
            status["conditions"] = _conditions(now)
        status["acceptedNames"] = names
        stored = list(status.get("storedVersions") or [])
        for version in spec.get("versions") or []:
            if version.get("storage") and version.get("name") not in stored:
                stored.append(version["name"])
        status["storedVersions"] = stored
        meta = dict(obj["metadata"])
        if old is None:
            meta["finalizers"] = [f for f in meta.get("finalizers") or [] if f != CLEANUP] + [CLEANUP]
        return {**obj, "metadata": meta, "spec": spec, "status": status}

    def schema(self, kind: Kind) -> Obj:
        """The ``openAPIV3Schema`` of a custom kind; one that preserves everything when it has none."""
        found = ((kind.crd or {}).get("schema") or {}).get("openAPIV3Schema")
        return found or {"type": "object", structural.PRESERVE: True}

    def prune(self, kind: Kind, obj: Obj) -> tuple[Obj, list[str]]:
        """The object without unknown fields, and their paths."""
        return structural.prune(self.schema(kind), obj)

    def default(self, kind: Kind, obj: Obj) -> Obj:
        """Pruned, and with the schema's defaults."""
        pruned, _ = self.prune(kind, obj)
        rest = {k: v for k, v in pruned.items() if k not in ("apiVersion", "kind", "metadata")}
        kept = {k: pruned[k] for k in ("apiVersion", "kind", "metadata") if k in pruned}
        return {**kept, **structural.default(self.schema(kind), rest)}

    def validate(self, kind: Kind, new: Obj, old: Obj | None, subresource: str = "") -> list[SchemaError]:
        """Violations of the schema, then of its CEL rules (only when the schema itself holds)."""
        schema = self.schema(kind)
        if subresource == "status":
            part = (schema.get("properties") or {}).get("status")
            errors = _status_errors(part, new.get("status"))
        else:
            rest = {k: v for k, v in new.items() if k not in ("apiVersion", "kind", "metadata")}
            errors = structural.validate(schema, rest)
        return errors or cel.validate(schema, new, old)

    def _changed(self, change: Change) -> None:
        if change.key.resource != CRDS:
            return
        if change.type == "DELETED":
            self._kinds.remove_custom(_resource(change.obj))
        elif change.old is None or change.old.get("spec") != change.obj.get("spec"):
            self._kinds.set_custom(kinds_of(change.obj))


def _status_errors(schema: Obj | None, status: Any) -> list[SchemaError]:
    """Errors of a status write: the message names the field within ``status``, the path from the root."""
    if schema is None or status is None:
        return []
    found = structural.validate(schema, status)
    return [SchemaError(f"status.{e.field}" if e.field else "status", e.reason, e.message) for e in found]


def kinds_of(definition: Obj) -> list[tuple[Kind, bool, bool]]:
    """``(kind, served, stored)`` of each version of a CRD."""
    spec, found = definition["spec"], []
    names = spec["names"]
    for version in spec.get("versions") or []:
        gvk = (spec["group"], version["name"], names["kind"])
        present = version.get("subresources") or {}
        kind = Kind(
            group=spec["group"], version=version["name"], kind=names["kind"], plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            short_names=tuple(names.get("shortNames") or ()),
            namespaced=spec.get("scope") == "Namespaced",
            categories=tuple(names.get("categories") or ()),
            verbs=VERBS,
            subresources=tuple(custom_subresource(s, gvk) for s in ("status", "scale") if s in present),
            list_kind=names.get("listKind") or "",
            crd=version,
        )  # fmt: skip
        found.append((kind, bool(version.get("served")), bool(version.get("storage"))))
    return found


def _resource(definition: Obj) -> str:
    return f"{definition['spec']['group']}/{definition['spec']['names']['plural']}"


def _conditions(now: str) -> list[Obj]:
    return [
        {
            "type": "NamesAccepted", "status": "True", "lastTransitionTime": now,
            "reason": "NoConflicts", "message": "no conflicts found",
        },
        {
            "type": "Established", "status": "True", "lastTransitionTime": now,
            "reason": "InitialNamesAccepted", "message": "the initial names have been accepted",
        },
    ]  # fmt: skip


class DefinitionCleaner:
    """Deletes the objects of a CRD that is being deleted, then lets the CRD go."""

    name = "crd-cleaner"

    def __init__(self, kernel: Kernel, delete: Any) -> None:
        self._kernel = kernel
        self._delete = delete  # Api.delete, called with (resource, namespace, name)

    def keys(self, change: Change) -> Iterable[Key]:
        """A CRD itself, or the CRD behind a deleted custom object."""
        if change.key.resource == CRDS:
            return [change.key] if change.obj["metadata"].get("deletionTimestamp") else []
        if change.type == "DELETED" and "/" in change.key.resource:
            group, plural = change.key.resource.split("/")
            key = Key(CRDS, "", f"{plural}.{group}")
            return [key] if self._kernel.store.get(key) is not None else []
        return []

    def reconcile(self, key: Key) -> None:
        """Delete what is left; without anything left, remove the finalizer."""
        store = self._kernel.store
        definition = store.get(key)
        if definition is None or not definition["metadata"].get("deletionTimestamp"):
            return
        resource = _resource(definition)
        for obj in store.list(resource):
            if not obj["metadata"].get("deletionTimestamp"):
                self._delete(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        if store.count(resource):
            return
        meta = dict(definition["metadata"])
        meta["finalizers"] = [f for f in meta.get("finalizers") or [] if f != CLEANUP]
        store.put(key, {**definition, "metadata": meta})
        if not meta["finalizers"]:
            store.remove(key)
