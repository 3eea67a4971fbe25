"""Text to syntax tree, by recursive descent.

The published Python binding of a PromQL parser gives neither positions nor Prometheus' error texts, and gives up
on some legal timestamps, so the grammar is written out here. Where Prometheus' own grammar has an error
production, so that its message says what it was reading, ``_unexpected`` is called with the same words.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NoReturn, cast

from aiopslab.sim.observe.matchers import NAME, BadRegex, Matcher, MatchOp
from aiopslab.sim.observe.promql import ast, lexer
from aiopslab.sim.observe.promql.check import check
from aiopslab.sim.observe.promql.durations import parse_duration, parse_number
from aiopslab.sim.observe.promql.errors import ParseError
from aiopslab.sim.observe.promql.lexer import Lexer, Token
from aiopslab.sim.observe.promql.signatures import find_signature

_PRECEDENCE = {
    "or": 1, "and": 2, "unless": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3,
    "+": 4, "-": 4, "*": 5, "/": 5, "%": 5, "atan2": 5, "^": 6,
}  # fmt: skip
_UNARY_OPERAND = 6
_PARAMETERIZED = frozenset({"topk", "bottomk", "quantile", "count_values"})
_KEYWORD_METRICS = lexer.AGGREGATORS | lexer.SET_OPERATORS | {"by", "without", "offset"}
DEEPEST = 250


@lru_cache(maxsize=512)
def parse(query: str, semantics: int) -> ast.Node:
    """The checked syntax tree of a query. Raises ParseError. Do not change the result."""
    return Parser(query, semantics).parse()


def parse_selector(text: str, semantics: int) -> list[Matcher]:
    """Matchers of a ``match[]`` parameter. Raises ParseError; the caller checks for emptiness."""
    parser = Parser(text, semantics)
    node = parser.selector()
    return node.matchers


class Parser:
    """One parse of one text. ``semantics`` is the major version of Prometheus, 2 or 3."""

    def __init__(self, query: str, semantics: int) -> None:
        self._query = query
        self._semantics = semantics
        self._lexer = Lexer(query, semantics)
        self._token: Token | None = None
        self._contexts: list[str] = []
        self._depth = 0
        self._end = 0

    def parse(self) -> ast.Node:
        """The whole text as one expression, types checked."""
        if self._peek().kind == "end":
            raise ParseError(self._query, 0, "no expression found in input")
        node = self._expression(1)
        if self._peek().kind != "end":
            self._unexpected()
        check(node, self._query)
        return node

    def selector(self) -> ast.VectorSelector:
        """The whole text as one vector selector without time modifiers."""
        node = self._primary()
        if not isinstance(node, ast.VectorSelector) or self._peek().kind != "end":
            self._unexpected()
        return node

    # -- tokens

    def _peek(self) -> Token:
        if self._token is None:
            self._token = self._lexer.next()
            if self._token.kind == "error":
                lexer.raise_error(self._query, self._token)
        return self._token

    def _next(self) -> Token:
        token = self._peek()
        self._token = None
        self._end = token.end
        return token

    def _is(self, *ops: str) -> bool:
        token = self._peek()
        return token.kind == "op" and token.text in ops

    def _is_word(self, *words: str) -> bool:
        token = self._peek()
        return token.kind == "keyword" and token.text.lower() in words

    def _unexpected(self, context: str | None = None, expected: str = "") -> NoReturn:
        token = self._peek()
        where = context if context is not None else (self._contexts[-1] if self._contexts else "")
        message = f"unexpected {token.describe()}"
        message += f" in {where}" if where else ""
        message += f", expected {expected}" if expected else ""
        raise ParseError(self._query, token.start, message)

    def _fail(self, at: int, message: str) -> NoReturn:
        raise ParseError(self._query, at, message)

    def _expect(self, op: str) -> Token:
        if not self._is(op):
            self._unexpected()
        return self._next()

    # -- expressions

    def _expression(self, lowest: int) -> ast.Node:
        self._depth += 1
        if self._depth > DEEPEST:
            self._fail(self._peek().start, f"expression is nested more than {DEEPEST} levels deep")
        left = self._unary()
        while True:
            token = self._peek()
            op = token.text.lower()
            level = _PRECEDENCE.get(op, 0) if token.kind in ("op", "keyword") else 0
            if level < lowest or level == 0:
                self._depth -= 1
                return left
            self._next()
            return_bool, matching = self._modifiers()
            right = self._expression(level if op == "^" else level + 1)
            left = ast.Binary(left.start, right.end, op, left, right, return_bool, matching, token.start)

    def _modifiers(self) -> tuple[bool, ast.Matching]:
        """``bool``, ``on``/``ignoring`` and ``group_left``/``group_right`` after an operator."""
        return_bool = self._is_word("bool")
        if return_bool:
            self._next()
        matching = ast.Matching()
        if self._is_word("on", "ignoring"):
            matching.on = self._next().text.lower() == "on"
            matching.labels = self._grouping()
            if self._is_word("group_left", "group_right"):
                matching.group = self._next().text.lower().removeprefix("group_")
                if self._is("("):
                    matching.include = self._grouping()
        return return_bool, matching

    def _unary(self) -> ast.Node:
        if not self._is("+", "-"):
            return self._postfix(self._primary())
        sign = self._next()
        operand = self._expression(_UNARY_OPERAND)
        if isinstance(operand, ast.Number):
            value = -operand.value if sign.text == "-" else operand.value
            return ast.Number(sign.start, operand.end, value)
        return ast.Unary(sign.start, operand.end, sign.text, operand)

    def _primary(self) -> ast.Node:
        token = self._peek()
        if token.kind == "number":
            return self._number(self._next())
        if token.kind == "string":
            self._next()
            return ast.String(token.start, token.end, token.value)
        if token.kind == "duration" and self._semantics >= 3:
            self._next()
            return ast.Number(token.start, token.end, self._duration_ms(token) / 1000)
        if self._is("("):
            self._next()
            inner = self._expression(1)
            close = self._expect(")")
            return ast.Paren(token.start, close.end, inner)
        if self._is("{"):
            return self._vector_selector(token.start, "")
        if token.kind in ("identifier", "metric"):
            return self._named(self._next())
        if token.kind == "keyword" and token.text.lower() in _KEYWORD_METRICS:
            return self._keyword(self._next())
        return self._unexpected()

    def _number(self, token: Token) -> ast.Number:
        try:
            return ast.Number(token.start, token.end, parse_number(token.text))
        except ValueError as error:
            self._fail(token.start, f"error parsing number: {error}")

    def _named(self, name: Token) -> ast.Node:
        if name.kind == "identifier" and self._is("("):
            args, end = self._arguments()
            func = find_signature(name.text, self._semantics)
            if func is None:
                self._fail(name.start, f"unknown function with name {lexer.go_quote(name.text)}")
            if func.experimental:
                self._fail(name.start, f"function {lexer.go_quote(name.text)} is not enabled")
            return ast.Call(name.start, end, func, args)
        return self._vector_selector(name.start, name.text)

    def _keyword(self, word: Token) -> ast.Node:
        """An aggregation, or a metric that happens to be called like a keyword."""
        op = word.text.lower()
        if op in lexer.AGGREGATORS and (self._is("(") or self._is_word("by", "without")):
            self._contexts.append("aggregation")
            node = self._aggregate(word, op)
            self._contexts.pop()
            return node
        return self._vector_selector(word.start, word.text)

    def _aggregate(self, word: Token, op: str) -> ast.Aggregate:
        clause = self._clause()
        args, end = self._arguments()
        if clause is None and self._is_word("by", "without"):
            clause = self._clause()
            end = self._end
        wanted = 2 if op in _PARAMETERIZED else 1
        if not args:
            self._fail(word.start, "no arguments for aggregate expression provided")
        if len(args) != wanted:
            message = "wrong number of arguments for aggregate expression provided"
            self._fail(word.start, f"{message}, expected {wanted}, got {len(args)}")
        without, grouping = clause or (False, ())
        param = args[0] if wanted == 2 else None
        return ast.Aggregate(word.start, end, op, args[-1], param, grouping, without)

    def _clause(self) -> tuple[bool, tuple[str, ...]] | None:
        if not self._is_word("by", "without"):
            return None
        without = self._next().text.lower() == "without"
        return without, self._grouping()

    def _arguments(self) -> tuple[list[ast.Node], int]:
        """``(a, b)`` and where it ends."""
        self._expect("(")
        args: list[ast.Node] = []
        while not self._is(")"):
            if args:
                comma = self._expect(",")
                if self._is(")"):
                    self._fail(comma.start, "trailing commas not allowed in function call args")
            args.append(self._expression(1))
        return args, self._next().end

    def _grouping(self) -> tuple[str, ...]:
        """``(a, b)`` as label names; a trailing comma is fine."""
        if not self._is("("):
            self._unexpected("grouping opts", '"("')
        self._next()
        names: list[str] = []
        while not self._is(")"):
            if names:
                if not self._is(","):
                    self._unexpected("grouping opts", '"," or ")"')
                self._next()
                if self._is(")"):
                    break
            names.append(self._label_name())
        self._next()
        return tuple(names)

    def _label_name(self) -> str:
        token = self._peek()
        quoted = token.kind == "string" and self._semantics >= 3
        if token.kind not in ("identifier", "keyword") and not quoted:
            self._unexpected("grouping opts", "label")
        self._next()
        return token.value if quoted else token.text

    # -- selectors

    def _vector_selector(self, start: int, name: str) -> ast.VectorSelector:
        matchers: list[Matcher] = []
        quoted_name = ""
        if self._is("{"):
            quoted_name, matchers = self._braces()
        if name and quoted_name:
            self._fail(start, f'metric name must not be set twice: "{name}" or "{quoted_name}"')
        name = name or quoted_name
        if name:
            matchers.append(Matcher(NAME, "=", name))
        return ast.VectorSelector(start, self._end, matchers, name)

    def _braces(self) -> tuple[str, list[Matcher]]:
        """``{a="b", ...}``; the first element is a quoted metric name (Prometheus 3), or empty."""
        self._next()
        name = ""
        matchers: list[Matcher] = []
        first = True
        while not self._is("}"):
            if not first:
                if not self._is(","):
                    self._unexpected("label matching", '"," or "}"')
                self._next()
                if self._is("}"):
                    break
            first = False
            token = self._peek()
            quoted = token.kind == "string" and self._semantics >= 3
            if token.kind != "identifier" and not quoted:
                self._unexpected("label matching", 'identifier or "}"')
            self._next()
            if quoted and self._is(",", "}"):
                if name:
                    self._fail(token.start, f'metric name must not be set twice: "{name}" or "{token.value}"')
                name = token.value
            else:
                matchers.append(self._matcher(token))
        self._next()
        return name, matchers

    def _matcher(self, label: Token) -> Matcher:
        if not self._is("=", "!=", "=~", "!~"):
            self._unexpected("label matching", "label matching operator")
        op = cast(MatchOp, self._next().text)
        value = self._peek()
        if value.kind != "string":
            self._unexpected("label matching", "string")
        self._next()
        name = label.value if label.kind == "string" else label.text
        try:
            return Matcher(name, op, value.value, dot_all=self._semantics >= 3)
        except BadRegex as error:
            self._fail(label.start, f"error parsing regexp: {error}")

    def _postfix(self, node: ast.Node) -> ast.Node:
        """``[5m]``, ``[1h:1m]``, ``offset`` and ``@`` after an expression."""
        while True:
            if self._is("["):
                node = self._range(node)
            elif self._is_word("offset"):
                node = self._offset(node)
            elif self._is("@"):
                node = self._at(node)
            else:
                return node

    def _range(self, node: ast.Node) -> ast.Node:
        bracket = self._next()
        if self._peek().kind not in ("duration", "number"):
            self._unexpected("subquery selector", "duration")
        range_ms = self._positive_duration(self._next())
        if self._is(":"):
            self._next()
            step_ms = 0
            if self._peek().kind == "duration" or (self._peek().kind == "number" and self._semantics >= 3):
                step_ms = self._positive_duration(self._next())
                if not self._is("]"):
                    self._unexpected("subquery selector", '"]"')
            elif not self._is("]"):
                self._unexpected("subquery selector", 'duration or "]"')
            end = self._next().end
            return ast.Subquery(node.start, end, node, range_ms, step_ms)
        if not self._is("]"):
            self._unexpected("subquery or range", '":" or "]"')
        end = self._next().end
        if not isinstance(node, ast.VectorSelector):
            self._fail(bracket.start, "ranges only allowed for vector selectors")
        if node.timing.has_offset:
            self._fail(bracket.start, "no offset modifiers allowed before range")
        if node.timing.at is not None:
            self._fail(bracket.start, "no @ modifiers allowed before range")
        return ast.MatrixSelector(node.start, end, node, range_ms)

    def _offset(self, node: ast.Node) -> ast.Node:
        self._next()
        sign = 1
        if self._is("-", "+") and (self._is("-") or self._semantics >= 3):
            sign = -1 if self._next().text == "-" else 1
        token = self._peek()
        if token.kind != "duration" and not (token.kind == "number" and self._semantics >= 3):
            self._unexpected("offset", "duration")
        self._next()
        # "0s" is refused here as it is in a range; a bare 0 (Prometheus 3) is not.
        ms = sign * (self._duration_ms(token) if token.kind == "number" else self._positive_duration(token))
        timing = self._timing(node, "offset modifier must be preceded by an instant vector selector or range "
                                    "vector selector or a subquery")  # fmt: skip
        if timing.has_offset:
            self._fail(node.start, "offset may not be set multiple times")
        return self._with_timing(node, replace(timing, offset_ms=ms, has_offset=True))

    def _at(self, node: ast.Node) -> ast.Node:
        self._next()
        timing = self._timing(node, "@ modifier must be preceded by an instant vector selector or range vector "
                                    "selector or a subquery")  # fmt: skip
        if timing.at is not None:
            self._fail(node.start, "@ <timestamp> may not be set multiple times")
        token = self._peek()
        if token.kind == "identifier" and token.text in ("start", "end"):
            self._next()
            for paren in "()":
                if not self._is(paren):
                    self._unexpected("@", "timestamp")
                self._next()
            return self._with_timing(node, replace(timing, at=token.text))
        sign = 1
        if self._is("-", "+"):
            sign = -1 if self._next().text == "-" else 1
        if self._peek().kind != "number":
            self._unexpected("@", "timestamp")
        seconds = sign * self._number(self._next()).value
        if not abs(seconds) < 2**63 / 1000:
            self._fail(node.start, f"timestamp out of bounds for @ modifier: {seconds:f}")
        return self._with_timing(node, replace(timing, at=round_ms(seconds)))

    def _timing(self, node: ast.Node, otherwise: str) -> ast.Timing:
        match node:
            case ast.VectorSelector(timing=timing) | ast.Subquery(timing=timing):
                return timing
            case ast.MatrixSelector(vector=vector):
                return vector.timing
            case _:
                return self._fail(node.start, otherwise)

    def _with_timing(self, node: ast.Node, timing: ast.Timing) -> ast.Node:
        node.end = self._end
        if isinstance(node, ast.MatrixSelector):
            node.vector.timing = timing
        elif isinstance(node, ast.VectorSelector | ast.Subquery):
            node.timing = timing
        return node

    def _duration_ms(self, token: Token) -> int:
        try:
            if token.kind == "number":
                return round_ms(self._number(token).value)
            return parse_duration(token.text)
        except (ValueError, OverflowError) as error:
            self._fail(token.start, str(error))

    def _positive_duration(self, token: Token) -> int:
        ms = self._duration_ms(token)
        if ms <= 0:
            self._fail(token.start, "duration must be greater than 0")
        return ms


def round_ms(seconds: float) -> int:
    """Seconds to whole milliseconds, halves away from zero as Go rounds."""
    scaled = seconds * 1000
    return int(scaled + 0.5) if scaled >= 0 else -int(-scaled + 0.5)
