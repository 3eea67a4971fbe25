"""Types: what Prometheus refuses although it can be read."""

from __future__ import annotations

from aiopslab.sim.observe.matchers import NAME
from aiopslab.sim.observe.promql import ast
from aiopslab.sim.observe.promql.errors import ParseError
from aiopslab.sim.observe.promql.lexer import COMPARISONS, SET_OPERATORS, go_quote
from aiopslab.sim.observe.promql.signatures import TYPE_NAMES, ValueType


def check(node: ast.Node, query: str) -> None:
    """Raise ParseError for the first thing in the tree that has the wrong type or form."""
    match node:
        case ast.Paren(expr=inner):
            check(inner, query)
        case ast.Unary():
            _check_unary(node, query)
        case ast.Binary():
            _check_binary(node, query)
        case ast.Aggregate():
            _check_aggregate(node, query)
        case ast.Call():
            _check_call(node, query)
        case ast.Subquery(expr=inner):
            check(inner, query)
            if (found := ast.value_type(inner)) != "vector":
                message = f"subquery is only allowed on instant vector, got {found} instead"
                raise ParseError(query, node.start, message)
        case ast.MatrixSelector(vector=vector):
            check(vector, query)
        case ast.VectorSelector():
            _check_selector(node, query)
        case _:
            return


def _expect(node: ast.Node, wanted: ValueType, where: str, query: str) -> None:
    check(node, query)
    if (found := ast.value_type(node)) != wanted:
        message = f"expected type {TYPE_NAMES[wanted]} in {where}, got {TYPE_NAMES[found]}"
        raise ParseError(query, node.start, message)


def _check_selector(node: ast.VectorSelector, query: str) -> None:
    if node.name:
        for matcher in node.matchers[:-1]:
            if matcher.name == NAME:
                message = f"metric name must not be set twice: {go_quote(node.name)} or {go_quote(matcher.value)}"
                raise ParseError(query, node.start, message)
        return
    if all(matcher.matches("") for matcher in node.matchers):
        raise ParseError(query, node.start, "vector selector must contain at least one non-empty matcher")


def _check_unary(node: ast.Unary, query: str) -> None:
    check(node.expr, query)
    found = ast.value_type(node.expr)
    if found not in ("scalar", "vector"):
        message = "unary expression only allowed on expressions of type scalar or instant vector, got "
        raise ParseError(query, node.start, message + go_quote(TYPE_NAMES[found]))


def _check_aggregate(node: ast.Aggregate, query: str) -> None:
    _expect(node.expr, "vector", "aggregation expression", query)
    if node.param is not None:
        wanted: ValueType = "string" if node.op == "count_values" else "scalar"
        _expect(node.param, wanted, "aggregation parameter", query)


def _check_call(node: ast.Call, query: str) -> None:
    func, given = node.func, len(node.args)
    wanted = len(func.args)
    call = f"argument(s) in call to {go_quote(func.name)}, got {given}"
    if func.variadic == 0 and given != wanted:
        raise ParseError(query, node.start, f"expected {wanted} {call}")
    if func.variadic != 0 and given < wanted - 1:
        raise ParseError(query, node.start, f"expected at least {wanted - 1} {call}")
    if func.variadic > 0 and given > wanted - 1 + func.variadic:
        raise ParseError(query, node.start, f"expected at most {wanted - 1 + func.variadic} {call}")
    for index, arg in enumerate(node.args):
        wanted_type = func.args[min(index, wanted - 1)]
        _expect(arg, wanted_type, f"call to function {go_quote(func.name)}", query)


def _check_binary(node: ast.Binary, query: str) -> None:
    check(node.left, query)
    check(node.right, query)
    left, right = ast.value_type(node.left), ast.value_type(node.right)
    op, matching = node.op, node.matching
    compares = op in COMPARISONS
    if node.return_bool and not compares:
        raise ParseError(query, node.op_at, "bool modifier can only be used on comparison operators")
    if compares and not node.return_bool and left == right == "scalar":
        raise ParseError(query, node.op_at, "comparisons between scalars must use BOOL modifier")
    if matching.on:
        for label in matching.labels:
            if label in matching.include:
                message = f"label {go_quote(label)} must not occur in ON and GROUP clause at once"
                raise ParseError(query, node.op_at, message)
    for side, found in ((node.left, left), (node.right, right)):
        if found not in ("scalar", "vector"):
            message = "binary expression must contain only scalar and instant vector types"
            raise ParseError(query, side.start, message)
    if "scalar" in (left, right):
        if matching.labels:
            raise ParseError(query, node.start, "vector matching only allowed between instant vectors")
        if op in SET_OPERATORS:
            message = f"set operator {go_quote(op)} not allowed in binary scalar expression"
            raise ParseError(query, node.start, message)
    elif op in SET_OPERATORS and matching.group:
        raise ParseError(query, node.start, f"no grouping allowed for {go_quote(op)} operation")
