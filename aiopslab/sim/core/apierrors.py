"""Errors as the Kubernetes API gives them: ``ApiError`` with a real Status body.

Constructors are named after the reasons; messages are those that real clients print.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from aiopslab.sim.core.kinds import Kind

Obj = dict[str, Any]

CODES = {
    "BadRequest": 400, "Unauthorized": 401, "Forbidden": 403, "NotFound": 404, "MethodNotAllowed": 405,
    "NotAcceptable": 406, "AlreadyExists": 409, "Conflict": 409, "Expired": 410,
    "RequestEntityTooLarge": 413, "UnsupportedMediaType": 415, "Invalid": 422, "TooManyRequests": 429,
    "InternalError": 500, "ServiceUnavailable": 503, "Timeout": 504,
}  # fmt: skip
_REASON_OF_CAUSE = {
    "required": "FieldValueRequired", "invalid": "FieldValueInvalid", "not_supported": "FieldValueNotSupported",
    "duplicate": "FieldValueDuplicate", "forbidden": "FieldValueForbidden", "not_found": "FieldValueNotFound",
    "too_long": "FieldValueTooLong", "too_many": "FieldValueTooMany", "type_invalid": "FieldValueTypeInvalid",
}  # fmt: skip


class Cause(NamedTuple):
    """One entry of ``details.causes``."""

    reason: str
    message: str
    field: str


class ApiError(Exception):
    """A refused request. ``status`` is the body, ``code`` the HTTP status."""

    def __init__(self, status: Obj) -> None:
        self.status = status
        super().__init__(status["message"])

    @property
    def code(self) -> int:
        """HTTP status code."""
        return self.status["code"]

    @property
    def reason(self) -> str:
        """Machine-readable reason, such as ``NotFound``."""
        return self.status.get("reason", "")

    @property
    def message(self) -> str:
        """The text that clients print."""
        return self.status["message"]


def status_error(reason: str, message: str, details: Obj | None = None, code: int = 0) -> ApiError:
    """An error of any reason; ``details`` None leaves the member out."""
    body: Obj = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
    }  # fmt: skip
    if reason:
        body["reason"] = reason
    if details is not None:
        body["details"] = details
    body["code"] = code or CODES[reason]
    return ApiError(body)


def _details(kind: Kind | None, name: str, plural: bool = True) -> Obj:
    details: Obj = {}
    if name:
        details["name"] = name
    if kind is not None:
        if kind.group:
            details["group"] = kind.group
        details["kind"] = kind.plural if plural else kind.kind
    return details


def not_found(kind: Kind, name: str) -> ApiError:
    """``pods "x" not found``."""
    return status_error("NotFound", f'{kind.qualified} "{name}" not found', _details(kind, name))


def no_such_path() -> ApiError:
    """404 for a path that nothing serves."""
    return status_error("NotFound", "the server could not find the requested resource", {})


def already_exists(kind: Kind, name: str) -> ApiError:
    """``pods "x" already exists``."""
    return status_error("AlreadyExists", f'{kind.qualified} "{name}" already exists', _details(kind, name))


def conflict(kind: Kind, name: str, why: str = "") -> ApiError:
    """Optimistic locking failed; ``why`` defaults to the text about a modified object."""
    why = why or ("the object has been modified; please apply your changes to the latest version and try again")
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    return status_error("Conflict", message, _details(kind, name))


def forbidden(kind: Kind, name: str, why: str, subresource: str = "") -> ApiError:
    """403 by an authorizer or an admission rule; without a name the resource itself is named."""
    subject = kind.qualified
    if subresource:
        subject = f"{kind.plural}/{subresource}" + (f".{kind.group}" if kind.group else "")
    quoted = f' "{name}"' if name else ""
    return status_error("Forbidden", f"{subject}{quoted} is forbidden: {why}", _details(kind, name))


def bad_request(message: str) -> ApiError:
    """400."""
    return status_error("BadRequest", message)


def method_not_allowed(kind: Kind | None = None) -> ApiError:
    """405."""
    message = "the server does not allow this method on the requested resource"
    return status_error("MethodNotAllowed", message, _details(kind, "") if kind else {})


def unauthorized() -> ApiError:
    """401: the credentials are not known."""
    return status_error("Unauthorized", "Unauthorized")


def expired(message: str) -> ApiError:
    """410: a version or a continue token is too old."""
    return status_error("Expired", message)


def too_many_requests(message: str, causes: Sequence[Cause] = ()) -> ApiError:
    """429, as evictions give it."""
    return status_error("TooManyRequests", message, {"causes": [c._asdict() for c in causes]})


def internal(message: str) -> ApiError:
    """500: the server's own fault."""
    return status_error("InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def unsupported_media(accepted: Iterable[str]) -> ApiError:
    """415 that lists what is accepted."""
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return status_error("UnsupportedMediaType", message)


def invalid(kind_name: tuple[str, str], name: str, causes: Sequence[Cause]) -> ApiError:
    """422. ``kind_name`` is ``(kind, group)``; one cause reads plainly, more are a bracketed list."""
    kind, group = kind_name
    texts = list(dict.fromkeys(f"{c.field}: {c.message}" for c in causes))
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    qualified = f"{kind}.{group}" if group else kind
    details: Obj = {"name": name} if name else {}
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return status_error("Invalid", f'{qualified} "{name}" is invalid: {text}', details)


def invalid_object(kind: Kind, name: str, errors: Iterable[Any]) -> ApiError:
    """422 from the validators' ``FieldError`` list of one object."""
    return invalid((kind.kind, kind.group), name, [as_cause(e) for e in errors])


def as_cause(error: Any) -> Cause:
    """A validator's FieldError as a cause."""
    return Cause(error.reason, error.message, error.field)


def cause_reason(kind: str) -> str:
    """``required`` to ``FieldValueRequired`` and so on."""
    return _REASON_OF_CAUSE[kind]
