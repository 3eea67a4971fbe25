"""Reading what an agent submitted: any JSON value in, a plain answer or None out. Never raises.

Agents answer in many shapes (``True``, ``"Yes."``, ``{"has_anomaly": "yes"}``, a JSON text, a bulleted list).
An answer that can be read in one way only is read; anything else is None, and the grader says so.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from typing import Any

_YES = frozenset({"yes", "y", "true", "1", "anomaly", "anomalydetected", "detected", "faulty", "unhealthy"})
_NO = frozenset({"no", "n", "false", "0", "none", "noanomaly", "noanomalydetected", "healthy", "normal"})
_NOTHING = frozenset({"", "none", "null", "nothing", "na", "noanomaly", "nofault", "healthy", "no", "empty"})
_ANOMALY_KEYS = ("hasanomaly", "anomaly", "detected", "answer", "detection", "value")
_COMPONENT_KEYS = (
    "faultycomponents", "components", "faultyservices", "services", "rootcauses", "rootcause", "answer",
    "localization", "component", "service", "name", "workload", "deployment", "pod",
)  # fmt: skip
_ANSWER_KEYS = ("analysis", "answer", "value")
_DEPTH_MAX = 8  # nesting beyond this is no answer; keeps recursion bounded
_TEXT_MAX = 20_000  # characters; a longer text is no answer


def squash(value: object) -> str:
    """Letters and digits only, lower case: the form in which names and labels are compared."""
    return "".join(letter for letter in str(value).casefold() if letter.isalnum())


def yes_or_no(value: Any, depth: int = 0) -> bool | None:
    """True for "there is an anomaly", False for "there is none", None when neither can be read."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return bool(value) if value in (0, 1) else None
    if isinstance(value, str) and len(value) <= _TEXT_MAX:
        return _yes_or_no_text(value)
    if depth >= _DEPTH_MAX:
        return None
    if isinstance(value, list | tuple) and len(value) == 1:
        return yes_or_no(value[0], depth + 1)
    if isinstance(value, dict):
        inner = _by_key(value, _ANOMALY_KEYS)
        return None if inner is None else yes_or_no(inner, depth + 1)
    return None


def _yes_or_no_text(text: str) -> bool | None:
    word = squash(text)
    if word in _YES or word in _NO:
        return word in _YES
    first = re.match(r"\W*(yes|no)\b[\s,.;:!—–-]", text.strip().casefold())
    return None if first is None else first.group(1) == "yes"


def names(value: Any, depth: int = 0) -> list[str] | None:
    """Component names in the order given, as written; ``[]`` for "none"; None when nothing can be read."""
    if value is None:
        return []
    if isinstance(value, str):
        return _names_text(value, depth)
    if depth >= _DEPTH_MAX or isinstance(value, bool | int | float):
        return None
    if isinstance(value, dict):
        if not value:
            return []
        inner = _by_key(value, _COMPONENT_KEYS)
        return None if inner is None else names(inner, depth + 1)
    if isinstance(value, list | tuple):
        return _flatten(names(item, depth + 1) for item in value)
    return None


def _flatten(parts: Iterable[list[str] | None]) -> list[str] | None:
    found: list[str] = []
    for part in parts:
        if part is None:
            return None
        found.extend(part)
    return found


def _names_text(text: str, depth: int) -> list[str] | None:
    if len(text) > _TEXT_MAX:
        return None
    text = text.strip()
    if squash(text) in _NOTHING:
        return []
    if text[:1] in "[{(" and depth < _DEPTH_MAX:
        value = literal(text)
        return None if value is None else names(value, depth + 1)
    parts = re.split(r"[,;\n]|\s+and\s+", text)
    stripped = (re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", part).strip(" \t\"'`") for part in parts)
    return [part for part in stripped if part]


def labels(value: Any, keys: Iterable[str]) -> dict[str, str] | None:
    """The text under each of ``keys`` (key spelling is free); ``{}`` for "no fault"; None when not a mapping.

    A list of one counts as its element; a list of several is hedging and is left out.
    """
    for _ in range(_DEPTH_MAX):
        if isinstance(value, str) and value.strip()[:1] == "{" and len(value) <= _TEXT_MAX:
            value = literal(value.strip())
        elif isinstance(value, dict) and len(value) == 1 and _by_key(value, _ANSWER_KEYS) is not None:
            value = _by_key(value, _ANSWER_KEYS)
        elif isinstance(value, list | tuple) and len(value) == 1:
            value = value[0]
        else:
            break
    if value is None or value in ([], {}, ()) or (isinstance(value, str) and squash(value) in _NOTHING):
        return {}
    if not isinstance(value, dict):
        return None
    found: dict[str, str] = {}
    for key in keys:
        text = _one_text(_by_key(value, (squash(key),)))
        if text is not None:
            found[key] = text
    return found


def _one_text(value: Any) -> str | None:
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, str) and len(value) <= _TEXT_MAX else None


def _by_key(mapping: dict[Any, Any], wanted: Iterable[str]) -> Any:
    by_squashed = {squash(key): item for key, item in mapping.items() if isinstance(key, str)}
    return next((by_squashed[key] for key in wanted if by_squashed.get(key) is not None), None)


def literal(text: str) -> Any:
    """The value of a JSON or Python literal, or None. Bounded: the text is short, and nothing is run."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


def shown(value: Any, most: int = 120) -> str:
    """A short, printable form of a submitted value for a check's detail."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        text = type(value).__name__
    text = " ".join(text.split())
    text = text if len(text) <= most else text[: most - 1] + "…"
    return repr(text) if isinstance(value, str) else text
