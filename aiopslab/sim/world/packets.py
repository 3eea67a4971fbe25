"""Packets that an exchange leaves on an interface, as a pod's counters show them.

* A message of up to 64 KiB is one packet: segments are cut below the interface that is counted (generic
  segmentation offload).
* A request acknowledges the answer before it when it follows within the delayed-acknowledgement time (40 ms on
  Linux); otherwise the acknowledgement is a packet of its own. An answer always carries the request's.
* A server that writes an answer in two pieces gets an acknowledgement at once: every second packet is acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.routes import RouteTable

DELAYED_ACK_S = 0.04
GSO_BYTES = 65_536
ANSWER_WRITES = {"grpc-js": 2}  # pieces in which a server library writes an answer; others write one
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """Per operation: bytes and packets of a request and of its answer, and the program that serves it."""

    asked: Floats
    answered: Floats
    packets_asked: Floats
    packets_answered: Floats
    pieces: Floats  # writes of one answer
    program: NDArray[np.int64]

    @classmethod
    def of(cls, routes: RouteTable) -> Shape:
        """The shape of a route table's operations."""
        asked = np.array([op.request_bytes for _, op in routes.ops], float)
        answered = np.array([op.response_bytes for _, op in routes.ops], float)
        pieces = np.array([ANSWER_WRITES.get(program.server, 1) for program, _ in routes.ops], float)
        names = sorted({program.name for program, _ in routes.ops})
        program = np.array([names.index(p.name) for p, _ in routes.ops], np.int64)
        return cls(
            asked,
            answered,
            np.ceil(asked / GSO_BYTES),
            np.maximum(np.ceil(answered / GSO_BYTES), pieces),
            pieces,
            program,
        )


def exchanged(shape: Shape, served: Counts, sent: Counts, elapsed_s: float) -> NDArray[np.float64]:
    """(4, runs): received bytes, received packets, sent bytes, sent packets, without frame headers.

    ``served`` and ``sent`` count calls by (run, operation): answered by the run, and made by it.
    """
    own_acks = sent * _ack_share(shape, sent, elapsed_s)
    by_callers = own_acks.sum(axis=0)
    total = served.sum(axis=0)
    # Callers outside the table (load generators) have a connection each, and pause between their requests.
    outside = np.maximum(total - sent.sum(axis=0), 0)
    peer_acks = served * ((by_callers + outside) / np.maximum(total, 1))
    return np.stack(
        [
            served @ shape.asked + sent @ shape.answered,
            served @ shape.packets_asked + sent @ shape.packets_answered + peer_acks.sum(axis=1),
            served @ shape.answered + sent @ shape.asked,
            served @ shape.packets_answered + sent @ shape.packets_asked + own_acks.sum(axis=1),
        ]
    )


def _ack_share(shape: Shape, sent: Counts, elapsed_s: float) -> Floats:
    """(runs, operations) acknowledgements that travel alone, per call. A run has one connection per program."""
    rates = np.zeros((len(sent), int(shape.program.max(initial=-1)) + 1))
    np.add.at(rates.T, shape.program, sent.T / elapsed_s)
    alone = np.exp(-DELAYED_ACK_S * rates)[:, shape.program]
    return np.where(shape.pieces > 1, 1.0, alone)
