"""Structural schemas of custom resources: pruning, defaulting and validation with the server's messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

Obj = dict[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
_ROOT_FIELDS = ("apiVersion", "kind", "metadata")


@dataclass(frozen=True, slots=True)
class SchemaError:
    """One violation: ``field`` is the path, ``reason`` and ``message`` are those of a Status cause."""

    field: str
    reason: str
    message: str


def prune(schema: Obj, obj: Obj) -> tuple[Obj, list[str]]:
    """The object without fields that the schema does not know, and their paths in sorted order."""
    dropped: list[str] = []
    kept = {k: obj[k] for k in _ROOT_FIELDS if k in obj}
    rest = {k: v for k, v in obj.items() if k not in _ROOT_FIELDS}
    pruned = _prune(schema, rest, "", dropped)
    return {**kept, **pruned}, sorted(dropped)


def _prune(schema: Obj, value: Any, path: str, dropped: list[str]) -> Any:
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return value
        return [_prune(items, item, f"{path}[{i}]", dropped) for i, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    known = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    result = {}
    for key, item in value.items():
        where = f"{path}.{key}" if path else key
        if key in known:
            result[key] = _prune(known[key], item, where, dropped)
        elif isinstance(extra, dict):
            result[key] = _prune(extra, item, where, dropped)
        elif extra or schema.get(PRESERVE) or (schema.get(EMBEDDED) and key in _ROOT_FIELDS):
            result[key] = item
        else:
            dropped.append(where)
    return result


def default(schema: Obj, value: Any) -> Any:
    """The value with defaults of absent fields; null of a non-nullable field with a default counts as absent."""
    if isinstance(value, list):
        items = schema.get("items")
        return [default(items, item) for item in value] if isinstance(items, dict) else value
    if not isinstance(value, dict):
        return value
    result = dict(value)
    for key, field in (schema.get("properties") or {}).items():
        if key in result and result[key] is None and not field.get("nullable"):
            del result[key]
        if key not in result and "default" in field:
            result[key] = field["default"]
        if key in result:
            result[key] = default(field, result[key])
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        for key in result:
            if key not in (schema.get("properties") or {}):
                result[key] = default(extra, result[key])
    return result


def validate(schema: Obj, value: Any, path: str = "") -> list[SchemaError]:
    """All violations in the order of the schema's fields. ``path`` is the field prefix of the messages."""
    return list(_violations(schema, value, path))


def _violations(schema: Obj, value: Any, path: str) -> Iterator[SchemaError]:
    if value is None and schema.get("nullable"):
        return
    wrong = _type_error(schema, value, path)
    if wrong is not None:
        yield wrong
        return
    yield from _scalar(schema, value, path)
    if isinstance(value, dict):
        yield from _object(schema, value, path)
    elif isinstance(value, list):
        yield from _list(schema, value, path)
    yield from _combined(schema, value, path)


def _type_error(schema: Obj, value: Any, path: str) -> SchemaError | None:
    wanted, found = schema.get("type", ""), type_name(value)
    if schema.get(INT_OR_STRING):
        if found in ("integer", "string"):
            return None
        wanted = "integer,string"
    elif not wanted or wanted == found or (wanted == "number" and found == "integer"):
        return None
    message = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
    return SchemaError(path, "FieldValueTypeInvalid", message)


def _scalar(schema: Obj, value: Any, path: str) -> Iterator[SchemaError]:
    if isinstance(value, str):
        yield from _text(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
            than = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
            yield _invalid(path, value, f"{path} in body should be {than} {_number(low)}")
        if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
            than = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
            yield _invalid(path, value, f"{path} in body should be {than} {_number(high)}")
        step = schema.get("multipleOf")
        if step and value % step:
            yield _invalid(path, value, f"{path} in body should be a multiple of {_number(step)}")
    allowed = schema.get("enum")
    if allowed is not None and value not in allowed:
        listed = ", ".join(_json(a) for a in allowed)
        message = f"Unsupported value: {_json(value)}: supported values: {listed}"
        yield SchemaError(path, "FieldValueNotSupported", message)


def _text(schema: Obj, value: str, path: str) -> Iterator[SchemaError]:
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    if longest is not None and len(value) > longest:
        yield SchemaError(path, "FieldValueTooLong", f"Too long: may not be more than {longest} bytes")
    if shortest is not None and len(value) < shortest:
        yield _invalid(path, value, f"{path} in body should be at least {shortest} chars long")
    pattern = schema.get("pattern")
    if pattern and not _searches(pattern, value):
        yield _invalid(path, value, f"{path} in body should match '{pattern}'")


def _searches(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:
        return True  # Go syntax that Python does not know: better to accept


def _object(schema: Obj, value: Obj, path: str) -> Iterator[SchemaError]:
    known, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    for key in schema.get("required") or []:
        if key not in value:
            yield SchemaError(_join(path, key), "FieldValueRequired", "Required value")
    for bound, word in (("maxProperties", "most"), ("minProperties", "least")):
        limit = schema.get(bound)
        if limit is not None and (len(value) > limit if word == "most" else len(value) < limit):
            if word == "most":
                yield SchemaError(
                    path, "FieldValueTooMany", f"Too many: {len(value)}: must have at most {limit} items"
                )
            else:
                yield _invalid(path, value, f"{path} in body should have at least {limit} properties")
    for key in sorted(value):
        if not path and key in _ROOT_FIELDS:
            continue
        if key in known:
            yield from _violations(known[key], value[key], _join(path, key))
        elif isinstance(extra, dict):
            yield from _violations(extra, value[key], _join(path, key))


def _list(schema: Obj, value: list[Any], path: str) -> Iterator[SchemaError]:
    most, least = schema.get("maxItems"), schema.get("minItems")
    if most is not None and len(value) > most:
        yield SchemaError(path, "FieldValueTooMany", f"Too many: {len(value)}: must have at most {most} items")
    if least is not None and len(value) < least:
        yield _invalid(path, len(value), f"{path} in body should have at least {least} items")
    items = schema.get("items")
    keys = schema.get("x-kubernetes-list-map-keys") or []
    seen: list[Any] = []
    for index, item in enumerate(value):
        if isinstance(items, dict):
            yield from _violations(items, item, f"{path}[{index}]")
        identity = None
        if keys and isinstance(item, dict):
            identity = {k: item.get(k) for k in keys}
        elif schema.get("x-kubernetes-list-type") == "set" or schema.get("uniqueItems"):
            identity = item
        if identity is not None:
            if identity in seen:
                yield SchemaError(f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {_json(identity)}")
            seen.append(identity)


def _combined(schema: Obj, value: Any, path: str) -> Iterator[SchemaError]:
    for part in schema.get("allOf") or []:
        yield from _violations(part, value, path)
    any_of = schema.get("anyOf") or []
    if any_of and not any(not validate(part, value, path) for part in any_of):
        yield _invalid(path, value, f"{path} in body must validate at least one schema (anyOf)")
    one_of = schema.get("oneOf") or []
    if one_of and sum(not validate(part, value, path) for part in one_of) != 1:
        yield _invalid(path, value, f"{path} in body must validate one and only one schema (oneOf)")
    if schema.get("not") and not validate(schema["not"], value, path):
        yield _invalid(path, value, f"{path} in body must not validate the schema (not)")


def type_name(value: Any) -> str:
    """The JSON schema name of a value's type."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float) and value.is_integer():
        return "integer"
    names: dict[type, str] = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _invalid(path: str, value: Any, why: str) -> SchemaError:
    return SchemaError(path, "FieldValueInvalid", f"Invalid value: {_json(value)}: {why}")


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
