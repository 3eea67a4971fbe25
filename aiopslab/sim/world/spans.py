"""Spans, read off the columns of traffic. Nothing is stored per span: ids are hashes, the rest is columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.addresses import address_in
from aiopslab.sim.world.blocks import Block, Pieces
from aiopslab.sim.world.connections import split_address
from aiopslab.sim.world.hashing import mix, mix_int
from aiopslab.sim.world.instrumentation import SpanFacts, attributes, is_error
from aiopslab.sim.world.requests import TRACE_SALTS, TRACE_STEP, Reader, RequestView, span_id, trace_id, typed
from aiopslab.sim.world.routes import Node, Route, SpanShape
from aiopslab.sim.world.runs import Run
from aiopslab.sim.world.spanevents import SpanEvent, SpanLink, noted, recorded


@dataclass(slots=True)
class Span:
    """One finished span. Times in microseconds; ``parent_id`` is empty at a root."""

    trace_id: str  # 32 hexadecimal digits
    span_id: str  # 16 hexadecimal digits
    parent_id: str
    service: str
    operation: str
    kind: str  # SERVER | CLIENT | INTERNAL | PRODUCER | CONSUMER
    start_us: int
    duration_us: int
    status: str  # UNSET | ERROR
    status_message: str
    attributes: dict[str, Any] = field(default_factory=dict)
    process: dict[str, str] = field(default_factory=dict)  # resource attributes: pod, node, ip, ...
    events: list[SpanEvent] = field(default_factory=list)
    links: list[SpanLink] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Root:
    """Where a trace begins: a call node of one request."""

    block: Block
    column: int
    node: int


class SpanStore:
    """Queries over finished traces. A trace is visible once its request has been answered.

    ``now`` gives the virtual time up to which traffic was simulated. Of pods in the namespaces ``unknown`` spans say
    nothing but the service.
    """

    def __init__(self, reader: Reader, pieces: Pieces, now: Callable[[], float]) -> None:
        self._reader = reader
        self._pieces = pieces
        self._now = now
        self.unknown: frozenset[str] = frozenset()

    def services(self, start_us: int = 0, end_us: int | None = None) -> list[str]:
        """Names of services with spans in a time range, sorted."""
        return sorted({shape.service for shape in self._shapes(start_us, end_us)})

    def operations(self, service: str) -> list[tuple[str, str]]:
        """(name, kind) of a service's spans, sorted."""
        return sorted({(s.name, s.kind) for s in self._shapes(0, None) if s.service == service})

    def search(  # noqa: PLR0913 - the parameters of Jaeger's own search
        self,
        service: str,
        operation: str = "",
        start_us: int = 0,
        end_us: int | None = None,
        min_us: int | None = None,
        max_us: int | None = None,
        tags: Mapping[str, str] | None = None,
        limit: int = 20,
    ) -> list[list[Span]]:
        """Traces with a span of ``service`` that fits all conditions, newest first."""
        found: list[list[Span]] = []
        seen: set[str] = set()  # a trace with messages has spans in several pieces
        bounds = (min_us or 0, max_us if max_us is not None else 1 << 62)
        for root, hits in self._candidates(service, operation, (start_us, self._end(end_us)), bounds):
            if (trace := self._id(root)) in seen:
                continue
            seen.add(trace)
            spans = self._materialise(root)
            if tags and not any(s.span_id in hits and matches(s, tags) for s in spans):
                continue
            if spans:
                found.append(spans)
            if len(found) >= limit:
                break
        return found

    def trace(self, wanted: str) -> list[Span]:
        """The spans of a trace by its id (leading zeros may be missing); empty when there is none."""
        wanted = wanted.lower().rjust(32, "0")
        try:
            high = np.uint64(int(wanted[:16], 16))
        except ValueError:
            return []
        for blocks in self._pieces.all():
            for block in blocks:
                for node in roots(block.route):
                    if node == 0 and block.origin is not None and block.origin.traced:
                        continue  # part of its origin's trace
                    keys = block.key if node == 0 else mix(block.key + np.uint64(TRACE_STEP + node))
                    for column in np.flatnonzero(mix(keys ^ np.uint64(TRACE_SALTS[0])) == high):
                        root = Root(block, int(column), node)
                        if self._id(root) == wanted:
                            return self._materialise(root)
        return []

    def dependencies(self, start_us: int, end_us: int) -> list[tuple[str, str, int]]:
        """(calling service, called service, calls) over spans in a time range, sorted."""
        counts: Counter[tuple[str, str]] = Counter()
        for blocks in self._pieces.between(start_us / 1e6, end_us / 1e6):
            for block in blocks:
                inside = (block.start * 1e6 >= start_us) & (block.start * 1e6 <= end_us)
                for node in block.route.nodes:
                    if node.client_span and node.server_span:
                        calls = int((block.reached(node.index) & inside).sum())
                        if calls:
                            counts[(node.client_span.service, node.server_span.service)] += calls
                _consumed(block, inside, counts)
        return sorted((a, b, n) for (a, b), n in counts.items())

    def count(self) -> int:
        """How many spans are held, finished or not."""
        total = 0
        for blocks in self._pieces.all():
            for block in blocks:
                for node in block.route.nodes:
                    total += int(block.reached(node.index).sum()) if node.server_span else 0
                    if node.client_span:
                        total += int((block.happened(node.index) & (block.run[node.parent] >= 0)).sum())
        return total

    def _end(self, end_us: int | None) -> int:
        now = int(self._now() * 1e6)
        return now if end_us is None else min(end_us, now)

    def _shapes(self, start_us: int, end_us: int | None) -> Iterator[SpanShape]:
        seen: dict[tuple[str, str, str], None] = {}
        for blocks in self._pieces.between(start_us / 1e6, self._end(end_us) / 1e6):
            for block in blocks:
                for node in block.route.nodes:
                    for shape, rows in ((node.server_span, block.run[node.index] >= 0), (node.client_span, None)):
                        if shape is None or (shape.service, shape.name, shape.kind) in seen:
                            continue
                        happened = block.happened(node.index)
                        if (happened if rows is None else happened & rows).any():
                            seen[(shape.service, shape.name, shape.kind)] = None
                            yield shape

    def _candidates(
        self, service: str, operation: str, window: tuple[int, int], bounds: tuple[int, int]
    ) -> Iterator[tuple[Root, set[str]]]:
        """Roots of traces with a fitting span, newest first, with the ids of these spans."""
        now = self._now()
        for blocks in self._pieces.between(window[0] / 1e6, window[1] / 1e6):
            piece: dict[tuple[int, int, int], tuple[float, Root, set[str]]] = {}
            for number, block in enumerate(blocks):
                done = block.ends() <= now
                for node in block.route.nodes:
                    for shape in (node.server_span, node.client_span):
                        if shape is None or shape.service != service or (operation and shape.name != operation):
                            continue
                        root = trace_root(block.route, node.index)
                        for column in np.flatnonzero(done & fitting(block, node, shape, window, bounds)):
                            home = home_of(Root(block, int(column), root))
                            key = (number if home.block is block else id(home.block), home.column, home.node)
                            entry = piece.setdefault(key, (float(block.start[column]), home, set()))
                            entry[2].add(span_id(int(block.key[column]), node.index, shape.server))
            for _, found, hits in sorted(piece.values(), key=lambda e: -e[0]):
                yield found, hits

    def _id(self, root: Root) -> str:
        """Trace id of a root that is its own home."""
        return trace_id(int(root.block.key[root.column]), root.node)

    def _materialise(self, root: Root) -> list[Span]:
        return self._spans_of(root, self._id(root))

    def _spans_of(self, root: Root, trace: str) -> list[Span]:
        view = RequestView(self._reader, root.block, root.column)
        spans: list[Span] = []
        ended = float(root.block.ends()[root.column]) <= self._now()
        for node in root.block.route.nodes if ended else ():
            if not view.happened(node.index):
                continue
            for shape in (node.client_span, node.server_span):
                if shape is not None and trace_root(root.block.route, node.index) == root.node:
                    span = self._span(trace, view, node, shape)
                    if span is not None:
                        spans.append(span)
        for follower in root.block.followers:
            origin = follower.origin
            if origin is None or not origin.traced:
                continue
            if trace_root(root.block.route, origin.node) != root.node:
                continue
            for column in np.flatnonzero((origin.columns == root.column) & (follower.ends() <= self._now())):
                spans += self._spans_of(Root(follower, int(column), 0), trace)
        return spans

    def _span(self, trace: str, view: RequestView, node: Node, shape: SpanShape) -> Span | None:
        block, i, column = view.block, node.index, view.column
        server = shape.server
        number = view.run(i) if server else int(block.caller(i)[column])
        if number < 0:
            return None
        run = self._reader.runs[number]
        begin = float((block.served_at if server else block.begin)[i, column])
        took = float((block.served if server else block.took)[i, column])
        error = view.outcome(i, served=server)
        status = view.status_of(i) if server and node.op.target else 0
        start_us, duration_us = int(view.start * 1e6 + begin * 1e3), int(took * 1e3)
        failed = is_error(shape, error, status)
        facts = self._facts(view, node, shape)
        shown = failed and error is not None and node.step is not None
        return Span(
            trace,
            span_id(view.key, i, server),
            self._parent(view, node, shape),
            service_name(shape, run),
            shape.name,
            shape.kind,
            start_us,
            duration_us,
            "ERROR" if failed else "UNSET",
            error.message if shown and error else "",
            attributes(shape, facts),
            {} if run.ref.namespace in self.unknown else place(run),
            self._events(view, node, shape, start_us + duration_us),
            self._links(view, shape),
        )

    def _events(self, view: RequestView, node: Node, shape: SpanShape, end_us: int) -> list[SpanEvent]:
        if shape.server:
            return noted(view, node) if node.op.events else []
        error = view.outcome(node.index, served=False)
        if error is None:
            return []
        return recorded(view.block.route.nodes[node.parent].program, node.program, error, end_us)

    def _links(self, view: RequestView, shape: SpanShape) -> list[SpanLink]:
        origin = view.block.origin
        if shape.kind != "CONSUMER" or origin is None or origin.traced:
            return []
        column = int(origin.columns[view.column])
        sender = RequestView(self._reader, origin.block, column)
        return [SpanLink(sender.trace_of(origin.node), span_id(sender.key, origin.node, False), {})]

    def _facts(self, view: RequestView, node: Node, shape: SpanShape) -> SpanFacts:
        server = shape.server
        error = view.outcome(node.index, served=server)
        block, column = view.block, view.column
        caller = int(block.caller(node.index)[column])
        given = node.op.attributes if server else node.op.client_attributes
        extra = {name: typed(view.text(text, node.index)) for name, text in given.items()}
        status, path = view.status_of(node.index), view.text(node.op.target, node.index) or view.path
        if server:
            ip = self._reader.runs[caller].spec.pod_ip if caller >= 0 else ""
            port = 32768 + mix_int(caller * 131 + view.run(node.index)) % 28000
            host = node.program.name
            return SpanFacts(error, status, path, host, port, ip, "python-requests/2.32", extra)
        assert node.step is not None
        host, port = split_address(address_in(self._reader.runs[caller].spec.env, node.step.call))
        if error is not None and error.code.isdigit():
            status = int(error.code)
        return SpanFacts(error, status, path if node.op.target else "", host, port, "", "", extra)

    def _parent(self, view: RequestView, node: Node, shape: SpanShape) -> str:
        if shape.server and node.client_span is not None:
            return span_id(view.key, node.index, False)
        origin = view.block.origin
        if node.parent < 0 and origin is not None and origin.traced:
            return span_id(int(origin.block.key[origin.columns[view.column]]), origin.node, not origin.sent)
        if node.parent < 0 or node.new_trace:
            return ""
        return span_id(view.key, node.within, True)


