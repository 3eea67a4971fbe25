"""Field management: server-side apply with conflicts, and managedFields of plain writes.

Each ``metadata.managedFields`` entry belongs to one (manager, operation, subresource) and, for updates,
apiVersion. Conflicts, removal of fields no longer applied and co-ownership follow structured-merge-diff.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from aiopslab.sim.core import fieldsets, schema
from aiopslab.sim.core.fieldsets import Paths
from aiopslab.sim.core.schema import KindLike, Node

Obj = dict[str, Any]
APPLY, UPDATE = "Apply", "Update"
BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SYSTEM_METADATA = (
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
    "resourceVersion",
)  # fmt: skip
# Never anybody's: identity and what the server fills in.
SYSTEM_PATHS: Paths = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", f"f:{n}") for n in SYSTEM_METADATA)}
)


class Identity(NamedTuple):
    """Who owns an entry. ``api_version`` is empty for appliers: they keep their entry across versions."""

    operation: str
    manager: str
    api_version: str
    subresource: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One managedFields entry, decoded. ``raw`` is the stored form while nothing changed it."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    paths: Paths
    raw: Obj | None = None

    @property
    def identity(self) -> Identity:
        """The key under which the entry is kept."""
        version = "" if self.operation == APPLY else self.api_version
        return Identity(self.operation, self.manager, version, self.subresource)

    def __str__(self) -> str:
        """How conflict messages name the manager: ``"kubectl-edit" using apps/v1``."""
        text = json.dumps(self.manager)
        if self.subresource:
            text += f" with subresource {json.dumps(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class Conflict(NamedTuple):
    """A field that another manager owns with another value. ``manager`` is quoted as messages show it."""

    manager: str
    field: str


class ApplyConflict(Exception):
    """Server-side apply met fields of other managers; ``conflicts`` in order, ``causes`` for the Status."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        super().__init__(conflict_message(conflicts))
        self.conflicts = conflicts

    @property
    def message(self) -> str:
        """The Status message."""
        return str(self)

    @property
    def causes(self) -> list[dict[str, str]]:
        """``details.causes`` of the Status."""
        return [
            {"reason": "FieldManagerConflict", "message": f"conflict with {c.manager}", "field": c.field}
            for c in self.conflicts
        ]


def conflict_message(conflicts: list[Conflict]) -> str:
    """The message of the 409: one line for one conflict, else grouped by manager."""
    if len(conflicts) == 1:
        only = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {only.manager}: {only.field}"
    groups = []
    for manager in sorted({c.manager for c in conflicts}):
        fields = "\n".join(f"- {c.field}" for c in conflicts if c.manager == manager)
        groups.append(f"conflicts with {manager}:\n{fields}")
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(groups)


def apply(  # noqa: PLR0913 - one operation of the API with all its options
    live: Obj | None,
    applied: Obj,
    manager: str,
    api_version: str,
    now: str,
    *,
    force: bool = False,
    subresource: str = "",
    kind: KindLike | None = None,
) -> Obj:
    """Server-side apply of ``applied`` on ``live`` (None creates).

    Returns the merged object with managedFields, before defaulting. ``now`` is the RFC 3339 time of the entry.
    ``kind`` is needed for custom resources only (its ``crd`` schema); otherwise the object names its kind.
    Raises ApplyConflict unless ``force``.
    """
    node = _node(kind, applied)
    before = live or {}
    config = _without_nulls(applied)
    entries = _entries(before)
    if live is not None and not entries:
        first = frozenset(fieldsets.compare({}, before, node).added - SYSTEM_PATHS)
        since = before["metadata"].get("creationTimestamp", now)
        entry = Entry(BEFORE_FIRST_APPLY, UPDATE, api_version, "", since, first)
        entries[entry.identity] = entry
    hidden = _hidden(kind, node, subresource)
    stated = fieldsets.paths_of(config, node) - SYSTEM_PATHS
    states = frozenset(path for path in stated if path[0] not in hidden)
    mine = Entry(manager, APPLY, api_version, subresource, now, states)
    last = entries.get(mine.identity)
    entries[mine.identity] = mine
    merged = fieldsets.merge(before, config, node)
    if last is not None and last.paths:
        merged = _pruned(merged, entries, last.paths, node)
    allowed = _allowed(before, node) if manager == KUBECTL else frozenset()
    difference = fieldsets.compare(before, merged, node)
    _yield_fields(entries, mine.identity, difference, force=force, allowed=allowed)
    if last is not None and not any(difference) and (last.paths, last.api_version) == (states, api_version):
        entries[mine.identity] = last  # nothing happened: the time stays
    if kind is None or getattr(kind, "crd", None) is None:
        merged = schema.typed(merged, schema.gvk_of(merged))
    if manager == KUBECTL and _last_applied(merged):
        merged = _with_last_applied(merged, applied)
    return _with_entries(merged, entries, mine.identity)


def track_update(  # noqa: PLR0913 - one operation of the API with all its options
    old: Obj | None,
    new: Obj,
    manager: str,
    api_version: str,
    now: str,
    subresource: str = "",
    *,
    kind: KindLike | None = None,
) -> Obj:
    """``new`` with managedFields after a plain write: the fields that changed move to ``manager``.

    managedFields that ``new`` itself carries are the base (clients may edit them, and ``[{}]`` clears them), else
    those of ``old``.
    Returns ``new`` itself when no entry changes.
    """
    if old == new:
        return new
    node = _node(kind, new)
    reset = new.get("metadata", {}).get("managedFields") == [{}]
    entries = {} if reset else _entries(new) or _entries(old or {})
    difference = fieldsets.compare(old or {}, new, node)
    taken = frozenset((difference.added | difference.modified) - SYSTEM_PATHS)
    operation = Entry(manager, UPDATE, api_version, subresource, now, taken)
    _yield_fields(entries, operation.identity, difference, force=True)
    previous = entries.get(operation.identity)
    if previous is not None:
        kept = previous.paths - difference.removed
        if taken or kept != previous.paths:
            time = now if taken else previous.time
            operation = replace(operation, time=time, paths=kept | taken, raw=None)
            entries[operation.identity] = operation
    elif taken:
        entries[operation.identity] = operation
    return _with_entries(new, entries, operation.identity)


