"""DNS questions that programs ask while they dial."""

from __future__ import annotations

from aiopslab.sim.world.naming import TIMEOUT, UNREACHED, Name

RECORD_TYPES = ("A", "AAAA")
NEVER_ANSWERED = (TIMEOUT, UNREACHED)


class Lookups:
    """DNS answers by (record type, response code), for both address families, as the DNS servers count them."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}

    def note(self, host: str, name: Name) -> None:
        """A program has resolved ``host``. Each name that it tried was asked for in both families; all but the one
        that was answered did not exist."""
        if not name.asked or name.rcode in NEVER_ANSWERED:
            return
        tries = name.asked // len(RECORD_TYPES)
        for kind in RECORD_TYPES:
            self._add((kind, "NXDOMAIN"), tries - 1)
            self._add((kind, name.rcode), 1)

    def _add(self, key: tuple[str, str], count: int) -> None:
        if count:
            self.counts[key] = self.counts.get(key, 0) + count

