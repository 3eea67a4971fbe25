"""Whole-text regular expression matching in polynomial time, for patterns on which backtracking could explode.

RE2, which Prometheus uses, never takes exponential time; Python's matcher does for ``(a+)+b``. This one carries the
set of positions that a prefix of the pattern can reach, so it is slower per character but cannot explode. It
only says whether a text matches; single characters are judged by Python's own matcher.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce

_QUANTIFIER = re.compile(r"(?:([*+?])|\{(\d+)(,(\d*))?\})\??")
_ATOM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_GROUP = re.compile(r"\((?:\?P?<\w+>|\?([a-zA-Z]*)(?:-[a-z]+)?([:)]))?")

Positions = frozenset[int]
Step = Callable[[str, Positions], Positions]


class LinearPattern:
    """A compiled pattern. ``pattern`` must be one that ``re.compile`` accepts with the same ``flags``."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._text = pattern
        self._at = 0
        self._flags = flags
        self._step = self._alternatives()

    def fullmatch(self, text: str) -> bool:
        """Whether the whole text matches."""
        return len(text) in self._step(text, frozenset({0}))

    def _alternatives(self) -> Step:
        options = [self._sequence()]
        while self._text[self._at : self._at + 1] == "|":
            self._at += 1
            options.append(self._sequence())
        if len(options) == 1:
            return options[0]
        return lambda text, found: frozenset().union(*(option(text, found) for option in options))

    def _sequence(self) -> Step:
        parts: list[Step] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._quantified(self._atom()))
        return lambda text, found: reduce(lambda reached, part: part(text, reached), parts, found)

    def _quantified(self, step: Step) -> Step:
        found = _QUANTIFIER.match(self._text, self._at)
        if found is None:
            return step
        self._at = found.end()
        sign, low, comma, high = found.groups()
        if sign:
            return _repeat(step, int(sign == "+"), 1 if sign == "?" else None)
        least = int(low)
        return _repeat(step, least, least if not comma else int(high) if high else None)

    def _atom(self) -> Step:
        if self._text[self._at] == "(":
            return self._group()
        atom = _ATOM.match(self._text, self._at)
        assert atom is not None
        self._at = atom.end()
        one = re.compile(atom.group(), self._flags)
        return lambda text, found: frozenset(hit.end() for at in found if (hit := one.match(text, at)))

    def _group(self) -> Step:
        opening = _GROUP.match(self._text, self._at)
        assert opening is not None
        self._at = opening.end()
        flags = self._flags
        for letter in opening.group(1) or "":
            self._flags |= getattr(re, letter.upper())
        if opening.group(2) == ")":
            return lambda _, found: found
        inner = self._alternatives()
        self._at += 1
        self._flags = flags
        return inner


def _repeat(step: Step, least: int, most: int | None) -> Step:
    def run(text: str, found: Positions) -> Positions:
        for _ in range(least):
            found = step(text, found)
        reached = frontier = found
        rounds = least
        while frontier and (most is None or rounds < most):
            frontier = step(text, frontier) - reached
            reached |= frontier
            rounds += 1
        return reached

    return run
