"""``aiopslab shell PROBLEM``: a person takes the agent's seat.

What is typed is an action (``get_logs("shop", "cart")``, ``submit("Yes")``) or else a shell command, which runs in
the agent's own sandbox. The run is recorded and judged like any other.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from aiopslab.cli.launch import RunFlags, launch
from aiopslab.cli.output import console
from aiopslab.cli.summary import exit_code

PROMPT = "on-call> "
STEPS_MAX = 10_000  # a person is not hurried
_LEAVE = frozenset({"exit", "quit"})
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(.*\)\s*\Z", re.DOTALL)


def shell(problem: str, *, flags: RunFlags | None = None) -> int:
    """Take the agent's seat: type actions or shell commands, submit, and be judged.

    Parameters
    ----------
    problem
        A task id, as listed by ``aiopslab list``.
    """
    from aiopslab.cli.progress import Display
    from aiopslab.cli.report import print_report

    flags = flags or RunFlags()
    if flags.max_steps == RunFlags().max_steps:
        flags = replace(flags, max_steps=STEPS_MAX)
    with terminal_kept(), Display(console(stderr=True), steps=False) as display:
        finished = launch(problem, Person(console()), flags, display, person=True)
    print_report(finished.record, finished.result, finished.folder)
    return exit_code(finished.result.verdict)


class Person:
    """An agent whose replies are typed at a prompt."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._actions: Mapping[str, str] = {}

    def init_context(self, problem_desc: str, instructions: str, apis: Mapping[str, str]) -> None:
        """Show the task; the actions on request."""
        self._actions = apis
        self._out.print(Text(problem_desc.strip()), soft_wrap=True)
        self._out.print(
            Text(
                "Type an action or a shell command; `help` lists the actions, `exit` gives up.\n", style="dim"
            )
        )

    async def get_action(self, state: str) -> str:
        """Show the observation and ask for the next action."""
        shown = state.removesuffix("Please take the next action").rstrip()
        if shown:
            self._out.print(Text(shown), soft_wrap=True)
        while True:
            line = ask()  # on the agent's own thread, which may wait
            if line is None or line in _LEAVE:
                os.kill(os.getpid(), signal.SIGINT)  # ends the run as Ctrl-C does: in order, with its record
                await asyncio.Event().wait()
            elif line == "help":
                for text in self._actions.values():
                    self._out.print(Text(text + "\n"), soft_wrap=True)
            elif line:
                return reply_for(line, self._actions)


def ask() -> str | None:
    """One typed line, or None at the end of input."""
    if not sys.stdin.isatty():
        return _piped_line()
    with suppress(ImportError):
        import readline  # noqa: F401 - its import gives `input` editing and history
    try:
        return input(PROMPT).strip()
    except EOFError:
        return None


def _piped_line() -> str | None:
    # Unbuffered: a thread that waits in a buffered reader would hold its lock while the process ends.
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as stream:
        line = stream.readline()
    return line.decode(errors="replace").strip() if line else None


@contextmanager
def terminal_kept() -> Iterator[None]:
    """Give the terminal back as it was, also when the run ends while a line is being edited."""
    if not sys.stdin.isatty():
        yield
        return
    import termios

    before = termios.tcgetattr(sys.stdin.fileno())
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)


def reply_for(line: str, actions: Mapping[str, str]) -> str:
    """The reply that an agent would send: the action as typed, or the line as a shell command."""
    match = _CALL.match(line)
    if match and match.group(1) in actions:
        return f"```\n{line}\n```"
    return f"```\nexec_shell({line!r})\n```"
