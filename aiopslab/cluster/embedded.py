"""The embedded cluster as a child process of the lab.

The child exits when its standard input closes, so it cannot outlive the lab, however the lab ends.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from aiopslab.cluster import ClusterOptions
from aiopslab.cluster.base import Clock, Cluster, ClusterInfo
from aiopslab.cluster.control import Control, SteppedClock
from aiopslab.cluster.wallclock import WallClock
from aiopslab.errors import ClusterError

START_WALL_S_MAX = 60.0
STOP_WALL_S_MAX = 5.0


def sim_command(folder: Path, options: ClusterOptions, extra: Sequence[str] = ()) -> list[str]:
    """The command line of the embedded cluster's process."""
    command = [sys.executable, "-m", "aiopslab.sim", "--dir", str(folder)]
    command += ["--seed", str(options.seed), "--clock", options.clock, "--nodes", str(options.nodes)]
    for bundle in options.bundles:
        command += ["--bundle", str(bundle)]
    if options.noise != "off":
        command += ["--noise", options.noise]
    if options.bare:
        command.append("--bare")
    return [*command, *extra]


def info_from(state: dict[str, Any]) -> ClusterInfo:
    """ClusterInfo from what the process printed when it was ready."""
    return ClusterInfo(
        kind="embedded",
        kubeconfig=Path(state["kubeconfig"]),
        prometheus_url=state["prometheus_url"],
        jaeger_url=state["jaeger_url"],
        server_version=state["server_version"],
    )


class EmbeddedCluster:
    """A running child process, its control socket and its folder."""

    def __init__(
        self, process: asyncio.subprocess.Process, folder: Path, state: dict[str, Any], options: ClusterOptions
    ) -> None:
        self.info = info_from(state)
        self.seed = options.seed
        self._process = process
        self._folder = folder
        self._control = Control(Path(state["control"]))
        self.clock: Clock = SteppedClock(self._control) if options.clock == "stepped" else WallClock()

    @asynccontextmanager
    async def instant(self) -> AsyncIterator[None]:
        """Store writes without acting on them until the block ends, so that order cannot matter."""
        if self.clock.mode != "stepped":
            yield
            return
        await self._control.call("POST", "/hold")
        try:
            yield
        finally:
            await self._control.call("POST", "/release")

    async def activity(self) -> dict[str, Any]:
        """Requests made with agent identities that are open now."""
        activity: dict[str, Any] = await self._control.call("GET", "/activity")
        return activity

    async def audit(self, since: int = 0) -> list[dict[str, Any]]:
        """Requests made with agent identities, from number ``since`` on."""
        entries: list[dict[str, Any]] = await self._control.call("GET", f"/audit?since={since}")
        return entries

    async def close(self) -> None:
        """End the process and delete its folder; safe to call twice."""
        await self._control.close()
        await stop_child(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)


class EmbeddedProvider:
    """Starts one embedded cluster per ``up``."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options

    async def up(self) -> Cluster:
        """Start the process and wait until its API answers. Raises ClusterError with its last words."""
        folder = Path(tempfile.mkdtemp(prefix="aiopslab-"))
        log = (folder / "cluster.log").open("wb")
        process = await asyncio.create_subprocess_exec(
            *sim_command(folder, self._options),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches the lab first, which then closes the cluster in order
        )
        log.close()
        try:
            state = await self._ready(process, folder)
            return EmbeddedCluster(process, folder, state, self._options)
        except BaseException:
            await stop_child(process)
            shutil.rmtree(folder, ignore_errors=True)
            raise

    async def _ready(self, process: asyncio.subprocess.Process, folder: Path) -> dict[str, Any]:
        assert process.stdout is not None
        try:
            line = await asyncio.wait_for(process.stdout.readline(), START_WALL_S_MAX)
        except TimeoutError as error:
            raise ClusterError(f"the embedded cluster was not ready within {START_WALL_S_MAX:.0f} s") from error
        if not line:
            raise ClusterError(f"the embedded cluster ended while starting: {last_words(folder / 'cluster.log')}")
        state: dict[str, Any] = orjson.loads(line)
        return state


async def stop_child(process: asyncio.subprocess.Process) -> None:
    """Close the child's standard input, which ends it; kill it when it does not listen."""
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is None:
        try:
            await asyncio.wait_for(process.wait(), STOP_WALL_S_MAX)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def last_words(log: Path, lines: int = 3) -> str:
    """The last lines of a log, on one line."""
    text = log.read_text(errors="replace").strip() if log.exists() else ""
    return " | ".join(text.splitlines()[-lines:]) or "it printed nothing"
