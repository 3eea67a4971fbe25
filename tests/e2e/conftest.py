"""Real runs of the real program on the embedded cluster: agents made of a script, the command line, left-overs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aiopslab.record import Result, RunRecord, Step, read_steps
from aiopslab.session.options import RunOptions
from aiopslab.session.run import run_problem

Script = Callable[[], Generator[str, str, None]]


@dataclass(frozen=True)
class Played:
    """One finished run."""

    record: RunRecord
    folder: Path

    @property
    def result(self) -> Result:
        assert self.record.result is not None
        return self.record.result

    @property
    def steps(self) -> list[Step]:
        return list(read_steps(self.folder))

    @property
    def why(self) -> str:
        """What an assertion shows: the seed, the failure and the checks that did not hold."""
        bad = [f"{check.name}: {check.detail}" for check in self.result.checks if not check.ok]
        return f"seed {self.record.seed}: {self.record.outcome} {self.record.failure} {bad}"


class Scripted:
    """An agent whose replies a generator makes; it is sent each observation. Its end is the end of the task."""

    def __init__(self, script: Script, end: str = 'submit("No")') -> None:
        self._script, self._end = script(), end
        self._begun = False

    async def get_action(self, state: str) -> str:
        """The script's next reply."""
        try:
            reply = self._script.send(state) if self._begun else next(self._script)
        except StopIteration:
            return self._end
        self._begun = True
        return reply


@pytest.fixture(scope="session")
def play(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """``await play(problem, agent, **options)`` runs a problem in this process."""

    async def run(problem: str, agent: Any, **options: Any) -> Played:
        options.setdefault("seed", 7)
        options.setdefault("out", tmp_path_factory.mktemp("records"))
        return Played(*await run_problem(problem, agent, RunOptions(**options)))

    return run


@pytest.fixture(scope="session")
def scripted() -> type[Scripted]:
    """An agent that follows a generator."""
    return Scripted


def command_lines_under(scratch: Path) -> list[str]:
    """Command lines of running processes that were started with ``scratch`` as their folder for temporary files,
    or name something in it.
    """
    found, mark = [], os.fsencode(scratch)
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            line = (entry / "cmdline").read_bytes()
            if mark in line or mark in (entry / "environ").read_bytes():
                found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


@pytest.fixture(scope="session")
def processes_of() -> Callable[[Path], list[str]]:
    """Finds processes by their folder for temporary files."""
    return command_lines_under


@dataclass(frozen=True)
class Ended:
    """What a command did: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        """The last line on standard error."""
        return (self.err.splitlines() or [""])[-1]


class Console:
    """The command line in processes of its own, all with one folder for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.scratch = folder, folder / "scratch"
        self.records = folder / "records"
        self.scratch.mkdir()
        self.environment = {**os.environ, "TMPDIR": str(self.scratch), "AIOPSLAB_STATE_DIR": str(folder / "state")}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start ``aiopslab`` with the given words."""
        return subprocess.Popen(
            [sys.executable, "-m", "aiopslab", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.folder,
        )

    def end(self, process: subprocess.Popen[str]) -> Ended:
        """Wait for it."""
        out, err = process.communicate(timeout=120)
        return Ended(process.returncode, out, err)

    def __call__(self, *words: str) -> Ended:
        return self.end(self.start(*words))

    def processes(self) -> list[str]:
        """Command lines of the processes that are still there."""
        return command_lines_under(self.scratch)

    def leftovers(self) -> list[str]:
        """Processes and temporary files that are still there."""
        return [*self.processes(), *(str(path) for path in self.scratch.iterdir())]


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    """The command line; a background cluster that a test leaves behind is taken down."""
    console = Console(tmp_path)
    yield console
    if (tmp_path / "state").exists():
        console("cluster", "down")
