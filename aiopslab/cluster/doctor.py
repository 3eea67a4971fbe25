"""What this machine has and lacks for each kind of cluster, with the command that fixes it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

COMMAND_WALL_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. ``fix`` is a command or a sentence; empty when nothing is wrong."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


def doctor() -> list[Finding]:
    """Findings for the real-cluster path: Docker, kind, and what they need."""
    return [
        _docker(),
        _program("kind", ["kind", "version"], "see https://kind.sigs.k8s.io for its install command"),
    ]


def _docker() -> Finding:
    if shutil.which("docker") is None:
        return Finding(
            "docker", False, "not on PATH", "install Docker; kind clusters need it, the embedded cluster does not"
        )
    ok, text = _run(["docker", "info", "--format", "{{.ServerVersion}}"])
    return Finding("docker", ok, text, "" if ok else "start the Docker engine")


def _program(name: str, command: list[str], fix: str) -> Finding:
    if shutil.which(name) is None:
        return Finding(name, False, "not on PATH", fix)
    ok, text = _run(command)
    return Finding(name, ok, text, "" if ok else fix)


def _run(command: list[str]) -> tuple[bool, str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_WALL_S_MAX)
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    output = (done.stdout or done.stderr).strip().splitlines()
    return done.returncode == 0, output[-1] if output else f"exit {done.returncode}"
