"""Bounds of a run that an agent cannot move."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds of wall time, and characters.

    ``reply_wall_s``: for one reply of the agent. ``run_wall_s``: for the agent's whole session.
    ``reply_chars``: an agent whose reply is longer has failed. ``observation_chars``: longer observations are
    cut in the middle. ``recorded_chars``: how much of a reply the record keeps.
    """

    reply_wall_s: float = 600.0
    run_wall_s: float = 2 * 3600.0
    reply_chars: int = 10_000_000
    observation_chars: int = 16_000
    recorded_chars: int = 200_000
