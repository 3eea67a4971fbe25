"""Which functions there are and what they take. ``info`` and other experimental ones are known but not enabled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ValueType = Literal["scalar", "vector", "matrix", "string"]
TYPE_NAMES: dict[str, str] = {
    "scalar": "scalar", "vector": "instant vector", "matrix": "range vector", "string": "string"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Signature:
    """``variadic`` 0: exactly these arguments; n > 0: the last may be left out or repeated up to n times in
    all; -1: the last may be left out or repeated without bound."""

    name: str
    args: tuple[ValueType, ...]
    returns: ValueType = "vector"
    variadic: int = 0
    since: int = 2  # first major version that has it
    until: int = 99  # last one
    experimental: bool = False


_V: tuple[ValueType, ...] = ("vector",)
_M: tuple[ValueType, ...] = ("matrix",)
_SV: tuple[ValueType, ...] = ("scalar", "vector")

_ON_VECTOR = [
    "abs", "ceil", "exp", "floor", "ln", "log2", "log10", "sgn", "sqrt", "sin", "cos", "tan", "asin",
    "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "deg", "rad", "absent", "sort",
    "sort_desc", "timestamp", "histogram_count", "histogram_sum",
]  # fmt: skip
_ON_RANGE = [
    "absent_over_time", "avg_over_time", "changes", "count_over_time", "delta", "deriv", "idelta",
    "increase", "irate", "last_over_time", "max_over_time", "min_over_time", "present_over_time", "rate",
    "resets", "stddev_over_time", "stdvar_over_time", "sum_over_time",
]  # fmt: skip
_CALENDAR = [
    "day_of_month", "day_of_week", "day_of_year", "days_in_month", "hour", "minute", "month", "year",
]  # fmt: skip

_OTHERS = [
    Signature("clamp", ("vector", "scalar", "scalar")),
    Signature("clamp_max", ("vector", "scalar")),
    Signature("clamp_min", ("vector", "scalar")),
    Signature("histogram_quantile", _SV),
    Signature("histogram_fraction", ("scalar", "scalar", "vector")),
    Signature("histogram_avg", _V, since=3),
    Signature("histogram_stddev", _V, since=3),
    Signature("histogram_stdvar", _V, since=3),
    Signature("holt_winters", ("matrix", "scalar", "scalar"), until=2),
    Signature("label_join", ("vector", "string", "string", "string"), variadic=-1),
    Signature("label_replace", ("vector", "string", "string", "string", "string")),
    Signature("pi", (), "scalar"),
    Signature("predict_linear", ("matrix", "scalar")),
    Signature("quantile_over_time", ("scalar", "matrix")),
    Signature("round", ("vector", "scalar"), variadic=1),
    Signature("scalar", _V, "scalar"),
    Signature("time", (), "scalar"),
    Signature("vector", ("scalar",)),
    Signature("double_exponential_smoothing", ("matrix", "scalar", "scalar"), since=3, experimental=True),
    Signature("info", ("vector", "vector"), variadic=1, since=3, experimental=True),
    Signature("mad_over_time", _M, since=3, experimental=True),
    Signature("first_over_time", _M, since=3, experimental=True),
    Signature("ts_of_first_over_time", _M, since=3, experimental=True),
    Signature("ts_of_last_over_time", _M, since=3, experimental=True),
    Signature("ts_of_max_over_time", _M, since=3, experimental=True),
    Signature("ts_of_min_over_time", _M, since=3, experimental=True),
    Signature("sort_by_label", ("vector", "string"), variadic=-1, since=3, experimental=True),
    Signature("sort_by_label_desc", ("vector", "string"), variadic=-1, since=3, experimental=True),
]

SIGNATURES: dict[str, Signature] = {
    signature.name: signature
    for signature in [
        *(Signature(name, _V) for name in _ON_VECTOR),
        *(Signature(name, _M) for name in _ON_RANGE),
        *(Signature(name, _V, variadic=1) for name in _CALENDAR),
        *_OTHERS,
    ]
}


def find_signature(name: str, semantics: int) -> Signature | None:
    """The function of that name in that major version of Prometheus, or None."""
    found = SIGNATURES.get(name)
    return found if found is not None and found.since <= semantics <= found.until else None
