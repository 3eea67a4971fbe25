"""Signals end a command in order: the work cleans up, then the exit code is 130."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

SCRIPT = textwrap.dedent(
    """
    import asyncio, sys
    from aiopslab.cli import app
    from aiopslab.cli.running import run_async

    async def work():
        try:
            print("working", flush=True)
            await asyncio.sleep(30)
        finally:
            print("cleaning", flush=True)
            await asyncio.sleep(0.3)
            print("clean", flush=True)

    class Tree:
        def __call__(self, *words, **options):
            return run_async(work())

    app.build = Tree
    sys.exit(app.execute([]))
    """
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cleans_up_and_exits_130(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"
    os.kill(process.pid, number)
    assert process.stdout.readline() == "cleaning\n"
    os.kill(process.pid, number)  # an impatient second one does not break the cleaning
    out, err = process.communicate(timeout=10)
    assert (out, err, process.returncode) == ("clean\n", "aiopslab: interrupted\n", 130)
