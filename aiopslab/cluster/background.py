"""One embedded cluster in the background, on the wall clock, for a person or a test to play with.

Its state lies in one folder (``AIOPSLAB_STATE_DIR``, else ``$XDG_STATE_HOME/aiopslab``), so ``down`` and
``status`` find it from any terminal.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from aiopslab.cluster import ClusterOptions
from aiopslab.cluster.embedded import START_WALL_S_MAX, STOP_WALL_S_MAX, last_words, sim_command
from aiopslab.errors import ClusterError, UsageError

POLL_WALL_S = 0.05


def state_dir() -> Path:
    """Where the background cluster keeps its state."""
    if configured := os.environ.get("AIOPSLAB_STATE_DIR"):
        return Path(configured)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "aiopslab"


def up(options: ClusterOptions, port: int = 0) -> dict[str, Any]:
    """Start the background cluster and return its state: ``kubeconfig, prometheus_url, jaeger_url, pid, ...``.

    Raises UsageError when one is running already, ClusterError when it does not start.
    """
    if (running := status()) is not None:
        raise UsageError(
            f"a cluster is already running (pid {running['pid']}, {running['server']}). "
            "`aiopslab cluster down` ends it"
        )
    folder = state_dir() / "cluster"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log = folder / "cluster.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            sim_command(folder, options, ["--detached", "--port", str(port)]),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        return _wait_ready(process, folder)
    except BaseException:
        process.kill()
        process.wait()
        raise


def down() -> dict[str, Any] | None:
    """End the background cluster. Returns its last state, or None when none was running."""
    state = status()
    if state is None:
        return None
    pid = state["pid"]
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WALL_S_MAX
    while _alive(pid):
        if time.monotonic() > deadline:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            break
        time.sleep(POLL_WALL_S)
    shutil.rmtree(state_dir() / "cluster", ignore_errors=True)
    return state


def status() -> dict[str, Any] | None:
    """State of the running background cluster, or None."""
    path = state_dir() / "cluster" / "cluster.json"
    if not path.exists():
        return None
    state: dict[str, Any] = orjson.loads(path.read_bytes())
    return state if _alive(state["pid"]) else None


def _wait_ready(process: subprocess.Popen[bytes], folder: Path) -> dict[str, Any]:
    deadline = time.monotonic() + START_WALL_S_MAX
    path = folder / "cluster.json"
    while time.monotonic() < deadline:
        if path.exists():
            state: dict[str, Any] = orjson.loads(path.read_bytes())
            return state
        if process.poll() is not None:
            raise ClusterError(f"the cluster ended while starting: {last_words(folder / 'cluster.log')}")
        time.sleep(POLL_WALL_S)
    raise ClusterError(f"the cluster was not ready within {START_WALL_S_MAX:.0f} s; see {folder / 'cluster.log'}")


def _alive(pid: int) -> bool:
    """Whether ``pid`` is a running embedded cluster (not a zombie, not another program with its number)."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return _answers_signal(pid)
    return b"aiopslab.sim" in command


def _answers_signal(pid: int) -> bool:
    if Path("/proc").is_dir():
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
