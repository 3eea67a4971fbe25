"""Segments that TCP sent again because packets were lost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.blocks import Block
from aiopslab.sim.world.edges import RETRANSMIT_MS, Edge, EdgeTable
from aiopslab.sim.world.routes import RouteTable
from aiopslab.sim.world.runs import Runs

SEGMENT_BYTES = 1400


class Retransmissions:
    """Segments sent again, by node. Lost packets are those of ``Edge.loss``: of ``p`` packets on a path that loses
    a share ``l``, ``p l / (1 - l)`` are sent again on average."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.by_node: dict[str, float] = {}

    def record(
        self, blocks: list[Block], routes: RouteTable, edges: EdgeTable, load_edges: Mapping[int, Edge]
    ) -> None:
        """Count what a piece of traffic caused."""
        outside = any(edge.slowed or edge.broken for edge in load_edges.values())
        if not edges.lossy and not outside:
            return
        for block in blocks:
            if outside and block.client is not None and block.connection is not None:
                for number in np.unique(block.client[block.client >= 0]).tolist():
                    mine = np.flatnonzero(block.client == number)
                    self._call(block, 0, mine, load_edges[number], block.connection[mine])
            for node in block.route.nodes[1:] if edges.lossy else ():
                if node.local:
                    continue
                edge = edges.edge(routes, node.edge)
                if edge.slowed or edge.broken:
                    made = np.flatnonzero(block.happened(node.index))
                    self._call(block, node.index, made, edge, block.run[node.parent, made])

    def _call(
        self, block: Block, node: int, columns: NDArray[np.int64], edge: Edge, place: NDArray[np.int32]
    ) -> None:
        """Calls of one node; ``place`` says where each stands in the edge's columns."""
        op = block.route.nodes[node].op
        packets = -(-op.request_bytes // SEGMENT_BYTES) - (-op.response_bytes // SEGMENT_BYTES)
        loss = edge.loss[place]
        again = packets * loss / (1.0 - np.minimum(loss, 0.99))
        # The timeout doubles: a call that got nothing through for t has sent its segment log2(t / RTO + 1) times.
        stuck = np.floor(np.log2(block.took[node, columns] / RETRANSMIT_MS + 1.0))
        again = np.where(edge.hangs[place], stuck, again)
        callers = block.caller(node)[columns]
        for number in np.unique(callers[again > 0]).tolist():
            if number >= 0:
                name = self._runs[number].spec.node
                self.by_node[name] = self.by_node.get(name, 0.0) + float(again[callers == number].sum())
