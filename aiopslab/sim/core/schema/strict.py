"""Decoding of request objects as the API server's Go types would do it.

``unknown_fields`` and ``duplicate_fields`` are what ``fieldValidation`` Strict and Warn report, ``type_errors``
what the decoder refuses at all, ``typed`` the object after a round trip through the Go types.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from aiopslab.sim.core import quantity
from aiopslab.sim.core.schema.nodes import (
    ANY_OBJECT,
    INT_OR_STRING,
    QUANTITY,
    TIMES,
    KindLike,
    Node,
    node_for,
)

Obj = dict[str, Any]
QUANTITY_FORM = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
TIME_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_INT_BOUNDS = {"int32": 1 << 31, "int64": 1 << 63}
_JSON_NAMES = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def unknown_fields(obj: Obj, kind: KindLike) -> list[str]:
    """``unknown field "spec.x"`` for every field that the kind does not have, in document order."""
    found: list[str] = []
    _unknown(obj, node_for(kind) or ANY_OBJECT, "", found)
    return [f'unknown field "{path}"' for path in found]


def duplicate_fields(body: bytes | str) -> list[str]:
    """``duplicate field "data.a"`` for every key that a JSON text repeats. Raises ValueError on bad JSON."""
    found: list[str] = []
    _duplicates(json.loads(body, object_pairs_hook=_Pairs), "", found)
    return [f'duplicate field "{path}"' for path in found]


def strict_error(problems: list[str]) -> str:
    """The decoder's text for unknown and duplicate fields, and for keys that a YAML text repeats (``line 4: ...``)."""
    lines = [p for p in problems if p.startswith("line ")]
    texts = [yaml_error(lines)] if lines else []
    return "strict decoding error: " + ", ".join([*texts, *(p for p in problems if p not in lines)])


def yaml_error(lines: Sequence[str]) -> str:
    """What the YAML decoder says of keys that are set twice."""
    return "\n  ".join(["yaml: unmarshal errors:", *lines])


def type_errors(obj: Obj, kind: KindLike) -> str | None:
    """The decoder's error for the first value of a wrong type (JSON bodies), or None.

    Examples: ``json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32``,
    ``illegal base64 data at input byte 3``.
    """
    node = node_for(kind)
    if node is None or getattr(kind, "crd", None) is not None:
        return None
    return _type_error(obj, node, _Place("", "", ""))


def conversion_error(obj: Obj, kind: KindLike) -> str | None:
    """Like ``type_errors``, in the words of the converter that strategic merge patches go through."""
    node = node_for(kind)
    return None if node is None else _conversion_error(obj, node)


