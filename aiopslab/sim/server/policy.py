"""What the lab's agents may not notice, and what is written down about them.

An agent is whoever authenticates with a ServiceAccount of the lab's namespace. API groups of the lab's own
machinery are hidden from agents as if nobody had installed them; requests of agents are counted and listed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aiopslab.sim.core.ports import Principal

_TIME = re.compile(rb'(?<=")(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)((?:\.\d+)?)Z(?=")')
# kubectl computes the ages in these outputs from the machine's clock.
CLIENT_SIDE_AGES = ("kubectl describe", "kubectl events")
HOLD_WALL_S = 0.6


@dataclass(slots=True)
class _Shift:
    """The shift in force. One command makes several requests and must see one shift, so it is held for a moment.

    It counts from the whole second of cluster time: kubectl cuts ages to whole seconds, and what it needs to
    print them (less than ``1 - HOLD_WALL_S`` seconds) must not make them one second older.
    """

    machine: float = float("-inf")
    now: float = float("nan")

    def at(self, machine: float, now: float) -> float:
        """Seconds to add to cluster times at this moment."""
        if now != self.now or not 0.0 <= machine - self.machine <= HOLD_WALL_S:
            self.machine, self.now = machine, now
        return self.machine - math.floor(self.now)


@dataclass(frozen=True, slots=True)
class Policy:
    """``machine_now`` gives the machine's time in Unix seconds and is set when cluster time is another one."""

    agent_group: str = "system:serviceaccounts:lab-system"
    hidden_groups: frozenset[str] = frozenset({"chaos-mesh.org"})
    machine_now: Callable[[], float] | None = None
    _held: _Shift = field(default_factory=lambda: _Shift())

    def is_agent(self, user: Principal) -> bool:
        """Whether a principal is one of the lab's agents."""
        return self.agent_group in user.groups

    def hides(self, user: Principal, group: str) -> bool:
        """Whether an API group does not exist for a principal."""
        return group in self.hidden_groups and self.is_agent(user)

    def shift_s(self, user: Principal, command: str, now: float) -> float:
        """Seconds to add to all times in an answer: 0 unless an agent's kubectl computes ages itself."""
        if self.machine_now is None or not command.startswith(CLIENT_SIDE_AGES) or not self.is_agent(user):
            return 0.0
        return self._held.at(self.machine_now(), now)


def shift_times(body: bytes, shift_s: float) -> bytes:
    """Move every quoted RFC 3339 UTC time in a JSON text by ``shift_s`` seconds, to the microsecond."""
    delta = timedelta(seconds=shift_s)

    def moved(match: re.Match[bytes]) -> bytes:
        at = datetime.fromisoformat((match.group(1) + match.group(2)[:7]).decode()).replace(tzinfo=UTC) + delta
        whole = not match.group(2) and at.microsecond == 0
        return at.strftime("%Y-%m-%dT%H:%M:%SZ" if whole else "%Y-%m-%dT%H:%M:%S.%fZ").encode()

    return _TIME.sub(moved, body)


@dataclass(slots=True)
class Activity:
    """Requests with agent identities: how many are being answered, how many of those are open streams
    (watches, followed logs, exec), and how many there were so far."""

    in_flight: int = 0
    streams: int = 0
    serial: int = 0
    audit: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, int]:
        """Body of ``/activity`` on the control socket."""
        return {"in_flight": self.in_flight, "streams": self.streams, "serial": self.serial}

    def since(self, number: int) -> list[dict[str, Any]]:
        """Audit entries whose ``n`` is greater than ``number``."""
        return [entry for entry in self.audit if entry["n"] > number]
