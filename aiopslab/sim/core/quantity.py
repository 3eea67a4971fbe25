"""Kubernetes quantities: ``500m``, ``1Gi``, ``2e3``. Exact arithmetic on Fractions."""

from __future__ import annotations

import re
from fractions import Fraction

_FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d+|[numkMGTPE]|)")
_BINARY = {suffix: Fraction(1024) ** (i + 1) for i, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}
_DECIMAL = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
}  # fmt: skip
NANO = Fraction(1, 10**9)


def parse(text: str | int | float) -> Fraction:
    """The value of a quantity in its base unit (cores, bytes, pieces). Raises ValueError when malformed."""
    match = _FORM.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a quantity")
    sign, number, suffix = match.groups()
    value = Fraction(number)
    if suffix in _BINARY:
        value *= _BINARY[suffix]
    elif suffix in _DECIMAL:
        value *= _DECIMAL[suffix]
    else:
        value *= Fraction(10) ** int(suffix[1:])
    return -value if sign == "-" else value


def is_binary(text: str | int) -> bool:
    """Whether a quantity is written with a binary suffix (``Mi``), which sums of it keep."""
    return str(text)[-1:] == "i"


def text(value: Fraction, binary: bool = False) -> str:
    """The canonical form: the largest suffix that leaves an integer; finer than nano rounds up."""
    if value == 0:
        return "0"
    if binary and value.denominator == 1:
        for suffix in reversed(_BINARY):
            if (scaled := value / _BINARY[suffix]).denominator == 1:
                return f"{scaled.numerator}{suffix}"
        return str(value.numerator)
    value = Fraction(-(-value // NANO)) * NANO
    for suffix in ("E", "P", "T", "G", "M", "k", "", "m", "u", "n"):
        if (scaled := value / _DECIMAL[suffix]).denominator == 1:
            return f"{scaled.numerator}{suffix}"
    raise AssertionError("a multiple of nano always fits")


def canonical(raw: str | int | float) -> str:
    """``1.5`` to ``1500m``, ``1024Mi`` to ``1Gi``."""
    return text(parse(raw), is_binary(str(raw)))
