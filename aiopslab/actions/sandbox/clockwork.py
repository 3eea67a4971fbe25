"""Lets cluster time pass while a command waits for it (stepped clock only).

The world stands still while a command works. When every process of the command sleeps, no request is being
answered and nothing moved between several looks, the command is waiting. What it waits for decides how time
runs on:

* the lab's ``sleep``: straight to the earliest end of a sleep;
* an open stream (a watch, a followed log): in steps of one second, each followed by a new wait for quiet, so
  that the command sees every change in order;
* a request that stays unanswered: the same steps, after a short grace;
* anything else (a program that waits on the machine's clock): one second of cluster time per second of wall
  time.

What a command sees thus depends on the cluster's state alone, not on how fast the machine is.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiopslab.actions.sandbox.processes import Sample
from aiopslab.cluster.base import Cluster

POLL_S = 0.004
QUIET_LOOKS = 3
STEP_S = 1.0
UNANSWERED_GRACE_S = 0.25
_AMOUNT = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)\Z")
_UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Alarms:
    """Sleeps that wait for cluster time, as the shell's ``sleep`` asks for them."""

    def __init__(self) -> None:
        self._now = 0.0
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._holds: dict[int, float] = {}
        self._serial = 0

    def moved(self, now: float) -> None:
        """The cluster's clock shows ``now``; sleeps that are over end."""
        self._now = now
        while self._waiting and self._waiting[0][0] <= now + 1e-9:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)

    def next(self) -> float | None:
        """When the earliest sleep ends, or None."""
        while self._waiting and self._waiting[0][2].done():
            heapq.heappop(self._waiting)
        return self._waiting[0][0] if self._waiting else None

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the shell's programs: ``now``; ``sleep AMOUNT...``, answered when it is over; or
        ``limit SECONDS``, after which the clock stands still until the connection ends."""
        words = (await reader.readline()).decode("utf-8", "replace").split()
        if words[:1] == ["now"]:
            answer = f"{self._now:.3f}"
        elif words[:1] == ["sleep"]:
            answer = await self._sleep(words[1:])
        elif words[:1] == ["limit"] and len(words) == 2 and words[1].isdigit():
            await self._hold(float(words[1]), reader)
            return
        else:
            answer = "error"
        writer.write(answer.encode() + b"\n")
        await writer.drain()

    @property
    def busy(self) -> bool:
        """Whether a sleep or a program's own limit is pending."""
        return self.next() is not None or bool(self._holds)

    def held_at(self) -> float:
        """The time beyond which the clock must not go while a program with a limit of its own is at work."""
        return min(self._holds.values(), default=math.inf)

    async def _hold(self, seconds: float, reader: asyncio.StreamReader) -> None:
        self._serial += 1
        mine = self._serial
        self._holds[mine] = self._now + seconds
        try:
            await reader.read()  # ends when the program does
        finally:
            del self._holds[mine]

    async def _sleep(self, amounts: list[str]) -> str:
        found = [_AMOUNT.match(amount) for amount in amounts]
        if amounts == ["infinity"]:
            seconds = math.inf
        elif amounts and all(found):
            seconds = sum(float(f.group(1)) * _UNIT_S[f.group(2)] for f in found if f)
        else:
            return "error"
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._serial += 1
        heapq.heappush(self._waiting, (self._now + seconds, self._serial, future))
        await future
        return "ok"


@dataclass(frozen=True, slots=True)
class Watched:
    """What is looked at: the command's processes and how much has moved (bytes of output and of connections)."""

    sample: Callable[[], Sample]
    moved: Callable[[], int]


class Clockwork:
    """Drives the cluster's clock for one command."""

    def __init__(self, cluster: Cluster, alarms: Alarms, on_step: Callable[[float], None]) -> None:
        self._cluster, self._alarms, self._on_step = cluster, alarms, on_step

    async def run(self, watched: Watched, until: float, free_s: float = 0.0) -> None:
        """Let time pass as the command needs it; returns when the clock has reached ``until``, else runs
        until cancelled. Of the waits that the command asks for itself (a sleep, a program's own limit),
        ``free_s`` seconds do not count: they move ``until``.
        """
        now = await self._cluster.clock.now()
        self._alarms.moved(now)
        last: tuple[Any, ...] = ()
        quiet, since = 0, time.monotonic()
        while now < until:
            await asyncio.sleep(POLL_S)
            sample = watched.sample()
            if not sample.pids or not sample.asleep:
                last, quiet, since = (), 0, time.monotonic()
                continue
            activity = await self._cluster.activity()
            look = (sample.pids, sample.ticks, watched.moved(), tuple(sorted(activity.items())))
            if look != last:
                last, quiet, since = look, 0, time.monotonic()
                continue
            quiet += 1
            step = min(self._step(activity, quiet, time.monotonic() - since, now), self._alarms.held_at() - now)
            if step > 0:
                if self._alarms.busy:
                    free = min(step, free_s)
                    until, free_s = until + free, free_s - free
                now = await self._cluster.clock.sleep(min(step, until - now))
                self._on_step(now)
                self._alarms.moved(now)
                last, quiet, since = (), 0, time.monotonic()

    def _step(self, activity: dict[str, Any], looks: int, quiet_s: float, now: float) -> float:
        if looks < QUIET_LOOKS:
            return 0.0
        alarm = self._alarms.next()
        to_alarm = math.inf if alarm is None else max(0.001, alarm - now)
        streams = activity.get("streams", 0)
        if activity.get("in_flight", 0) > streams:  # open streams are counted as in flight, too
            return min(STEP_S, to_alarm) if quiet_s >= UNANSWERED_GRACE_S else 0.0
        if streams > 0:
            return min(STEP_S, to_alarm)
        if alarm is not None:
            return to_alarm
        return STEP_S if quiet_s >= STEP_S else 0.0
