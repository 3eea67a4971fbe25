"""``meta.k8s.io/v1`` Tables: what ``kubectl get`` prints, made by the server."""

from __future__ import annotations

from typing import Any, Literal

from aiopslab.sim.core.schema import KindLike
from aiopslab.sim.core.tables import cluster, extensions, network, workloads
from aiopslab.sim.core.tables.columns import Layout
from aiopslab.sim.core.tables.custom import layout_of
from aiopslab.sim.core.tables.pods import POD, pod_status
from aiopslab.sim.core.tables.text import human_duration

__all__ = ["human_duration", "pod_status", "table"]

Obj = dict[str, Any]
IncludeObject = Literal["Metadata", "Object", "None"]
META_VERSION = "meta.k8s.io/v1"
_LAYOUTS: dict[tuple[str, str], Layout] = {
    ("", "Pod"): POD,
    **workloads.LAYOUTS,
    **network.LAYOUTS,
    **cluster.LAYOUTS,
    **extensions.LAYOUTS,
}


def table(
    kind: KindLike, objs: list[Obj], now: float, include_object: IncludeObject | str = "Metadata"
) -> Obj:
    """A Table of ``objs`` with the columns of ``kind`` (wide ones have priority 1).

    ``now`` is Unix seconds, ages count to it. ``include_object`` is the request's ``includeObject``: rows carry
    a PartialObjectMetadata, the whole object, or nothing. The caller sets list metadata.
    """
    layout = _layout(kind)
    rows = [_row(layout, obj, now, include_object or "Metadata") for obj in objs]
    return {
        "kind": "Table",
        "apiVersion": META_VERSION,
        "metadata": {},
        "columnDefinitions": [column.definition() for column in layout.columns],
        "rows": rows,
    }


def _layout(kind: KindLike) -> Layout:
    crd = getattr(kind, "crd", None)
    if crd is not None:
        return layout_of(crd)
    return _LAYOUTS.get((kind.group, kind.kind), cluster.DEFAULT)


def _row(layout: Layout, obj: Obj, now: float, include_object: str) -> Obj:
    row: Obj = {"cells": layout.cells(obj, now)}
    if include_object == "Object":
        row["object"] = obj
    elif include_object == "Metadata":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": META_VERSION,
            "metadata": obj["metadata"],
        }
    return row
