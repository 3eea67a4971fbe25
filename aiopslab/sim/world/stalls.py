"""Stalls of calls while a stressor empties a container's CPU quota early in every 100 ms period.

Phases matter: a thread that wakes in the exhausted part either still finds a slice of quota or sleeps until the
period ends, and what follows right after the wake-up meets a fresh quota. So one request's calls to a pod share
their luck: the first of them that is caught waits for the rest of the period, and the next ones pass, unless the
request is so long that it runs into the following exhausted part.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.hashing import salted, text_key, unit
from aiopslab.sim.world.queueing import PERIOD_S, caught
from aiopslab.sim.world.routes import Node

Rows = NDArray[np.float32]
_U16 = np.float32(1 / 65536)
_AGAIN = 0.5  # a later wake-up is this much less likely to be caught: it may still be in the fresh part
FIRST, LATER, DONE = 0, 1, 2


def stall(
    nodes: list[Node],
    keys: NDArray[np.uint64],
    draws: NDArray[np.uint64],
    exhausted: Rows,
    times: tuple[Rows, Rows],
) -> None:
    """Add the stalls of one program's calls, the ``nodes``, to their rows of ``times`` (own and wire, ms).

    ``exhausted`` has the rows of ``nodes``: the part of each period without quota at the run that answers, 0
    where there is no stressor. A call of which the handler makes ``c`` calls wakes up ``c + 1`` times.
    """
    own, wire = times
    part = exhausted.max(axis=0)
    phase = unit(salted(keys, text_key("phase", nodes[0].program.name))).astype(np.float32)
    rest_ms = np.float32(1e3 * PERIOD_S) * (1 - phase)
    state = np.where(phase >= 1 - part, FIRST, LATER)
    before, asleep = 0, caught(nodes[0].program.cores)
    for row, node in enumerate(nodes):
        wakes = 1 + len(node.children)
        chance = ((draws[node.index] >> np.uint64(24)) & np.uint64(0xFFFF)).astype(np.float32) * _U16
        first = 1 - (1 - asleep) ** wakes
        later = 1 - (1 - _AGAIN * asleep) ** (before + wakes - 1)
        struck = (chance < np.where(state == FIRST, first, later)) & (state != DONE) & (exhausted[row] > 0)
        waits = np.where(state == FIRST, rest_ms, np.float32(1e3 * PERIOD_S) * exhausted[row])
        waits = np.where(struck, waits, np.float32(0))
        inside = (draws[node.index] & np.uint64(1)).astype(bool) | (node.step is None) | (wakes > 1)
        own[node.index] += np.where(inside, waits, 0)
        wire[node.index] += np.where(inside, 0, waits)
        state = np.where(struck, state + 1, state)
        before += wakes
