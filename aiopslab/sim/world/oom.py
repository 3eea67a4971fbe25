"""Which processes the kernel's OOM killer ends: those of containers that need more memory than their limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aiopslab.sim.world.effects import Effects
from aiopslab.sim.world.images import MIB
from aiopslab.sim.world.runs import Run


def outgrown(runs: Iterable[Run], leaked_mib: Callable[[Run], float]) -> list[Run]:
    """Programs whose own memory, with what they never gave back, is beyond the limit."""
    found = []
    for run in runs:
        limit, leaked = run.spec.memory_limit_bytes, leaked_mib(run)
        if not leaked or not limit or run.program is None:
            continue
        if (run.program.resources.memory_mib + leaked) * MIB > limit:
            found.append(run)
    return found


def squeezed_out(runs: Iterable[Run], effects: Effects) -> list[Run]:
    """Programs that are the largest process where a stressor needs more than the limit leaves."""
    found = []
    for run in runs:
        key, limit = (run.ref.namespace, run.ref.pod, run.ref.container), run.spec.memory_limit_bytes
        stress = effects.memory_bytes.get(key)
        if stress is None or run.program is None or not limit:
            continue
        own = run.program.resources.memory_mib * MIB
        if own + stress > limit and own > stress / max(1, effects.memory_workers.get(key, 1)):
            found.append(run)
    return sorted(found, key=lambda run: (run.ref.namespace, run.ref.pod, run.ref.container))
