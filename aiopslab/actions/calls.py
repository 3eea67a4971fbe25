"""Calls inside a text: where they are and what their arguments are.

A call is read as Python reads it. Where that fails, forms with one possible meaning are read too: line breaks
inside plain quotes, typographic quotes, unescaped inner quotes of a command, and bare words. Quoting is
undone exactly once.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field
from typing import Any

_NAME_AND_PAREN = r"(?<![\w.\-/$])({names})[ \t]*\("
_SMART = str.maketrans({"“": '"', "”": '"', "„": '"', "‟": '"', "‘": "'", "’": "'", "‚": "'"})
_COMMAND_END = re.compile(
    r"""(?P<quote>["'])[ \t]*"""
    r"""(?:,[ \t]*(?:timeout[ \t]*=[ \t]*)?["']?(?P<timeout>\d+(?:\.\d+)?)s?["']?[ \t]*)?,?[ \t]*\)"""
    r"""[)`* \t]*(?:;)?[ \t]*(?=\n|\Z)"""
)
_COMMAND_START = re.compile(r"""[ \t\n]*(?:command[ \t]*=[ \t]*)?(?P<quote>["'])""")
_BARE_WORD = re.compile(r"[A-Za-z0-9_./:-]+\Z")


class Unreadable(Exception):
    """The call's arguments cannot be read; the text says why."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call found in a text: ``[start, end)`` is its place; ``notes`` say where the reading was lenient."""

    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    start: int
    end: int
    notes: tuple[str, ...] = field(default=())

    def same_as(self, other: Call) -> bool:
        """Whether both calls ask for the same thing."""
        return (self.name, self.args, self.kwargs) == (other.name, other.args, other.kwargs)


def find_names(text: str, names: list[str]) -> list[re.Match[str]]:
    """All places where one of ``names`` is followed by an opening parenthesis."""
    pattern = _NAME_AND_PAREN.format(
        names="|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    )
    return list(re.finditer(pattern, text)) if names else []


def read_call(text: str, found: re.Match[str], *, command_like: bool, bare_words: bool = True) -> Call:
    """Read the call whose name and parenthesis ``found`` matched.

    ``command_like``: its first argument is a command, so unescaped inner quotes and an unquoted command have
    one meaning. ``bare_words``: accept ``get_logs(shop, cart)``. Raises ``Unreadable``.
    """
    name, start, body = found.group(1), found.start(), found.end()
    inner = text[body:]
    for variant, note in _variants(inner):
        end = _strict_end(variant)
        if end is not None:
            args, kwargs, notes = _arguments(variant[:end], bare_words=bare_words)
            return Call(name, args, kwargs, start, body + end + 1, (*note, *notes))
    if command_like:
        lenient = _command(inner)
        if lenient is not None:
            command, kwargs, length, lenient_note = lenient
            return Call(name, [command], kwargs, start, body + length, (lenient_note,))
    if command_like and inner.lstrip()[:1] not in ('"', "'", "*"):
        raise Unreadable(f"the command of {name} is not in quotes; put all of it into one pair of them")
    raise Unreadable(_why_unreadable(name, inner))


def _variants(inner: str) -> list[tuple[str, tuple[str, ...]]]:
    found: list[tuple[str, tuple[str, ...]]] = [(inner, ())]
    smart = inner.translate(_SMART)
    if smart != inner:
        found.append((smart, ("typographic quotes were read as straight ones",)))
    return found


def _strict_end(inner: str) -> int | None:
    """Offset of the parenthesis that closes the call when the text up to it is a Python argument list."""
    end = _scan_end(inner)
    if end is None or _tree(inner[:end]) is None:
        return None
    return end


def _scan_end(inner: str) -> int | None:
    depth, at = 0, 0
    while at < len(inner):
        char = inner[at]
        if char in "\"'":
            closing = _string_end(inner, at)
            if closing is None:
                return None
            at = closing
            continue
        if char == "#":
            at = inner.find("\n", at)
            if at < 0:
                return None
            continue
        if char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0:
                return at if char == ")" else None
            depth -= 1
        at += 1
    return None


def _string_end(text: str, start: int) -> int | None:
    quote = text[start]
    mark = quote * 3 if text.startswith(quote * 3, start) else quote
    at = start + len(mark)
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text.startswith(mark, at):
            return at + len(mark)
        else:
            at += 1
    return None


def _tree(arguments: str) -> ast.Call | None:
    for source in (arguments, _escape_line_breaks(arguments)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "\." and the like: Python keeps the backslash, and so do we
                node = ast.parse(f"f({source}\n)", mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        if isinstance(node, ast.Call):
            return node
    return None


def _escape_line_breaks(arguments: str) -> str:
    """Line breaks inside plain quotes become escapes, so that Python accepts the string as written."""
    parts: list[str] = []
    at = 0
    while at < len(arguments):
        if arguments[at] in "\"'":
            end = _string_end(arguments, at)
            if end is None:
                return arguments
            string = arguments[at:end]
            if not string.startswith(('"""', "'''")):
                string = re.sub(r"(?<!\\)((?:\\\\)*)\n", r"\1\\n", string)
            parts.append(string)
            at = end
        else:
            parts.append(arguments[at])
            at += 1
    return "".join(parts)


def _arguments(source: str, *, bare_words: bool) -> tuple[list[Any], dict[str, Any], tuple[str, ...]]:
    node = _tree(source)
    if node is None:
        raise Unreadable("the arguments are not a Python argument list")
    notes: list[str] = []
    args = [_value(item, source, notes, bare_words) for item in node.args]
    kwargs: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise Unreadable("`**` cannot be used in a call")
        kwargs[keyword.arg] = _value(keyword.value, source, notes, bare_words)
    return args, kwargs, tuple(dict.fromkeys(notes))


def _value(node: ast.expr, source: str, notes: list[str], bare_words: bool) -> Any:
    if isinstance(node, ast.Starred):
        raise Unreadable("`*` cannot be used in a call")
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = (_value(side, source, notes, False) for side in (node.left, node.right))
        if isinstance(left, str) and isinstance(right, str):
            return left + right
    words = ast.unparse(node).replace(" ", "")
    if bare_words and _BARE_WORD.match(words):
        notes.append(f"`{words}` was read as a string; quote strings")
        return {"true": True, "false": False, "null": None}.get(words, words)
    raise Unreadable(
        f"`{ast.unparse(node)[:60]}` is not a plain value; use quoted strings, numbers, lists or dictionaries"
    )


def _command(inner: str) -> tuple[str, dict[str, Any], int, str] | None:
    """A command whose quotes Python cannot pair: from the first quote to the last one before the end of the
    call.
    """
    opening = _COMMAND_START.match(inner)
    if opening is None:
        return _unquoted_command(inner)
    quote = opening.group("quote")
    for closing in _COMMAND_END.finditer(inner, opening.end()):
        if closing.group("quote") != quote:
            continue
        raw = inner[opening.end() : closing.start()]
        command = _unescape(raw, quote)
        kwargs = {"timeout": closing.group("timeout")} if closing.group("timeout") else {}
        shown = command if len(command) <= 300 else command[:297] + "..."
        return command, kwargs, closing.end(), f"inner quotes were not escaped; the command was read as: {shown}"
    return None


def _unquoted_command(inner: str) -> tuple[str, dict[str, Any], int, str] | None:
    line = inner.split("\n", 1)[0].rstrip()
    if not line.endswith(")") or any(char in line for char in "\"'`"):
        return None
    command = line[:-1].strip()
    if " " not in command or command.count("(") != command.count(")"):
        return None
    return command, {}, len(line), "the command was not quoted; quote it"


def _unescape(raw: str, quote: str) -> str:
    literal = re.sub(
        r'(\\.)|(["\n])', lambda m: m.group(1) or {'"': '\\"', "\n": "\\n"}[m.group(2)], raw, flags=re.DOTALL
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(f'"{literal}"')
    except (SyntaxError, ValueError):
        return raw.replace(f"\\{quote}", quote)
    return str(value)


def _why_unreadable(name: str, inner: str) -> str:
    stripped = inner.lstrip()
    if stripped[:1] in ('"', "'") and _string_end(stripped, 0) is None:
        return f"the string that starts with {stripped[:25]!r} is not closed (was the reply cut off?)"
    if _scan_end(inner) is None:
        return f"{name}( is not closed: the closing parenthesis or a closing quote is missing"
    return f"the arguments of {name} are not a Python argument list (look at the quotes and commas)"
