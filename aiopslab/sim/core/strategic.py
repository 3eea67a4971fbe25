"""Strategic merge: maps merge field by field, lists by their merge key, under the schema's strategies.

Directives understood, all removed from the result: ``$patch: replace|delete|merge`` in a map or in an item,
``$retainKeys``, ``$setElementOrder/<list>``, ``$deleteFromPrimitiveList/<list>``.
"""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core.schema import ANY, Node

Obj = dict[str, Any]
DIRECTIVE = "$patch"
RETAIN = "$retainKeys"
ORDER = "$setElementOrder/"
DELETE = "$deleteFromPrimitiveList/"


class StrategicError(Exception):
    """A patch that breaks the rules of its own format."""

    def __init__(self, message: str, code: int = 400, reason: str = "BadRequest") -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


def merge_map(original: Obj, patch: Obj, node: Node) -> Obj:
    """Merge ``patch`` (consumed) into a copy of ``original``."""
    directive = patch.pop(DIRECTIVE, None)
    if directive == "replace":
        return clean(patch)
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise StrategicError(f"unknown patch type: {directive}", 500, "InternalError")
    result = _retained(original, patch)
    for key in [key for key in patch if key.startswith(DELETE)]:
        _delete_scalars(result, key.removeprefix(DELETE), patch.pop(key))
    for key in [key for key in patch if key.startswith(ORDER)]:
        _order_list(result, patch, key.removeprefix(ORDER), node)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge_value(result.get(key), value, node.field(key) or ANY)
    return result


def clean(value: Any) -> Any:
    """A new value taken from a patch: without directives, deleted items and nulls in maps."""
    if isinstance(value, dict):
        return {k: clean(v) for k, v in value.items() if v is not None and not k.startswith("$")}
    if isinstance(value, list):
        kept = [v for v in value if not (isinstance(v, dict) and v.get(DIRECTIVE) in ("delete", "replace"))]
        return [clean(item) for item in kept]
    return value


def _merge_value(original: Any, value: Any, node: Node) -> Any:
    if isinstance(value, dict) and isinstance(original, dict) and "replace" not in node.strategies:
        return merge_map(original, value, node)
    if isinstance(value, dict) and original is None:
        return merge_map({}, value, node)
    if isinstance(value, list) and isinstance(original, list) and "merge" in node.strategies:
        return _merge_list(original, value, node)
    return clean(value)


def _retained(original: Obj, patch: Obj) -> Obj:
    retain = patch.pop(RETAIN, None)
    if retain is None:
        return dict(original)
    if not isinstance(retain, list) or any(k not in retain for k in patch if not k.startswith("$")):
        raise StrategicError("invalid patch format of retainKeys")
    return {key: value for key, value in original.items() if key in retain}


def _delete_scalars(result: Obj, field: str, gone: Any) -> None:
    if not isinstance(gone, list):
        raise StrategicError("invalid patch format of primitive list")
    current = result.get(field)
    if isinstance(current, list):
        result[field] = [item for item in current if item not in gone]


def _order_list(result: Obj, patch: Obj, field: str, node: Node) -> None:
    order = patch.pop(ORDER + field)
    if not isinstance(order, list):
        raise StrategicError("invalid patch format of setElementOrder list")
    original, change = result.get(field), patch.pop(field, None)
    if not isinstance(original, list) and not isinstance(change, list):
        return
    child = node.field(field) or ANY
    original = original if isinstance(original, list) else []
    merged = _merge_list(original, change, child) if isinstance(change, list) else original
    result[field] = _arranged(merged, order, original, child.merge_key)


def _merge_list(original: list[Any], patch: list[Any], node: Node) -> list[Any]:
    key = node.merge_key
    if not key or not all(isinstance(item, dict) for item in [*original, *patch]):
        added = [item for index, item in enumerate(patch) if item not in original and item not in patch[:index]]
        return _arranged([*original, *added], patch, original, "")
    if any(item.get(DIRECTIVE) == "replace" for item in patch):
        rest = [item for item in patch if item.get(DIRECTIVE) != "replace" or len(item) > 1]
        return [clean({k: v for k, v in item.items() if k != DIRECTIVE}) for item in rest]
    gone = [_key_of(item, key) for item in patch if item.get(DIRECTIVE) == "delete"]
    changes = [item for item in patch if item.get(DIRECTIVE) != "delete"]
    merged = [item for item in original if item.get(key) not in gone]
    for change in changes:
        wanted = _key_of(change, key)
        at = next((i for i, item in enumerate(merged) if item.get(key) == wanted), None)
        if at is None:
            merged.append(merge_map({}, dict(change), node.elem))
        else:
            merged[at] = merge_map(merged[at], dict(change), node.elem)
    return _arranged(merged, changes, original, key)


def _key_of(item: Obj, key: str) -> Any:
    if key not in item:
        shown = " ".join(f"{name}:{item[name]}" for name in sorted(item))
        raise StrategicError(f"map: map[{shown}] does not contain declared merge key: {key}", 500, "")
    return item[key]


def _arranged(merged: list[Any], order: list[Any], live: list[Any], key: str) -> list[Any]:
    """Items named by ``order`` in that order; the others woven in where the live list had them."""

    def ident(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    wanted, known = [ident(item) for item in order], [ident(item) for item in live]
    right = sorted((i for i in merged if ident(i) in wanted), key=lambda i: wanted.index(ident(i)))
    left = [item for item in merged if ident(item) not in wanted]
    left.sort(key=lambda i: known.index(ident(i)) if ident(i) in known else len(known))
    woven: list[Any] = []
    while left and right:
        first, second = ident(left[0]), ident(right[0])
        before = first in known and second in known and known.index(first) < known.index(second)
        woven.append(left.pop(0) if before else right.pop(0))
    return woven + left + right
