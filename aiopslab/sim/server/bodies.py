"""Reading request bodies: JSON, YAML and protobuf, with the server's errors for broken ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
import yaml

from aiopslab.sim.core import schema
from aiopslab.sim.core.apierrors import ApiError, bad_request, status_error, unsupported_media
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.server import protobuf
from aiopslab.sim.server.negotiate import JSON, PROTOBUF, YAML

Obj = dict[str, Any]

PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
TOO_DEEP = "exceeded max depth"
SUMMARY_CHARS = 64  # how much of a broken body an error shows


@dataclass(slots=True)
class Body:
    """A decoded object and the keys that its text gave twice."""

    obj: Obj
    repeated: list[str] = field(default_factory=list)


class Patch(NamedTuple):
    """A decoded patch and the keys that its text gave twice."""

    patch_type: str
    body: Any
    repeated: list[str]


def media_type(content_type: str) -> str:
    """The header without parameters; empty means JSON."""
    return content_type.split(";")[0].strip().lower() or JSON


def read_object(raw: bytes, content_type: str, kind_name: str) -> Body:
    """The object in a POST or PUT body. Raises 400 or 415; ``kind_name`` is what errors expect."""
    media = media_type(content_type)
    if media == PROTOBUF:
        try:
            return Body(protobuf.decode(raw))
        except protobuf.ProtobufError as error:
            raise bad_request(
                f"the object provided is unrecognized (must be of type {kind_name}): {error}"
            ) from None
    if media in (YAML, "text/yaml", "application/x-yaml"):
        return Body(_mapping(read_yaml(raw), raw, kind_name), repeated_keys(raw))
    if media != JSON:
        raise unsupported_media((JSON, YAML, PROTOBUF))
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        why = f"couldn't get version/kind; json parse error: {json_error(raw)}"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind_name}): {why} ({summary(raw)})"
        ) from None
    return Body(_mapping(value, raw, kind_name), _duplicates(raw, value))


def _duplicates(raw: bytes, value: Any) -> list[str]:
    return schema.duplicate_fields(raw) if _may_repeat(raw, value) else []


def _may_repeat(raw: bytes, value: Any) -> bool:
    """Whether a text has more keys than its value: cheap test before the slow search."""
    return raw.count(b'":') + raw.count(b'" :') > _keys(value)


def _keys(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(_keys(v) for v in value.values())
    return sum(_keys(v) for v in value) if isinstance(value, list) else 0


def _mapping(value: Any, raw: bytes, kind_name: str) -> Obj:
    if isinstance(value, dict):
        return value
    names = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    found = names.get(type(value), "null")
    why = (
        f"couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type "
        'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
    )
    raise bad_request(f"the object provided is unrecognized (must be of type {kind_name}): {why} ({summary(raw)})")


def read_patch(raw: bytes, content_type: str, kind: Kind) -> Patch:
    """The patch in a PATCH body. Raises 415 for types that the kind does not take, 400 for bad text."""
    media = media_type(content_type)
    patch_type = PATCH_TYPES.get(media)
    if patch_type is None:
        raise status_error("UnsupportedMediaType", "415: Unsupported Media Type", {})
    if patch_type == "strategic" and kind.crd is not None:
        raise unsupported_media(m for m in PATCH_TYPES if m != media)
    if patch_type == "apply":
        return _read_apply(raw)
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        why = json_error(raw)
        raise bad_request(f"error decoding patch: {why}" if patch_type == "json" else why) from None
    return Patch(patch_type, value, _duplicates(raw, value))


def _read_apply(raw: bytes) -> Patch:
    try:  # JSON is YAML, and what most clients send
        value = orjson.loads(raw)
        return Patch("apply", value, repeated_keys(raw) if _may_repeat(raw, value) else [])
    except orjson.JSONDecodeError:
        try:
            return Patch("apply", read_yaml(raw), repeated_keys(raw))
        except ApiError as error:
            raise bad_request(f"error decoding YAML: {error.message}") from None


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """YAML 1.1 without timestamps: they stay text, as in the real server's YAML to JSON step."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(raw: bytes) -> Any:
    """A YAML document as JSON data. Raises 400."""
    try:
        return _json_like(yaml.load(raw, Loader=_Loader))
    except RecursionError:
        raise bad_request(f"error converting YAML to JSON: yaml: {TOO_DEEP}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise bad_request(
            f"error converting YAML to JSON: yaml: {where}{getattr(error, 'problem', error)}"
        ) from None


