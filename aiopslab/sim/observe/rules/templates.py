"""Templates of labels and annotations: the part of Go's template language that alert rules use.

An action is ``{{ value | function ... }}`` where a value is ``$labels.NAME``, ``$value``, ``.Labels.NAME``,
``.Value``, a quoted text or a number; ``index $labels "NAME"`` and ``printf FORMAT VALUE...`` are values too.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping

from aiopslab.sim.observe.promql.numbers import format_plain

Value = str | float
_ACTION = re.compile(r"\{\{-?(.*?)-?\}\}", re.DOTALL)
_LABEL = re.compile(r"(?:\$labels|\.Labels)\.([a-zA-Z_]\w*)")
_VERB = re.compile(r"%[-+ 0#]*\d*(?:\.\d+)?([a-z%])")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_SMALL = ("", "m", "u", "n", "p", "f", "a", "z", "y")
_BINARY = ("", "ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")


class TemplateError(ValueError):
    """A template that cannot be used. ``str`` says where."""


def expand(text: str, labels: Mapping[str, str], value: float) -> str:
    """Fill in a template for one alert. Raises TemplateError."""
    if "{{" not in text:
        return text
    return _ACTION.sub(lambda found: _show(_pipeline(found.group(1), labels, value)), text)


def _pipeline(action: str, labels: Mapping[str, str], value: float) -> Value:
    stages = [_words(stage) for stage in _split(action)]
    current = _term(stages[0], labels, value)
    for stage in stages[1:]:
        current = _apply(stage[0], [_atom(word, labels, value) for word in stage[1:]] + [current])
    return current


def _split(action: str) -> list[str]:
    """Stages of a pipeline; a bar inside quotes separates nothing."""
    return [part.strip() for part in re.split(r"\|(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", action)]


def _words(stage: str) -> list[str]:
    lexer = shlex.shlex(stage, posix=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError as problem:
        raise TemplateError(f"template action {stage!r}: {problem}") from None
    if not words:
        raise TemplateError("template action without a value")
    return words


def _term(words: list[str], labels: Mapping[str, str], value: float) -> Value:
    if len(words) == 1:
        return _atom(words[0], labels, value)
    if words[0] == "index" and words[1] in ("$labels", ".Labels") and len(words) == 3:
        return labels.get(str(_atom(words[2], labels, value)), "")
    return _apply(words[0], [_atom(word, labels, value) for word in words[1:]])


def _atom(word: str, labels: Mapping[str, str], value: float) -> Value:
    found = _LABEL.fullmatch(word)
    if found:
        return labels.get(found.group(1), "")
    if word in ("$value", ".Value"):
        return value
    if len(word) >= 2 and word[0] == word[-1] and word[0] in "\"`":
        return word[1:-1]
    try:
        return float(word)
    except ValueError:
        raise TemplateError(f"template: undefined value or function {word!r}") from None


def _apply(name: str, values: list[Value]) -> Value:
    if name == "printf":
        return _printf(str(values[0]), values[1:])
    function = FUNCTIONS.get(name)
    if function is None or len(values) != 1:
        raise TemplateError(f"template: function {name!r} not defined for {len(values)} values")
    return function(values[0])


def _printf(form: str, values: list[Value]) -> str:
    rest = list(values)

    def fill(found: re.Match[str]) -> str:
        verb = found.group(1)
        if verb == "%":
            return "%"
        if not rest:
            return f"%!{verb}(MISSING)"
        head = found.group()[:-1]
        taken = rest.pop(0)
        if verb in "feg":
            return (head + verb) % _number(taken)
        if verb == "d":
            return (head + "d") % int(_number(taken))
        return (head + "s") % _show(taken)

    return _VERB.sub(fill, form)


def _show(value: Value) -> str:
    return value if isinstance(value, str) else format_plain(value)


def _number(value: Value) -> float:
    try:
        return float(value)
    except ValueError:
        raise TemplateError(f"template: {value!r} is not a number") from None


def _significant(value: float) -> str:
    return f"{value:.4g}"


def humanize(value: Value) -> str:
    """``12345`` to ``12.35k``: four digits and an SI prefix."""
    number = _number(value)
    if number == 0 or not math.isfinite(number):
        return _significant(number)
    power, scaled = 0, number
    if abs(number) >= 1:
        while abs(scaled) >= 1000 and power < len(_DECIMAL) - 1:
            scaled, power = scaled / 1000, power + 1
        return _significant(scaled) + _DECIMAL[power]
    while abs(scaled) < 1 and power < len(_SMALL) - 1:
        scaled, power = scaled * 1000, power + 1
    return _significant(scaled) + _SMALL[power]


def humanize_binary(value: Value) -> str:
    """``2048`` to ``2ki``."""
    number, power = _number(value), 0
    if not math.isfinite(number):
        return _significant(number)
    while abs(number) >= 1024 and power < len(_BINARY) - 1:
        number, power = number / 1024, power + 1
    return _significant(number) + _BINARY[power]


def humanize_percentage(value: Value) -> str:
    """``0.125`` to ``12.5%``."""
    return f"{_significant(_number(value) * 100)}%"


def humanize_duration(value: Value) -> str:
    """Seconds to ``1d 2h 3m 4s``, or to milliseconds and below for short ones."""
    number = _number(value)
    if not math.isfinite(number):
        return _significant(number)
    if abs(number) < 1:
        return "0s" if number == 0 else humanize(number) + "s"
    sign = "-" if number < 0 else ""
    whole = int(abs(number))
    if whole < 60:
        return f"{_significant(number)}s"
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    first = next(i for i, (count, _) in enumerate(parts) if count)
    return sign + " ".join(f"{count}{unit}" for count, unit in parts[first:])


FUNCTIONS: dict[str, Callable[[Value], Value]] = {
    "humanize": humanize,
    "humanize1024": humanize_binary,
    "humanizePercentage": humanize_percentage,
    "humanizeDuration": humanize_duration,
    "title": lambda value: _show(value).title(),
    "toUpper": lambda value: _show(value).upper(),
    "toLower": lambda value: _show(value).lower(),
}
