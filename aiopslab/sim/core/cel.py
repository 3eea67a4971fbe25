"""``x-kubernetes-validations``: the part of CEL that validation rules of custom resources are written in.

Supported: field and index access, ``has``, ``size``, arithmetic, comparison, ``in``, boolean logic, ``?:``,
list and map literals, the macros ``all``, ``exists``, ``exists_one``, ``filter``, ``map``, and the usual text
functions. A rule that uses anything else is not enforced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from aiopslab.sim.core.structural import SchemaError

Obj = dict[str, Any]

_TOKENS = re.compile(
    r"""\s*(?:(?P<number>\d+\.\d+|\d+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"""
    r"""|(?P<text>r?"(?:[^"\\]|\\.)*"|r?'(?:[^'\\]|\\.)*')"""
    r"""|(?P<op>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}]))"""
)
_PRECEDENCE = {
    "||": 1, "&&": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "in": 3,
    "+": 4, "-": 4, "*": 5, "/": 5, "%": 5,
}  # fmt: skip
_MACROS = ("all", "exists", "exists_one", "filter", "map")


class Unsupported(Exception):
    """The expression uses something outside the supported part."""


class EvaluationError(Exception):
    """No such field, wrong type, division by zero."""


def validate(schema: Obj, new: Obj, old: Obj | None) -> list[SchemaError]:
    """Violated rules of a schema and of everything below it."""
    return list(_walk(schema, new, old, ""))


