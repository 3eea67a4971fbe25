"""ConfigMaps, Secrets, ServiceAccounts."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors

Obj = dict[str, Any]
DATA_MAX_BYTES = 1024 * 1024
FROZEN_DETAIL = "field is immutable when `immutable` is set"
SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"
_CUT_SHORT = "unexpected end of JSON input"
# Keys that a typed Secret cannot do without.
SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
}


def _decoded_size(text: str) -> int:
    return len(base64.b64decode(text))


def _frozen(errors: Errors, obj: Obj, old: Obj, fields: tuple[str, ...]) -> None:
    """An immutable object keeps its data and stays immutable."""
    if not old.get("immutable"):
        return
    if not obj.get("immutable"):
        errors.forbidden("immutable", FROZEN_DETAIL)
    for field in fields:
        if (obj.get(field) or {}) != (old.get(field) or {}):
            errors.forbidden(field, FROZEN_DETAIL)


def _config_map(errors: Errors, obj: Obj, old: Obj | None) -> None:
    if old is not None:
        _frozen(errors, obj, old, ("data", "binaryData"))
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    size = 0
    for key, text in sorted(data.items()):
        errors.invalid_each(f"data[{key}]", key, values.config_key(key))
        if key in binary:
            errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        size += len(text.encode())
    for key, text in sorted(binary.items()):
        errors.invalid_each(f"binaryData[{key}]", key, values.config_key(key))
        size += _decoded_size(text)
    if size > DATA_MAX_BYTES:
        errors.too_long("[]", DATA_MAX_BYTES)  # the real path is an empty one, which prints so


def _secret(errors: Errors, obj: Obj, old: Obj | None) -> None:
    kind, data = obj.get("type", ""), obj.get("data") or {}
    if old is not None:
        if kind != old.get("type", ""):
            errors.invalid("type", kind, values.IMMUTABLE)
        _frozen(errors, obj, old, ("data",))
    size = 0
    for key, text in sorted(data.items()):
        errors.invalid_each(f"data[{key}]", key, values.config_key(key))
        size += _decoded_size(text)
    if size > DATA_MAX_BYTES:
        errors.too_long("data", DATA_MAX_BYTES)
    for key in SECRET_KEYS.get(kind, ()):
        if key not in data or (key == "ssh-privatekey" and not data[key]):
            errors.required(f"data[{key}]")
        elif key.startswith(".docker"):
            _check_json(errors, key, data[key])
    if kind == "kubernetes.io/service-account-token":
        annotations = obj["metadata"].get("annotations") or {}
        if not annotations.get(SERVICE_ACCOUNT_NAME):
            errors.required(f"metadata.annotations[{SERVICE_ACCOUNT_NAME}]")
    elif kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        errors.required("data[username]")
        errors.required("data[password]")


def _check_json(errors: Errors, key: str, encoded: str) -> None:
    """The file must be a JSON object; said as Go's decoder says it."""
    text, problem = base64.b64decode(encoded).decode(errors="replace"), ""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        rest = text[error.pos :].lstrip()
        problem = f"invalid character '{rest[0]}' looking for beginning of value" if rest else _CUT_SHORT
    else:
        kinds = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
        if kind := kinds.get(type(found)):
            problem = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
    if problem:
        errors.invalid(f"data[{key}]", "<secret contents redacted>", problem)


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    ("", "ConfigMap"): _config_map,
    ("", "Secret"): _secret,
}
