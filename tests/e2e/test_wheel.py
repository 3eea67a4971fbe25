"""The wheel in an empty environment finds its content and plays an incident, with no checkout near."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*words: str, cwd: Path) -> str:
    """Standard output of a command that must succeed."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV") and "AIOPSLAB" not in k}
    done = subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.waits
def test_the_wheel_by_itself(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run(sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), ".", cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "venv", str(tmp_path / "venv"), cwd=tmp_path)
    python = str(tmp_path / "venv/bin/python")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel), cwd=tmp_path)
    command = str(tmp_path / "venv/bin/aiopslab")
    listed = json.loads(run(command, "list", "problems", "--json", cwd=elsewhere))
    assert "hipster-target-port" in json.dumps(listed)
    told = json.loads(
        run(
            command,
            "run",
            "hipster-scale-zero-mitigation-1",
            "--agent",
            "solution",
            "--seed",
            "3",
            "--json",
            cwd=elsewhere,
        )
    )
    assert (told["verdict"], told["seed"]) == ("pass", 3)
    assert Path(elsewhere, told["record"]).is_dir()
    assert [path.name for path in elsewhere.iterdir()] == ["records"]
