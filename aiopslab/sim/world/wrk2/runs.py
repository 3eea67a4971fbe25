"""The containers of wrk2's image: those that run it, and those whose script calls it again and again."""

from __future__ import annotations

import math
from collections.abc import Callable

from aiopslab.sim.core.ports import StartResult
from aiopslab.sim.world.addresses import plain_address
from aiopslab.sim.world.loadgen import UserLoad
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.programspec import Program
from aiopslab.sim.world.runs import Run
from aiopslab.sim.world.userland import bridge
from aiopslab.sim.world.wrk2.load import END_S, Wrk2Load
from aiopslab.sim.world.wrk2.options import parse
from aiopslab.sim.world.wrk2.script import LoadScript, Round, is_script

Load = UserLoad | Wrk2Load


class Wrk2Runs:
    """Starts and ends wrk2's load in ``loads``, the world's load by run number. ``entry`` finds the program behind
    a URL as a container sees it."""

    def __init__(
        self,
        host: bridge.Host,
        programs: Programs,
        loads: dict[int, Load],
        entry: Callable[[Run, str], Program | None],
        seed: int,
    ) -> None:
        self._host = host
        self._programs = programs
        self._loads = loads
        self._entry = entry
        self._seed = seed
        self._scripts: dict[int, LoadScript] = {}

    @property
    def due(self) -> float:
        """When a script next has something to do (Unix seconds)."""
        return min((script.due for script in self._scripts.values()), default=math.inf)

    def begin(self, run: Run, now: float) -> StartResult:
        """Start what the container's command says."""
        if is_script(run.spec.command):
            self._scripts[run.number] = LoadScript(self._host, run, lambda argv, at: self._start(run, argv, at))
            self.step(now)
            return StartResult()
        begun = self._start(run, run.spec.command, now)
        if isinstance(begun, Round):
            run.lines += [(now, line) for line in begun.output.splitlines()]
            return StartResult(END_S, begun.code)
        self._loads[run.number] = begun
        return StartResult(begun.lasts_s, 0)

    def step(self, now: float) -> list[tuple[Run, int]]:
        """Do what is due; the runs that have come to an end by themselves, with their exit codes."""
        over = []
        for number, load in list(self._loads.items()):
            if isinstance(load, Wrk2Load) and load.failure:
                if number in self._scripts:
                    self._scripts[number].broke(now)
                else:
                    over.append((load.run, 1))
        for number, script in list(self._scripts.items()):
            if script.due > now:
                continue
            self._loads.pop(number, None)
            script.step(now)
            if script.load is not None:
                self._loads[number] = script.load
            if script.code is not None:
                over.append((script.run, script.code))
                del self._scripts[number]
        return over

    def ended(self, run: Run, now: float) -> None:
        """The container is gone; one that ran wrk2 itself has printed its report."""
        load = self._loads.pop(run.number, None)
        if self._scripts.pop(run.number, None) is None and isinstance(load, Wrk2Load):
            run.lines += [(now, line) for line in load.report()]

    def _start(self, run: Run, argv: tuple[str, ...], at: float) -> Wrk2Load | Round:
        options = parse(argv, run.spec.image)
        if options.problem:
            return Round(f"{options.problem}\n", 1, END_S)
        entry = self._entry(run, options.url)
        if entry is None:
            where = plain_address(options.url)
            return Round(f"unable to connect to {where} Name or service not known\n", 1, END_S)
        load = Wrk2Load(run, options, entry, self._programs, self._seed, begins=at)
        return Round(f"{load.source.problem}\n", 1, END_S) if load.source.problem else load