def repeated_keys(raw: bytes) -> list[str]:
    """``line 4: key "a" already set in map`` for every key that a sound YAML text repeats."""
    found: list[str] = []
    if root := yaml.compose(raw, Loader=_Loader):
        _repeated(root, found)
    return found


def _repeated(node: yaml.Node, found: list[str]) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[Any] = set()
        for key, value in node.value:
            if key.value in seen and key.tag == "tag:yaml.org,2002:str":
                found.append(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
            _repeated(value, found)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _repeated(item, found)


def _json_like(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(k): _json_like(v) for k, v in value.items()}
    return [_json_like(v) for v in value] if isinstance(value, list) else value


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def read_options(raw: bytes, content_type: str) -> Obj:
    """DeleteOptions from the body of a DELETE; an empty body is an empty object."""
    if not raw.strip():
        return {}
    if media_type(content_type) == PROTOBUF:
        try:
            return protobuf.decode(raw)
        except protobuf.ProtobufError as error:
            raise bad_request(str(error)) from None
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        if media_type(content_type) == YAML:
            value = read_yaml(raw)
        else:
            raise bad_request(f"couldn't get version/kind; json parse error: {json_error(raw)}") from None
    return value if isinstance(value, dict) else {}


def summary(raw: bytes) -> str:
    """How errors show a body: itself when it looks like JSON text, ``<empty>``, else hexadecimal."""
    if not raw:
        return "<empty>"
    if raw.lstrip()[:1] == b"{":
        text = raw.decode(errors="replace")
        return text if len(text) <= SUMMARY_CHARS else f"{text[:SUMMARY_CHARS]} ..."
    return raw[:SUMMARY_CHARS].hex() + (" ..." if len(raw) > SUMMARY_CHARS else "")


def json_error(raw: bytes) -> str:
    """The text of Go's JSON decoder for a broken document."""
    text = raw.decode(errors="replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return _go_error(text, error)
    except RecursionError:
        return TOO_DEEP
    return TOO_DEEP  # what only the faster decoder refuses


def _go_error(text: str, error: json.JSONDecodeError) -> str:
    at = error.pos
    if error.msg.startswith(("Unterminated string", "Invalid control")) and at < len(text):
        return "unexpected end of JSON input" if error.msg[0] == "U" else _bad(text[at], "in string literal")
    while at < len(text) and text[at].isspace():
        at += 1
    if at >= len(text):
        return "unexpected end of JSON input"
    places = {
        "Expecting property name": "looking for beginning of object key string",
        "Expecting value": "looking for beginning of value",
        "Expecting ':'": "after object key",
        "Expecting ','": "after object key:value pair" if _in_object(text[:at]) else "after array element",
        "Extra data": "after top-level value",
        "Illegal trailing comma": "looking for beginning of object key string",
    }
    where = next(
        (w for start, w in places.items() if error.msg.startswith(start)), "looking for beginning of value"
    )
    return _bad(text[at], where)


def _bad(char: str, where: str) -> str:
    shown = {"'": r"\'", '"': '"', "\n": r"\n", "\t": r"\t"}.get(char, char)
    if ord(char) < 32 or 127 <= ord(char) < 160:
        shown = f"\\u{ord(char):04x}"
    return f"invalid character '{shown}' {where}"


def _in_object(text: str) -> bool:
    depth = [c for c in text if c in "{}[]"]
    stack: list[str] = []
    for char in depth:
        if char in "{[":
            stack.append(char)
        elif stack:
            stack.pop()
    return bool(stack) and stack[-1] == "{"
