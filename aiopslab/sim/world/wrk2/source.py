"""What wrk2's connections ask for: the requests of its script, or one and the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.wrk2.lua import ScriptError, State, Surface
from aiopslab.sim.world.wrk2.options import Options
from aiopslab.sim.world.wrk2.routing import Router, Target


class Source:
    """The requests of one run. A script's ``request`` is called once per request, thread by thread, in the order in
    which the requests are due; what is not sent before a piece of time ends waits for the next.

    ``problem`` is what wrk2 says on stderr before it ends at once with 1.
    """

    def __init__(self, options: Options, router: Router, surface: Surface) -> None:
        self.targets: list[Target] = []
        self.problem = ""
        self.warning = ""
        self._router = router
        self._threads = np.array(options.threads_of_connections)
        self._known: dict[tuple[object, ...], int] = {}
        self._numbers: list[list[int]] = []  # per thread: the script's number of a request -> index in targets
        self._waiting: list[list[int]] = [[] for _ in range(options.connections)]
        self._states: list[State] = []
        self._main = State(options, surface)
        self.warning = self._main.problem
        self._begin(options, surface)

    @property
    def wants_answers(self) -> bool:
        """Whether the script has a ``response``."""
        return bool(self._states) and self._states[0].has("response")

    @property
    def reports(self) -> bool:
        """Whether the script has a ``done``."""
        return self._main.has("done")

    def draw(self, lanes: NDArray[np.int64], due: NDArray[np.float64]) -> NDArray[np.int64]:
        """Indexes in ``targets`` of the next requests; ``lanes`` ascend, ``due`` ascends within each.

        Raises ScriptError when ``request`` fails.
        """
        counts = np.bincount(lanes, minlength=len(self._waiting))
        ends = np.cumsum(counts)
        missing = [
            np.arange(end - count + len(held), end)
            for held, count, end in zip(self._waiting, counts, ends, strict=True)
            if count > len(held)
        ]
        if missing:
            self._ask(np.concatenate(missing), lanes, due)
        found = [held[:count] for held, count in zip(self._waiting, counts, strict=True) if count]
        return np.array([n for part in found for n in part], np.int64)

    def sent(self, counts: NDArray[np.int64]) -> None:
        """So many of each connection's requests went out."""
        for lane in np.flatnonzero(counts):
            del self._waiting[lane][: counts[lane]]

    def answered(self, lanes: NDArray[np.int64], statuses: NDArray[np.int64], size: int) -> None:
        """Tell the script of answers, in the order in which they came."""
        for number, state in enumerate(self._states):
            mine = statuses[self._threads[lanes] == number]
            if len(mine):
                state.answers(mine.tolist(), size)

    def finish(self, summary: dict[str, object], latency: dict[str, object], rates: dict[str, object]) -> None:
        """Call the script's ``done``."""
        self._main.finish(summary, latency, rates)

    def _begin(self, options: Options, surface: Surface) -> None:
        try:
            for number in range(options.threads):
                seeded = Surface(surface.files, surface.now, surface.write, surface.seed + number)
                state = State(options, seeded)
                self._main.setup(state)
                state.begin(options.arguments)
                self._states.append(state)
                self._numbers.append([])
            self._take(0, 1)  # wrk2 looks at one request before it starts
        except ScriptError as error:
            self.problem = error.panic

    def _ask(self, places: NDArray[np.int64], lanes: NDArray[np.int64], due: NDArray[np.float64]) -> None:
        places = places[np.argsort(due[places], kind="stable")]
        threads = self._threads[lanes[places]]
        for number in range(len(self._states)):
            mine = places[threads == number]
            if len(mine):
                for lane, found in zip(lanes[mine].tolist(), self._take(number, len(mine)), strict=True):
                    self._waiting[lane].append(found)

    def _take(self, thread: int, count: int) -> list[int]:
        numbers, fresh = self._states[thread].take(count)
        table = self._numbers[thread]
        table += [self._index(raw) for raw in fresh]
        return [table[n] for n in numbers]

    def _index(self, raw: str) -> int:
        target = self._router.target(raw)
        key = (target.route, *sorted(target.variables.items()))
        if key not in self._known:
            self._known[key] = len(self.targets)
            self.targets.append(target)
        return self._known[key]
