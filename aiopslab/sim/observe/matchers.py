"""Label matchers and label sets, shared by the series store, PromQL and the HTTP API.

A label set is a tuple of ``(name, value)`` pairs sorted by name, the metric name being ``__name__``; it has no
empty values, because Prometheus does not tell an empty label from an absent one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal

from aiopslab.sim.observe.linear import LinearPattern

Labels = tuple[tuple[str, str], ...]
MatchOp = Literal["=", "!=", "=~", "!~"]
NAME = "__name__"

_LITERAL = re.compile(r"[^\\.+*?()|\[\]{}^$]*")
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": "\\x00-\\x7f", "blank": "\\t ", "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_ESCAPE_OR_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]", re.DOTALL)
_REFUSED = re.compile(r"\\[1-9]|\(\?(?:[=!>]|<[=!]|P=|\()|[*+?}]\+")


class BadRegex(ValueError):
    """A pattern that RE2 would refuse. ``str`` is what comes after ``error parsing regexp: ``."""


def make_labels(pairs: Mapping[str, str] | Iterable[tuple[str, str]]) -> Labels:
    """Sorted label set without empty values."""
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    return tuple(sorted(pair for pair in items if pair[1]))


class Regex:
    """An RE2 pattern, matched against whole texts."""

    def __init__(self, pattern: str, flags: int, *, explosive: bool) -> None:
        self._python = re.compile(pattern, flags)
        # Decides first where Python's matcher might not come back; what matches, it then finds quickly.
        self._linear = LinearPattern(pattern, flags) if explosive else None

    def matches(self, text: str) -> bool:
        """Does the whole text match?"""
        if self._linear is not None:
            return self._linear.fullmatch(text)
        return self._python.fullmatch(text) is not None

    def find(self, text: str) -> re.Match[str] | None:
        """The match of the whole text with its groups."""
        if self._linear is not None and not self._linear.fullmatch(text):
            return None
        return self._python.fullmatch(text)


@lru_cache(maxsize=512)
def compile_regex(pattern: str, dot_all: bool) -> Regex:
    """Read an RE2 pattern. Raises BadRegex.

    Character classes are ASCII as in RE2; look-around, back-references and possessive quantifiers, which RE2
    does not have, are refused.
    """
    # What is escaped or in brackets is harmless, except for a back-reference.
    bare = _ESCAPE_OR_CLASS.sub(lambda found: found.group() if found.group()[1:].isdigit() else ".", pattern)
    refused = _REFUSED.search(bare)
    if refused:
        raise BadRegex(f"invalid or unsupported Perl syntax: `{refused.group()}`")
    text = re.sub(r"\[:(\^?)(\w+):\]", _posix_class, pattern).replace("\\z", "\\Z").replace("(?U)", "")
    try:
        flags = re.ASCII | (re.DOTALL if dot_all else re.NOFLAG)
        return Regex(text, flags, explosive=_may_explode(bare))
    except (re.error, OverflowError, RecursionError) as error:
        raise BadRegex(_re2_message(pattern, str(error))) from None


def _may_explode(bare: str) -> bool:
    """Whether a repeated group repeats or branches inside, as in ``(a+)+`` and ``(a|b)*``."""
    inner = [False]
    for at, char in enumerate(bare):
        if char == "(":
            inner.append(False)
        elif char == ")" and len(inner) > 1:
            risky, repeated = inner.pop(), bare[at + 1 : at + 2] in ("*", "+", "{")
            if risky and repeated:
                return True
            inner[-1] |= risky or repeated
        elif char in "*+{|":
            inner[-1] = True
    return False


def _posix_class(found: re.Match[str]) -> str:
    negated, name = found.groups()
    if name not in _POSIX or negated:
        raise BadRegex(f"invalid character class range: `{found.group()}`")
    return _POSIX[name]


def _re2_message(pattern: str, message: str) -> str:
    """Python's complaint in RE2's words. RE2 sees the anchored pattern."""
    anchored = f"^(?:{pattern})$"
    if "unterminated subpattern" in message:
        return f"missing closing ): `{anchored}`"
    if "unbalanced parenthesis" in message:
        return f"unexpected ): `{anchored}`"
    if "nothing to repeat" in message or "multiple repeat" in message:
        at = int(re.search(r"position (\d+)", message).group(1)) if "position" in message else 0  # type: ignore[union-attr]
        return f"missing argument to repetition operator: `{pattern[at : at + 1]}`"
    if "unterminated character set" in message:
        return f"missing closing ]: `{anchored[anchored.index('[') :]}`"
    if "bad escape" in message:
        escape = re.search(r"\\.?", message.partition("bad escape")[2])
        return f"invalid escape sequence: `{escape.group() if escape else pattern}`"
    if "bad character range" in message:
        return f"invalid character class range: `{message.split()[3]}`"
    return f"{message}: `{anchored}`"


class Matcher:
    """One condition on one label. Immutable; remembers its verdict on each value it saw."""

    __slots__ = ("_allowed", "_pattern", "_seen", "name", "op", "value")

    def __init__(self, name: str, op: MatchOp, value: str, *, dot_all: bool = True) -> None:
        self.name, self.op, self.value = name, op, value
        self._seen: dict[str, bool] = {}
        self._allowed: frozenset[str] | None = None
        self._pattern: Regex | None = None
        if op in ("=~", "!~"):
            self._pattern = compile_regex(value, dot_all)
            options = value.split("|")
            if all(_LITERAL.fullmatch(option) for option in options):
                self._allowed = frozenset(options)
        else:
            self._allowed = frozenset((value,))

    def __repr__(self) -> str:
        return f"{self.name}{self.op}{self.value!r}"

    @property
    def allowed(self) -> frozenset[str] | None:
        """The only values that can match, when the matcher is positive and they can be listed."""
        return self._allowed if self.op in ("=", "=~") else None

    def matches(self, value: str) -> bool:
        """Does a label value (``""`` for an absent label) match?"""
        verdict = self._seen.get(value)
        if verdict is None:
            if self._allowed is not None:
                hit = value in self._allowed
            else:
                assert self._pattern is not None
                hit = self._pattern.matches(value)
            verdict = self._seen[value] = hit == (self.op in ("=", "=~"))
        return verdict
