"""The agent's shell: one command at a time, in a closed room, in the cluster's time.

``Shell`` is opened once per run and closed once. Files in the home folder and in ``/tmp`` stay between
commands; processes do not. Every command is bounded in cluster time, wall time, processes, memory, disk and
output, and whatever it started is gone when ``run`` returns.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import yaml

from aiopslab.actions.sandbox import files
from aiopslab.actions.sandbox.clockwork import Alarms, Clockwork, Watched
from aiopslab.actions.sandbox.launch import Launch, Running, start
from aiopslab.actions.sandbox.processes import ProcessTree
from aiopslab.actions.sandbox.relay import Handler, Listeners, Traffic, forward_to
from aiopslab.actions.sandbox.room import API_PORT, CLOCK_PORT, JAEGER_PORT, PROMETHEUS_PORT, Room, RoomTools
from aiopslab.actions.sandbox.timemap import TimeMap
from aiopslab.cluster.base import Cluster
from aiopslab.errors import LabFailure

MAX_COMMAND_BYTES = 100_000
DEFAULT_TIMEOUT_S, FREE_WAIT_S = 30.0, 600.0
_WATCH_S = 0.03


@dataclass(frozen=True, slots=True)
class ShellLimits:
    """Bounds of one command. Bytes, counts, and seconds of wall time.

    On a stepped clock a command that burns wall time without cluster time passing gets as much of it as its
    timeout says, at least ``min_wall_s`` and at most ``wall_s``.
    """

    wall_s: float = 120.0
    min_wall_s: float = 5.0
    processes: int = 256
    memory_bytes: int = 1 << 30
    address_space_bytes: int = 4 << 30
    file_bytes: int = 64 << 20
    disk_bytes: int = 256 << 20
    files: int = 20_000
    output_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class ShellResult:
    """What a command did. ``exit_code`` None: it was stopped, and ``stopped`` says why. Times in seconds."""

    output: str
    exit_code: int | None
    stopped: str
    cluster_s: float
    wall_s: float


class Shell:
    """A run's shell. Use ``async with`` or ``close``."""

    def __init__(
        self,
        cluster: Cluster,
        kubeconfig: Path,
        tools: RoomTools,
        *,
        hidden: Sequence[Path] = (),
        began: tuple[float, float] | None = None,
        limits: ShellLimits | None = None,
    ) -> None:
        """``kubeconfig`` is the agent's. ``hidden`` names host folders with answers. ``began``: an early
        moment of the run as machine time and cluster time (Unix seconds). Raises UsageError
        without a sandbox.
        """
        self._cluster, self._limits = cluster, limits or ShellLimits()
        self._stepped = cluster.clock.mode == "stepped"
        self.room = Room(tools, hidden=hidden, own_clock=self._stepped)
        self._times = TimeMap()
        if began is not None:
            self._times.note(*began)
        self._targets: dict[int, tuple[str, int]] = {}
        self._environment = self.room.environment()
        self._audit_seen = 0
        try:
            self._connect(kubeconfig)
        except (OSError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
            self.room.close()
            raise LabFailure(f"the agent's kubeconfig {kubeconfig} cannot be used: {error}") from error

    async def __aenter__(self) -> Shell:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the shell's files; safe to call twice."""
        self.room.close()

    async def run(self, command: str, timeout_s: float | None = None) -> ShellResult:
        """Run ``command`` with bash. Never raises for what the command does.

        ``timeout_s`` is cluster time. Without it the command gets ``DEFAULT_TIMEOUT_S``, and on a stepped clock
        besides that up to ``FREE_WAIT_S`` for waits that it asks for itself: ``sleep`` and kubectl's ``--timeout``.
        """
        if len(command.encode("utf-8", "replace")) > MAX_COMMAND_BYTES:
            why = f"a command has at most {MAX_COMMAND_BYTES} bytes; write a long file in parts"
            return ShellResult("", None, why, 0.0, 0.0)
        if "\0" in command:
            return ShellResult("", None, "a command cannot contain a NUL character", 0.0, 0.0)
        started, began = time.time(), await self._cluster.clock.now()
        if self._stepped:
            files.set_times([*self._folders(), self.room.home / ".kube"], began)
        clock_start = time.monotonic()
        self._times.note(started, began)
        traffic, alarms = Traffic(), Alarms()
        alarms.moved(began)  # a command may ask for the time before the clockwork looks at it
        launch, host_side = await self._launch(command, traffic, alarms)
        running: Running | None = None
        try:
            running = await start(self.room, launch)
            output = running.output
            watched = Watched(running.tree.sample, lambda: output.total + traffic.bytes)
            clock = self._let_time_pass(watched, alarms, began, timeout_s) if self._stepped else None
            exit_code, stopped = await self._watch(running, clock, timeout_s or DEFAULT_TIMEOUT_S)
        finally:
            if running is not None:
                await running.end()
            await host_side.close()
        now = await self._cluster.clock.now()
        stopped = await asyncio.to_thread(self._tidy, started, now, stopped)
        text = running.output.text()
        if self._stepped:
            text = self._times.restore(text, await self._shifts())
        return ShellResult(text, exit_code, stopped, now - began, time.monotonic() - clock_start)

    async def put(self, relative: str, data: bytes) -> str:
        """Write a file into the home folder; returns its path as commands see it."""
        path = files.place(self.room.home, relative, data)
        parts = [self.room.home / Path(*Path(relative).parts[: n + 1]) for n in range(len(Path(relative).parts))]
        for part in parts:
            self.room.own(part)
        if self._stepped:
            files.set_times([path], await self._cluster.clock.now())
        return self.room.inside(path)

    def _connect(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        for entry in config["clusters"]:
            cluster = entry["cluster"]
            ca_file = cluster.pop("certificate-authority", None)
            if ca_file:
                pem = (kubeconfig.parent / ca_file).read_bytes()
                cluster["certificate-authority-data"] = base64.b64encode(pem).decode()
            host = urlsplit(cluster["server"]).hostname or ""
            if self.room.sandboxed and host not in ("127.0.0.1", "localhost"):
                cluster.setdefault("tls-server-name", host)
            cluster["server"] = self._local(cluster["server"], API_PORT)
        info = self._cluster.info
        self._environment["PROMETHEUS_URL"] = self._local(info.prometheus_url, PROMETHEUS_PORT)
        self._environment["JAEGER_URL"] = self._local(info.jaeger_url, JAEGER_PORT)
        folder = self.room.home / ".kube"
        folder.mkdir()
        (folder / "config").touch(mode=0o600)
        (folder / "config").write_text(yaml.safe_dump(config, sort_keys=False))
        self.room.own(folder)
        self.room.own(folder / "config")

    def _local(self, url: str, port: int) -> str:
        """The address inside the room for ``url``, whose connections arrive on ``port``."""
        if not url or not self.room.sandboxed:
            return url
        parts = urlsplit(url)
        self._targets[port] = (
            parts.hostname or "127.0.0.1",
            parts.port or (443 if parts.scheme == "https" else 80),
        )
        return urlunsplit((parts.scheme, f"127.0.0.1:{port}", parts.path, "", ""))

    async def _launch(self, command: str, traffic: Traffic, alarms: Alarms) -> tuple[Launch, Listeners]:
        """What to start, and the servers that it needs on the host itself (outside a sandbox only)."""
        limits, host_side = self._limits, Listeners()
        environment, handlers = dict(self._environment), dict[int, Handler]()
        for port, target in self._targets.items():
            handlers[port] = forward_to(*target, traffic)
        if self._stepped:
            port = CLOCK_PORT
            if self.room.sandboxed:
                handlers[port] = alarms.handle
            else:
                listener = socket.create_server(("127.0.0.1", 0))
                port = int(listener.getsockname()[1])
                await host_side.serve(listener, alarms.handle)
            environment["ONCALL_CLOCK"] = f"127.0.0.1:{port}"
        bounds = {
            "RLIMIT_CORE": 0,
            "RLIMIT_NOFILE": 1024,
            "RLIMIT_FSIZE": limits.file_bytes,
            "RLIMIT_AS": limits.address_space_bytes,
            "RLIMIT_CPU": int(limits.wall_s) + 1,
        }
        if self.room.sandboxed:
            bounds["RLIMIT_NPROC"] = 2 * limits.processes  # the guard stops the command before that
        return Launch(command, environment, bounds, handlers), host_side

    async def _watch(
        self, running: Running, clock: Coroutine[Any, Any, str] | None, timeout_s: float
    ) -> tuple[int | None, str]:
        """Wait for the command's end or for a limit; its exit code, or why it was stopped."""
        limits = self._limits
        wall_s = min(max(timeout_s, limits.min_wall_s), limits.wall_s) if clock is not None else timeout_s
        ended = asyncio.ensure_future(running.process.wait())
        guards = [asyncio.ensure_future(guard) for guard in (self._guard(running), clock) if guard is not None]
        try:
            done, _ = await asyncio.wait([ended, *guards], timeout=wall_s, return_when=asyncio.FIRST_COMPLETED)
            if ended in done:
                code = ended.result()
                return (code if code >= 0 else 128 - code), ""
            for guard in guards:
                if guard in done:
                    return None, guard.result()
            return None, _too_long(wall_s, "wall time" if clock is not None else "")
        finally:
            for task in (ended, *guards):
                task.cancel()
            await asyncio.gather(ended, *guards, return_exceptions=True)

    async def _let_time_pass(self, watched: Watched, alarms: Alarms, began: float, timeout_s: float | None) -> str:
        """Drive the cluster's clock until the command has used up its time."""
        clockwork = Clockwork(self._cluster, alarms, lambda now: self._times.note(time.time(), now))
        if timeout_s is None:
            await clockwork.run(watched, began + DEFAULT_TIMEOUT_S, FREE_WAIT_S)
        else:
            await clockwork.run(watched, began + timeout_s)
        return _too_long(await self._cluster.clock.now() - began, "")

    async def _guard(self, running: Running) -> str:
        """Watch memory, processes, disk and output; returns the limit that was crossed."""
        limits, tree, looks = self._limits, ProcessTree(running.process.pid), 0
        while True:
            await asyncio.sleep(_WATCH_S)
            sample = tree.sample()
            if len(sample.pids) > limits.processes:
                return f"stopped: more than {limits.processes} processes"
            if sample.rss_bytes > limits.memory_bytes:
                return f"stopped: more than {limits.memory_bytes >> 20} MiB of memory"
            if running.output.total > limits.output_bytes:
                return f"stopped: more than {limits.output_bytes >> 20} MiB of output"
            looks += 1
            if looks % 4 == 0 and self._disk_is_full(*await asyncio.to_thread(files.usage, self._folders())):
                return f"stopped: more than {limits.disk_bytes >> 20} MiB or {limits.files} files on disk"

    def _folders(self) -> tuple[Path, ...]:
        return (self.room.home, self.room.tmp)

    def _disk_is_full(self, used_bytes: int, count: int) -> bool:
        return used_bytes > self._limits.disk_bytes or count > self._limits.files

    def _tidy(self, started: float, now: float, stopped: str) -> str:
        """Files get the cluster's time; a command that overfilled the disk loses the biggest files that it
        wrote.
        """
        written = files.fresh(self._folders(), started - 1.0)
        used, count = files.usage(self._folders())
        if self._disk_is_full(used, count):
            for path, size in written:
                with contextlib.suppress(OSError):
                    path.unlink()
                used, count = used - size, count - 1
                if used <= self._limits.disk_bytes // 2 and count <= self._limits.files // 2:
                    break
            stopped = f"{stopped or 'the disk was full'}; files that the command wrote were removed, biggest first"
        if self._stepped:
            files.set_times([path for path, _ in written], now)
        return stopped

    async def _shifts(self) -> list[float]:
        """By how much the API server moved times in answers to this command, where its audit says so."""
        entries = await self._cluster.audit(self._audit_seen)
        self._audit_seen = max([self._audit_seen, *(int(entry.get("n", 0)) for entry in entries)])
        return sorted({float(entry["shift_s"]) for entry in entries if entry.get("shift_s")})


def _too_long(seconds: float, of: str) -> str:
    shown = f"{seconds:g} s{' of ' + of if of else ''}"
    return f"stopped after {shown}; if it needs longer, say so: exec_shell(command, timeout=...)"
