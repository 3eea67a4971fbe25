"""PromQL tokens. Errors carry the texts and positions of Prometheus' own lexer."""

from __future__ import annotations

from dataclasses import dataclass

from aiopslab.sim.observe.promql.errors import ParseError

SET_OPERATORS = frozenset({"and", "or", "unless"})
AGGREGATORS = frozenset({
    "sum", "avg", "count", "min", "max", "group", "stddev", "stdvar", "topk", "bottomk", "count_values", "quantile",
})  # fmt: skip
OPERATOR_WORDS = SET_OPERATORS | {"atan2"}
CLAUSE_WORDS = frozenset({"offset", "by", "without", "on", "ignoring", "group_left", "group_right", "bool"})
KEYWORDS = OPERATOR_WORDS | AGGREGATORS | CLAUSE_WORDS
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "^", "atan2"})
DIGITS = "0123456789"
UNITS = "smhdwy"

_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"',
}  # fmt: skip
_END = ""


@dataclass(frozen=True, slots=True)
class Token:
    """``kind`` is number, duration, string, identifier, metric (an identifier with colons), keyword, op or end.

    ``text`` is the source text, ``value`` the unquoted string; ``start``/``end`` are offsets in characters.
    A lexical error is a token too, of kind ``error``: it only counts when the parser gets that far.
    """

    kind: str
    text: str
    start: int
    end: int
    value: str = ""

    def describe(self) -> str:
        """As in ``unexpected ...``."""
        if self.kind == "end":
            return "end of input"
        short = self.text if len(self.text) <= 10 else self.text[:10]
        quoted = go_quote(short) + ("..." if len(self.text) > 10 else "")
        if self.kind == "keyword":
            word = self.text.lower()
            return f"<op:{word}>" if word in OPERATOR_WORDS else f"<{word}>"
        if self.kind == "op":
            operator = self.text in ARITHMETIC or self.text in COMPARISONS or self.text in ("=~", "!~")
            return f"<op:{self.text}>" if operator else go_quote(self.text)
        if self.kind in ("identifier", "metric"):
            return f"{'metric identifier' if self.kind == 'metric' else 'identifier'} {go_quote(self.text)}"
        return f"{self.kind} {quoted}"


