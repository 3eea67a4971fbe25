"""The console script as its own process on the embedded cluster: a signal at any stage leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aiopslab.grading import grade
from aiopslab.record import read_record

PROBLEM = "hipster-target-port-detection-1"
HANGING = """
import asyncio

class Hanging:
    async def get_action(self, state):
        await asyncio.sleep(3600)
"""


def processes_naming(text: str) -> list[str]:
    """Command lines of running processes that contain ``text``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended meanwhile
        if text in line and int(path.parent.name) != os.getpid():
            found.append(line)
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for left-over processes in /proc")
@pytest.mark.parametrize(
    ("number", "seen"),
    [
        (signal.SIGINT, "seed 7"),
        (signal.SIGTERM, "  setup"),
        (signal.SIGINT, "  deploy"),
        (signal.SIGTERM, "  inject"),
    ],
)
def test_a_signal_at_any_stage(number: signal.Signals, seen: str, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (tmp_path / "hanging.py").write_text(HANGING)
    words = ["run", PROBLEM, "--agent", f"{tmp_path}/hanging.py:Hanging", "--seed", "7", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "aiopslab", *words, "--out", str(tmp_path / "records")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(seen):
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    assert err.splitlines()[-1] == "aiopslab: interrupted"
    (folder,) = (tmp_path / "records").iterdir()
    assert str(folder) in err
    assert read_record(folder).outcome == "interrupted"
    assert grade(folder).verdict == "unknown"
    assert processes_naming(str(scratch)) == []
    assert list(scratch.iterdir()) == []
