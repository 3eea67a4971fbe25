"""What a run tells whoever watches it: a stream of small events, no rendering.

A listener is any callable that takes an ``Event``. It is called on the run's own thread and must return
quickly; an exception in it is the listener's problem and ends nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["run-started", "phase-started", "phase-ended", "note", "step", "submitted", "finished"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    ``phase`` is the phase the run is in (setup, deploy, load, baseline, inject, agent, settle, recover,
    teardown). ``detail`` by kind: run-started {run_id, problem, seed, cluster, folder}; phase-ended {wall_s,
    ok}; step {step, max_steps, action, args, valid, reply, observation}; submitted {stage, value}; finished
    {outcome, verdict}. ``cluster_s`` is cluster time since the run's start, ``wall_s`` wall time since the
    run's start, both in seconds.
    """

    kind: Kind
    phase: str
    text: str
    cluster_s: float = 0.0
    wall_s: float = 0.0
    detail: dict[str, Any] = field(default_factory=dict)


Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener of a run that nobody watches."""