def go_quote(text: str, quote: str = '"') -> str:
    """Go's %q of a string, or of one character with ``quote="'"``."""
    out = []
    for char in text:
        code = ord(char)
        if char in (quote, "\\"):
            out.append("\\" + char)
        elif char in "\a\b\f\n\r\t\v":
            out.append("\\" + "abfnrtv"["\a\b\f\n\r\t\v".index(char)])
        elif code < 0x20 or code == 0x7F:
            out.append(f"\\x{code:02x}")
        else:
            out.append(char if char.isprintable() else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return quote + "".join(out) + quote


class Lexer:
    """Yields tokens one at a time through ``next``. ``semantics`` 3 takes a bare number as a duration."""

    def __init__(self, query: str, semantics: int) -> None:
        self.query = query
        self.semantics = semantics
        self._at = 0
        self._parens = 0
        self._in_braces = False
        self._in_brackets = False
        self._colon_seen = False
        self._want_duration = False

    def next(self) -> Token:
        """The next token; ``end`` for ever after the last."""
        self._skip_blanks()
        start = self._at
        char = self._peek()
        if self._want_duration:
            self._want_duration = False
            return self._range_duration(start)
        if char == _END:
            return self._end(start)
        if char in "\"'":
            return self._string(start, char)
        if char == "`":
            return self._raw_string(start)
        if self._in_braces:
            return self._inside_braces(start, char)
        if _is_digit(char) or (char == "." and _is_digit(self._peek(1))):
            return self._number_or_duration(start)
        if (_is_alpha(char) or char == ":") and not (self._in_brackets and char == ":"):
            return self._word(start)
        return self._symbol(start, char)

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self.query[at] if at < len(self.query) else _END

    def _take(self, kind: str, start: int, end: int, value: str = "") -> Token:
        self._at = end
        return Token(kind, self.query[start:end], start, end, value)

    def _error(self, start: int, message: str) -> Token:
        return Token("error", message, start, start)

    def _skip_blanks(self) -> None:
        while True:
            char = self._peek()
            if char and char in " \t\n\r":
                self._at += 1
            elif char == "#":
                while self._peek() not in ("\n", "\r", _END):
                    self._at += 1
            else:
                return

    def _end(self, start: int) -> Token:
        if self._in_braces:
            return self._error(start, "unexpected end of input inside braces")
        if self._parens:
            return self._error(start, "unclosed left parenthesis")
        if self._in_brackets:
            return self._error(start, "unclosed left bracket")
        return Token("end", "", start, start)

    def _symbol(self, start: int, char: str) -> Token:
        two = self.query[start : start + 2]
        if two in ("==", "!=", "<=", ">="):
            return self._take("op", start, start + 2)
        if char == "=" and two == "=~":
            return self._error(start, "unexpected character after '=': '~'")
        if char == "!":
            return self._error(start, "unexpected character after '!': " + go_quote(self._peek(1), "'"))
        if char in "+-*/%^,=<>@":
            return self._take("op", start, start + 1)
        if char in "()":
            return self._paren(start, char)
        if char in "[]:":
            return self._bracket(start, char)
        if char == "{":
            self._in_braces = True
            return self._take("op", start, start + 1)
        return self._error(start, "unexpected character: " + go_quote(char, "'"))

    def _paren(self, start: int, char: str) -> Token:
        self._parens += 1 if char == "(" else -1
        if self._parens < 0:
            return self._error(start + 1, "unexpected right parenthesis ')'")
        return self._take("op", start, start + 1)

    def _bracket(self, start: int, char: str) -> Token:
        if char == ":":
            if self._colon_seen:
                return self._error(start, "unexpected colon ':'")
            self._colon_seen = True
        elif char == "[":
            if self._in_brackets:
                return self._error(start, "unexpected left bracket '['")
            self._in_brackets, self._colon_seen, self._want_duration = True, False, True
        else:
            if not self._in_brackets:
                return self._error(start, "unexpected right bracket ']'")
            self._in_brackets = False
        return self._take("op", start, start + 1)

    def _inside_braces(self, start: int, char: str) -> Token:
        if _is_alpha(char):
            end = start
            while end < len(self.query) and _is_word(self.query[end]):
                end += 1
            return self._take("identifier", start, end)
        if char in ",}=":
            self._in_braces = char != "}"
            size = 2 if self.query[start : start + 2] == "=~" else 1
            return self._take("op", start, start + size)
        if char == "!":
            if self._peek(1) not in ("=", "~"):
                found = go_quote(self._peek(1), "'")
                return self._error(start, f"unexpected character after '!' inside braces: {found}")
            return self._take("op", start, start + 2)
        if char == "{":
            return self._error(start, "unexpected left brace '{'")
        return self._error(start, "unexpected character inside braces: " + go_quote(char, "'"))

    def _word(self, start: int) -> Token:
        end = start
        while end < len(self.query) and (_is_word(self.query[end]) or self.query[end] == ":"):
            end += 1
        word = self.query[start:end]
        lower = word.lower()
        if lower in KEYWORDS:
            return self._take("keyword", start, end)
        if lower in ("inf", "nan"):
            return self._take("number", start, end)
        return self._take("metric" if ":" in word else "identifier", start, end)

    def _number_or_duration(self, start: int) -> Token:
        end, whole = self._scan_number(start)
        if whole:
            return self._take("number", start, end)
        end, good = self._scan_units(end)
        if good:
            return self._take("duration", start, end)
        return self._error(start, f"bad number or duration syntax: {go_quote(self.query[start:end])}")

    def _range_duration(self, start: int) -> Token:
        end, whole = self._scan_number(start)
        if whole and not (self.semantics >= 3 and end > start):
            return self._error(start, "missing unit character in duration")
        if whole:
            return self._take("number", start, end)
        end, good = self._scan_units(end)
        if good:
            return self._take("duration", start, end)
        return self._error(start, f"bad duration syntax: {go_quote(self.query[start:end])}")

    def _scan_number(self, at: int) -> tuple[int, bool]:
        """End of the longest number, and whether it ends there (no letter follows)."""
        text, digits = self.query, DIGITS
        if text[at : at + 2].lower() == "0x":
            at, digits = at + 2, DIGITS + "abcdefABCDEF"
        at = self._run(at, digits)
        if text[at : at + 1] == ".":
            at = self._run(at + 1, digits)
        if text[at : at + 1] and text[at] in "eE":
            at += 1
            if text[at : at + 1] and text[at] in "+-":
                at += 1
            at = self._run(at, DIGITS)
        return at, not (text[at : at + 1] and _is_word(text[at]))

    def _scan_units(self, at: int) -> tuple[int, bool]:
        """What follows the first number of a duration: a unit, then more numbers with units."""
        text = self.query
        while True:
            if not (text[at : at + 1] and text[at] in UNITS):
                return at, False
            at += 1
            if text[at : at + 1] == "s":
                at += 1
            if not _is_digit(text[at : at + 1]):
                break
            at = self._run(at, DIGITS)
        if text[at : at + 1] and _is_word(text[at]):
            return at + 1, False
        return at, True

    def _run(self, at: int, allowed: str) -> int:
        while at < len(self.query) and self.query[at] in allowed:
            at += 1
        return at

    def _string(self, start: int, quote: str) -> Token:
        at = start + 1
        out: list[str] = []
        while True:
            char = self.query[at : at + 1]
            if char in (_END, "\n"):
                return self._error(start, "unterminated quoted string")
            if char == quote:
                return self._take("string", start, at + 1, "".join(out))
            if char == "\\":
                piece, at = self._escape(start, at + 1)
                if isinstance(piece, Token):
                    return piece
                out.append(piece)
            else:
                out.append(char)
                at += 1

    def _escape(self, start: int, at: int) -> tuple[str | Token, int]:
        char = self.query[at : at + 1]
        if char in _ESCAPES and char:
            return _ESCAPES[char], at + 1
        sizes = {"x": (2, 16), "u": (4, 16), "U": (8, 16)}
        if char in sizes:
            size, base = sizes[char]
            at += 1
        elif char and char in "01234567":
            size, base = 3, 8
        elif char == _END:
            return self._error(start, "escape sequence not terminated"), at
        else:
            message = f"unknown escape sequence U+{ord(char):04X} " + go_quote(char, "'")
            return self._error(start, message), at
        digits = self.query[at : at + size]
        try:
            return chr(int(digits, base)), at + size
        except (ValueError, OverflowError):
            return self._error(start, f"illegal character in escape sequence {go_quote(digits)}"), at

    def _raw_string(self, start: int) -> Token:
        end = self.query.find("`", start + 1)
        if end < 0:
            return self._error(start, "unterminated raw string")
        return self._take("string", start, end + 1, self.query[start + 1 : end])


def raise_error(query: str, token: Token) -> None:
    """Raise the lexical error that a token stands for."""
    raise ParseError(query, token.start, token.text)


def _is_alpha(char: str) -> bool:
    return char == "_" or "a" <= char <= "z" or "A" <= char <= "Z"


def _is_digit(char: str) -> bool:
    return "0" <= char <= "9"


def _is_word(char: str) -> bool:
    return _is_alpha(char) or _is_digit(char)
