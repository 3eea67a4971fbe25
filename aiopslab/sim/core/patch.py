"""The three patch types that are pure functions: RFC 6902, RFC 7386 and strategic merge.

None of them changes its arguments. Server-side apply lives in ``ssa``.
"""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core import schema
from aiopslab.sim.core.strategic import StrategicError, merge_map

Obj = dict[str, Any]
REJECTED = "the server rejected our request due to an error in our request"


class PatchError(Exception):
    """A patch that cannot be applied.

    ``message``, ``code`` and ``reason`` are those of the API's Status; ``causes`` are its details.causes, empty
    when the real server sends none.
    """

    def __init__(self, message: str, code: int, reason: str, causes: list[dict[str, str]] | None = None) -> None:
        super().__init__(message)
        self.message, self.code, self.reason = message, code, reason
        self.causes = causes or []


def json_patch(obj: Obj, ops: Any) -> Obj:
    """Apply a JSON patch (RFC 6902). Any operation that fails rejects the whole patch with 422."""
    if not isinstance(ops, list):
        raise _decoding(go_type_name(ops), "[]handlers.jsonPatchOp")
    document: Any = clone(obj)
    for op in ops:
        if not isinstance(op, dict):
            raise _decoding(go_type_name(op), "handlers.jsonPatchOp")
        document = _apply_op(document, op)
    if not isinstance(document, dict):
        raise PatchError(REJECTED, 422, "Invalid")
    return document


def merge_patch(obj: Obj, patch: Any) -> Obj:
    """Apply a JSON merge patch (RFC 7386): maps merge, null removes, everything else replaces."""
    _must_be_map(patch)
    merged: Obj = _merged(obj, patch)
    return merged


def strategic_merge(obj: Obj, patch: Any, kind: schema.KindLike) -> Obj:
    """Apply a strategic merge patch with the merge keys and strategies of ``kind``.

    Raises PatchError 415 for kinds without a built-in schema, as the real server does for custom resources.
    """
    _must_be_map(patch)
    node = schema.node_for(kind)
    if node is None:
        accepted = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        raise PatchError(
            f"the body of the request was in an unknown format - accepted media types include: {accepted}",
            415,
            "UnsupportedMediaType",
        )
    try:
        return merge_map(obj, clone(patch), node)
    except StrategicError as error:
        raise PatchError(str(error), error.code, error.reason) from None


def patch_rejected(value: str, detail: str) -> PatchError:
    """What the server answers when the patched object does not decode: 422 with the patch as the field.

    ``value`` is how the server shows the patch: ``go_text(patch)`` for a strategic merge, the patched document as
    JSON for the other types. ``detail`` is the decoding error.
    """
    cause = f'Invalid value: "{value}": {detail}'
    causes = [{"reason": "FieldValueInvalid", "message": cause, "field": "patch"}]
    return PatchError(f' "" is invalid: patch: {cause}', 422, "Invalid", causes)


def clone(value: Any) -> Any:
    """A deep copy of JSON data; much cheaper than ``copy.deepcopy``."""
    if isinstance(value, dict):
        return {key: clone(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clone(item) for item in value]
    return value


def same(left: Any, right: Any) -> bool:
    """JSON equality: unlike Python's, ``true`` is not ``1``."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def go_text(value: Any) -> str:
    """A value as Go's ``%v`` prints it: ``map[spec:map[replicas:2]]``."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def go_type_name(value: Any) -> str:
    """What Go's JSON decoder calls a value in its errors."""
    if isinstance(value, bool):
        return "bool"
    names = {dict: "object", list: "array", str: "string", int: "number", float: "number"}
    return names.get(type(value), "null")


def _decoding(found: str, wanted: str) -> PatchError:
    message = f"error decoding patch: json: cannot unmarshal {found} into Go value of type {wanted}"
    return PatchError(message, 400, "BadRequest")


def _must_be_map(patch: Any) -> None:
    if not isinstance(patch, dict):
        message = f"json: cannot unmarshal {go_type_name(patch)} into Go value of type map[string]interface {{}}"
        raise PatchError(message, 400, "BadRequest")


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _apply_op(document: Any, op: Obj) -> Any:
    kind, path = op.get("op"), op.get("path")
    if not isinstance(path, str):
        raise PatchError(REJECTED, 422, "Invalid")
    if kind == "test":
        if not same(_find(document, path, missing_ok=True), op.get("value")):
            raise PatchError(REJECTED, 422, "Invalid")
        return document
    if kind == "remove":
        return _removed(document, path)
    if kind in ("add", "replace"):
        if "value" not in op:
            raise PatchError(REJECTED, 422, "Invalid")
        return _placed(document, path, op["value"], replace=kind == "replace")
    source = op.get("from")
    if kind not in ("move", "copy") or not isinstance(source, str):
        raise PatchError(REJECTED, 422, "Invalid")
    value = clone(_find(document, source))
    if kind == "move":
        document = _removed(document, source)
    return _placed(document, path, value, replace=False)


def _tokens(path: str) -> list[str]:
    if path == "":
        return []
    if not path.startswith("/"):
        raise PatchError(REJECTED, 422, "Invalid")
    return [token.replace("~1", "/").replace("~0", "~") for token in path[1:].split("/")]


def _index(container: list[Any], token: str, most: int) -> int:
    if not token.isdecimal() or int(token) > most or (token != "0" and token.startswith("0")):
        raise PatchError(REJECTED, 422, "Invalid")
    return int(token)


def _step(container: Any, token: str) -> Any:
    if isinstance(container, dict) and token in container:
        return container[token]
    if isinstance(container, list):
        return container[_index(container, token, len(container) - 1)]
    raise PatchError(REJECTED, 422, "Invalid")


def _find(document: Any, path: str, *, missing_ok: bool = False) -> Any:
    for token in _tokens(path):
        if missing_ok and isinstance(document, dict) and token not in document:
            return None
        document = _step(document, token)
    return document


def _parent(document: Any, path: str) -> tuple[Any, str]:
    *parents, last = _tokens(path)
    for token in parents:
        document = _step(document, token)
    return document, last


def _removed(document: Any, path: str) -> Any:
    if path == "":
        raise PatchError(REJECTED, 422, "Invalid")
    container, last = _parent(document, path)
    _step(container, last)
    if isinstance(container, dict):
        del container[last]
    else:
        del container[int(last)]
    return document


def _placed(document: Any, path: str, value: Any, *, replace: bool) -> Any:
    if path == "":
        return value
    container, last = _parent(document, path)
    if replace:
        _step(container, last)
    if isinstance(container, dict):
        container[last] = value
    elif isinstance(container, list) and replace:
        container[int(last)] = value
    elif isinstance(container, list):
        at = len(container) if last == "-" else _index(container, last, len(container))
        container.insert(at, value)
    else:
        raise PatchError(REJECTED, 422, "Invalid")
    return document
