"""Events and links of spans: what a handler notes in its span, and what instrumentations record of exceptions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from aiopslab.sim.world.dialects import CLIENTS, Error
from aiopslab.sim.world.programspec import EventSpec, Program
from aiopslab.sim.world.requests import RequestView, typed
from aiopslab.sim.world.routes import Node

_SITE = "/usr/local/lib/python3.14/site-packages"
_PYTHON_CALL = f"""Traceback (most recent call last):
  File "{_SITE}/opentelemetry/instrumentation/grpc/_client.py", line 121, in _intercept
    result = invoker(request, metadata)
  File "{_SITE}/grpc/_channel.py", line 1178, in __call__
    return _end_unary_response_blocking(state, call, False, None)
  File "{_SITE}/grpc/_channel.py", line 1005, in _end_unary_response_blocking
    raise _InactiveRpcError(state)  # pytype: disable=not-instantiable
"""
_SYSTEM_ERROR = re.compile(r"\bE[A-Z]{4,}\b")
_UNDICI = {"Connect Timeout Error": "UND_ERR_CONNECT_TIMEOUT", "other side closed": "UND_ERR_SOCKET"}


class SpanEvent(NamedTuple):
    """Something that happened in a span. ``at_us`` in Unix microseconds."""

    at_us: int
    name: str
    attributes: dict[str, Any]


class SpanLink(NamedTuple):
    """A span of another trace that a span belongs to."""

    trace_id: str
    span_id: str
    attributes: dict[str, Any]


def noted(view: RequestView, node: Node) -> list[SpanEvent]:
    """The events that an operation notes in its own span, in order."""
    found = [event for spec in node.op.events for event in _occurrences(view, node, spec)]
    return sorted(found, key=lambda event: event.at_us)


def recorded(caller: Program, callee: Program, error: Error, at_us: int) -> list[SpanEvent]:
    """The exception that the instrumentation of a client library records in the caller's span, if it does."""
    library = caller.library(callee)
    make = _RECORDERS.get(library)
    if make is None or error.code.isdigit():  # an answer, not an exception
        return []
    return [SpanEvent(at_us, "exception", make(error, CLIENTS[library].show(error)))]


def _occurrences(view: RequestView, node: Node, spec: EventSpec) -> Iterator[SpanEvent]:
    block, column, i = view.block, view.column, node.index
    begin = float(block.served_at[i, column])
    kind, _, about = spec.at.partition(":")
    if not about:
        failed = view.outcome(i, served=True) is not None
        if kind in ("start", "end") or failed == (kind == "error"):
            at = begin if kind == "start" else begin + float(block.served[i, column])
            yield _event(view, i, spec, at)
        return
    for call in _calls(view, node, about):
        error = view.outcome(call.index, served=False)
        if (error is not None) == (kind == "failed"):
            at = float(block.begin[call.index, column] + block.took[call.index, column])
            shown = view.shown(call.index, node.program) if error is not None else ""
            yield _event(view, i, spec, at, shown)


def _calls(view: RequestView, node: Node, name: str) -> Iterator[Node]:
    """The calls of an operation that a program made while it ran ``node``, its own steps included."""
    for child in node.children:
        call = view.block.route.nodes[child]
        if not view.happened(child):
            continue
        if call.op.name == name:
            yield call
        elif call.local:
            yield from _calls(view, call, name)


def _event(view: RequestView, node: int, spec: EventSpec, at_ms: float, error: str | None = None) -> SpanEvent:
    def fill(template: str) -> str:
        return view.text(template, node) if error is None else view.told(template, node, error)

    attributes = {name: typed(fill(text)) for name, text in spec.attributes.items()}
    return SpanEvent(int(view.start * 1e6 + at_ms * 1e3), fill(spec.name), attributes)


def _python(error: Error, shown: str) -> dict[str, Any]:
    kind = "grpc._channel._InactiveRpcError"
    return {
        "exception.type": kind,
        "exception.message": shown,
        "exception.stacktrace": f"{_PYTHON_CALL}{kind}: {shown}\n",
        "exception.escaped": "False",
    }


def _undici(error: Error, shown: str) -> dict[str, Any]:
    message = shown.removeprefix("fetch failed: ")
    system = _SYSTEM_ERROR.search(message)
    return {
        "exception.type": system[0] if system else _UNDICI.get(message, "Error"),
        "exception.message": message,
        "exception.stacktrace": f"Error: {message}\n    at process.processTicksAndRejections "
        "(node:internal/process/task_queues:103:5)",
    }


def _go(error: Error, shown: str) -> dict[str, Any]:
    kind = "*net.OpError" if shown.startswith("dial ") else "*errors.errorString"
    return {"exception.type": kind, "exception.message": shown}


_RECORDERS: dict[str, Callable[[Error, str], dict[str, Any]]] = {
    "grpc-python": _python,
    "http-js": _undici,
    "sql-go": _go,
}
