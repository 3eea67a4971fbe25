"""The syntax tree of a query. ``start``/``end`` are character offsets in the query text."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiopslab.sim.observe.matchers import Matcher
from aiopslab.sim.observe.promql.signatures import Signature, ValueType


@dataclass(slots=True)
class Node:
    """Any expression."""

    start: int
    end: int


@dataclass(slots=True)
class Number(Node):
    value: float


@dataclass(slots=True)
class String(Node):
    value: str


@dataclass(slots=True)
class Timing:
    """``@`` and ``offset`` of a selector or subquery. ``at`` is milliseconds, or ``"start"``/``"end"``."""

    at: int | str | None = None
    offset_ms: int = 0
    has_offset: bool = False


@dataclass(slots=True)
class VectorSelector(Node):
    matchers: list[Matcher]
    name: str = ""
    timing: Timing = field(default_factory=Timing)


@dataclass(slots=True)
class MatrixSelector(Node):
    vector: VectorSelector
    range_ms: int


@dataclass(slots=True)
class Subquery(Node):
    expr: Node
    range_ms: int
    step_ms: int  # 0: the global evaluation interval
    timing: Timing = field(default_factory=Timing)


@dataclass(slots=True)
class Paren(Node):
    expr: Node


@dataclass(slots=True)
class Unary(Node):
    op: str
    expr: Node


@dataclass(slots=True)
class Call(Node):
    func: Signature
    args: list[Node]


@dataclass(slots=True)
class Aggregate(Node):
    op: str
    expr: Node
    param: Node | None
    grouping: tuple[str, ...]
    without: bool


@dataclass(slots=True)
class Matching:
    """How two vectors are matched. ``group`` is ``""``, ``"left"`` or ``"right"``."""

    on: bool = False
    labels: tuple[str, ...] = ()
    group: str = ""
    include: tuple[str, ...] = ()


@dataclass(slots=True)
class Binary(Node):
    op: str
    left: Node
    right: Node
    return_bool: bool
    matching: Matching
    op_at: int  # where the operator stands


def value_type(node: Node) -> ValueType:
    """Type of the value that an expression has."""
    match node:
        case Number():
            return "scalar"
        case String():
            return "string"
        case MatrixSelector() | Subquery():
            return "matrix"
        case Paren(expr=inner) | Unary(expr=inner):
            return value_type(inner)
        case Call(func=func):
            return func.returns
        case Binary(left=left, right=right):
            both = value_type(left) == "scalar" and value_type(right) == "scalar"
            return "scalar" if both else "vector"
        case _:
            return "vector"
