"""Cron schedules: the parser's complaints, in the words of the library that the API server uses."""

from __future__ import annotations

import re
from typing import NamedTuple

DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_DURATION = re.compile(r"@every\s+([0-9.]+(ns|us|µs|ms|s|m|h))+")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _Bounds(NamedTuple):
    low: int
    high: int
    names: dict[str, int]


_FIELDS = (
    _Bounds(0, 59, {}),
    _Bounds(0, 23, {}),
    _Bounds(1, 31, {}),
    _Bounds(1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    _Bounds(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)


class _Bad(ValueError):
    """``str`` is the parser's message."""


def schedule_error(schedule: str) -> str | None:
    """What is wrong with a five-field schedule or descriptor, or None."""
    text = schedule.strip()
    if text.startswith("@"):
        if text in DESCRIPTORS or _DURATION.fullmatch(text):
            return None
        return f"unrecognized descriptor: {text}"
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    try:
        for field, bounds in zip(fields, _FIELDS, strict=True):
            for part in field.split(","):
                _check_part(part, bounds)
    except _Bad as error:
        return str(error)
    return None


def _check_part(part: str, bounds: _Bounds) -> None:
    pieces = part.split("/")
    limits = pieces[0].split("-")
    single = len(limits) == 1
    if limits[0] in ("*", "?"):
        start, end = bounds.low, bounds.high
    else:
        start = _number(limits[0], bounds)
        if len(limits) > 2:
            raise _Bad(f"too many hyphens: {part}")
        end = start if single else _number(limits[1], bounds)
    step = 1
    if len(pieces) == 2:
        step = _int(pieces[1])
        if single:
            end = bounds.high
    elif len(pieces) > 2:
        raise _Bad(f"too many slashes: {part}")
    if start < bounds.low:
        raise _Bad(f"beginning of range ({start}) below minimum ({bounds.low}): {part}")
    if end > bounds.high:
        raise _Bad(f"end of range ({end}) above maximum ({bounds.high}): {part}")
    if start > end:
        raise _Bad(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise _Bad(f"step of range should be a positive number: {part}")


def _number(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    return _int(text) if named is None else named


def _int(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d+", text):
        raise _Bad(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if int(text) < 0:
        raise _Bad(f"negative number ({text}) not allowed: {text}")
    return int(text)
