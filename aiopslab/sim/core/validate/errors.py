"""Field errors: path, kind of error, offending value, detail; worded as the API server words them."""

from __future__ import annotations

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
        if self.kind not in _VALUELESS:
            text += ": " + json.dumps(self.value, separators=(",", ":"), ensure_ascii=False)
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        """Field and message."""
        return f"{self.field}: {self.message}"


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
