"""Gives the arguments of a call to an action's parameters, as lenient as the meaning allows."""

from __future__ import annotations

import math
import re
from typing import Any

from aiopslab.actions.spec import ActionSpec, Param
from aiopslab.errors import did_you_mean

_AMOUNT = re.compile(
    r"\s*(\d+(?:\.\d+)?)\s*(s|sec|secs|seconds?|m|min|mins|minutes?|h|hrs?|hours?)?\s*\Z", re.IGNORECASE
)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class BindingError(Exception):
    """The arguments do not fit the action; the text says which and why."""


def bind(spec: ActionSpec, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by parameter name, converted to the parameters' kinds, defaults filled in. Raises
    ``BindingError``.
    """
    given = _by_name(spec, args, kwargs)
    missing = [p.name for p in spec.params if p.required and p.name not in given]
    if missing:
        raise BindingError(
            f"{spec.name} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} missing."
        )
    return {p.name: _convert(spec, p, given[p.name]) if p.name in given else p.default for p in spec.params}


def _by_name(spec: ActionSpec, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = [p.name for p in spec.params]
    if len(args) > len(names) and not spec.extra_ignored:
        raise BindingError(f"{spec.name} takes {_count(len(names))}, {len(args)} were given.")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise BindingError(f"{spec.name} got {name} twice.")
        if name not in names:
            if spec.extra_ignored:
                continue
            near = did_you_mean(name, names, most=1)
            raise BindingError(
                f"{spec.name} has no parameter {name!r}{f'; did you mean {near[0]}?' if near else '.'}"
            )
        given[name] = value
    return given


def _count(number: int) -> str:
    return "no arguments" if number == 0 else "1 argument" if number == 1 else f"{number} arguments"


def _convert(spec: ActionSpec, param: Param, value: Any) -> Any:
    if param.kind == "any":
        return value
    if param.kind == "text":
        return _text(spec, param, value)
    return _amount(spec, param, value)


def _text(spec: ActionSpec, param: Param, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    if value is None and not param.required:
        return str(param.default)
    what = "one string, not a list; join commands with && or line breaks" if isinstance(value, list) else "a string"
    raise BindingError(f"{param.name} of {spec.name} must be {what}.")


def _amount(spec: ActionSpec, param: Param, value: Any) -> float | int:
    unit_s = 60.0 if param.kind == "minutes" else 1.0
    if value is None and not param.required:
        return param.default
    number = _seconds(value, unit_s)
    if number is None:
        more = ""
        if param.name == "timeout" and isinstance(value, str):
            more = f" {spec.name} takes one command: join several with && or line breaks."
        raise BindingError(
            f"{param.name} of {spec.name} must be a number of {param.kind}, not {_short(value)}.{more}"
        )
    amount = number / unit_s
    if amount <= 0:
        raise BindingError(f"{param.name} of {spec.name} must be greater than 0, not {_short(value)}.")
    return int(amount) if amount.is_integer() else amount


def _seconds(value: Any, unit_s: float) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) * unit_s if math.isfinite(value) else None
    found = _AMOUNT.match(value) if isinstance(value, str) else None
    if found is None:
        return None
    unit = (found.group(2) or "").lower()[:1]
    return float(found.group(1)) * _SECONDS.get(unit, unit_s)


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
