"""Requests that are under way when a container dies: their callers see the connection break off.

Such requests have been simulated to their end, but nobody has seen it yet: they end later than now. So their
columns are corrected in place before anything is counted or read.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.blocks import Block
from aiopslab.sim.world.dialects import CLIENTS, CLOSED, Error, Errors
from aiopslab.sim.world.programspec import Program
from aiopslab.sim.world.walk import reason, status_of, wrapper

TAIL_MS = 0.3  # from the broken call to the answer


def interrupt(
    open_requests: Iterable[tuple[Block, NDArray[np.int64]]], run: int, now: float, errors: Errors
) -> int:
    """Break off all calls that ``run`` is serving at ``now`` (Unix seconds). Returns how many there were."""
    broken = 0
    for block, columns in open_requests:
        for column in columns:
            at_ms = (now - float(block.start[column])) * 1e3
            node = _serving(block, int(column), run, at_ms)
            if node >= 0:
                _prepare(block)
                _break(block, int(column), node, at_ms, errors)
                broken += 1
    return broken


def _serving(block: Block, column: int, run: int, at_ms: float) -> int:
    """The outermost call that ``run`` is serving at ``at_ms`` of the request, -1 for none."""
    for node in block.route.nodes:
        i = node.index
        if block.run[i, column] != run or (block.made is not None and not block.made[i, column]):
            continue
        begin = float(block.begin[i, column])
        if begin <= at_ms < begin + float(block.took[i, column]):
            return i
    return -1


def _prepare(block: Block) -> None:
    shape = block.run.shape
    if block.made is None:
        block.made = np.ones(shape, bool)
    if block.error is None:
        block.error = np.zeros(shape, np.int32)
    if block.returned is None:
        block.returned = np.zeros(shape, np.int32)


def _break(block: Block, column: int, node: int, at_ms: float, errors: Errors) -> None:
    """The callee of ``node`` is gone: what it did is lost, and the error goes up as far as the policies let it."""
    assert block.made is not None and block.error is not None and block.returned is not None
    nodes = block.route.nodes
    for inner in nodes[node + 1 :]:
        if any(at.index == node for at in block.route.path(inner.index)):
            block.made[inner.index, column] = False
    block.run[node, column] = -1
    block.returned[node, column] = 0
    step = nodes[node].step
    caller = nodes[nodes[node].parent].program if step is not None else None
    error = errors.intern(_closed(caller, nodes[node].program))
    _finish(block, node, column, at_ms, error)
    while step is not None and step.on_error in ("propagate", "raise"):
        parent = nodes[node].parent
        for later in nodes[parent].children:
            if later > node:
                for inner in nodes[later:]:
                    if any(at.index == later for at in block.route.path(inner.index)):
                        block.made[inner.index, column] = False
        error = wrapper(nodes[parent].program, nodes[node].program, step, errors)(error)
        at_ms += TAIL_MS
        block.returned[parent, column] = error
        block.served[parent, column] = at_ms - block.served_at[parent, column]
        step = nodes[parent].step
        shown = error
        if nodes[parent].op.target and not nodes[parent].local:
            status = status_of(nodes[parent].op, errors[error])
            shown = errors.intern(Error(str(status), reason(status)))
        _finish(block, parent, column, at_ms, shown)
        node, error = parent, shown


def _finish(block: Block, node: int, column: int, at_ms: float, error: int) -> None:
    """The caller of ``node`` has its outcome at ``at_ms``."""
    assert block.error is not None
    block.error[node, column] = error
    block.took[node, column] = at_ms - block.begin[node, column]


def _closed(caller: Program | None, callee: Program) -> Error:
    library = CLIENTS[(caller.library(callee) if caller is not None else "") or "http"]
    text = library.texts[CLOSED]
    return Error(text.code, text.message)
