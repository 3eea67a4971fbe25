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
# `kubectl rollout restart` writes the machine's time into the pod template, whose hash names the new pods.
_RESTARTED = re.compile(rb'("kubectl\.kubernetes\.io/restartedAt"\s*:\s*")([^"]+)(?=")')
RESTART_AGE_S_MAX = 60.0  # an older time was not written just now, but copied
# kubectl computes the ages in these outputs from the machine's clock.
CLIENT_SIDE_AGES = ("kubectl describe", "kubectl events")
HOLD_WALL_S = 0.6


@dataclass(slots=True)
class _Shift:
    """The shifts in force. One command makes several requests and must see one shift, however slow the machine is;
    commands that follow each other quickly share one.

    It counts from the whole second of cluster time: kubectl cuts ages to whole seconds, and what it needs to
    print them (less than ``1 - HOLD_WALL_S`` seconds) must not make them one second older.
    """

    now: float = float("nan")
    latest: float = float("-inf")  # machine time from which the newest shift counts
    begun: dict[str, float] = field(default_factory=dict)  # the same, by running command

    def at(self, machine: float, now: float, session: str) -> float:
        """Seconds to add to cluster times at this moment, for the command that names itself ``session``."""
        if now != self.now:
            self.now, self.latest = now, float("-inf")
            self.begun.clear()
        if session and session in self.begun:
            return self.begun[session] - math.floor(now)
        if not 0.0 <= machine - self.latest <= HOLD_WALL_S:
            self.latest = machine
        self.begun[session] = self.latest
        return self.latest - math.floor(now)


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

    def shift_s(self, user: Principal, command: str, now: float, session: str = "") -> float:
        """Seconds to add to all times in an answer: 0 unless an agent's kubectl computes ages itself. ``session``
        is what that kubectl process calls itself.
        """
        if self.machine_now is None or not command.startswith(CLIENT_SIDE_AGES) or not self.is_agent(user):
            return 0.0
        return self._held.at(self.machine_now(), now, session)

    def incoming(self, user: Principal, body: bytes, now: float) -> bytes:
        """A patch in cluster time: what an agent's kubectl took from the machine's clock becomes ``now``."""
        if self.machine_now is None or not self.is_agent(user):
            return body
        machine = self.machine_now()

        def moved(match: re.Match[bytes]) -> bytes:
            at = _unix(match.group(2).decode("ascii", "replace"))
            if at is None or abs(machine - at) > RESTART_AGE_S_MAX:
                return match.group()
            return match.group(1) + datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode()

        return _RESTARTED.sub(moved, body)


def _unix(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


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
