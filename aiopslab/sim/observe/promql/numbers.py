"""Numbers as Prometheus prints them."""

from __future__ import annotations

import math
from decimal import Decimal


def format_plain(value: float) -> str:
    """Shortest digits that give the value back, never with an exponent (Go's ``'f', -1``)."""
    if value == int(value) if math.isfinite(value) else False:
        whole = repr(value)
        if "e" not in whole:
            return whole[:-2]
        return format(Decimal(whole), "f")
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    return text if "e" not in text else format(Decimal(text), "f")


def format_sample(value: float) -> str:
    """As samples of vectors and matrices are written: an exponent below 1e-6 and from 1e21."""
    size = abs(value)
    if size and (size < 1e-6 or size >= 1e21) and math.isfinite(value):
        mantissa, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
        return f"{mantissa}e{exponent[0]}{exponent[1:].rjust(2, '0')}"
    return format_plain(value)


def format_time(ms: int) -> str:
    """Milliseconds as JSON seconds: whole, or with exactly three decimals."""
    seconds, rest = divmod(abs(ms), 1000)
    sign = "-" if ms < 0 else ""
    return f"{sign}{seconds}.{rest:03d}" if rest else f"{sign}{seconds}"
