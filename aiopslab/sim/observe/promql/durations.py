"""Durations and numbers as Prometheus reads them."""

from __future__ import annotations

import re

_UNITS_MS = (("y", 31_536_000_000), ("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000),
             ("m", 60_000), ("s", 1000), ("ms", 1))  # fmt: skip
_DURATION = re.compile("".join(f"(?:([0-9]+){unit})?" for unit, _ in _UNITS_MS))
_DURATION_MS_MAX = (1 << 63) // 1_000_000


def parse_duration(text: str) -> int:
    """``1h30m`` to milliseconds. Raises ValueError with Prometheus' text; units must fall in size."""
    if text == "":
        raise ValueError("empty duration string")
    if text == "0":
        return 0
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f'not a valid duration string: "{text}"')
    total = sum(int(n) * size for n, (_, size) in zip(found.groups(), _UNITS_MS, strict=True) if n)
    if total >= _DURATION_MS_MAX:
        raise ValueError("duration out of range")
    return total


def format_duration(ms: int) -> str:
    """Milliseconds to ``1h30m``; weeks and larger units only when nothing remains."""
    if ms == 0:
        return "0s"
    out = []
    for unit, size in _UNITS_MS:
        count, rest = divmod(ms, size)
        if count and (unit not in "yw" or rest == 0):
            out.append(f"{count}{unit}")
            ms = rest
    return "".join(out)


def parse_number(text: str) -> float:
    """A number literal. Raises ValueError with the text that follows ``error parsing number: ``.

    As in Go, a leading zero makes an integer octal.
    """
    lower = text.lower()
    if lower in ("inf", "nan"):
        return float(lower)
    if re.fullmatch(r"0x[0-9a-f]+", lower):
        return float(int(lower, 16))
    if re.fullmatch(r"0[0-7]+", lower):
        return float(int(lower, 8))
    try:
        value = float(lower)
    except ValueError:
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": invalid syntax') from None
    if value == float("inf"):
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": value out of range')
    return value