def place(run: Run) -> dict[str, str]:
    """Resource attributes that say where a process runs."""
    return {
        "k8s.namespace.name": run.ref.namespace,
        "k8s.pod.name": run.ref.pod,
        "k8s.node.name": run.spec.node,
        "k8s.container.name": run.ref.container,
        "ip": run.spec.pod_ip,
        "host.name": run.ref.pod,
    }


def service_name(shape: SpanShape, run: Run) -> str:
    """What a span's resource calls its service: what the process's environment says, or its program."""
    return shape.op.reports_as or run.spec.env.get("OTEL_SERVICE_NAME") or shape.service


def home_of(root: Root) -> Root:
    """The root of the trace that a root belongs to: of a consumed message, where it was sent."""
    while root.node == 0 and (origin := root.block.origin) is not None and origin.traced:
        first = trace_root(origin.block.route, origin.node)
        root = Root(origin.block, int(origin.columns[root.column]), first)
    return root


def _consumed(block: Block, inside: NDArray[np.bool_], counts: Counter[tuple[str, str]]) -> None:
    """Count the messages of a consumer's block as calls of their senders, the requests inside spans of users as
    theirs."""
    if block.origin is None or not block.origin.traced:
        return
    outer, taken = block.origin.block.route.nodes[block.origin.node], block.route.nodes[0].server_span
    sent = outer.client_span if block.origin.sent else outer.server_span
    if sent is not None and taken is not None and sent.service == taken.service:
        return
    calls = int(inside.sum())
    if sent is not None and taken is not None and calls:
        counts[(sent.service, taken.service)] += calls


