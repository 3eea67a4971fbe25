"""Processes that end by themselves: init containers' checks, jobs of a few commands. They run in the userland.

One that waits for something (``until nc -z db 5432; do sleep 2; done``) is tried again and again until what it
waits for is there.
"""

from __future__ import annotations

from aiopslab.sim.core.ports import ContainerExit, StartResult
from aiopslab.sim.world.processes import ATTACH_S, QUICK_S
from aiopslab.sim.world.runs import Run
from aiopslab.sim.world.userland import bridge

NOT_FOUND = 127  # exit code of a shell that does not know a command
PATIENCE_S = 600.0  # what goes on for longer in the userland goes on until something changes


class OneShots:
    """The one-shot processes of a cluster. ``host`` is what commands see of it."""

    def __init__(self, host: bridge.Host) -> None:
        self._host = host
        self._waiting: dict[int, tuple[Run, tuple[str, ...]]] = {}

    def begin(self, run: Run, command: tuple[str, ...], now: float) -> StartResult:
        """Run a command that starts at ``now``."""
        done = bridge.run(self._host, run, list(command), b"", now)
        took_s = done.duration_s + (ATTACH_S if run.spec.stdin else 0.0)
        output = (done.stdout + done.stderr).decode(errors="replace").splitlines()
        if done.duration_s > PATIENCE_S:
            self._waiting[run.number] = (run, command)
            run.lines += [(now, line) for line in dict.fromkeys(output)]
            return StartResult()
        run.lines += [(now + took_s, line) for line in output]
        if done.exit_code == NOT_FOUND or done.error:
            return StartResult()  # a program that only the real image has: all that is known is that it runs
        return StartResult(QUICK_S + took_s, done.exit_code)

    def poll(self, now: float) -> list[ContainerExit]:
        """Try those again that wait; the ones that have come to an end."""
        ended = []
        for number, (run, command) in list(self._waiting.items()):
            if not run.alive:
                del self._waiting[number]
                continue
            done = bridge.run(self._host, run, list(command), b"", now)
            output = (done.stdout + done.stderr).decode(errors="replace").splitlines()
            run.lines += [(now, line) for line in dict.fromkeys(output)]
            if done.duration_s <= PATIENCE_S:
                del self._waiting[number]
                ended.append(ContainerExit(run.ref, done.exit_code, ""))
        return ended
