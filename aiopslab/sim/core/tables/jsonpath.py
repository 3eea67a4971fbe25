"""The JSONPath of printer columns: fields, indexes, wildcards, slices and equality filters."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r"""\.?\[\s*(?P<filter>\?\(.*?\))\s*\]
      | \.?\[\s*(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\s*\]
      | \.?\[\s*(?P<index>-?\d+)\s*\]
      | \.?\[\s*(?P<slice>-?\d*:-?\d*)\s*\]
      | (?P<all>\.?\[\s*\*\s*\]|\.\*)
      | \.(?P<name>(?:[^.\[\]\\]|\\.)+)""",
    re.VERBOSE,
)
_FILTER = re.compile(r"\?\(\s*@(?P<path>[^=!<>]*?)\s*(?:(?P<op>==|!=)\s*(?P<value>.+?))?\s*\)")


class Step(NamedTuple):
    """One step of a path: ``kind`` is name, index, slice, all or filter."""

    kind: str
    argument: Any


class PathError(ValueError):
    """A path that this subset does not understand."""


@lru_cache(maxsize=512)
def parse(path: str) -> tuple[Step, ...]:
    """Parse ``.spec.items[0].name``. Raises PathError."""
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise PathError(f"cannot read JSONPath {path!r} from position {at}")
        steps.append(_step(match))
        at = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    kind = match.lastgroup or ""
    text = match.group(kind)
    if kind == "name":
        return Step("name", re.sub(r"\\(.)", r"\1", text))
    if kind == "quoted":
        return Step("name", re.sub(r"\\(.)", r"\1", text[1:-1]))
    if kind == "index":
        return Step("index", int(text))
    if kind == "slice":
        start, _, end = text.partition(":")
        return Step("slice", slice(int(start) if start else None, int(end) if end else None))
    if kind == "filter":
        return Step("filter", _parse_filter(text))
    return Step("all", None)


def _parse_filter(text: str) -> tuple[tuple[Step, ...], str, Any]:
    match = _FILTER.fullmatch(text)
    if match is None:
        raise PathError(f"cannot read JSONPath filter {text!r}")
    return parse(match["path"]), match["op"] or "exists", _literal(match["value"])


def _literal(text: str | None) -> Any:
    if text is None:
        return None
    if text[:1] in "'\"":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text


def find(path: str, obj: Any) -> list[Any]:
    """All values at ``path``; missing keys give nothing."""
    return _walk([obj], parse(path))


def _walk(values: list[Any], steps: tuple[Step, ...]) -> list[Any]:
    for kind, argument in steps:
        values = [found for value in values for found in _apply(value, kind, argument)]
    return values


def _apply(value: Any, kind: str, argument: Any) -> list[Any]:
    if kind == "name":
        return [value[argument]] if isinstance(value, dict) and argument in value else []
    if kind == "all":
        return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
    if not isinstance(value, list):
        return []
    if kind == "index":
        return [value[argument]] if -len(value) <= argument < len(value) else []
    if kind == "slice":
        return list(value[argument])
    path, operator, wanted = argument
    return [item for item in value if _matches(_walk([item], path), operator, wanted)]


def _matches(found: list[Any], operator: str, wanted: Any) -> bool:
    if operator == "exists":
        return bool(found)
    return bool(found) and (found[0] == wanted) == (operator == "==")
