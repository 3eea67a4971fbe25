"""Running programs: their output, their end, and that none is left behind."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from aiopslab.errors import ClusterError
from aiopslab.kube.process import run


async def test_output_and_input() -> None:
    done = await run(["sh", "-c", "cat; echo err >&2; exit 3"], stdin=b"in")
    assert (done.code, done.stdout, done.stderr) == (3, "in", "err\n")
    with pytest.raises(ClusterError, match=r"`sh -c .*` failed \(3\): err"):
        done.checked()


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(ClusterError, match="/no/such/program cannot be started"):
        await run(["/no/such/program"])


async def test_a_slow_program_ends_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path / 'child'}; wait"
    with pytest.raises(ClusterError, match=r"took longer than 0\.3 s"):
        await run(["sh", "-c", script], timeout_wall_s=0.3)
    await gone(int((tmp_path / "child").read_text()))


async def test_cancelling_ends_the_program(tmp_path: Path) -> None:
    task = asyncio.create_task(run(["sh", "-c", f"echo $$ > {tmp_path / 'pid'}; sleep 60"]))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(int((tmp_path / "pid").read_text()))


async def test_cancelling_at_once_ends_the_program(tmp_path: Path) -> None:
    for step in range(8):
        task = asyncio.create_task(run(["sh", "-c", f"echo $$ > {tmp_path / str(step)}; sleep 60"]))
        for _ in range(step):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        started = tmp_path / str(step)
        if started.exists() and started.read_text():
            await gone(int(started.read_text()))


async def gone(pid: int) -> None:
    for _ in range(200):
        try:
            os.kill(pid, 0)
            # A child of a killed shell waits for init to take it.
            if ") Z " in Path(f"/proc/{pid}/stat").read_text():
                return
        except (ProcessLookupError, FileNotFoundError):
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"process {pid} is still there")
