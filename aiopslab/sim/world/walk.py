"""One route's requests through their calls: when each call starts, how long it takes, how it ends.

Calls of a handler are sequential, unless it starts some together or does not wait for them. The columns of a
block are computed row by row (a row is one call of all requests), either plainly, when nothing on the way can
fail, or with outcomes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.dialects import CANCELED, CLIENTS, DEADLINE, Error, Errors, uncaught
from aiopslab.sim.world.edges import Edge
from aiopslab.sim.world.programspec import Op, Program, Step
from aiopslab.sim.world.routes import Node, Route

FloatRows = NDArray[np.float32]
BoolRow = NDArray[np.bool_]
HANG_MS = np.float32(1e9)  # longer than any client waits
FAIL_FAST_MS = np.float32(0.05)


@dataclass(slots=True, eq=False)
class Columns:
    """What a walk fills in; see ``blocks.Block`` for the meaning of the rows."""

    begin: FloatRows
    took: FloatRows
    served_at: FloatRows
    served: FloatRows
    made: NDArray[np.bool_] | None = None
    error: NDArray[np.int32] | None = None
    returned: NDArray[np.int32] | None = None


@dataclass(slots=True, eq=False)
class Journey:
    """Inputs of a walk: rows of transport time and own time in ms, runs, and which rows happen at all."""

    route: Route
    run: NDArray[np.int32]  # (k, n)
    wire: FloatRows  # (k, n)
    own: FloatRows  # (k, n)
    wanted: NDArray[np.bool_] | None  # (k, n) by request variables; None: all
    edges: list[Edge | None]  # per node; None for row 0
    root_error: NDArray[np.int32] | None  # (n,) error of the request's own connection
    root_fail_ms: NDArray[np.float32] | None


def plain(journey: Journey) -> Columns:
    """The walk when no call can fail. Rows that do not happen take no time."""
    nodes, wire, own = journey.route.nodes, journey.wire, journey.own
    if journey.wanted is not None:
        wire *= journey.wanted
        own *= journey.wanted
    out = Columns(
        np.empty_like(wire), np.empty_like(wire), wire * np.float32(0.5), np.empty_like(wire), journey.wanted
    )
    out.begin[0] = 0.0
    alone = journey.route.alone

    def visit(i: int) -> None:
        node = nodes[i]
        out.served_at[i] += out.begin[i]
        if not node.children:
            out.served[i] = own[i]
        else:
            gap = own[i] * np.float32(1.0 / (len(node.groups) + 1))
            cursor = out.served_at[i] + gap
            for group in node.groups:
                for child in group:
                    out.begin[child] = cursor
                    visit(child)
                cursor += out.took[group[0]] if group[0] in alone else _longest(nodes, out, group)
                cursor += gap
            np.subtract(cursor, out.served_at[i], out=out.served[i])
        np.add(wire[i], out.served[i], out=out.took[i])

    visit(0)
    return out


def _longest(nodes: list[Node], out: Columns, group: list[int]) -> NDArray[np.float32]:
    """(n,) how long the caller waits for calls that start together."""
    waited = [out.took[i] for i in group if nodes[i].step is None or nodes[i].step.wait]  # type: ignore[union-attr]
    if not waited:
        return np.zeros(out.took.shape[1], np.float32)
    return waited[0] if len(waited) == 1 else np.maximum.reduce(waited)


def exceeds_deadline(journey: Journey, columns: Columns) -> bool:
    """Whether some call of a plain walk took longer than its deadline allows."""
    return any(
        node.step is not None
        and node.step.deadline_ms > 0
        and bool((columns.took[node.index] > node.step.deadline_ms).any())
        for node in journey.route.nodes
    )


class GuardedWalk:
    """The walk with outcomes: errors of edges, deadlines, policies of the callers, cancellation."""

    def __init__(self, journey: Journey, errors: Errors) -> None:
        self._journey = journey
        self._errors = errors
        shape = journey.wire.shape
        self._count = shape[1]
        self._out = Columns(
            np.zeros(shape, np.float32),
            np.zeros(shape, np.float32),
            np.zeros(shape, np.float32),
            np.zeros(shape, np.float32),
            np.zeros(shape, bool),
            np.zeros(shape, np.int32),
            np.zeros(shape, np.int32),
        )

    def run(self, timeout_ms: float) -> Columns:
        """Walk; requests still unanswered after ``timeout_ms`` are cancelled by their client."""
        self._visit(self._journey.route.nodes[0], np.ones(self._count, bool))
        if float(self._out.took[0].max(initial=0.0)) > timeout_ms:
            self._cancel(np.float32(timeout_ms))
        return self._out

    def _visit(self, node: Node, active: BoolRow) -> None:
        journey, out, i = self._journey, self._out, node.index
        assert out.made is not None and out.error is not None and out.returned is not None
        out.made[i] = active
        refused, fail_ms, hangs = self._arrival(node)
        running = active & (refused == 0) & ~hangs
        out.served_at[i] = out.begin[i] + journey.wire[i] * np.float32(0.5)
        served = self._serve(node, running)
        out.served[i] = np.where(running, served, 0)
        took = np.where(running, journey.wire[i] + served, np.where(hangs, HANG_MS, fail_ms + FAIL_FAST_MS))
        out.error[i] = np.where(running, out.returned[i], refused) * active
        if node.step is not None and node.step.deadline_ms > 0:
            late = active & (took > node.step.deadline_ms)
            self._answer(node, running & ~late)
            out.error[i][late] = self._library_error(node, DEADLINE)
            took = np.where(late, np.float32(node.step.deadline_ms), took)
        else:
            self._answer(node, running)
        out.took[i] = np.where(active, took, 0)
        journey.run[i][~running] = -1

    def _arrival(self, node: Node) -> tuple[NDArray[np.int32], NDArray[np.float32], BoolRow]:
        """Per request: error of the connection, how long failing takes, whether packets vanish."""
        edge = self._journey.edges[node.index]
        if edge is None:
            none = np.zeros(self._count, np.int32)
            root = self._journey.root_error if node.step is None else None
            fail = self._journey.root_fail_ms if node.step is None else None
            return (none if root is None else root), (np.float32(0) * none if fail is None else fail), none > 0
        callers = self._journey.run[node.parent]
        return edge.error[callers], edge.fail_ms[callers], edge.hangs[callers]

    def _serve(self, node: Node, running: BoolRow) -> NDArray[np.float32]:
        """Call the children in order; the returned row is the time from start of serving to its end."""
        journey, out = self._journey, self._out
        assert out.error is not None and out.returned is not None
        own = journey.own[node.index]
        if not node.children and node.op.fails is None:
            return own
        gap = own * np.float32(1.0 / (len(node.groups) + 1))
        cursor = out.served_at[node.index] + gap
        going = running.copy()
        skipped: dict[str, BoolRow] = {}
        for group in node.groups:
            before = going.copy()
            longest = np.zeros(self._count, np.float32)
            for index in group:
                out.begin[index] = cursor
                active = self._call(node, index, before, going, skipped)
                if journey.route.nodes[index].step.wait:  # type: ignore[union-attr]
                    np.maximum(longest, np.where(active, out.took[index], 0), out=longest)
            cursor = cursor + np.where(before, longest + gap, 0).astype(np.float32)
        if node.op.fails is not None:
            failure = self._errors.intern(Error(node.op.fails.code, node.op.fails.message))
            out.returned[node.index][going] = failure
        return cursor - out.served_at[node.index]

    def _call(
        self, node: Node, index: int, started: BoolRow, going: BoolRow, skipped: dict[str, BoolRow]
    ) -> BoolRow:
        """Make one call for the requests in ``started``; those that end with it leave ``going``."""
        journey, out = self._journey, self._out
        assert out.error is not None
        child = journey.route.nodes[index]
        step = child.step
        assert step is not None
        active = started.copy() if journey.wanted is None else started & journey.wanted[index]
        if step.group in skipped:
            active &= ~skipped[step.group]
        self._visit(child, active.copy())
        failed = active & (out.error[index] != 0)
        if failed.any():
            self._settle(node, step, index, failed, going, skipped)
        return active

    def _settle(
        self, node: Node, step: Step, index: int, failed: BoolRow, going: BoolRow, skipped: dict[str, BoolRow]
    ) -> None:
        """Apply the caller's policy to failed calls."""
        assert self._out.error is not None and self._out.returned is not None
        if step.on_error in ("warn", "ignore"):
            if step.group:
                skipped[step.group] = skipped.get(step.group, np.zeros(self._count, bool)) | failed
            return
        wrap = wrapper(node.program, self._journey.route.nodes[index].program, step, self._errors)
        inner = self._out.error[index]
        for number in np.unique(inner[failed]):
            self._out.returned[node.index][failed & (inner == number)] = wrap(int(number))
        going &= ~failed

    def _answer(self, node: Node, running: BoolRow) -> None:
        """A failed HTTP request reaches its client as a status."""
        assert self._out.error is not None and self._out.returned is not None
        if node.local or not node.op.target:
            return
        returned, error = self._out.returned[node.index], self._out.error[node.index]
        failed = running & (returned != 0)
        for number in np.unique(returned[failed]):
            status = status_of(node.op, self._errors[int(number)])
            error[failed & (returned == number)] = self._errors.intern(Error(str(status), reason(status)))

    def _cancel(self, limit: np.float32) -> None:
        """End everything that is still going on ``limit`` ms after the request's start."""
        out, nodes = self._out, self._journey.route.nodes
        assert out.made is not None and out.error is not None and out.returned is not None
        for node in nodes:
            i = node.index
            out.made[i] &= out.begin[i] < limit
            cut = out.made[i] & (out.begin[i] + out.took[i] > limit)
            if not cut.any():
                continue
            serving = cut & (self._journey.run[i] >= 0)
            if node.step is None:
                out.error[i][cut] = self._errors.intern(Error(*CLIENTS["http"].texts[CANCELED][:2]))
            else:
                out.error[i][cut] = self._library_error(node, CANCELED)
            out.took[i][cut] = limit - out.begin[i][cut]
            out.returned[i][serving] = self._library_error(None, CANCELED, node.program)
            out.served[i][serving] = np.maximum(limit - out.served_at[i][serving], 0)
            if node.parent == 0 and node.step is not None:
                wrap = wrapper(nodes[0].program, node.program, node.step, self._errors)
                out.returned[0][cut] = wrap(int(out.error[i][cut][0]))

    def _library_error(self, node: Node | None, condition: str, program: Program | None = None) -> int:
        """What the library of a call's caller, or of ``program``, says of a condition."""
        name = program.client if program is not None else ""
        if node is not None:
            name = self._journey.route.nodes[node.parent].program.library(node.program)
        client = CLIENTS.get(name) or CLIENTS["grpc-go"]
        text = client.texts[condition]
        return self._errors.intern(Error(text.code, text.message))


def status_of(op: Op, error: Error) -> int:
    """HTTP status with which an operation answers when it ends with ``error``: a status that it passes on, or its
    own choice."""
    return int(error.code) if error.code.isdigit() else op.statuses.get(error.code, op.error_status)


def reason(status: int) -> str:
    """The status in words."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def wrapper(program: Program, callee: Program, step: Step, errors: Errors) -> Callable[[int], int]:
    """The function from a call's error to the error that the calling operation returns."""
    client = CLIENTS.get(program.library(callee))
    show = client.show if client is not None and step.call else str_of

    def wrap(number: int) -> int:
        error = errors[number]
        if step.on_error == "raise":
            return errors.intern(uncaught(program.server, show(error)))
        if error.code.isdigit() and step.wrap_status:
            text = step.wrap_status.replace("{status}", error.code)
            return errors.intern(Error(step.code or "Internal", text))
        if step.wrap == "{error}" and not step.code:
            return number
        return errors.intern(Error(step.code or error.code, step.wrap.replace("{error}", show(error))))

    return wrap


def str_of(error: Error) -> str:
    """An error inside a program, which no library words."""
    return error.message
