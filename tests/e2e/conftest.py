"""Real runs of the real program on the embedded cluster: agents made of a script, the command line, left-overs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aiopslab.record import Result, RunRecord, Step, read_steps
from aiopslab.session.options import RunOptions
from aiopslab.session.run import run_problem

EXIT_CODE = re.compile(r"\[exit code (\d+)")
ENDING_WALL_S_MAX = 10.0
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
