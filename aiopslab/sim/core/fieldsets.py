"""Sets of field paths and typed merging: the arithmetic under server-side apply.

A path is a tuple of elements as FieldsV1 writes them: ``f:name`` (field or map entry), ``k:{"name":"c"}`` (item
of a list map), ``v:"x"`` (item of a set). Rules follow structured-merge-diff: atomic values, scalars and empty
maps are leaves; items of list maps are members themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from aiopslab.sim.core.schema import ANY, Node

Obj = dict[str, Any]
Path = tuple[str, ...]
Paths = frozenset[Path]
MISSING: Any = object()


class Comparison(NamedTuple):
    """What differs between two objects."""

    added: set[Path]
    modified: set[Path]
    removed: set[Path]


def encode(paths: Paths | set[Path]) -> Obj:
    """A path set as a FieldsV1 object."""
    root: Obj = {}
    for path in sorted(paths):  # a member comes before the paths below it
        at = root
        for depth, element in enumerate(path[:-1], start=1):
            child = at.setdefault(element, {})
            if not child and path[:depth] in paths:
                child["."] = {}
            at = child
        at.setdefault(path[-1], {})
    return root


def decode(fields: Obj) -> Paths:
    """The path set of a FieldsV1 object."""
    found: set[Path] = set()
    _decode(fields, (), found)
    return frozenset(found)


def _decode(fields: Obj, path: Path, found: set[Path]) -> None:
    for element, below in fields.items():
        if element == ".":
            found.add(path)
            continue
        where = (*path, element)
        if below and isinstance(below, dict):  # clients may send anything in an opaque field
            _decode(below, where, found)
        else:
            found.add(where)


def order(path: Path) -> tuple[tuple[int, str], ...]:
    """Sort key: at every level members come before what lies below others, each by name."""
    return (*((1, element) for element in path[:-1]), (0, path[-1]))


def display(path: Path) -> str:
    """``.spec.containers[name="c"].image``."""
    return "".join(_display(element) for element in path)


def _display(element: str) -> str:
    kind, _, text = element.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "k":
        return "[" + ",".join(f"{k}={json.dumps(v)}" for k, v in sorted(json.loads(text).items())) + "]"
    return f"[={text}]" if kind == "v" else f"[{text}]"


@lru_cache(maxsize=4096)
def _key_element(keys: tuple[tuple[str, Any], ...]) -> str:
    return "k:" + json.dumps(dict(keys), separators=(",", ":"), ensure_ascii=False)


def item_element(item: Any, node: Node) -> str:
    """The path element of an item of a list map or set."""
    if node.list_type == "map":
        return _key_element(tuple(sorted(node.item_key(item).items())))
    return "v:" + json.dumps(item, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def items_of(value: Any, node: Node) -> Iterator[tuple[str, Any, Node]]:
    """(element, child value, child node) of a granular map, struct or list."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"f:{key}", item, node.field(key) or ANY
    elif isinstance(value, list):
        for item in value:
            yield item_element(item, node), item, node.elem


def is_leaf(value: Any, node: Node) -> bool:
    """Whether a value is owned as a whole."""
    if isinstance(value, dict):
        return node.atomic or node.shape in ("scalar", "list")
    if isinstance(value, list):
        return node.shape != "list" or node.atomic
    return True


def paths_of(obj: Obj, node: Node) -> set[Path]:
    """Everything an applied configuration states."""
    found: set[Path] = set()
    _paths_of(obj, node, (), found)
    found.discard(())
    return found


def _paths_of(value: Any, node: Node, path: Path, found: set[Path]) -> None:
    if is_leaf(value, node):
        found.add(path)
        return
    in_list = isinstance(value, list)
    for element, item, child in items_of(value, node):
        where = (*path, element)
        _paths_of(item, child, where, found)
        known = node.shape == "struct" and not in_list and child is not ANY
        if in_list or item is None or item == {} or not known:
            found.add(where)


def compare(old: Obj, new: Obj, node: Node) -> Comparison:
    """Paths added, modified and removed from ``old`` to ``new``."""
    result = Comparison(set(), set(), set())
    _compare(old, new, node, (), result)
    for paths in result:
        paths.discard(())
    return result


