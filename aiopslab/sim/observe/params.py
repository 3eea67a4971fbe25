"""Parameters of the Prometheus HTTP API and the errors they lead to."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from aiohttp import web

from aiopslab.sim.observe.promql.durations import parse_duration
from aiopslab.sim.observe.promql.parser import round_ms

MIN_MS, MAX_MS = -(2**62), 2**62
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
T = TypeVar("T")


class ApiFailure(Exception):
    """An answer other than success. ``kind`` is the errorType, ``code`` the HTTP status."""

    def __init__(self, kind: str, message: str, code: int) -> None:
        super().__init__(message)
        self.kind, self.code = kind, code


def bad_data(message: str) -> ApiFailure:
    """400 with errorType ``bad_data``."""
    return ApiFailure("bad_data", message, 400)


class Params:
    """Parameters of one request: of the form body first, then of the address; the first value counts."""

    def __init__(self, pairs: list[tuple[str, str]], semantics: int) -> None:
        self._pairs = pairs
        self.semantics = semantics

    @staticmethod
    async def read(request: web.Request, semantics: int) -> Params:
        """Parameters of a GET or form-encoded POST."""
        pairs: list[tuple[str, str]] = []
        if request.method == "POST":
            pairs += [(name, value) for name, value in (await request.post()).items() if isinstance(value, str)]
        pairs += list(request.query.items())
        return Params(pairs, semantics)

    def get(self, name: str) -> str:
        """The first value, or the empty string."""
        return next((value for key, value in self._pairs if key == name), "")

    def all(self, name: str) -> list[str]:
        """Every value."""
        return [value for key, value in self._pairs if key == name]

    def parsed(self, name: str, read: Callable[[str], T]) -> T:
        """A parameter that must be there; ValueError becomes ``invalid parameter``."""
        try:
            return read(self.get(name))
        except ValueError as error:
            raise bad_data(f'invalid parameter "{name}": {error}') from None

    def time(self, name: str, default_ms: int) -> int:
        """An optional time in milliseconds."""
        text = self.get(name)
        if not text:
            return default_ms
        try:
            return parse_time(text)
        except ValueError as error:
            word = "invalid" if self.semantics >= 3 else "Invalid"
            raise bad_data(f"invalid parameter \"{name}\": {word} time value for '{name}': {error}") from None

    def duration(self, name: str) -> int | None:
        """An optional duration in milliseconds."""
        return self.parsed(name, parse_step) if self.get(name) else None

    def count(self, name: str) -> int | None:
        """An optional number of entries; None means all."""
        text = self.get(name)
        if text and not text.removeprefix("-").isdecimal():
            raise bad_data(f"{name} must be a number")
        return int(text) if text and int(text) >= 0 else None

    def limit(self) -> int:
        """``limit`` of result rows; 0 means none. Prometheus 2.42 does not know it."""
        text = self.get("limit")
        if not text or self.semantics < 3:
            return 0
        try:
            value = int(text)
        except ValueError:
            raise bad_data(f'invalid parameter "limit": cannot parse "{text}" to a valid limit') from None
        if value < 0:
            raise bad_data('invalid parameter "limit": limit must be non-negative')
        return value


def parse_time(text: str) -> int:
    """Float Unix seconds or RFC 3339 to milliseconds."""
    if _FLOAT.fullmatch(text):
        seconds = float(text)
        if abs(seconds) < MAX_MS / 1000:
            whole = math.trunc(seconds)
            return whole * 1000 + round_ms(seconds - whole)
    found = _RFC3339.fullmatch(text)
    if found:
        day, clock, fraction, zone = found.groups()
        try:
            whole_s = datetime.fromisoformat(f"{day}T{clock}{zone.replace('Z', '+00:00')}") - _EPOCH
        except ValueError:
            pass
        else:
            return whole_s // timedelta(milliseconds=1) + int((fraction or "").ljust(3, "0")[:3])
    raise ValueError(f'cannot parse "{text}" to a valid timestamp')


def parse_step(text: str) -> int:
    """Float seconds or a Prometheus duration to milliseconds."""
    if _FLOAT.fullmatch(text):
        seconds = float(text)
        if abs(seconds) >= 2**63 / 1e9:
            raise ValueError(f'cannot parse "{text}" to a valid duration. It overflows int64')
        return math.trunc(seconds * 1000)
    try:
        return parse_duration(text)
    except ValueError:
        raise ValueError(f'cannot parse "{text}" to a valid duration') from None
