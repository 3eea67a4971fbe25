"""Whether a server-side apply body fits the schema of its kind, in the words of the typed-object library."""

from __future__ import annotations

import json
from typing import Any

from aiopslab.sim.core.schema.nodes import INT_OR_STRING, QUANTITY, KindLike, Node, node_for

Obj = dict[str, Any]
UNTYPED = (QUANTITY, INT_OR_STRING)
_GO_NAMES = {str: "string", bool: "bool", int: "int64", float: "float64", list: "[]interface {}"}


def applied_error(applied: Obj, kind: KindLike) -> str | None:
    """The first value of a wrong type, or None: ``.spec.replicas: expected numeric (int or float), got string``."""
    node = node_for(kind)
    if node is None or getattr(kind, "crd", None) is not None:
        return None
    return _error(applied, node, "")


def _error(value: Any, node: Node, path: str) -> str | None:
    if value is None or node.shape == "any":
        return None
    if node.shape == "scalar":
        why = _scalar(value, node)
        return f"{path}: {why}" if why else None
    if node.shape == "list":
        if not isinstance(value, list):
            return f"{path}: expected list, got &{{{_shown(value)}}}"
        parts = ((item, node.elem, path + _index(item, number, node)) for number, item in enumerate(value))
    else:
        if not isinstance(value, dict):
            return f"{path}: expected map, got &{{{_shown(value)}}}"
        parts = ((v, child, f"{path}.{k}") for k, v in value.items() if (child := node.field(k)) is not None)
    return next((error for part in parts if (error := _error(*part)) is not None), None)


def _index(item: Any, number: int, node: Node) -> str:
    keys = node.item_key(item) if node.list_type == "map" else {}
    if not keys:
        return f"[{number}]"
    return "[" + ",".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in sorted(keys.items())) + "]"


def _scalar(value: Any, node: Node) -> str:
    if node.name in UNTYPED:
        return f"expected scalar, got {_go_type(value)}" if isinstance(value, dict | list) else ""
    if node.type in ("integer", "number"):
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        return "" if fits else f"expected numeric (int or float), got {_go_type(value)}"
    wanted = {"boolean": bool, "string": str}.get(node.type)
    if wanted is None or isinstance(value, wanted):
        return ""
    return f"expected {node.type}, got &value.valueUnstructured{{Value:{_shown(value)}}}"


def _go_type(value: Any) -> str:
    return _GO_NAMES.get(type(value), "map[string]interface {}")


def _shown(value: Any) -> str:
    """A value as Go prints it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "map[" + " ".join(f"{k}:{_shown(v)}" for k, v in sorted(value.items())) + "]"
    if isinstance(value, list):
        return "[" + " ".join(_shown(v) for v in value) + "]"
    return "<nil>" if value is None else str(value)
