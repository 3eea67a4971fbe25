"""From an HTTP request to the operation of a program that answers it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.programspec import Program

_ID = re.compile(r"_?(id|code)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Target:
    """What one request asks for. ``route`` is empty when the program has nothing at that path."""

    route: str
    variables: dict[str, int] = field(default_factory=dict)


class Router:
    """Finds the targets of requests to one program."""

    def __init__(self, entry: Program, programs: Programs) -> None:
        self._entry = entry
        self._programs = programs

    def target(self, raw: str) -> Target:
        """Of a request as it goes over the wire. Path, query and body name the variables of its operation: a word
        of the variable's vocabulary, or a number."""
        head, _, body = raw.partition("\r\n\r\n")
        method, _, rest = head.partition("\r\n")[0].partition(" ")
        where = urlsplit(rest.rpartition(" ")[0] or rest or "/")
        found = match_route(self._entry, self._programs, method, where.path or "/")
        if found is None:
            return Target("")
        name, variables = found
        for key, value in (*parse_qsl(where.query), *_fields(body)):
            self._note(key, value, variables)
        return Target(name, variables)

    def _note(self, key: str, value: str, variables: dict[str, int]) -> None:
        for name in dict.fromkeys((key, _ID.sub("", key))):
            if name in variables:
                return
            vocabulary = self._programs.vocabulary(self._entry, name)
            if vocabulary is not None and value in vocabulary.values:
                variables[vocabulary.by or name] = vocabulary.values.index(value)
            elif vocabulary is None and value.isdecimal() and len(value) < 10:
                variables[name] = int(value)


def match_route(entry: Program, programs: Programs, method: str, path: str) -> tuple[str, dict[str, int]] | None:
    """The route of a path with the numbers of the words that the path holds; None: no such route."""
    path = path.partition("?")[0] or "/"
    for name, op in entry.ops.items():
        if op.method != ("GET" if method == "HEAD" else method):
            continue
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(op.target.partition("?")[0]))
        match = re.fullmatch(pattern, path)
        if match is None:
            continue
        found = {}
        for variable, word in match.groupdict().items():
            words = programs.words(entry, variable)
            found[variable] = words.index(word) if word in words else 0
        return name, found
    return None


def _fields(body: str) -> list[tuple[str, str]]:
    """Names and values of a form or of a JSON object, nested ones included."""
    if not body:
        return []
    try:
        return _leaves(json.loads(body))
    except ValueError:
        return parse_qsl(body)


def _leaves(value: Any, name: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in _leaves(inner, str(key))]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in _leaves(inner, name)]
    return [(name, str(value))] if name and not isinstance(value, bool) else []
