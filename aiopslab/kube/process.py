"""Running a program to its end, from async code."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiopslab.errors import ClusterError


@dataclass(frozen=True, slots=True)
class Completed:
    """How a program ended. ``code`` is negative for a signal."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str

    def checked(self) -> Completed:
        """Itself, or ClusterError with the last line that the program wrote."""
        if self.code == 0:
            return self
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        said = lines[-1] if lines else "it said nothing"
        raise ClusterError(f"`{_shown(self.argv)}` failed ({self.code}): {said}")


async def run(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    cwd: Path | None = None,
    timeout_wall_s: float = 120.0,
) -> Completed:
    """Run ``argv`` and collect its output. ClusterError when it cannot start or takes too long.

    The program gets a process group of its own, which is ended with it, also when the caller is cancelled.
    """
    words = tuple(map(str, argv))
    creation = asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(env) if env is not None else None,
        cwd=cwd,
        start_new_session=True,
    )
    try:
        process = await _started(creation)
    except OSError as error:
        raise ClusterError(f"{words[0]} cannot be started: {error.strerror or error}") from error
    try:
        async with asyncio.timeout(timeout_wall_s):
            stdout, stderr = await process.communicate(stdin)
    except TimeoutError:
        raise ClusterError(f"`{_shown(words)}` took longer than {timeout_wall_s:g} s") from None
    finally:
        await _end(process)
    code = process.returncode if process.returncode is not None else -1
    return Completed(words, code, stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace"))


async def _started(creation: Coroutine[Any, Any, Process]) -> Process:
    """Wait for a program to start, also when cancelled: one that nobody holds could not be ended."""
    starting = asyncio.ensure_future(creation)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _end(await starting)
        raise


async def _end(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _shown(argv: Sequence[str]) -> str:
    return " ".join([Path(argv[0]).name, *argv[1:4]])