def typed(obj: Obj, kind: KindLike) -> Obj:
    """The object after a round trip through the Go types of a built-in kind.

    Unknown fields, nulls and empty optional values are gone, structs by value are there (``status: {}``), and
    quantities are canonical. Objects of other kinds come back as they are.
    """
    node = node_for(kind)
    if node is None or getattr(kind, "crd", None) is not None:
        return obj
    made: Obj = _typed(obj, node)
    return made


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its repeated keys."""


class _Place:
    """Where the decoder is: innermost struct, JSON path without indices, last struct field."""

    __slots__ = ("field", "path", "struct")

    def __init__(self, struct: str, path: str, field: str) -> None:
        self.struct, self.path, self.field = struct, path, field

    def into(self, node: Node, name: str) -> _Place:
        """The place of field ``name`` of a struct."""
        return _Place(node.short_name, f"{self.path}.{name}" if self.path else name, name)


def _unknown(value: Any, node: Node, path: str, found: list[str]) -> None:
    if isinstance(value, dict) and node.shape in ("struct", "map"):
        for key, item in value.items():
            child = node.field(key)
            where = f"{path}.{key}" if path else key
            if child is None:
                found.append(where)
            elif isinstance(item, dict | list):
                _unknown(item, child, where, found)
    elif isinstance(value, list) and node.shape == "list":
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                _unknown(item, node.elem, f"{path}[{index}]", found)


def _duplicates(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            where = f"{path}.{key}" if path else key
            if key in seen and where not in found:
                found.append(where)
            seen.add(key)
            _duplicates(item, where, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _duplicates(item, f"{path}[{index}]", found)


def _type_error(value: Any, node: Node, place: _Place) -> str | None:
    if value is None or node.shape == "any":
        return None
    if node.shape == "scalar":
        return _scalar_error(value, node, place)
    if node.shape == "list":
        if not isinstance(value, list):
            return _cannot(value, node, place)
        return _first(_type_error(item, node.elem, place) for item in value)
    if not isinstance(value, dict):
        return _cannot(value, node, place)
    if node.shape == "map":
        return _first(_type_error(item, node.elem, place) for item in value.values())
    for key, item in value.items():
        child = node.field(key)
        if child is not None and item is not None:
            error = _type_error(item, child, place.into(node, key))
            if error is not None:
                return error
    return None


def _first(errors: Any) -> str | None:
    return next((error for error in errors if error is not None), None)


def _scalar_error(value: Any, node: Node, place: _Place) -> str | None:
    if node.name == QUANTITY:
        return _quantity_error(value)
    if node.name == INT_OR_STRING:
        fine = isinstance(value, str) or _is_int(value)
        return None if fine else f"json: cannot unmarshal {_json_name(value)} into Go value of type int32"
    if node.name in TIMES:
        return _time_error(value)
    if node.format == "byte" and isinstance(value, str):
        return _base64_error(value)
    if node.type == "integer" and _is_int(value) and abs(value) >= _INT_BOUNDS.get(node.format, 1 << 63):
        return f"json: cannot unmarshal number {value} {_into(place)} of type {go_type(node)}"
    return None if _fits(value, node.type) else _cannot(value, node, place)


def _fits(value: Any, wanted: str) -> bool:
    if wanted == "string":
        return isinstance(value, str)
    if wanted == "boolean":
        return isinstance(value, bool)
    if wanted == "integer":
        return _is_int(value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _json_name(value: Any) -> str:
    if isinstance(value, float):
        return f"number {value}"
    return _JSON_NAMES.get(type(value), "null")


def _into(place: _Place) -> str:
    if not place.path:
        return "into Go value"
    return f"into Go struct field {place.struct}.{place.path}"


def _cannot(value: Any, node: Node, place: _Place) -> str:
    return f"json: cannot unmarshal {_json_name(value)} {_into(place)} of type {go_type(node)}"


def go_type(node: Node) -> str:
    """The Go type that stands behind a node: ``int32``, ``[]v1.Container``, ``map[string]string``."""
    if node.shape == "list":
        return f"[]{go_type(node.elem)}"
    if node.shape == "map":
        return f"map[string]{go_type(node.elem)}"
    if node.shape == "scalar":
        names = {"integer": node.format or "int64", "boolean": "bool", "number": "float64"}
        return "[]uint8" if node.format == "byte" else names.get(node.type, "string")
    return ".".join(node.name.split(".")[-2:])


def _quantity_error(value: Any) -> str | None:
    try:
        quantity.parse(value if isinstance(value, str) else str(value))
    except ValueError:
        return f"quantities must match the regular expression '{QUANTITY_FORM}'"
    return None


def _time_error(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"json: cannot unmarshal {_json_name(value)} into Go value of type string"
    if TIME_FORM.fullmatch(value):
        return None
    layout = "2006-01-02T15:04:05Z07:00"
    return f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"'


def _base64_error(text: str) -> str | None:
    plain = text.replace("\n", "").replace("\r", "")
    try:
        b64decode(plain, validate=True)
    except binascii.Error:
        bad = re.search(r"[^A-Za-z0-9+/]", text)
        at = bad.start() if bad else len(text) - len(text) % 4
        return f"illegal base64 data at input byte {at}"
    return None


def _conversion_error(value: Any, node: Node) -> str | None:
    if value is None or node.shape == "any":
        return None
    if node.shape == "scalar":
        return _scalar_conversion(value, node)
    wanted, label = (list, "slice") if node.shape == "list" else (dict, "map")
    if not isinstance(value, wanted):
        source = {str: "string", bool: "bool", dict: "map", list: "slice"}.get(type(value), "int64")
        if node.shape == "struct":
            return f"cannot restore struct from: {source}"
        return f"cannot restore {label} from {source}"
    if isinstance(value, list):
        return _first(_conversion_error(item, node.elem) for item in value)
    for key, item in value.items():
        child = node.field(key)
        error = None if child is None else _conversion_error(item, child)
        if error is not None:
            return error
    return None


def _scalar_conversion(value: Any, node: Node) -> str | None:
    place = _Place("", "", "")
    if node.name in (QUANTITY, INT_OR_STRING, *TIMES) or node.format == "byte":
        return _scalar_error(value, node, place)
    if _fits(value, node.type):
        return None
    wanted = go_type(node)
    if _is_int(value) and wanted == "string":
        return "cannot convert int64 to string"
    if isinstance(value, float) and wanted in _INT_BOUNDS:
        return f"cannot convert float64 to {wanted}"
    return f"unrecognized type: {wanted}"


def _typed(value: Any, node: Node) -> Any:
    shape = node.shape
    if shape == "struct":
        return _typed_struct(value, node) if isinstance(value, dict) else value
    if shape == "list" and isinstance(value, list):
        elem = node.elem
        if None in value:
            value = [_zero(elem) if item is None else item for item in value]
        return [_typed(item, elem) for item in value] if elem.shape != "scalar" else list(value)
    if shape == "map" and isinstance(value, dict):
        elem = node.elem
        empty: Any = {} if elem.shape in ("struct", "map") else [] if elem.shape == "list" else ""
        return {key: empty if item is None else _typed(item, elem) for key, item in value.items()}
    if node.name == QUANTITY and isinstance(value, str | int | float):
        return canonical_quantity(value)
    return value


def _zero(node: Node) -> Any:
    """What Go makes of a null in a list."""
    if node.shape == "struct":
        return {}
    return {"string": "", "integer": 0, "boolean": False}.get(node.type) if node.shape == "scalar" else None


@lru_cache(maxsize=1024)
def canonical_quantity(value: Any) -> Any:
    """A quantity as the server writes it (``1024Mi`` -> ``1Gi``); what is not one stays as it is."""
    try:
        return quantity.canonical(value)
    except ValueError:
        return value


def _typed_struct(value: Obj, node: Node) -> Obj:
    made: Obj = {}
    for key, item in value.items():
        child = node.field(key)
        if child is None:
            continue
        if item is None:
            if key in node.required and child.shape in ("list", "map"):
                made[key] = None
            continue
        if not item and not child.pointer and key not in node.required and _omitted(item, child):
            continue
        made[key] = _typed(item, child)
    for key in node.values:
        if key not in made:
            child = node.field(key)
            made[key] = _typed_struct({}, child) if child is not None else {}
    return made


def _omitted(item: Any, child: Node) -> bool:
    """Whether Go's ``omitempty`` leaves out a zero value of this field."""
    if child.shape in ("list", "map"):
        return True
    return child.shape == "scalar" and child.name not in (QUANTITY, INT_OR_STRING)
