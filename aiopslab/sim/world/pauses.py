"""Collections of a managed runtime: short bursts on several threads, which a CPU quota turns into pauses.

A collection of ``gc_cpu_ms`` on ``gc_threads`` threads uses up the quota of a 100 ms period within milliseconds and
goes on in the next ones; until it is done, every thread of the container waits for each period's rest.
"""

from __future__ import annotations

import math
from dataclasses import replace

from aiopslab.sim.world.programspec import Resources
from aiopslab.sim.world.queueing import PERIOD_S, Waiting


def collections(resources: Resources, phase: float, start: float, end: float) -> int:
    """How many collections begin in ``[start, end)``; ``phase`` in [0, 1) tells runs apart."""
    if resources.gc_cpu_ms <= 0:
        return 0
    every = resources.gc_every_s
    return math.floor(end / every + phase) - math.floor(start / every + phase)


def paused(found: Waiting, resources: Resources, limit: float | None) -> Waiting:
    """``found`` with what collections add under a CPU limit (cores)."""
    if resources.gc_cpu_ms <= 0 or not limit:
        return found
    quota_s = limit * PERIOD_S
    periods = resources.gc_cpu_ms * 1e-3 / quota_s - 1.0
    if periods <= 0:
        return found
    rest_s = max(0.0, PERIOD_S - quota_s / resources.gc_threads)
    share = periods * rest_s / resources.gc_every_s
    return replace(
        found,
        hit=max(found.hit, min(1.0, share)),
        stretch_ms=max(found.stretch_ms, 1e3 * rest_s),
        throttled_periods=min(1.0, found.throttled_periods + math.ceil(periods) * PERIOD_S / resources.gc_every_s),
        throttled_s=found.throttled_s + share * resources.gc_threads,
    )
