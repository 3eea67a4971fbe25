"""Integer arithmetic of ``$((...))``."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

NAME = re.compile(r"[A-Za-z_]\w*")
BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: lambda left, right: left << min(right, 64) if right >= 0 else 0,
    ast.RShift: lambda left, right: left >> right if right >= 0 else 0,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class ArithmeticError_(Exception):
    """What the shell says and ends with status 2."""


def evaluate(text: str, value_of: Callable[[str], str] = lambda name: "") -> int:
    """Value of an expression in names (unset ones are 0), comparisons being 0 or 1.

    Raises ArithmeticError_ with dash's words.
    """
    numbers = NAME.sub(lambda name: value_of(name[0]) or "0", text)
    spelt = re.sub(r"!(?!=)", " not ", numbers.replace("&&", " and ").replace("||", " or "))
    # Python takes no decimal numbers with leading zeros; to a shell they are octal.
    spelt = re.sub(r"\b0+(?=\d)", "0o", spelt)
    try:
        return _walk(ast.parse(spelt.strip() or "0", mode="eval").body)
    except SyntaxError:
        raise ArithmeticError_("arithmetic syntax error") from None


def _walk(node: ast.AST) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    if isinstance(node, ast.UnaryOp):
        value = _walk(node.operand)
        return {ast.USub: -value, ast.Not: int(not value), ast.Invert: ~value}.get(type(node.op), value)
    if isinstance(node, ast.BoolOp):
        decides = any if isinstance(node.op, ast.Or) else all
        return int(decides(_walk(value) for value in node.values))
    if isinstance(node, ast.Compare):
        left = _walk(node.left)
        for compare, right in zip(node.ops, node.comparators, strict=True):
            if type(compare) not in COMPARE:
                raise SyntaxError
            left = int(COMPARE[type(compare)](left, _walk(right)))
        return left
    if isinstance(node, ast.BinOp):
        return _binary(node.op, _walk(node.left), _walk(node.right))
    raise SyntaxError


def _binary(op: ast.operator, left: int, right: int) -> int:
    if isinstance(op, ast.Div | ast.Mod):
        if right == 0:
            raise ArithmeticError_("divide by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)  # towards zero, as in C
        return quotient if isinstance(op, ast.Div) else left - quotient * right
    if type(op) not in BINARY:
        raise SyntaxError
    return BINARY[type(op)](left, right)