def _node(kind: KindLike | None, obj: Obj) -> Node:
    if kind is None:
        return schema.node_of(obj)
    return schema.node_for(kind) or schema.ANY_OBJECT


def _entries(obj: Obj) -> dict[Identity, Entry]:
    found: dict[Identity, Entry] = {}
    for raw in obj.get("metadata", {}).get("managedFields") or ():
        if not raw.get("operation"):
            continue  # the empty entry with which clients ask for a reset
        entry = Entry(
            raw.get("manager", ""),
            raw["operation"],
            raw.get("apiVersion", ""),
            raw.get("subresource", ""),
            raw.get("time") or "",
            fieldsets.decode(raw.get("fieldsV1") or {}),
            raw,
        )
        found[entry.identity] = entry
    return found


def _hidden(kind: KindLike | None, node: Node, subresource: str) -> tuple[str, ...]:
    """First path elements that an applier on this path cannot own."""
    if subresource:
        return ("f:spec",) if subresource == "status" else ()
    crd = getattr(kind, "crd", None)
    has_status = "status" in node.known if crd is None else "status" in crd.get("subresources", {})
    return ("f:status",) if has_status else ()


def _yield_fields(
    entries: dict[Identity, Entry],
    me: Identity,
    difference: fieldsets.Comparison,
    *,
    force: bool,
    allowed: Paths = frozenset(),
) -> None:
    """Take changed fields from the other managers, or raise ApplyConflict; drop removed ones from all."""
    changed = difference.added | difference.modified
    lost = {i: entry.paths & changed for i, entry in entries.items() if i != me}
    if not force and any(paths - allowed for paths in lost.values()):
        raise ApplyConflict(
            [
                Conflict(str(entries[identity]), fieldsets.display(path))
                for identity in sorted(lost, key=str)
                for path in sorted(lost[identity] - allowed, key=fieldsets.order)
            ]
        )
    for identity, paths in lost.items():
        entry = entries[identity]
        kept = entry.paths - paths - difference.removed
        if not kept:
            del entries[identity]
        elif len(kept) != len(entry.paths):
            entries[identity] = replace(entry, paths=kept, raw=None)


def _pruned(merged: Obj, entries: dict[Identity, Entry], last: Paths, node: Node) -> Obj:
    """``merged`` without what this manager applied last time, unless somebody (still) owns it."""
    named_last = fieldsets.with_named_parents(last, node)
    pruned = fieldsets.without(merged, named_last, node) or {}
    present = fieldsets.with_named_parents(fieldsets.paths_of(merged, node), node)
    gone = present - fieldsets.with_named_parents(fieldsets.paths_of(pruned, node), node)
    owned = fieldsets.with_named_parents({path for e in entries.values() for path in e.paths}, node)
    result: Obj = fieldsets.without(merged, (gone - owned) & named_last, node)
    return result


def _with_entries(obj: Obj, entries: dict[Identity, Entry], acting: Identity) -> Obj:
    """``obj`` with the entries by operation and time; of one second, the acting manager's is the latest."""
    meta = obj.get("metadata", {})
    present = meta.get("managedFields") or []
    kept = [entry for entry in entries.values() if entry.paths]
    if len(kept) == len(present) and all(entry.raw in present for entry in kept):
        return obj
    kept.sort(key=lambda e: (e.operation, e.time, e.identity == acting and e.raw is None, e.manager, e.identity))
    encoded = [entry.raw if entry.raw is not None else _encode(entry) for entry in kept]
    meta = {key: value for key, value in meta.items() if key != "managedFields"}
    if encoded:
        meta["managedFields"] = encoded
    return {**obj, "metadata": meta}


def _encode(entry: Entry) -> Obj:
    raw = {
        "manager": entry.manager,
        "operation": entry.operation,
        "apiVersion": entry.api_version,
        "time": entry.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fieldsets.encode(entry.paths),
    }
    if entry.subresource:
        raw["subresource"] = entry.subresource
    return raw


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _last_applied(obj: Obj) -> str:
    annotations = obj.get("metadata", {}).get("annotations") or {}
    return str(annotations.get(LAST_APPLIED, ""))


def _allowed(live: Obj, node: Node) -> Paths:
    """Fields that client-side apply set and nobody changed since: kubectl may take them over."""
    text = _last_applied(live)
    try:
        config = json.loads(text) if text else None
    except ValueError:
        return frozenset()
    if not isinstance(config, dict):
        return frozenset()
    difference = fieldsets.compare(config, live, node)
    return frozenset(fieldsets.paths_of(config, node)) - difference.modified - difference.added - difference.removed


def _with_last_applied(merged: Obj, applied: Obj) -> Obj:
    """Keep client-side apply's annotation in step with what kubectl applied on the server."""
    meta = {key: value for key, value in applied.get("metadata", {}).items() if key != "managedFields"}
    if "annotations" in meta:
        meta["annotations"] = {k: v for k, v in (meta["annotations"] or {}).items() if k != LAST_APPLIED}
    text = json.dumps({**applied, "metadata": meta}, separators=(",", ":"), sort_keys=True) + "\n"
    annotations = {**merged["metadata"]["annotations"], LAST_APPLIED: text}
    return {**merged, "metadata": {**merged["metadata"], "annotations": annotations}}
