"""Decoder of Kubernetes protobuf request bodies (``application/vnd.kubernetes.protobuf``).

A body is the magic ``k8s\\0`` and a ``runtime.Unknown`` message that names apiVersion and kind and holds the
object. Field numbers are data (``protobuf.json.gz``): message -> rows ``[number, JSON name, type, flags]`` with
flags ``r`` repeated, ``p`` pointer, ``i`` embedded. The result is what the same object looks like in JSON: zero
scalars that Go would omit are dropped, embedded structs are inlined.
"""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

Obj = dict[str, Any]
MAGIC = b"k8s\0"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ZERO: tuple[Any, ...] = (0, "", False, None)


class ProtobufError(ValueError):
    """A body that is not a Kubernetes protobuf body of a known kind."""


class Field(NamedTuple):
    """How one field number decodes."""

    name: str
    type: str
    repeated: bool
    pointer: bool
    embedded: bool


def decode(body: bytes) -> Obj:
    """Decode a ``k8s\\0`` body to an object in JSON form, with ``apiVersion`` and ``kind``."""
    if not body.startswith(MAGIC):
        raise ProtobufError("the body does not start with the protobuf magic k8s\\0")
    try:
        envelope = _message("runtime.Unknown", body[len(MAGIC) :])
        api_version, kind = envelope.get("apiVersion", ""), envelope.get("kind", "")
        name = message_name(api_version, kind)
        raw = base64.b64decode(envelope.get("raw", ""))
        return {"apiVersion": api_version, "kind": kind, **_message(name, raw)}
    except ProtobufError:
        raise
    except (IndexError, struct.error, ValueError, OverflowError) as error:
        raise ProtobufError(f"the protobuf body is damaged: {error}") from None


def message_name(api_version: str, kind: str) -> str:
    """Name of the message of a kind, e.g. ``apps.v1.Deployment``; option kinds live in ``meta.v1``."""
    group, _, version = api_version.rpartition("/")
    name = f"{group.split('.')[0] or 'core'}.{version}.{kind}"
    if name in _messages():
        return name
    shared = f"meta.v1.{kind}"
    if shared in _messages():
        return shared
    raise ProtobufError(f"no protobuf message for kind {kind!r} of {api_version!r}")


@cache
def _messages() -> dict[str, dict[int, Field]]:
    packed = files(__package__).joinpath("protobuf.json.gz").read_bytes()
    found: dict[str, dict[int, Field]] = {}
    for message, rows in json.loads(gzip.decompress(packed)).items():
        found[message] = {row[0]: _field(row) for row in rows}
    return found


def _field(row: list[Any]) -> Field:
    flags = row[3] if len(row) > 3 else ""
    return Field(row[1], row[2], "r" in flags, "p" in flags, "i" in flags)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _wire(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, raw value) pairs of a message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire_type = tag & 7
        value: int | bytes
        if wire_type == _VARINT:
            value, at = _varint(data, at)
        elif wire_type == _BYTES:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        elif wire_type in (_FIXED64, _FIXED32):
            size = 8 if wire_type == _FIXED64 else 4
            value, at = data[at : at + size], at + size
        else:
            raise ProtobufError(f"unsupported protobuf wire type {wire_type}")
        if at > len(data):
            raise ProtobufError("the protobuf body ends inside a field")
        yield tag >> 3, value


def _message(name: str, data: bytes) -> Obj:
    fields = _messages()[name]
    out: Obj = {}
    for number, raw in _wire(data):
        field = fields.get(number)
        if field is None:
            continue  # a newer client's field
        if field.type.startswith("map:"):
            key, value = _map_entry(field.type.removeprefix("map:"), raw)
            out.setdefault(field.name, {})[key] = value
            continue
        value = _value(field.type, raw)
        if field.embedded:
            out.update(value)
        elif field.repeated:
            out.setdefault(field.name, []).append(value)
        elif field.pointer or not _is_zero(value):
            out[field.name] = value
    return out


def _is_zero(value: Any) -> bool:
    return not isinstance(value, dict | list) and value in _ZERO


def _map_entry(type_name: str, raw: int | bytes) -> tuple[str, Any]:
    key = ""
    value: Any = _value(type_name, b"")
    for number, part in _wire(_as_bytes(raw)):
        if number == 1:
            key = _as_bytes(part).decode()
        else:
            value = _value(type_name, part)
    return key, value


def _as_bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise ProtobufError("a number where the schema has text")
    return raw


