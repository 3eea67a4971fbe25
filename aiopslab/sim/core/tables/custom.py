"""Tables of custom resources: Name and the CRD's ``additionalPrinterColumns``."""

from __future__ import annotations

import json
from typing import Any

from aiopslab.sim.core.tables import jsonpath
from aiopslab.sim.core.tables.columns import NAME, Cells, Column, Layout
from aiopslab.sim.core.tables.text import since

Obj = dict[str, Any]
AGE_ONLY = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]


def layout_of(version: Obj) -> Layout:
    """The layout of one ``spec.versions[]`` entry of a CustomResourceDefinition."""
    declared: list[Obj] = version.get("additionalPrinterColumns") or AGE_ONLY
    columns = [
        Column(
            item["name"],
            item["type"],
            item.get("format", ""),
            item.get("description") or _description(item["jsonPath"]),
            item.get("priority", 0),
        )
        for item in declared
    ]

    def cells(obj: Obj, now: float) -> Cells:
        return [obj["metadata"]["name"], *(_cell(obj, item, now) for item in declared)]

    return Layout((NAME, *columns), cells)


def _description(path: str) -> str:
    return f"Custom resource definition column (in JSONPath format): {path}"


def _cell(obj: Obj, column: Obj, now: float) -> Any:
    try:
        found = jsonpath.find(column["jsonPath"], obj)
    except jsonpath.PathError:
        return None
    if not found:
        return None
    value, kind = found[0], column["type"]
    if kind == "string":
        return _text(value)
    if kind == "date":
        return _date(value, now)
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _date(value: Any, now: float) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        return since(value, now)
    except ValueError:
        return "<invalid>"
