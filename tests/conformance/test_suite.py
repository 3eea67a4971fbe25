"""A fast part of the recorded Kubernetes cases, when the suite lies beside the repository (or where
``AIOPSLAB_CONFORMANCE`` says). All of it: ``make conformance``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiopslab.kube.tools import Tools

ROOT = Path(__file__).resolve().parents[2]
SUITE = Path(os.environ.get("AIOPSLAB_CONFORMANCE", ROOT.parent / "shared" / "conformance" / "kubernetes"))
# One area of each kind that needs no time to pass.
AREAS = "auth,crd,create,describe,discovery,errors,get,http,patch,set"
WALL_S_MAX = 300
PER_AREA = 2


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """A bare cluster on the machine's clock."""
    command = [
        sys.executable,
        "-m",
        "aiopslab.sim",
        "--dir",
        str(tmp_path),
        "--seed",
        "1",
        "--clock",
        "wall",
        "--bare",
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline()
    yield tmp_path / "kubeconfig"
    process.stdin.close()
    process.wait(10)
    process.stdout.close()


def chosen(listed: str) -> list[str]:
    """Every n-th case of each area, so that ``PER_AREA`` of each are run."""
    by_area: dict[str, list[str]] = {}
    for line in listed.splitlines():
        if found := re.match(r"([\w-]+) +([\w.-]+) ", line):
            by_area.setdefault(found[1], []).append(f"{found[1]}/{found[2]}")
    return [case for cases in by_area.values() for case in cases[:: max(1, len(cases) // PER_AREA)][:PER_AREA]]


@pytest.mark.slow
@pytest.mark.skipif(not (SUITE / "run.py").exists(), reason=f"no suite in {SUITE}")
def test_recorded_cases(kubeconfig: Path) -> None:
    tools = Tools.fetch()
    run = [sys.executable, str(SUITE / "run.py"), "--kubeconfig", str(kubeconfig)]
    run += ["--kubectl", str(tools.kubectl), "--helm", str(tools.helm)]
    listed = subprocess.run([*run, "--only", AREAS, "--list"], capture_output=True, text=True, check=True).stdout
    cases = chosen(listed)
    assert len(cases) >= PER_AREA, listed
    done = subprocess.run([*run, "--only", ",".join(cases)], capture_output=True, text=True, timeout=WALL_S_MAX)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
