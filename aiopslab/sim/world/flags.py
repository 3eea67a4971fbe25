"""Feature flags as a flag service has them: variants, a default, and targeting rules over a context.

The file format is that of flagd (https://flagd.dev/schema/v0/flags.json), of which this reads what decides a
value: ``state``, ``variants``, ``defaultVariant`` and ``targeting`` with the operators ``if``, ``==``, ``!=``,
``in``, ``and``, ``or``, ``!`` and ``var``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Context = Mapping[str, str]


class Flags:
    """The flags of one file. A file that is not valid has none."""

    def __init__(self, text: str) -> None:
        self._flags = _flags(text)

    def value(self, name: str, context: Context, default: float = 0.0) -> float:
        """The flag's value as a number: 1 for true; ``default`` when it is unknown or disabled."""
        flag = self._flags.get(name)
        if not isinstance(flag, dict) or flag.get("state") != "ENABLED":
            return default
        variants = flag.get("variants") or {}
        variant = flag.get("defaultVariant")
        if flag.get("targeting"):
            chosen = _evaluate(flag["targeting"], context)
            chosen = str(chosen).lower() if isinstance(chosen, bool) else chosen
            variant = chosen if chosen in variants else variant
        value = variants.get(variant)
        return float(value) if isinstance(value, bool | int | float) else default


def _flags(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    found = data.get("flags") if isinstance(data, dict) else None
    return found if isinstance(found, dict) else {}


def _evaluate(rule: Any, context: Context) -> Any:
    """One JsonLogic rule; an operator that is not known gives None."""
    if not isinstance(rule, dict) or len(rule) != 1:
        return rule
    ((operator, given),) = rule.items()
    terms = given if isinstance(given, list) else [given]
    if operator == "var":
        return context.get(str(terms[0]))
    if operator == "if":
        return _branch(terms, context)
    values = [_evaluate(term, context) for term in terms]
    if operator in ("==", "==="):
        return values[0] == values[1]
    if operator in ("!=", "!=="):
        return values[0] != values[1]
    if operator == "in":
        return isinstance(values[1], list | str) and values[0] in values[1]
    if operator == "and":
        return all(values)
    if operator == "or":
        return any(values)
    return not values[0] if operator == "!" else None


def _branch(terms: list[Any], context: Context) -> Any:
    """Condition, result, condition, result, ..., and perhaps what holds otherwise."""
    for condition, result in zip(terms[::2], terms[1::2], strict=False):
        if _evaluate(condition, context):
            return _evaluate(result, context)
    return _evaluate(terms[-1], context) if len(terms) % 2 else None
