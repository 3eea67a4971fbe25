"""A route compiled to a flat list of call nodes, in the order in which the calls are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.hashing import text_key
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.programspec import Op, Program, Step

DEPTH_MAX = 16  # calls inside calls; more means that a program calls itself


@dataclass(slots=True, eq=False)
class SpanShape:
    """What an instrumented side reports for a node: fixed name and kind, attributes by ``style``."""

    service: str
    name: str
    kind: str  # SERVER | CLIENT | INTERNAL | PRODUCER | CONSUMER
    style: str
    op: Op
    server: bool  # of the callee's side
    serves: str = ""  # protocol of the exchange; empty inside a program


@dataclass(slots=True, eq=False)
class Node:
    """One potential call. ``step`` is None for the request itself (row 0)."""

    index: int
    parent: int
    program: Program
    op: Op
    step: Step | None
    repeat: int = 0  # which round of a repeated step this is
    edge: int = -1  # row in the engine's edge table
    children: list[int] = field(default_factory=list)
    client_span: SpanShape | None = None
    server_span: SpanShape | None = None
    new_trace: bool = False  # the caller passes no trace context on
    within: int = -1  # the call whose server span this one's spans are inside of
    groups: list[list[int]] = field(default_factory=list)  # children, those that start together in one list

    @property
    def local(self) -> bool:
        """Whether it runs inside its caller."""
        return self.step is not None and not self.step.call


@dataclass(slots=True, eq=False)
class Route:
    """One operation of an entry program with everything it calls."""

    program: Program
    op: Op
    nodes: list[Node]
    parents: list[int] = field(default_factory=list)
    ops: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))  # (k,) operation numbers
    salts: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))  # (k,)
    server_rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # nodes with server span
    client_rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    server_shapes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # numbers of shapes
    client_shapes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    conditional: bool = False  # some calls depend on a set variable or a flag
    alone: frozenset[int] = frozenset()  # nodes that their caller waits for, and for no other at that time
    local_rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # nodes inside callers
    leaking: list[int] = field(default_factory=list)  # nodes that leave something in memory
    failing: bool = False  # some operation ends with an error of its own
    messages: list[int] = field(default_factory=list)  # nodes that put a message into a topic
    scaled: list[int] = field(default_factory=list)  # nodes whose own time depends on a flag's value
    has_deadline: bool = False

    @property
    def name(self) -> str:
        """Operation name such as ``GET /cart``."""
        return self.op.name

    def path(self, node: int) -> list[Node]:
        """Nodes from ``node`` up to the request, nearest first."""
        found = [self.nodes[node]]
        while found[-1].parent >= 0:
            found.append(self.nodes[found[-1].parent])
        return found


class RouteTable:
    """Compiles routes on demand; numbers the edges (caller program, address variable, callee program), the
    operations and the span shapes that they use."""

    def __init__(self, programs: Programs, traced: frozenset[str]) -> None:
        self.programs = programs
        self.traced = traced
        self.given: frozenset[tuple[str, str]] = frozenset()
        self.edges: list[tuple[Program, str, Program]] = []
        self.optional: set[int] = set()  # edges whose address a caller may lack
        self.ops: list[tuple[Program, Op]] = list(programs.operations())
        self.shapes: list[SpanShape] = []
        self._op_ids = {(program.key, op.name): number for number, (program, op) in enumerate(self.ops)}
        self._edge_ids: dict[tuple[str, str, str], int] = {}
        self._shape_ids: dict[tuple[str, str, str], int] = {}
        self._routes: dict[tuple[str, str], Route] = {}

    def recompile(self, traced: frozenset[str], given: frozenset[tuple[str, str]]) -> None:
        """Other programs export spans from now on, or have the addresses of optional calls (program, address
        variable). Numbers given out stay valid."""
        if (traced, given) != (self.traced, self.given):
            self.traced, self.given = traced, given
            self._routes.clear()

    def route(self, program: Program, op_name: str) -> Route:
        """The compiled operation ``op_name`` of ``program``."""
        key = (program.key, op_name)
        if key not in self._routes:
            nodes: list[Node] = []
            self._add(nodes, Node(0, -1, program, program.ops[op_name], None), 0)
            self._routes[key] = self._finish(Route(program, program.ops[op_name], nodes))
        return self._routes[key]

    def edge(self, caller: Program, variable: str, callee: Program) -> int:
        """Number of the edge from ``caller`` to the address in its environment ``variable``."""
        key = (caller.key, variable, callee.key)
        if key not in self._edge_ids:
            self._edge_ids[key] = len(self.edges)
            self.edges.append((caller, variable, callee))
        return self._edge_ids[key]

    def _finish(self, route: Route) -> Route:
        nodes = route.nodes
        route.parents = [n.parent for n in nodes]
        route.ops = np.array([self._op_ids[n.program.key, n.op.name] for n in nodes], np.int32)
        route.salts = np.array([text_key(route.name, n.index) for n in nodes], np.uint64)
        server = [(n.index, self._shape(n.server_span)) for n in nodes if n.server_span]
        client = [(n.index, self._shape(n.client_span)) for n in nodes if n.client_span]
        route.server_rows, route.server_shapes = _columns(server)
        route.client_rows, route.client_shapes = _columns(client)
        route.conditional = any(self._conditional(nodes, n) for n in nodes)
        lone = [nodes[group[0]] for n in nodes for group in n.groups if len(group) == 1]
        route.alone = frozenset(n.index for n in lone if n.step is not None and n.step.wait)
        route.local_rows = np.array([n.index for n in nodes if n.local], np.int64)
        route.leaking = [n.index for n in nodes if n.op.leak is not None]
        route.failing = any(n.op.fails for n in nodes)
        route.messages = [n.index for n in nodes if n.op.topic]
        route.scaled = [n.index for n in nodes if n.step is not None and (n.step.scale or n.step.scale_by)]
        route.has_deadline = any(n.step is not None and n.step.deadline_ms > 0 for n in nodes)
        return route

    def _conditional(self, nodes: list[Node], node: Node) -> bool:
        if node.step is None:
            return False
        if node.step.when is not None or node.step.optional:
            return True
        return bool(node.step.each) and self.programs.is_set(nodes[node.parent].program, node.step.each)

    def _shape(self, shape: SpanShape) -> int:
        key = (shape.service, shape.name, shape.kind)
        if key not in self._shape_ids:
            self._shape_ids[key] = len(self.shapes)
            self.shapes.append(shape)
        return self._shape_ids[key]

    def _add(self, nodes: list[Node], node: Node, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise ValueError(f"operation {node.op.name!r} of program {node.program.name!r} calls itself")
        nodes.append(node)
        self._instrument(nodes, node)
        for _, body in groupby(node.op.steps, key=lambda step: step.loop):
            steps = list(body)
            first = steps[0]
            rounds = self.programs.vocabulary_size(node.program, first.each) if first.each else first.times
            together: list[int] = []
            for repeat in range(rounds):
                for step in steps:
                    if step.optional and (node.program.key, step.call) not in self.given:
                        continue
                    program = self.programs.offering(node.program, step)[0]
                    child = Node(len(nodes), node.index, program, program.ops[step.op], step, repeat)
                    child.edge = self.edge(node.program, step.call, program) if step.call else -1
                    if step.optional:
                        self.optional.add(child.edge)
                    node.children.append(child.index)
                    together.append(child.index)
                    self._add(nodes, child, depth + 1)
            node.groups += [together] if first.parallel and together else [[index] for index in together]

    def _instrument(self, nodes: list[Node], node: Node) -> None:
        program, op = node.program, node.op
        if program.key in self.traced and op.span:
            name = op.server_span or full_name(program, op, op.span, program)
            kind = op.kind or ("INTERNAL" if node.local else "SERVER")
            serves = "" if kind == "INTERNAL" else program.serves
            service = op.reports_as or program.name
            node.server_span = SpanShape(service, name, kind, program.span_style, op, True, serves)
        if node.step is None:
            return
        caller = nodes[node.parent]
        node.within = caller.index if caller.server_span is not None or not caller.local else caller.within
        named = node.step.span or (op.span if op.client_span is None else op.client_span)
        if named and not node.local and caller.program.key in self.traced:
            name = node.step.span or full_name(caller.program, op, named, program)
            side, style = "PRODUCER" if op.topic else "CLIENT", caller.program.span_style
            node.client_span = SpanShape(caller.program.name, name, side, style, op, False, program.serves)
        node.new_trace = node.step.detached or nodes[node.within].server_span is None


def full_name(program: Program, op: Op, name: str, callee: Program) -> str:
    """A span's name as the libraries of ``program`` write it for an operation of ``callee``."""
    return f"{program.span_prefix if op.service and callee.serves == 'grpc' else ''}{name}"


def _columns(pairs: list[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1].copy()
