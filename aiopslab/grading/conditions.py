"""Conditions on objects of a snapshot: how a fault says that its cause is gone.

A condition is ``{resource, name, path, op, value[, namespace]}``. ``path`` is dotted: ``spec.ports[0].targetPort``,
``spec.ports[name=grpc].targetPort``, ``metadata.annotations["a.b/c"]``, ``spec.ports[*].port`` (all values must
satisfy the condition). Without ``path`` the object itself is meant (``exists`` and ``absent``).

    equals, not_equals   compare by value; a number and its text are equal ("8080" and 8080)
    exists, absent       the path leads to something, or to nothing
    at_least             a number that is >= value

An object that the snapshot does not have makes every condition but ``absent`` fail. ``{{before:KEY}}`` as
``value`` is what the injector saved under KEY before it changed anything, else the value at the path KEY of the
same object in the snapshot before the injection; when neither is there, the condition is unjudged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aiopslab.grading.answers import shown
from aiopslab.grading.evidence import name_of, plural_of
from aiopslab.record import Check, Snapshot

OPS = ("equals", "not_equals", "exists", "absent", "at_least")

_WORDS = {"equals": "equal to", "not_equals": "not", "at_least": "at least"}
_SEGMENT = re.compile(
    r"""\.?([^.\[\]]+)|\[(\d+)\]|\[(\*)\]|\["([^"]+)"\]|\['([^']+)'\]|\[([^=\]]+)=([^\]]*)\]"""
)
_BEFORE = re.compile(r"^\{\{\s*before:(.*?)\s*\}\}$")


def evaluate(
    condition: Mapping[str, Any],
    end: Snapshot | None,
    before: Snapshot | None,
    saved: Mapping[str, Any] | None = None,
) -> Check:
    """One condition as a check called ``cause``. Never raises; an unusable condition is unjudged."""
    resource, name = str(condition.get("resource", "")), str(condition.get("name", ""))
    path, op = str(condition.get("path") or ""), str(condition.get("op", ""))
    where = f"{plural_of(resource)}/{name}" + (f" {path}" if path else "")
    if op not in OPS:
        return Check(name="cause", ok=None, detail=f"The condition on {where} has the unknown op {op!r}.")
    if end is None:
        return Check(name="cause", ok=None, detail=f"There is no snapshot of the end to look {where} up in.")
    if not (_covers(end, resource) or _covers(before, resource)):
        return Check(name="cause", ok=None, detail=f"The snapshots do not hold {resource}.")
    wanted = _wanted(condition, before, saved or {})
    if wanted is None and op not in ("exists", "absent"):
        detail = f"What {where} was before the injection is not in the record."
        return Check(name="cause", ok=None, detail=detail)
    values = look_up(_find(end, condition), path)
    ok = _holds(op, values, wanted)
    if op in ("exists", "absent"):
        state = "is there" if values else "is not there"
        return Check(name="cause", ok=ok, detail=f"{where} {state}; wanted: {op}.")
    found = ", ".join(shown(value, 60) for value in values) if values else "not there"
    return Check(name="cause", ok=ok, detail=f"{where} is {found}; wanted: {_WORDS[op]} {shown(wanted, 60)}.")


def _covers(snapshot: Snapshot | None, resource: str) -> bool:
    plurals = {plural_of(key) for key in snapshot.objects} if snapshot else set()
    return plural_of(resource) in plurals


def _find(snapshot: Snapshot | None, condition: Mapping[str, Any]) -> Any:
    plural = plural_of(str(condition.get("resource", "")))
    namespace = condition.get("namespace")
    for resource, rows in sorted(snapshot.objects.items()) if snapshot else ():
        if plural_of(resource) != plural:
            continue
        for obj in rows:
            same_place = not namespace or obj["metadata"].get("namespace") == namespace
            if name_of(obj) == condition.get("name") and same_place:
                return obj
    return None


def _wanted(condition: Mapping[str, Any], before: Snapshot | None, saved: Mapping[str, Any]) -> Any:
    value = condition.get("value")
    match = _BEFORE.match(value) if isinstance(value, str) else None
    if match is None:
        return value
    if match.group(1) in saved:
        return saved[match.group(1)]
    found = look_up(_find(before, condition), match.group(1))
    return found[0] if found else None


def look_up(obj: Any, path: str) -> list[Any]:
    """Every value that ``path`` leads to in ``obj``, in order; empty when it leads nowhere."""
    values = [] if obj is None else [obj]
    for match in _SEGMENT.finditer(path):
        key, index, star, quoted, quoted2, field, wanted = match.groups()
        if index is not None or (key or "").isdigit():
            position = int(index if index is not None else key)
            values = [value[position] for value in values if _is_list(value) and position < len(value)]
        elif star:
            values = [item for value in values if _is_list(value) for item in value]
        elif field is not None:
            rows = [item for value in values if _is_list(value) for item in value if isinstance(item, dict)]
            values = [row for row in rows if str(row.get(field)) == wanted.strip("\"'")]
        else:
            step = key or quoted or quoted2
            values = [value[step] for value in values if isinstance(value, dict) and step in value]
    return [value for value in values if value is not None]


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _holds(op: str, values: list[Any], wanted: Any) -> bool:
    if op == "absent":
        return not values
    if not values:
        return False
    if op == "exists":
        return True
    if op == "at_least":
        least = _number(wanted)
        numbers = [_number(value) for value in values]
        return least is not None and all(number is not None and number >= least for number in numbers)
    same = [_same(value, wanted) for value in values]
    return all(same) if op == "equals" else not any(same)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _same(value: Any, wanted: Any) -> bool:
    if value == wanted:
        return True
    if isinstance(value, bool) or isinstance(wanted, bool):
        return str(value).casefold() == str(wanted).casefold()
    scalar = int | float | str
    return isinstance(value, scalar) and isinstance(wanted, scalar) and str(value) == str(wanted)