def _walk(schema: Obj, new: Any, old: Any, path: str) -> Iterator[SchemaError]:
    for rule in schema.get("x-kubernetes-validations") or []:
        yield from _check(rule, new, old, path)
    if isinstance(new, dict):
        extra = schema.get("additionalProperties")
        for key in sorted(new):
            below = (schema.get("properties") or {}).get(key) or (extra if isinstance(extra, dict) else None)
            if below:
                before = old.get(key) if isinstance(old, dict) else None
                yield from _walk(below, new[key], before, f"{path}.{key}" if path else key)
    elif isinstance(new, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(new):
            yield from _walk(schema["items"], item, None, f"{path}[{index}]")


def _check(rule: Obj, new: Any, old: Any, path: str) -> Iterator[SchemaError]:
    text = rule.get("rule", "")
    if re.search(r"\boldSelf\b", text) and old is None:
        return
    try:
        holds = evaluate(text, {"self": new, "oldSelf": old})
    except Unsupported:
        return
    except EvaluationError as error:
        message = f"Invalid value: {error} evaluating rule: {rule.get('message', text)}"
        yield SchemaError(path, "FieldValueInvalid", message)
        return
    if holds is not True:
        message = (rule.get("message") or f"failed rule: {text}").strip()
        if expression := rule.get("messageExpression"):
            message = _message(expression, new, old) or message
        yield SchemaError(path, rule.get("reason", "FieldValueInvalid"), f"Invalid value: {message}")


def _message(expression: str, new: Any, old: Any) -> str:
    try:
        return str(evaluate(expression, {"self": new, "oldSelf": old}))
    except (Unsupported, EvaluationError):
        return ""


def evaluate(text: str, names: Obj) -> Any:
    """The value of an expression. Raises Unsupported or EvaluationError."""
    return _evaluate(parse(text), names)


@lru_cache(maxsize=512)
def parse(text: str) -> Any:
    """An expression as nested tuples ``(operation, ...)``. Raises Unsupported."""
    parser = _Parser(text)
    tree = parser.ternary()
    if parser.peek():
        raise Unsupported(parser.peek())
    return tree


class _Parser:
    """Precedence climbing over the token list."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at, text = 0, text.strip()
        while at < len(text):
            match = _TOKENS.match(text, at)
            if match is None:
                raise Unsupported(text[at:])
            kind = match.lastgroup or ""
            self.tokens.append((kind, match.group(kind)))
            at = match.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> tuple[str, str]:
        if self.at >= len(self.tokens) or (wanted and self.peek() != wanted):
            raise Unsupported(f"expected {wanted!r}")
        self.at += 1
        return self.tokens[self.at - 1]

    def ternary(self) -> Any:
        condition = self.binary(1)
        if self.peek() != "?":
            return condition
        self.take("?")
        yes = self.ternary()
        self.take(":")
        return "if", condition, yes, self.ternary()

    def binary(self, lowest: int) -> Any:
        left = self.unary()
        while (rank := _PRECEDENCE.get(self.peek(), 0)) >= lowest and rank:
            op = self.take()[1]
            left = ("op", op, left, self.binary(rank + 1))
        return left

    def unary(self) -> Any:
        if self.peek() in ("!", "-"):
            op = self.take()[1]
            return "unary", op, self.unary()
        return self.postfix(self.primary())

    def postfix(self, value: Any) -> Any:
        while self.peek() in (".", "["):
            if self.take()[1] == "[":
                value = ("index", value, self.ternary())
                self.take("]")
                continue
            kind, name = self.take()
            if kind != "name":
                raise Unsupported(name)
            if self.peek() == "(":
                value = ("call", name, value, self.arguments())
            else:
                value = ("field", value, name)
        return value

    def arguments(self) -> list[Any]:
        self.take("(")
        found: list[Any] = []
        while self.peek() != ")":
            found.append(self.ternary())
            if self.peek() == ",":
                self.take(",")
        self.take(")")
        return found

    def primary(self) -> Any:
        kind, text = self.take()
        if kind == "number":
            return "value", float(text) if "." in text else int(text)
        if kind == "text":
            raw = text.startswith("r")
            body = text[2:-1] if raw else text[1:-1]
            return "value", body if raw else re.sub(r"\\(.)", _escape, body)
        if text == "(":
            inner = self.ternary()
            self.take(")")
            return inner
        if text == "[":
            return "list", self.items("]")
        if kind == "name":
            if text in ("true", "false", "null"):
                return "value", {"true": True, "false": False, "null": None}[text]
            return ("call", text, None, self.arguments()) if self.peek() == "(" else ("name", text)
        raise Unsupported(text)

    def items(self, end: str) -> list[Any]:
        found: list[Any] = []
        while self.peek() != end:
            found.append(self.ternary())
            if self.peek() == ",":
                self.take(",")
        self.take(end)
        return found


def _escape(match: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(match.group(1), match.group(1))


def _evaluate(tree: Any, names: Obj) -> Any:
    kind = tree[0]
    if kind == "value":
        return tree[1]
    if kind == "name":
        if tree[1] not in names:
            raise Unsupported(tree[1])
        return names[tree[1]]
    if kind == "list":
        return [_evaluate(item, names) for item in tree[1]]
    if kind == "field":
        holder = _evaluate(tree[1], names)
        if not isinstance(holder, dict) or tree[2] not in holder:
            raise EvaluationError(f"no such key: {tree[2]}")
        return holder[tree[2]]
    if kind == "index":
        return _index(_evaluate(tree[1], names), _evaluate(tree[2], names))
    if kind == "if":
        return _evaluate(tree[2] if _evaluate(tree[1], names) else tree[3], names)
    if kind == "unary":
        value = _evaluate(tree[2], names)
        return (not value) if tree[1] == "!" else -value
    if kind == "op":
        return _binary(tree[1], tree[2], tree[3], names)
    return _call(tree, names)


def _index(holder: Any, key: Any) -> Any:
    try:
        return holder[key]
    except (KeyError, IndexError, TypeError):
        raise EvaluationError(f"no such key: {key}") from None


def _binary(op: str, left_tree: Any, right_tree: Any, names: Obj) -> Any:
    left = _evaluate(left_tree, names)
    if op == "&&":
        return bool(left) and bool(_evaluate(right_tree, names))
    if op == "||":
        return bool(left) or bool(_evaluate(right_tree, names))
    right = _evaluate(right_tree, names)
    if op == "==":
        return left == right
    if op == "!=":
        return left != right
    if op == "in":
        return left in right
    try:
        return _arithmetic(op, left, right)
    except (TypeError, ZeroDivisionError) as error:
        raise EvaluationError(str(error)) from None


def _arithmetic(op: str, left: Any, right: Any) -> Any:
    if op == "/":
        return int(left / right) if isinstance(left, int) and isinstance(right, int) else left / right
    table = {
        "<": lambda: left < right, "<=": lambda: left <= right, ">": lambda: left > right,
        ">=": lambda: left >= right, "+": lambda: left + right, "-": lambda: left - right,
        "*": lambda: left * right, "%": lambda: left % right,
    }  # fmt: skip
    return table[op]()


def _call(tree: Any, names: Obj) -> Any:
    _, name, target, arguments = tree
    if name == "has" and target is None:
        _, holder_tree, field = arguments[0]
        holder = _evaluate(holder_tree, names)
        return isinstance(holder, dict) and field in holder
    if name in _MACROS and target is not None:
        return _macro(name, _evaluate(target, names), arguments, names)
    values = [_evaluate(a, names) for a in arguments]
    if target is None:
        return _function(name, values)
    return _method(name, _evaluate(target, names), values)


def _macro(name: str, items: Any, arguments: list[Any], names: Obj) -> Any:
    variable = arguments[0][1]
    results = [(item, _evaluate(arguments[-1], {**names, variable: item})) for item in items]
    truths = [bool(r) for _, r in results]
    outcomes = {
        "all": lambda: all(truths), "exists": lambda: any(truths), "exists_one": lambda: sum(truths) == 1,
        "filter": lambda: [item for item, r in results if r], "map": lambda: [r for _, r in results],
    }  # fmt: skip
    return outcomes[name]()


def _function(name: str, values: list[Any]) -> Any:
    functions: dict[str, Any] = {"size": len, "string": str, "int": int, "double": float, "type": type}
    if name not in functions:
        raise Unsupported(name)
    try:
        return functions[name](*values)
    except (TypeError, ValueError) as error:
        raise EvaluationError(str(error)) from None


def _method(name: str, target: Any, values: list[Any]) -> Any:
    methods: dict[str, Any] = {
        "size": lambda: len(target),
        "startsWith": lambda: target.startswith(values[0]),
        "endsWith": lambda: target.endswith(values[0]),
        "contains": lambda: values[0] in target,
        "matches": lambda: re.search(values[0], target) is not None,
        "lowerAscii": lambda: target.lower(),
        "upperAscii": lambda: target.upper(),
        "trim": lambda: target.strip(),
        "split": lambda: target.split(values[0]),
        "join": lambda: (values[0] if values else "").join(target),
        "replace": lambda: target.replace(values[0], values[1]),
        "isSorted": lambda: list(target) == sorted(target),
        "sum": lambda: sum(target), "min": lambda: min(target), "max": lambda: max(target),
    }  # fmt: skip
    if name not in methods:
        raise Unsupported(name)
    try:
        return methods[name]()
    except (AttributeError, TypeError, ValueError) as error:
        raise EvaluationError(str(error)) from None
