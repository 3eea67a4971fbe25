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
    served_by: Floats  # (operations, programs) 1 for the program that serves the operation
    cpu_s: Floats  # of one call
    crosses: Counts  # 1 for calls that leave the process, 0 for its own steps

    @classmethod
    def of(cls, routes: RouteTable) -> Shape:
        """The shape of a route table's operations."""
        asked = np.array([op.request_bytes for _, op in routes.ops], float)
        answered = np.array([op.response_bytes for _, op in routes.ops], float)
        pieces = np.array([ANSWER_WRITES.get(program.server, 1) for program, _ in routes.ops], float)
        names = sorted({program.key for program, _ in routes.ops})
        served_by = np.array([[float(name == p.key) for name in names] for p, _ in routes.ops])
        return cls(
            asked,
            answered,
            np.ceil(asked / GSO_BYTES),
            np.maximum(np.ceil(answered / GSO_BYTES), pieces),
            pieces,
            served_by.reshape(len(routes.ops), len(names)),
            np.array([op.cpu_ms for _, op in routes.ops]) * 1e-3,
            np.array([not op.local for _, op in routes.ops], np.int64),
        )

    def only(self, ops: Counts) -> Shape:
        """The shape of some of the operations."""
        return Shape(*(getattr(self, name)[ops] for name in self.__slots__))


def exchanged(shape: Shape, answered: Counts, made: Counts, elapsed_s: float) -> NDArray[np.float64]:
    """(4, runs): received bytes, received packets, sent bytes, sent packets, without frame headers.

    ``answered`` and ``made`` count calls by (run, operation): those that the run answered, and those that it made.
    """
    ops = np.flatnonzero(answered.any(axis=0) | made.any(axis=0))
    shape, served, sent = shape.only(ops), answered[:, ops].astype(float), made[:, ops].astype(float)
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


def _ack_share(shape: Shape, sent: Floats, elapsed_s: float) -> Floats:
    """(runs, operations) acknowledgements that travel alone, per call. A run has one connection per program."""
    rates = (sent @ shape.served_by / elapsed_s) @ shape.served_by.T
    return np.where(shape.pieces > 1, 1.0, np.exp(-DELAYED_ACK_S * rates))
