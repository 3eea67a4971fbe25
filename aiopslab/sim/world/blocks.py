"""The columns of simulated traffic: one block holds all requests of one route in one piece of time.

Times inside a block are milliseconds after the request's own start; a block with ``k`` call nodes and ``n``
requests has arrays of shape (k, n). Spans, log lines and metrics are all read off these columns, so they
cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.routes import Route


@dataclass(slots=True, eq=False)
class Origin:
    """Where requests came from: call ``node`` of the requests ``columns`` (n,) of ``block``.

    ``how``: it sent a ``message`` whose work goes on in its trace; the work has a ``link`` to it but is a trace of
    its own; the requests were made inside its ``span``.
    """

    block: Block
    node: int
    columns: NDArray[np.int64]
    how: Literal["message", "link", "span"] = "message"

    @property
    def traced(self) -> bool:
        """Whether it is in the same trace."""
        return self.how != "link"

    @property
    def sent(self) -> bool:
        """Whether the requests are the work of its messages."""
        return self.how != "span"

    def some(self, which: NDArray[np.int64]) -> Origin:
        """Of some of the requests only."""
        return Origin(self.block, self.node, self.columns[which], self.how)


@dataclass(slots=True, eq=False)
class Block:
    """All requests of ``route`` that started in one piece. Row 0 is the request itself as its client sees it."""

    route: Route
    key: NDArray[np.uint64]  # (n,) identity of the request; every id in it is a hash of this
    start: NDArray[np.float64]  # (n,) Unix seconds at the client
    run: NDArray[np.int32]  # (k, n) container run that answered; -1 when none was reached
    begin: NDArray[np.float32]  # (k, n) ms, the caller starts the call
    took: NDArray[np.float32]  # (k, n) ms, as the caller sees it
    served_at: NDArray[np.float32]  # (k, n) ms, the callee starts
    served: NDArray[np.float32]  # (k, n) ms, as the callee sees it
    made: NDArray[np.bool_] | None  # (k, n) the call happened; None: all of them
    error: NDArray[np.int32] | None  # (k, n) outcome at the caller, id in Errors, 0 is OK; None: all OK
    returned: NDArray[np.int32] | None  # (k, n) outcome at the callee; differs from ``error`` on deadlines
    variables: dict[str, NDArray[np.int64]] = field(default_factory=dict)  # (n,) per request
    client: NDArray[np.int32] | None = None  # (n,) run of the load generator
    connection: NDArray[np.int32] | None = None  # (n,) user or connection number at the client
    origin: Origin | None = None  # of a consumer's block: the calls that sent its messages; users' spans
    followers: list[Block] = field(default_factory=list)  # blocks of which this one is the origin

    @property
    def count(self) -> int:
        """Requests in the block."""
        return len(self.start)

    def ends(self) -> NDArray[np.float64]:
        """(n,) Unix seconds at which the client had its answer."""
        return self.start + self.took[0].astype(np.float64) * 1e-3

    def happened(self, node: int) -> NDArray[np.bool_]:
        """(n,) whether the call of ``node`` was made."""
        return np.ones(self.count, bool) if self.made is None else self.made[node]

    def reached(self, node: int) -> NDArray[np.bool_]:
        """(n,) whether the call was made and a container answered it."""
        return self.happened(node) & (self.run[node] >= 0)

    def caller(self, node: int) -> NDArray[np.int32]:
        """(n,) container run that made the call of ``node``."""
        parent = self.route.nodes[node].parent
        if parent < 0:
            return self.client if self.client is not None else np.full(self.count, -1, np.int32)
        return self.run[parent]


class Pieces:
    """Blocks in order of time, with a bound on how far back they go."""

    def __init__(self, retention_s: float) -> None:
        self._retention_s = retention_s
        self._spans: list[tuple[float, float]] = []
        self._blocks: list[list[Block]] = []
        self._dropped = 0
        self.before_dropping: Callable[[float], None] | None = None  # told the time

    def add(self, start: float, blocks: list[Block]) -> None:
        """Append a piece that began at ``start``; drop pieces that ended too long ago."""
        if not blocks:
            return
        end = max(float(b.ends().max()) for b in blocks)
        self._spans.append((start, end))
        self._blocks.append(blocks)
        old = 0
        while self._spans[old][1] < start - self._retention_s:
            old += 1
        if old:
            if self.before_dropping is not None:
                self.before_dropping(start)
            del self._spans[:old], self._blocks[:old]
            self._dropped += old

    def between(self, start: float, end: float) -> Iterator[list[Block]]:
        """Pieces with a request alive in ``[start, end]``, newest first."""
        for (low, high), blocks in zip(reversed(self._spans), reversed(self._blocks), strict=True):
            if low <= end and high >= start:
                yield blocks

    def from_number(self, number: int) -> Iterator[tuple[float, float, list[Block]]]:
        """Start, end and blocks of the pieces from the one of that number on, counted since the beginning."""
        for place in range(max(0, number - self._dropped), len(self._blocks)):
            yield *self._spans[place], self._blocks[place]

    def all(self) -> Iterator[list[Block]]:
        """Every piece, newest first."""
        return reversed(self._blocks)

    def bytes(self) -> int:
        """Memory held by the columns."""
        columns = ("key", "start", "run", "begin", "took", "served_at", "served", "made", "error", "returned")
        total = 0
        for blocks in self._blocks:
            for block in blocks:
                arrays = [getattr(block, name) for name in columns] + list(block.variables.values())
                total += sum(a.nbytes for a in arrays if a is not None)
        return total
