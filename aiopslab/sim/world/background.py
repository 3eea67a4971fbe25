"""Background noise: what happens on a healthy cluster all the time and means nothing.

Everything here is a pure function of the seed and of what it concerns, so a run with noise replays like any other,
and the same noise happens with and without a fault. ``light`` has what every cluster has; ``full`` has more of it,
and for some seeds somebody's rollout restart shortly after a namespace appeared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from aiopslab.sim.world.hashing import text_key, unit_int

Level = Literal["off", "light", "full"]
LEVELS: tuple[str, ...] = get_args(Level)
STRENGTH = {"off": 0.0, "light": 1.0, "full": 3.0}
GAP_CHANCE = 1 / 480  # a scrape of one node's cAdvisor takes too long
HOUSEKEEPING_EVERY_S = 600.0  # log rotation, image clean-up, package timers
HOUSEKEEPING_S, HOUSEKEEPING_CORES = 25.0, 0.35
VISITS_EVERY_S = 300.0  # an outside monitor looks at every web page
VISITS = 4
CHATTER_SLOT_S = 60.0
RESTART_CHANCE = 0.5
RESTART_AFTER_S = (150.0, 330.0)  # after the namespace was made: in the healthy minutes of a run


@dataclass(frozen=True, slots=True)
class Background:
    """Which noise there is, and when. ``level`` off makes none of it."""

    level: Level = "off"
    seed: int = 0

    @property
    def strength(self) -> float:
        """How much of everything, light being 1."""
        return STRENGTH[self.level]

    def gap(self, node: str, t_ms: int) -> bool:
        """Whether the scrape of a node's cAdvisor at ``t_ms`` times out."""
        return self.level != "off" and self._draw("gap", node, t_ms) < GAP_CHANCE * self.strength

    def housekeeping_s(self, node: str, age_s: float) -> float:
        """CPU seconds that a node's own timers have used in ``age_s`` seconds since it booted."""
        if self.level == "off":
            return 0.0
        shifted = age_s - self._draw("housekeeping", node) * (HOUSEKEEPING_EVERY_S - HOUSEKEEPING_S)
        if shifted <= 0:
            return 0.0
        rounds, inside = divmod(shifted, HOUSEKEEPING_EVERY_S)
        return self.strength * HOUSEKEEPING_CORES * (rounds * HOUSEKEEPING_S + min(inside, HOUSEKEEPING_S))

    def moments(self, what: str, per_h: float, since: float, until: float) -> Iterator[tuple[float, int]]:
        """(time, number) of things that happen ``per_h`` times an hour on average, in order: at most one in each
        minute. Times in Unix seconds; the number is drawn anew each time."""
        if self.level == "off" or per_h <= 0:
            return
        chance = min(1.0, per_h * self.strength * CHATTER_SLOT_S / 3600)
        for slot in range(int(since // CHATTER_SLOT_S), int(until // CHATTER_SLOT_S) + 1):
            if self._draw("moment", what, slot) < chance:
                at = (slot + self._draw("when", what, slot)) * CHATTER_SLOT_S
                if since <= at <= until:
                    yield at, text_key(self.seed, "which", what, slot)

    def visits_phase_s(self) -> float:
        """When in its period the outside monitor comes."""
        return self._draw("visits") * VISITS_EVERY_S

    def restart_after_s(self, namespace: str) -> float | None:
        """How long after a namespace appeared one of its Deployments is restarted, or None for never."""
        if self.level != "full" or self._draw("restart", namespace) >= RESTART_CHANCE:
            return None
        low, high = RESTART_AFTER_S
        return low + (high - low) * self._draw("restart at", namespace)

    def choice(self, what: str, count: int) -> int:
        """One of ``count`` things."""
        return int(self._draw("choice", what) * count)

    def _draw(self, *parts: object) -> float:
        return unit_int(text_key(self.seed, "background", *parts))
