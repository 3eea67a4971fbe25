"""Field errors: path, kind of error, offending value, detail; worded as the API server words them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

ErrorKind = Literal[
    "Required", "Invalid", "NotSupported", "Duplicate", "Forbidden", "TooLong", "TooMany", "NotFound"
]
_TEXTS = {
    "Required": "Required value",
    "Invalid": "Invalid value",
    "NotSupported": "Unsupported value",
    "Duplicate": "Duplicate value",
    "Forbidden": "Forbidden",
    "TooLong": "Too long",
    "TooMany": "Too many",
    "NotFound": "Not found",
}
_VALUELESS = ("Required", "Forbidden", "TooLong", "TooMany")
OMITTED = object()  # a value that the message leaves out


class FieldError(NamedTuple):
    """One finding. ``field`` is a path such as ``spec.containers[0].name``."""

    field: str
    kind: ErrorKind
    value: Any
    detail: str

    @property
    def reason(self) -> str:
        """The cause's reason: ``FieldValueRequired`` and so on."""
        return f"FieldValue{self.kind}"

    @property
    def message(self) -> str:
        """The cause's message, without the field: ``Invalid value: -1: must be greater than or equal to 0``."""
        text = _TEXTS[self.kind]
        if self.kind not in _VALUELESS and self.value is not OMITTED:
            text += f": {_shown(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        """Field and message."""
        return f"{self.field}: {self.message}"


def _shown(value: Any) -> str:
    """A value in a message: text in quotes, structures as Go's JSON, which escapes what HTML knows."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if not isinstance(value, str):
        for sign in "<>&":
            text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def difference(new: Any, old: Any) -> str:
    """A unified diff of two values as JSON, as messages about a changed spec show it."""
    before, after = (json.dumps(one, indent=1).splitlines() for one in (old, new))
    lines = list(difflib.unified_diff(before, after, lineterm="", n=3))
    return "\n".join(lines[2:]) + "\n"


class Errors(list[FieldError]):
    """A growing list of findings with a method per kind."""

    def required(self, field: str, detail: str = "") -> None:
        """The field must be set."""
        self.append(FieldError(field, "Required", None, detail))

    def invalid(self, field: str, value: Any, detail: str) -> None:
        """The value breaks a rule."""
        self.append(FieldError(field, "Invalid", value, detail))

    def invalid_each(self, field: str, value: Any, details: Iterable[str]) -> None:
        """One finding per detail."""
        for detail in details:
            self.invalid(field, value, detail)

    def not_supported(self, field: str, value: Any, supported: Iterable[str]) -> None:
        """The value is not one of an enumeration, listed in the given order."""
        listed = ", ".join(json.dumps(item) for item in supported)
        self.append(FieldError(field, "NotSupported", value, f"supported values: {listed}"))

    def duplicate(self, field: str, value: Any) -> None:
        """The value must be unique and is not."""
        self.append(FieldError(field, "Duplicate", value, ""))

    def forbidden(self, field: str, detail: str) -> None:
        """The field must not be set or changed here."""
        self.append(FieldError(field, "Forbidden", None, detail))

    def too_long(self, field: str, most_bytes: int) -> None:
        """The value has more bytes than allowed."""
        self.append(FieldError(field, "TooLong", None, f"may not be more than {most_bytes} bytes"))

    def too_many(self, field: str, count: int, most: int) -> None:
        """A list has more items than allowed."""
        self.append(FieldError(field, "TooMany", None, f"{count}: must have at most {most} items"))

    def not_found(self, field: str, value: Any) -> None:
        """The value refers to something that is not there."""
        self.append(FieldError(field, "NotFound", value, ""))
