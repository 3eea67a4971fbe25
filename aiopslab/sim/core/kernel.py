"""Virtual time and reconciliation: the heart of the embedded cluster.

Nothing here waits. ``advance`` moves the clock to the next timer, fires it, and lets the controllers
reconcile until nothing is left to do; the same calls in the same order give the same cluster.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Protocol

from aiopslab.sim.core.ids import Ids
from aiopslab.sim.core.store import Change, Key, Store

# A reconciler that keeps changing the cluster at one instant is a bug, not work.
RECONCILES_PER_INSTANT_MAX = 200_000


class Controller(Protocol):
    """A control loop. ``reconcile`` reads the store, writes through the API, and never blocks."""

    name: str

    def keys(self, change: Change) -> Iterable[Key]:
        """The work keys that a change touches; empty when it is not this controller's concern."""

    def reconcile(self, key: Key) -> None:
        """Bring the object nearer to what is asked. Timed work goes to ``kernel.call_at``."""


class Kernel:
    """Clock, timers, store and controllers of one cluster."""

    def __init__(self, seed: int, start: float) -> None:
        self.seed = seed
        self.now = start  # seconds since the Unix epoch, virtual
        self.store = Store()
        self.ids = Ids(seed)
        self.held = False
        self._controllers: list[Controller] = []
        self._queues: list[dict[Key, None]] = []
        self._timers: list[tuple[float, int, str]] = []
        self._calls: dict[str, tuple[float, int, Callable[[], None]]] = {}
        self._serial = 0
        self._settling = False
        self.store.subscribe(self._dispatch)

    def timestamp(self) -> str:
        """Now as Kubernetes writes times: RFC 3339, whole seconds, UTC."""
        return rfc3339(self.now)

    def add(self, controller: Controller) -> None:
        """Register a controller. Order of registration is order of work."""
        self._controllers.append(controller)
        self._queues.append({})

    def enqueue(self, controller: Controller, key: Key) -> None:
        """Ask for one more reconcile of ``key``."""
        self._queues[self._controllers.index(controller)].setdefault(key)

    def call_at(self, when: float, key: str, call: Callable[[], None]) -> None:
        """Call once at ``when`` (virtual seconds). A later call with the same key replaces it."""
        self._serial += 1
        self._calls[key] = (when, self._serial, call)
        heapq.heappush(self._timers, (when, self._serial, key))

    def call_after(self, delay_s: float, key: str, call: Callable[[], None]) -> None:
        """``call_at`` relative to now."""
        self.call_at(self.now + delay_s, key, call)

    def cancel(self, key: str) -> None:
        """Forget a timer; unknown keys are fine."""
        self._calls.pop(key, None)

    def next_timer(self) -> float | None:
        """When the next timer fires, or None."""
        while self._timers:
            when, serial, key = self._timers[0]
            call = self._calls.get(key)
            if call is not None and call[1] == serial:
                return when
            heapq.heappop(self._timers)
        return None

    def settle(self) -> None:
        """Reconcile until no queue holds a key. Does nothing while held or already settling."""
        if self.held or self._settling:
            return
        self._settling = True
        try:
            for _ in range(RECONCILES_PER_INSTANT_MAX):
                work = self._next_work()
                if work is None:
                    return
                controller, key = work
                controller.reconcile(key)
            raise RuntimeError(f"controllers do not settle at {self.timestamp()} (seed {self.seed})")
        finally:
            self._settling = False

    def advance(self, to: float) -> None:
        """Move virtual time to ``to``, firing timers on the way. Earlier times are ignored."""
        self.settle()
        while (when := self.next_timer()) is not None and when <= to:
            _, _, key = heapq.heappop(self._timers)
            _, _, call = self._calls.pop(key)
            self.now = max(self.now, when)
            call()
            self.settle()
        self.now = max(self.now, to)
        self.settle()

    def hold(self) -> None:
        """Store writes, but reconcile nothing until ``release``: deployments get one instant."""
        self.held = True

    def release(self) -> None:
        """End ``hold``: forget the order of arrival, then reconcile everything in key order."""
        if not self.held:
            return
        self.store.renumber()
        for index, queue in enumerate(self._queues):
            self._queues[index] = dict.fromkeys(sorted(queue))
        self.held = False
        self.settle()

    def _dispatch(self, change: Change) -> None:
        for controller, queue in zip(self._controllers, self._queues, strict=True):
            for key in controller.keys(change):
                queue.setdefault(key)

    def _next_work(self) -> tuple[Controller, Key] | None:
        for controller, queue in zip(self._controllers, self._queues, strict=True):
            if queue:
                key = next(iter(queue))
                del queue[key]
                return controller, key
        return None


def rfc3339(at: float) -> str:
    """Unix seconds to ``2025-06-02T09:00:00Z``."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(at: float) -> str:
    """Unix seconds to ``2025-06-02T09:00:00.000000Z``, the form of MicroTime."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> float:
    """RFC 3339 text to Unix seconds."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