def _as_int(raw: int | bytes) -> int:
    if isinstance(raw, bytes):
        raise ProtobufError("text where the schema has a number")
    return raw - (1 << 64) if raw >= 1 << 63 else raw


def _value(type_name: str, raw: int | bytes) -> Any:
    if type_name in ("int32", "int64"):
        return _as_int(raw)
    if type_name == "bool":
        return bool(_as_int(raw))
    data = _as_bytes(raw)
    if type_name == "string":
        return data.decode()
    if type_name == "bytes":
        return base64.b64encode(data).decode()
    if type_name == "double":
        number = struct.unpack("<d", data)[0]
        return int(number) if number.is_integer() else number
    special = _SPECIAL.get(type_name)
    if special is not None:
        return special(_flat(data))
    message = _message(type_name, data)
    return message.get("items", []) if type_name.endswith(("ExtraValue", "AttestationValue")) else message


def _flat(data: bytes) -> dict[int, Any]:
    """Last value of every field of a small message; repeated fields become lists under negative numbers."""
    found: dict[int, Any] = {}
    for number, raw in _wire(data):
        found[number] = raw
        found.setdefault(-number, []).append(raw)
    return found


def _quantity(parts: dict[int, Any]) -> str:
    return bytes(parts.get(1, b"")).decode() or "0"


def _int_or_string(parts: dict[int, Any]) -> int | str:
    if parts.get(1, 0) == 1:
        return bytes(parts.get(3, b"")).decode()
    return _as_int(parts.get(2, 0))


def _time(parts: dict[int, Any]) -> str | None:
    return None if not parts.get(1) else _moment(parts).strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(parts: dict[int, Any]) -> str | None:
    if not parts.get(1):
        return None
    return _moment(parts).replace(microsecond=parts.get(2, 0) // 1000).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(parts: dict[int, Any]) -> datetime:
    return datetime.fromtimestamp(_as_int(parts[1]), UTC)


def _duration(parts: dict[int, Any]) -> str:
    """Go's text of a duration in nanoseconds: ``1h0m0s``, ``1m30s``, ``1.5s``, ``250ms``."""
    total_ns = _as_int(parts.get(1, 0))
    sign, rest = ("-", -total_ns) if total_ns < 0 else ("", total_ns)
    if rest == 0:
        return "0s"
    for unit, size_ns in (("ns", 1), ("µs", 1000), ("ms", 1_000_000)):
        if rest < size_ns * 1000:
            return f"{sign}{rest / size_ns:.9g}{unit}"
    hours, rest = divmod(rest, 3600 * 10**9)
    minutes, rest = divmod(rest, 60 * 10**9)
    seconds = f"{rest / 10**9:.9f}".rstrip("0").rstrip(".")
    text = f"{hours}h" if hours else ""
    if hours or minutes:
        text += f"{minutes}m"
    return f"{sign}{text}{seconds}s"


def _raw_json(parts: dict[int, Any]) -> Any:
    raw = bytes(parts.get(1, b""))
    return json.loads(raw) if raw else None


def _schema_or_array(parts: dict[int, Any]) -> Any:
    if -2 in parts:
        return [_message(_JSON_SCHEMA, item) for item in parts[-2]]
    return _message(_JSON_SCHEMA, parts.get(1, b""))


def _schema_or_bool(parts: dict[int, Any]) -> Any:
    return _message(_JSON_SCHEMA, parts[2]) if 2 in parts else bool(parts.get(1, 0))


def _schema_or_strings(parts: dict[int, Any]) -> Any:
    if 1 in parts:
        return _message(_JSON_SCHEMA, parts[1])
    return [bytes(item).decode() for item in parts.get(-2, [])]


_JSON_SCHEMA = "apiextensions.v1.JSONSchemaProps"
_SPECIAL: dict[str, Callable[[dict[int, Any]], Any]] = {
    "api.resource.Quantity": _quantity,
    "util.intstr.IntOrString": _int_or_string,
    "meta.v1.Time": _time,
    "meta.v1.MicroTime": _micro_time,
    "meta.v1.Duration": _duration,
    "meta.v1.FieldsV1": _raw_json,
    "runtime.RawExtension": _raw_json,
    "apiextensions.v1.JSON": _raw_json,
    "apiextensions.v1.JSONSchemaPropsOrArray": _schema_or_array,
    "apiextensions.v1.JSONSchemaPropsOrBool": _schema_or_bool,
    "apiextensions.v1.JSONSchemaPropsOrStringArray": _schema_or_strings,
}
