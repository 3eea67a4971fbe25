"""A shell script in a container of wrk2's image: its calls of ``wrk`` follow one another and take their time.

A shell of the userland computes at one instant. So the script is computed anew whenever a call of ``wrk`` has come
to its end, with the outcomes of all calls so far, up to the first call that has none yet: that one is next. What
the script asked of the network is answered as it was before, and its files are those of the start, so computing it
again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiopslab.sim.world.runs import Run
from aiopslab.sim.world.userland import bridge
from aiopslab.sim.world.userland.run import NoScript, execute, shell_of
from aiopslab.sim.world.wrk2.load import Wrk2Load

SHELLS = ("sh", "bash", "dash")
NAMES = ("wrk", "wrk2")


@dataclass(frozen=True, slots=True)
class Round:
    """A call of ``wrk`` that is over."""

    output: str
    code: int
    took_s: float


Starter = Callable[[tuple[str, ...], float], "Wrk2Load | Round"]


class _Waiting(Exception):
    def __init__(self, argv: tuple[str, ...]) -> None:
        self.argv = argv


class LoadScript:
    """One container. ``start`` begins a call of ``wrk`` at a time, or says how it failed at once.

    ``due`` is when something happens next, ``load`` the call under way; ``code`` is the script's exit code when
    it is over.
    """

    def __init__(self, host: bridge.Host, run: Run, start: Starter) -> None:
        self.run = run
        self.load: Wrk2Load | None = None
        self.due = run.started
        self.code: int | None = None
        self._host = host
        self._start = start
        self._rounds: list[Round] = []
        self._answers: list[Any] = []
        self._printed = 0
        self._began = run.started
        self._next: tuple[str, ...] | None = None
        self._ending: int | None = None
        self._files = dict(bridge.machine_of(host, run, run.started).files)

    def step(self, now: float) -> None:
        """Do what is due at ``now``."""
        while self.code is None and self.due <= now:
            if self.load is not None:
                failed = bool(self.load.failure)
                self._over(Round(_text(self.load.report()), int(failed), self.due - self._began))
                self.load = None
            elif self._ending is not None:
                self.code = self._ending
            elif self._next is None:
                self._compute()
            else:
                self._begin(self._next)

    def broke(self, now: float) -> None:
        """The call under way has failed: it ends now."""
        self.due = now

    def _begin(self, argv: tuple[str, ...]) -> None:
        begun = self._start(argv, self.due)
        self._began = self.due
        if isinstance(begun, Round):
            self._over(begun)
        else:
            self.load = begun
            self.due = self._began + begun.lasts_s

    def _over(self, done: Round) -> None:
        self._rounds.append(done)
        self._next = None

    def _compute(self) -> None:
        """Compute the script up to the next call of ``wrk`` or to its end."""
        machine = bridge.machine_of(self._host, self.run, self.run.started)
        machine.network = Replayed(machine.network, self._answers)
        machine.files = dict(self._files)
        machine.spent_s = 0.0
        rounds = iter(self._rounds)

        def call(argv: list[str], stdin: bytes, env: dict[str, str]) -> tuple[bytes, bytes, int]:
            name = argv[0].rpartition("/")[2]
            if name in SHELLS and len(argv) > 1:
                return inner(argv, stdin, env)
            if name not in NAMES:
                return execute(machine, argv, stdin, env)
            done = next(rounds, None)
            if done is None:
                raise _Waiting(tuple(argv))
            machine.spent_s += done.took_s
            return done.output.encode(), b"", done.code

        def inner(argv: list[str], stdin: bytes, env: dict[str, str]) -> tuple[bytes, bytes, int]:
            try:
                shell, text, stdin = shell_of(machine, argv, stdin, env, call)
            except NoScript as problem:
                return b"", str(problem).encode(), 2
            code = shell.run(text, stdin)
            return bytes(shell.out), bytes(shell.err), code

        try:
            shell, text, _ = shell_of(machine, list(self.run.spec.command), b"", machine.env, call)
        except NoScript as problem:
            self._ending = 2
            self._print(str(problem))
            return
        try:
            self._ending = shell.run(text)
        except _Waiting as waiting:
            self._next = waiting.argv
        self.due = max(self.due, self.run.started + machine.spent_s)
        self.run.files = machine.files
        self._print((bytes(shell.out) + bytes(shell.err)).decode(errors="replace"))

    def _print(self, text: str) -> None:
        lines = text.splitlines()
        self.run.lines += [(self.due, line) for line in lines[self._printed :]]
        self._printed = max(self._printed, len(lines))


class Replayed:
    """A network that gives the answers it gave before, in the same order, and asks only beyond them."""

    def __init__(self, network: Any, answers: list[Any]) -> None:
        self._network = network
        self._answers = answers
        self._at = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._network, name)
        if not callable(found):
            return found

        def ask(*arguments: Any, **named: Any) -> Any:
            if self._at == len(self._answers):
                self._answers.append(found(*arguments, **named))
            self._at += 1
            return self._answers[self._at - 1]

        return ask


def is_script(command: tuple[str, ...]) -> bool:
    """Whether a container's command is a shell with something to do."""
    return len(command) > 1 and command[0].rpartition("/")[2] in SHELLS


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
