"""The Kubernetes API without sockets: what each verb does to the store.

Order of a write, as on a real API server: name and namespace, first values, defaults, mutating admission,
validation, validating admission, uniqueness or version conflict, managedFields, store. A write that changes
nothing keeps its resourceVersion. Controllers and the kubelet use ``put`` and ``put_status``, which skip
admission and validation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core import decoding, defaults, ssa, strategy
from aiopslab.sim.core import validate as validators
from aiopslab.sim.core.admission import Admission, Attempt
from aiopslab.sim.core.allocate import allocate_service
from aiopslab.sim.core.apierrors import (
    ApiError,
    Cause,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_object,
    not_found,
)  # fmt: skip
from aiopslab.sim.core.conversion import inward, is_old_autoscaler, outward
from aiopslab.sim.core.crd import CustomResources
from aiopslab.sim.core.deletion import Deleter
from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.kinds import Kind, Kinds
from aiopslab.sim.core.options import DeleteOptions, WriteOptions
from aiopslab.sim.core.patch import clone
from aiopslab.sim.core.patching import applied_object, patched
from aiopslab.sim.core.recorder import EventSource, Recorder, expire_event
from aiopslab.sim.core.selectors import FieldSelector, Selector
from aiopslab.sim.core.store import Key
from aiopslab.sim.core.tokens import Tokens
from aiopslab.sim.core.validate.warnings import warn

__all__ = ["Api", "ApiError", "DeleteOptions", "EventSource", "WriteOptions"]

Obj = dict[str, Any]

GENERATED_SUFFIX_CHARS = 5
GENERATED_PREFIX_MAX = 58  # longer prefixes are cut, so that names stay within 63 characters


class Api:
    """Reads and writes of one cluster. Methods raise ``ApiError``; returned objects must not be changed."""

    def __init__(self, kernel: Kernel, kinds: Kinds) -> None:
        self.kernel = kernel
        self.kinds = kinds
        self.store = kernel.store
        self.recorder = Recorder(kernel)
        self.custom = CustomResources(kernel.store, kinds)
        self.admission = Admission(self)
        self.tokens = Tokens(kernel)
        self._deleter = Deleter(self)
        self._created: dict[Key, int] = {}
        self._generated: dict[tuple[str, str, str], int] = {}

    # Reads ----------------------------------------------------------------------------------------------

    def get(self, resource: str, namespace: str, name: str) -> Obj:
        """One object. Raises NotFound."""
        found = self.store.get(Key(resource, namespace, name))
        if found is None:
            raise not_found(self.kind(resource), name)
        return found

    def list(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        labels: Selector | None = None,
        fields: FieldSelector | None = None,
    ) -> list[Obj]:
        """Objects by namespace and name; ``namespace=None`` means all of them."""
        found = self.store.list(resource, namespace)
        if labels:
            found = [o for o in found if labels.matches(o["metadata"].get("labels"))]
        if fields:
            found = [o for o in found if fields.matches(o)]
        return found

    def kind(self, resource: str) -> Kind:
        """The kind stored under a resource. Raises BadRequest for resources that are not served."""
        try:
            return self.kinds.by_resource(resource)
        except KeyError:
            raise bad_request(f"the cluster serves no resource {resource!r}") from None

    # Writes by clients ----------------------------------------------------------------------------------

    def create(self, resource: str, namespace: str, obj: Obj, opts: WriteOptions) -> Obj:
        """Create with defaults, admission and validation. The object's own namespace must agree."""
        return self._create(self.kind(resource), namespace, obj, opts, tracked=False)

    def update(
        self, resource: str, namespace: str, name: str, obj: Obj, opts: WriteOptions, subresource: str = ""
    ) -> Obj:
        """Replace. With ``resourceVersion`` set the write is conditional; ``subresource`` narrows it."""
        kind = self.kind(resource)
        new = self._identified(kind, namespace, name, obj)
        old = self.store.get(Key(resource, namespace, name))
        if old is None:
            if strategy.may_create_on_update(kind) and not subresource:
                return self.create(resource, namespace, obj, opts)
            raise not_found(kind, name)
        if not new["metadata"].get("resourceVersion") and strategy.needs_version_on_update(kind):
            raise _version_required(kind, name)
        uid = new["metadata"].get("uid")
        if uid and uid != old["metadata"].get("uid"):
            mine = old["metadata"]["uid"]
            raise conflict(
                kind, name, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {mine}"
            )
        return self._replace(Attempt(kind, new, old, subresource, opts))

    def patch(  # noqa: PLR0913  what a PATCH carries
        self,
        resource: str,
        namespace: str,
        name: str,
        patch_type: str,
        body: Any,
        opts: WriteOptions,
        subresource: str = "",
    ) -> Obj:
        """Patch with ``json``, ``merge``, ``strategic`` or ``apply``. Apply creates an absent object."""
        kind = self.kind(resource)
        shown = opts.served if opts.served is not None and opts.served.storage else kind
        old = self.store.get(Key(resource, namespace, name))
        if patch_type == "apply":
            applied = applied_object(shown, body, namespace, name)
            decoding.check_applied(shown, applied, opts)
            applied = inward(applied, shown)
            return self._apply(Attempt(kind, applied, old, subresource, opts, tracked=True))
        if old is None:
            raise not_found(kind, name)
        new = patched(shown, outward(old, shown), patch_type, body)
        if opts.user is not None:
            new = decoding.check_patched(shown, new, body, patch_type, opts, self.custom)
        new = inward(new, shown)
        meta = new.get("metadata") or {}
        if meta.get("name") != name:
            own = meta.get("name", "")
            raise bad_request(f"the name of the object ({own}) does not match the name on the URL ({name})")
        return self._replace(Attempt(kind, clone(new), old, subresource, opts))

    def delete(self, resource: str, namespace: str, name: str, opts: DeleteOptions) -> tuple[Obj, bool]:
        """Delete gracefully. Returns the object (or its last state) and whether it is gone now."""
        kind = self.kind(resource)
        old = self.store.get(Key(resource, namespace, name))
        if old is None:
            raise not_found(kind, name)
        if opts.user is not None:
            self.admission.deleting(kind, old, opts)
        return self._deleter.delete(kind, old, opts)

    # Writes by the cluster itself -----------------------------------------------------------------------

    def put(self, key: Key, obj: Obj, manager: str) -> Obj:
        """Store as it is (created when absent), with managedFields; nothing happens when nothing changed."""
        kind = self.kind(key.resource)
        old = self.store.get(key)
        opts = WriteOptions(manager)
        if old is None:
            return self._store_new(Attempt(kind, obj, None, "", opts))
        meta = {**obj["metadata"]}
        for field in ("uid", "creationTimestamp", "managedFields", "generation"):
            if field in old["metadata"]:
                meta.setdefault(field, old["metadata"][field])
        new = {**obj, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
        if strategy.has_generation(kind) and strategy.asked(new) != strategy.asked(old):
            meta["generation"] = old["metadata"].get("generation", 0) + 1
        return self._store_change(Attempt(kind, new, old, "", opts))

    def put_status(self, key: Key, status_changes: Callable[[Obj], Obj] | Obj, manager: str) -> Obj:
        """Change the status. A callable gets the stored object and returns the changed one; a plain dict is
        the new status. Raises NotFound when the object is gone."""
        kind = self.kind(key.resource)
        old = self.store.get(key)
        if old is None:
            raise not_found(kind, key.name)
        new = status_changes(old) if callable(status_changes) else {**old, "status": status_changes}
        subresource = "status" if kind.has_status else ""
        return self._store_change(Attempt(kind, new, old, subresource, WriteOptions(manager)))

    def event(  # noqa: PLR0913  the fields of an event
        self,
        involved: Obj,
        type: str,
        reason: str,
        message: str,
        component: str,
        *,
        host: str = "",
        field_path: str = "",
        action: str = "",
        annotations: dict[str, str] | None = None,
    ) -> None:
        """Record an event about an object; equal ones are counted. ``action`` makes it a new-style event."""
        source = EventSource(component, host, action, annotations)
        self.recorder.record(involved, (type, reason, message), source, field_path)

    # Names and namespaces -------------------------------------------------------------------------------

    def _named(self, kind: Kind, namespace: str, obj: Obj, dry_run: bool) -> Obj:
        """A private copy with the right apiVersion, kind, namespace and a name."""
        new: Obj = clone(obj)
        new["apiVersion"], new["kind"] = kind.api_version, kind.kind
        meta = new["metadata"] = dict(new.get("metadata") or {})
        _check_own_namespace(meta, namespace)
        if kind.namespaced:
            meta["namespace"] = namespace
        else:
            meta.pop("namespace", None)
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = self._generate(kind, namespace, meta["generateName"], dry_run)
        return new

    def _generate(self, kind: Kind, namespace: str, prefix: str, dry_run: bool) -> str:
        """``prefix`` and a suffix that no object of this prefix has had before."""
        slot = (kind.resource, namespace, prefix)
        count = self._generated.get(slot, 0)
        while True:
            count += 1
            suffix = self.kernel.ids.suffix(GENERATED_SUFFIX_CHARS, *slot, count)
            name = prefix[:GENERATED_PREFIX_MAX] + suffix
            if self.store.get(Key(kind.resource, namespace, name)) is None:
                break
        if not dry_run:
            self._generated[slot] = count
        return name

    def _uid(self, key: Key) -> str:
        """The uid of the next object of this name: depends on how many of that name there were."""
        return self.kernel.ids.uid(*key, self._created.get(key, 0))

    def _identified(self, kind: Kind, namespace: str, name: str, obj: Obj) -> Obj:
        """A private copy of a PUT body whose name and namespace agree with the path."""
        new: Obj = clone(obj)
        new["apiVersion"], new["kind"] = kind.api_version, kind.kind
        meta = new["metadata"] = dict(new.get("metadata") or {})
        own = meta.get("name") or ""
        if own and own != name:
            raise bad_request(f"the name of the object ({own}) does not match the name on the URL ({name})")
        _check_own_namespace(meta, namespace)
        meta["name"] = name
        if kind.namespaced:
            meta["namespace"] = namespace
        return new

    def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        if not kind.namespaced:
            return
        holder = self.store.get(Key("namespaces", "", namespace))
        if holder is None:
            raise not_found(self.kinds.by_resource("namespaces"), namespace)
        if holder["metadata"].get("deletionTimestamp") and kind.resource != "events":
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            error = forbidden(kind, name, why)
            cause = Cause(
                "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
            )
            error.status["details"]["causes"] = [cause._asdict()]
            raise error

    # Steps of a write -----------------------------------------------------------------------------------

    def _create(self, kind: Kind, namespace: str, obj: Obj, opts: WriteOptions, *, tracked: bool) -> Obj:
        new = self._named(kind, namespace, obj, opts.dry_run)
        name = new["metadata"].get("name", "")
        self._check_namespace(kind, namespace, name)
        attempt = Attempt(kind, new, None, "", opts, tracked)
        self.admission.check_escalation(attempt)
        new = strategy.prepare_create(kind, new)
        if name:
            new["metadata"]["uid"] = self._uid(Key(kind.resource, namespace, name))
        attempt.obj = self._default(kind, new, None)
        self._track(attempt)
        if kind.resource == "batch/jobs":
            attempt.obj = strategy.select_own_pods(attempt.obj)
        new = self.admission.mutate(attempt)
        if kind.resource == "pods":
            new["status"]["qosClass"] = strategy.qos_class(new["spec"])
        if kind.resource == "services":
            attempt.obj = allocate_service(self.store, self.kernel.ids, new, None)
        self._validate(attempt)
        if self.store.get(Key(kind.resource, namespace, name)) is not None:
            raise already_exists(kind, name)
        self.admission.validate(attempt)
        return self._store_new(attempt)

    def _replace(self, attempt: Attempt) -> Obj:
        """The common end of update and patch: everything from conflict check to store."""
        kind, new, old = attempt.kind, attempt.obj, attempt.old
        assert old is not None
        version = new["metadata"].get("resourceVersion", "")
        if version and version != old["metadata"]["resourceVersion"]:
            raise conflict(kind, old["metadata"]["name"])
        self.admission.check_escalation(attempt)
        uid = new["metadata"].get("uid")
        if uid and uid != old["metadata"].get("uid"):
            cause = Cause("FieldValueInvalid", f'Invalid value: "{uid}": field is immutable', "metadata.uid")
            raise invalid((kind.kind, kind.group), old["metadata"]["name"], [cause])
        merged = strategy.prepare_update(kind, new, old, attempt.subresource)
        attempt.obj = self._default(kind, merged, old)
        self._track(attempt)
        merged = self.admission.mutate(attempt)
        if kind.resource == "services" and not attempt.subresource:
            merged = attempt.obj = allocate_service(self.store, self.kernel.ids, merged, old)
        if strategy.has_generation(kind) and attempt.subresource != "status":
            changed = strategy.asked(merged) != strategy.asked(old)
            merged["metadata"]["generation"] = old["metadata"].get("generation", 0) + changed
        self._validate(attempt)
        self.admission.validate(attempt)
        return self._store_change(attempt)

    def _apply(self, attempt: Attempt) -> Obj:
        kind, old, opts, applied = attempt.kind, attempt.old, attempt.opts, attempt.obj
        meta = applied["metadata"]
        if old is None:
            if attempt.subresource:
                raise not_found(kind, meta["name"])
            if meta.get("uid"):
                why = f"uid mismatch: the provided object specified uid {meta['uid']}, "
                why += "and no existing object was found"
                raise conflict(kind, meta["name"], why)
            merged = self._merge_applied(attempt, None, applied)
            return self._create(kind, meta.get("namespace", ""), merged, opts, tracked=True)
        version = meta.pop("resourceVersion", "")
        if version and version != old["metadata"]["resourceVersion"]:
            raise conflict(kind, meta["name"])
        merged = self._merge_applied(attempt, old, applied)
        return self._replace(Attempt(kind, merged, old, attempt.subresource, opts, tracked=True))

    def _merge_applied(self, attempt: Attempt, live: Obj | None, applied: Obj) -> Obj:
        try:
            merged = ssa.apply(
                live, applied, attempt.opts.manager, attempt.kind.api_version, self.kernel.timestamp(),
                force=attempt.opts.force, subresource=attempt.subresource, kind=attempt.kind,
            )  # fmt: skip
        except ssa.ApplyConflict as error:
            raise decoding.apply_conflict(error) from None
        return clone(merged)

    def _default(self, kind: Kind, obj: Obj, old: Obj | None) -> Obj:
        if kind.crd is not None:
            return self.custom.default(kind, obj)
        obj = defaults.default(obj, kind)
        if self.custom.is_definition(kind):
            return self.custom.prepare(obj, old, self.kernel.timestamp())
        return obj

    def _track(self, attempt: Attempt) -> None:
        """Note in managedFields what the client wrote: after defaulting, before anything is injected."""
        if attempt.tracked:
            return
        attempt.tracked = True
        kind, new, now = attempt.kind, attempt.obj, self.kernel.timestamp()
        shown = new
        if attempt.old is None:
            shown = {**new, "metadata": {k: v for k, v in new["metadata"].items() if k != "managedFields"}}
            if kind.has_status:
                shown.pop("status", None)
        tracked = ssa.track_update(
            attempt.old, shown, attempt.opts.manager, kind.api_version, now, attempt.subresource, kind=kind
        )
        meta = dict(new["metadata"])
        meta.pop("managedFields", None)
        if fields := tracked["metadata"].get("managedFields"):
            meta["managedFields"] = fields
        attempt.obj = {**new, "metadata": meta}

    def _validate(self, attempt: Attempt) -> None:
        kind, new, old, part = attempt.kind, attempt.obj, attempt.old, attempt.subresource
        shown = attempt.opts.served
        if shown is not None and shown.storage and not is_old_autoscaler(shown):
            before = None if old is None else outward(old, shown)
            errors: list[Any] = list(validators.validate(outward(new, shown), shown, before, part))
        else:
            errors = list(validators.validate(new, kind, old, part))
        if kind.crd is not None:
            errors += self.custom.validate(kind, new, old, part)
        if errors:
            raise invalid_object(kind, new["metadata"].get("name", ""), errors)
        if attempt.opts.user is not None:
            attempt.opts.warnings += warn(new, kind, old, part)

    def _store_new(self, attempt: Attempt) -> Obj:
        self._track(attempt)
        kind, obj, opts = attempt.kind, attempt.obj, attempt.opts
        meta = dict(obj["metadata"])
        key = Key(kind.resource, meta.get("namespace", ""), meta["name"])
        meta["uid"] = self._uid(key)
        meta["creationTimestamp"] = self.kernel.timestamp()
        new = {**obj, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
        if opts.dry_run:
            return new
        self._created[key] = self._created.get(key, 0) + 1
        stored = self.store.put(key, new)
        if key.resource == "events":
            expire_event(self.kernel, key)
        return stored

    def _store_change(self, attempt: Attempt) -> Obj:
        """Store a changed object; keep the old one when nothing changed; finish a deletion when nothing
        holds the object any more."""
        kind, old, opts = attempt.kind, attempt.old, attempt.opts
        assert old is not None
        if unchanged(old, attempt.obj):
            return old
        self._track(attempt)
        new, meta = attempt.obj, old["metadata"]
        key = Key(kind.resource, meta.get("namespace", ""), meta["name"])
        if opts.dry_run:
            return new
        if self._deleter.released(kind, new):
            self.store.put(key, new)
            return self.store.remove(key) or new
        stored = self.store.put(key, new)
        if key.resource == "events":
            expire_event(self.kernel, key)
        return stored


def unchanged(old: Obj, new: Obj) -> bool:
    """Equal but for resourceVersion and the times in managedFields."""
    if old is new:
        return True
    if len(old) != len(new) or any(old.get(k) != v for k, v in new.items() if k != "metadata"):
        return False
    return _comparable(old["metadata"]) == _comparable(new["metadata"])


def _comparable(meta: Obj) -> Obj:
    kept = {k: v for k, v in meta.items() if k not in ("resourceVersion", "managedFields")}
    kept["managedFields"] = [
        {k: v for k, v in entry.items() if k != "time"} for entry in meta.get("managedFields") or []
    ]
    return kept


def _check_own_namespace(meta: Obj, namespace: str) -> None:
    if (meta.get("namespace") or namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def _version_required(kind: Kind, name: str) -> ApiError:
    """The server names the resource here, not the kind."""
    cause = Cause(
        "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
    )
    return invalid((kind.plural, kind.group), name, [cause])