def _compare(old: Any, new: Any, node: Node, path: Path, result: Comparison) -> None:
    if old is MISSING or new is MISSING:
        if old is not new:
            one_side, found = (new, result.added) if old is MISSING else (old, result.removed)
            _whole(one_side, node, path, found)
        return
    if old == new:
        return
    present = [value for value in (old, new) if value is not None]
    if not any(present) or any(is_leaf(value, node) for value in present):
        result.modified.add(path)
        return
    left, right = _children(old, node), _children(new, node)
    for element in {**left, **right}:
        before, child = left.get(element, (MISSING, None))
        after, other = right.get(element, (MISSING, None))
        _compare(before, after, child or other or ANY, (*path, element), result)


def _whole(value: Any, node: Node, path: Path, found: set[Path]) -> None:
    """Every path of a value that is on one side only: itself and all below it."""
    found.add(path)
    if value is None or is_leaf(value, node):
        return
    for element, item, child in items_of(value, node):
        _whole(item, child, (*path, element), found)
    if node.shape == "struct":
        for name in node.values:
            if name not in value:
                found.add((*path, f"f:{name}"))


def _children(value: Any, node: Node) -> dict[str, tuple[Any, Node]]:
    """Children of a present value; structs by value and required lists exist even when nobody wrote them."""
    found = {element: (item, child) for element, item, child in items_of(value, node)}
    if node.shape == "struct":
        for name in node.values:
            child = node.field(name)
            if child is not None:
                found.setdefault(f"f:{name}", ({}, child))
        for name in node.required:
            child = node.field(name)
            if child is not None and child.shape in ("list", "map"):
                found.setdefault(f"f:{name}", (None, child))
    return found


def merge(live: Any, applied: Any, node: Node) -> Any:
    """``applied`` laid over ``live``: granular maps and lists merge, leaves are replaced."""
    if applied is None or live is None or is_leaf(applied, node) or is_leaf(live, node):
        return live if applied is None else applied
    if isinstance(applied, dict) and isinstance(live, dict):
        merged = dict(live)
        for key, item in applied.items():
            merged[key] = merge(live.get(key), item, node.field(key) or ANY)
        return merged
    if isinstance(applied, list) and isinstance(live, list):
        return _merge_list(live, applied, node)
    return applied


def _merge_list(live: list[Any], applied: list[Any], node: Node) -> list[Any]:
    """Applied items keep their order; live-only items stay where they were relative to their neighbours."""
    theirs = {item_element(item, node): item for item in live}
    ours = {item_element(item, node): item for item in applied}
    left, right = list(theirs), list(ours)
    shared = [element for element in right if element in theirs]
    merged: list[Any] = []
    taken: set[str] = set()

    def take(element: str) -> None:
        taken.add(element)
        if shared and shared[0] == element:
            shared.pop(0)
        merged.append(merge(theirs.get(element), ours[element], node.elem))

    while left or right:
        if left and right and left[0] == right[0]:
            take(right.pop(0))
            left.pop(0)
        elif left and right and left[0] in ours and shared and shared[0] != left[0]:
            left.pop(0)  # comes later, at its place in the applied order
        elif left and left[0] not in ours:
            merged.append(theirs[left.pop(0)])
        else:
            if left and left[0] in taken:
                left.pop(0)
            if right:
                take(right.pop(0))
    return merged


def without(value: Any, gone: Paths | set[Path], node: Node) -> Any:
    """A copy of ``value`` without the fields and items in ``gone``; maps that end up empty go, too."""
    tree = encode(gone)
    return _without(value, tree, node) if tree else value


def _without(value: Any, tree: Obj, node: Node) -> Any:
    if is_leaf(value, node) or not value:
        return value
    kept: list[tuple[Any, Any]] = []
    keys = list(value) if isinstance(value, dict) else [None] * len(value)
    for key, (element, item, child) in zip(keys, items_of(value, node), strict=True):
        below = tree.get(element)
        if below is None:
            kept.append((key, item))
        elif below and "." not in below:
            rest = _without(item, below, child)
            if rest is not None:
                kept.append((key, rest))
    if not kept:
        return None
    return dict(kept) if isinstance(value, dict) else [item for _, item in kept]


def with_named_parents(paths: Paths | set[Path], node: Node) -> set[Path]:
    """``paths`` and the struct fields above them: owning ``.a.b`` is then owning ``.a``."""
    found = set(paths)
    for path in paths:
        at: Node | None = node
        for depth, element in enumerate(path[:-1]):
            if at is None:
                break
            if element.startswith("f:"):
                name = element[2:]
                named = at.shape == "struct" and name in at.known
                if named:
                    found.add(path[: depth + 1])
                at = at.field(name)
            else:
                at = at.elem
    return found
