"""Objects as answers: lists, Tables, PartialObjectMetadata, watch events."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core import tables
from aiopslab.sim.core.conversion import outward
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.server.negotiate import Representation

Obj = dict[str, Any]


class Renderer:
    """Shows objects of one kind in one representation. ``include`` is the Table option ``includeObject``."""

    def __init__(self, kind: Kind, shape: Representation, now: float, include: str = "") -> None:
        self._kind = kind
        self._shape = shape
        self._now = now
        self._include = include or "Metadata"
        self._columns_sent = False

    def one(self, obj: Obj) -> Obj:
        """A single object."""
        shown = outward(obj, self._kind)
        if self._shape.view == "Table":
            return self._table([shown], {"resourceVersion": obj["metadata"].get("resourceVersion", "")})
        if self._shape.view:
            return _partial(shown, self._meta_version)
        return shown

    def many(self, objs: list[Obj], meta: Obj) -> Obj:
        """A list with the given list metadata."""
        shown = [outward(o, self._kind) for o in objs]
        if self._shape.view == "Table":
            return self._table(shown, meta)
        if self._shape.view:
            items = [_partial(o, self._meta_version) for o in shown]
            return {
                "kind": "PartialObjectMetadataList", "apiVersion": self._meta_version, "metadata": meta,
                "items": items,
            }  # fmt: skip
        if self._kind.crd is None:
            shown = [{k: v for k, v in o.items() if k not in ("kind", "apiVersion")} for o in shown]
        return {
            "kind": self._kind.list_name, "apiVersion": self._kind.api_version, "metadata": meta, "items": shown,
        }  # fmt: skip

    def event(self, obj: Obj) -> Obj:
        """The object of a watch event: a one-row Table has its columns only the first time."""
        shown = self.one(obj)
        if self._shape.view == "Table":
            if self._columns_sent:
                shown = {**shown, "columnDefinitions": None}
            self._columns_sent = True
        return shown

    def bookmark(self, revision: int, initial_end: bool) -> Obj:
        """The object of a BOOKMARK event."""
        meta: Obj = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        if self._shape.view == "Table":
            partial = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": meta}
            row: Obj = {"cells": [], "object": partial if initial_end else None}
            return {
                "kind": "Table", "apiVersion": self._meta_version,
                "metadata": {"resourceVersion": str(revision)}, "columnDefinitions": None, "rows": [row],
            }  # fmt: skip
        if self._shape.view:
            return {"kind": "PartialObjectMetadata", "apiVersion": self._meta_version, "metadata": meta}
        return {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": meta}

    def set_now(self, now: float) -> None:
        """Ages from now on are counted to ``now`` (Unix seconds)."""
        self._now = now

    @property
    def _meta_version(self) -> str:
        return f"meta.k8s.io/{self._shape.view_version}"

    def _table(self, objs: list[Obj], meta: Obj) -> Obj:
        table = tables.table(self._kind, objs, self._now, self._include)
        return {**table, "apiVersion": self._meta_version, "metadata": meta}


def _partial(obj: Obj, api_version: str) -> Obj:
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": obj["metadata"]}
