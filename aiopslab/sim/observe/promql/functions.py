"""Functions of instant vectors and scalars that need nothing but their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from aiopslab.sim.observe.matchers import NAME, BadRegex, Labels, Matcher, compile_regex
from aiopslab.sim.observe.promql.aggregate import LABEL_NAME
from aiopslab.sim.observe.promql.errors import ExecutionError
from aiopslab.sim.observe.promql.values import Floats, Vector, set_label


def _sign(values: Floats) -> Floats:
    return np.where(values < 0, -1.0, np.where(values > 0, 1.0, values))


MATH: dict[str, Callable[[Floats], Floats]] = {
    "abs": np.abs, "ceil": np.ceil, "exp": np.exp, "floor": np.floor, "ln": np.log, "log2": np.log2,
    "log10": np.log10, "sqrt": np.sqrt, "sgn": _sign, "deg": np.rad2deg, "rad": np.deg2rad,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh,
}  # fmt: skip


def round_to(values: Floats, nearest: Floats) -> Floats:
    """``round``: halves go up. Dividing by the inverse loses fewer digits than multiplying."""
    inverse = 1.0 / nearest
    return np.floor(values * inverse + 0.5) / inverse


def lower_of(a: Floats, b: Floats) -> Floats:
    """Go's ``math.Min``: negative infinity wins even over NaN."""
    return np.where((a == -np.inf) | (b == -np.inf), -np.inf, np.minimum(a, b))


def higher_of(a: Floats, b: Floats) -> Floats:
    """Go's ``math.Max``: positive infinity wins even over NaN."""
    return np.where((a == np.inf) | (b == np.inf), np.inf, np.maximum(a, b))


def clamp(vector: Vector, low: Floats, high: Floats) -> Vector:
    """``clamp``: nothing is left at steps where the bounds are the wrong way round."""
    bounded = vector.map(higher_of(low, lower_of(high, vector.values)))
    return Vector(bounded.labels, bounded.values, bounded.present & ~(low > high)).without_gaps()


def to_scalar(vector: Vector) -> Floats:
    """``scalar``: the only element, or NaN."""
    count = vector.present.sum(axis=0)
    total = np.where(vector.present, vector.values, 0.0).sum(axis=0)
    return np.where(count == 1, total, np.nan)


# -- calendar (UTC)


def _dates(seconds: Floats) -> np.ndarray:
    return np.where(np.isfinite(seconds), seconds, 0).astype("datetime64[s]")


def _month(at: np.ndarray) -> np.ndarray:
    return at.astype("datetime64[M]")


def _days(at: np.ndarray) -> np.ndarray:
    return at.astype("datetime64[D]").astype(np.int64)


CALENDAR: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "minute": lambda at: at.astype(np.int64) // 60 % 60,
    "hour": lambda at: at.astype(np.int64) // 3600 % 24,
    "day_of_week": lambda at: (_days(at) + 4) % 7,
    "day_of_month": lambda at: _days(at) - _days(_month(at)) + 1,
    "day_of_year": lambda at: _days(at) - _days(at.astype("datetime64[Y]")) + 1,
    "days_in_month": lambda at: _days(_month(at) + np.timedelta64(1, "M")) - _days(_month(at)),
    "month": lambda at: _month(at).astype(np.int64) % 12 + 1,
    "year": lambda at: at.astype("datetime64[Y]").astype(np.int64) + 1970,
}


def calendar(name: str, seconds: Floats) -> Floats:
    """A calendar function of Unix seconds; values that are no time give NaN."""
    result = CALENDAR[name](_dates(seconds)).astype(float)
    return np.where(np.isfinite(seconds), result, np.nan)


# -- labels


def label_replace(vector: Vector, texts: list[str], *, dot_all: bool) -> Vector:
    """``label_replace(v, dst, replacement, src, regex)`` with Go's ``$1``, ``${name}`` and ``$$``."""
    target, replacement, source, pattern = texts
    try:
        regex = compile_regex(pattern, dot_all)
    except BadRegex:
        raise ExecutionError(f"invalid regular expression in label_replace(): {pattern}") from None
    if not LABEL_NAME.fullmatch(target):
        raise ExecutionError(f"invalid destination label name in label_replace(): {target}")

    def change(labels: Labels) -> Labels:
        found = regex.find(dict(labels).get(source, ""))
        return labels if found is None else set_label(labels, target, _expand(found, replacement))

    return vector.relabel(change)


def _expand(found: re.Match[str], replacement: str) -> str:
    def piece(reference: re.Match[str]) -> str:
        if reference.group() == "$$":
            return "$"
        name = reference.group(1) or reference.group(2)
        if name.isdigit():
            return (found.group(int(name)) or "") if int(name) <= found.re.groups else ""
        return found.groupdict().get(name) or ""

    return re.sub(r"\$\$|\$(\w+)|\$\{(\w+)\}", piece, replacement, flags=re.ASCII)


def label_join(vector: Vector, texts: list[str]) -> Vector:
    """``label_join(v, dst, separator, src...)``."""
    target, separator, *sources = texts
    for source in sources:
        if not LABEL_NAME.fullmatch(source):
            raise ExecutionError(f"invalid source label name in label_join(): {source}")
    if not LABEL_NAME.fullmatch(target):
        raise ExecutionError(f"invalid destination label name in label_join(): {target}")

    def change(labels: Labels) -> Labels:
        given = dict(labels)
        return set_label(labels, target, separator.join(given.get(source, "") for source in sources))

    return vector.relabel(change)


def absent_labels(matchers: list[Matcher]) -> Labels:
    """What ``absent`` knows about the series that is missing: its equality matchers."""
    known: dict[str, str] = {}
    seen: set[str] = set()
    for matcher in matchers:
        if matcher.name == NAME:
            continue
        if matcher.op == "=" and matcher.name not in seen:
            known[matcher.name] = matcher.value
            seen.add(matcher.name)
        else:
            known.pop(matcher.name, None)
    return tuple(sorted((name, value) for name, value in known.items() if value))


def absent(there: np.ndarray, labels: Labels) -> Vector:
    """One series with value 1 at the steps where ``there`` is False."""
    missing = ~there[None, :]
    return Vector([labels], np.ones(missing.shape), missing).without_gaps()


def sort(vector: Vector, *, descending: bool) -> Vector:
    """Rows by value; NaN last. Only a one-step result has an order."""
    if vector.values.shape[1] != 1 or not vector.labels:
        return vector
    values = vector.values[:, 0]
    return vector.rows(np.lexsort((-values if descending else values, np.isnan(values))))