def roots(route: Route) -> list[int]:
    """Nodes at which a trace begins."""
    return sorted({trace_root(route, n.index) for n in route.nodes if n.server_span or n.client_span})


def trace_root(route: Route, node: int) -> int:
    """The node at which the trace of a node's spans begins."""
    for at in route.path(node):
        if at.new_trace or at.parent < 0:
            return at.index
    return 0


def fitting(
    block: Block, node: Node, shape: SpanShape, window: tuple[int, int], bounds: tuple[int, int]
) -> NDArray[np.bool_]:
    """(n,) which requests have this span within start and duration bounds, microseconds."""
    i = node.index
    server = shape.server
    present = block.reached(i) if server else block.happened(i) & (block.caller(i) >= 0)
    begin = block.start * 1e6 + (block.served_at if server else block.begin)[i] * 1e3
    took = (block.served if server else block.took)[i] * 1e3
    return present & (begin >= window[0]) & (begin <= window[1]) & (took >= bounds[0]) & (took <= bounds[1])


def matches(span: Span, tags: Mapping[str, str]) -> bool:
    """Whether a span has all tags, as Jaeger compares them: as text, ``error`` meaning the status."""
    for name, wanted in tags.items():
        if name == "error":
            if (span.status == "ERROR") != (wanted == "true"):
                return False
        elif str(span.attributes.get(name, span.process.get(name))) != wanted:
            return False
    return True
