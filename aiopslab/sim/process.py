"""The embedded cluster's process: wires core, world, observe and server, and runs until told to stop.

It ends when its standard input closes (unless detached), on SIGTERM, on SIGINT, or by the control socket; its
state file and socket go with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
from aiohttp import web

from aiopslab.errors import AIOpsLabError, UsageError
from aiopslab.sim.assemble import Assembly, Plan, equip, make_core
from aiopslab.sim.control import Refused, control_app
from aiopslab.sim.core.bootstrap import WORKERS
from aiopslab.sim.core.kubelet import BareWorld
from aiopslab.sim.core.ports import World
from aiopslab.sim.core.version import KUBERNETES_VERSION
from aiopslab.sim.disturbances import Disturbances
from aiopslab.sim.observe.jaeger import TraceSource, jaeger_app
from aiopslab.sim.observe.prometheus import Source, prometheus_app
from aiopslab.sim.observe.promql.evaluate import Engine
from aiopslab.sim.observe.rules.files import load_rules
from aiopslab.sim.observe.rules.manager import RuleManager, began
from aiopslab.sim.observe.scrape import HIDDEN_NAMESPACES, Scraper
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.server.app import SERVER, build_app, serve
from aiopslab.sim.server.auth import ADMIN
from aiopslab.sim.server.kubeconfig import kubeconfig, write_private
from aiopslab.sim.server.policy import Activity, Policy
from aiopslab.sim.server.tls import make_tls
from aiopslab.sim.world import chaos
from aiopslab.sim.world.background import Background, Level
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.world import SimWorld

# 2025-06-02T09:00:00Z, a Monday: far from any machine's clock, so that the two cannot be mistaken (decision 4).
STEPPED_START = 1_748_854_800.0
WALL_TICK_S = 0.05
# The cluster is this old when the lab first sees it: its system pods run and its node leases are fresh.
AGE_S = 900.0
TELEMETRY_RETENTION_S = 86_400.0
UNIX_PATH_BYTES_MAX = 100


@dataclass(frozen=True, slots=True)
class Settings:
    """The command line of the process."""

    dir: Path
    seed: int
    clock: Literal["stepped", "wall"]
    bundle: list[Path]
    bare: bool
    port: int
    detached: bool
    noise: Level = "off"
    nodes: int = WORKERS


class Running:
    """A wired cluster, as the control socket sees it."""

    def __init__(self, settings: Settings, assembly: Assembly, activity: Activity) -> None:
        self.mode: str = settings.clock
        self._seed = settings.seed
        self._kernel = assembly.kernel
        self._activity = activity

    def state(self) -> dict[str, Any]:
        """Implements ``control.Cluster``."""
        return {"now": self._kernel.now, "mode": self.mode, "seed": self._seed, "pid": os.getpid()}

    def advance(self, seconds: float) -> float:
        """Implements ``control.Cluster``. Refused while held: time must not pass over held writes."""
        if self._kernel.held:
            raise Refused("the cluster is held; release it before time can pass")
        self._kernel.advance(self._kernel.now + seconds)
        return self._kernel.now

    def hold(self) -> None:
        """Implements ``control.Cluster``."""
        self._kernel.hold()

    def release(self) -> None:
        """Implements ``control.Cluster``."""
        self._kernel.release()

    def activity(self) -> dict[str, int]:
        """Implements ``control.Cluster``."""
        return self._activity.as_dict()

    def audit(self, since: int) -> list[dict[str, Any]]:
        """Implements ``control.Cluster``."""
        return self._activity.since(since)


def run(settings: Settings) -> int:
    """Run the process; returns its exit code. Errors are one line on standard error."""
    try:
        asyncio.run(_main(settings))
    except AIOpsLabError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"the cluster cannot start in {settings.dir}: {error}", file=sys.stderr)
        return 2
    return 0


async def _main(settings: Settings) -> None:
    settings.dir.mkdir(parents=True, exist_ok=True)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runners: list[web.AppRunner] = []
    socket = settings.dir / "control.sock"
    try:
        state = await _serve(settings, stop, runners, socket)
        write_private(settings.dir / "cluster.json", orjson.dumps(state).decode())
        if not settings.detached:
            print(orjson.dumps(state).decode(), flush=True)
            loop.add_reader(sys.stdin.fileno(), _watch_stdin, stop)
        await stop.wait()
    finally:
        for runner in reversed(runners):
            await runner.cleanup()
        for name in ("cluster.json", "control.sock"):
            with suppress(FileNotFoundError):
                (settings.dir / name).unlink()


def _watch_stdin(stop: asyncio.Event) -> None:
    """Standard input became readable: the lab never writes, so it is the end of file."""
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()


async def _serve(
    settings: Settings, stop: asyncio.Event, runners: list[web.AppRunner], socket: Path
) -> dict[str, Any]:
    """Bring everything up; returns the state that the lab reads."""
    tls = make_tls()
    begin = STEPPED_START if settings.clock == "stepped" else time.time()
    kernel, api = make_core(settings.seed, begin - AGE_S)
    background = Background(settings.noise, settings.seed)
    world = SimWorld(kernel, kernel.store, Programs.load(settings.bundle), settings.seed, background)
    containers: World = BareWorld() if settings.bare else world
    assembly = equip(kernel, api, containers, Plan(settings.bare, settings.nodes, tls.ca_pem))
    if not settings.bare:
        chaos.install(kernel, api, world)
    kernel.advance(begin)
    series = SeriesStore(retention_s=TELEMETRY_RETENTION_S)
    scraper = Scraper(kernel, kernel.store, world, series, background=background)
    scraper.start()
    Disturbances(kernel, api, world, background, HIDDEN_NAMESPACES).start()
    token = kernel.ids.hex(40, "admin-token")
    machine_now = time.time if settings.clock == "stepped" else None
    kube_app = build_app(assembly.api, assembly.world, {token: ADMIN}, Policy(machine_now=machine_now))
    try:
        runner, port = await serve(kube_app, tls.context, settings.port)
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"cannot listen on port {settings.port}: {reason}; choose another one") from error
    runners.append(runner)
    source = Source(
        series,
        now=lambda: kernel.now,
        refresh=lambda: world.run_until(kernel.now),
        targets=scraper.targets,
        metadata=scraper.metadata,
        rules=RuleManager(series, Engine(series), load_rules(settings.bundle), begin, began(kernel.store)),
    )
    prometheus_port = await _listen(prometheus_app(source), runners)
    world.spans.unknown = HIDDEN_NAMESPACES
    traces = TraceSource(world.spans, now=lambda: kernel.now, refresh=lambda: world.run_until(kernel.now))
    jaeger_port = await _listen(jaeger_app(traces), runners)
    running = Running(settings, assembly, kube_app[SERVER].activity)
    await _listen_unix(control_app(running, stop), runners, socket)
    if settings.clock == "wall":
        _keep(asyncio.create_task(_tick(assembly, stop)))
    server = f"https://127.0.0.1:{port}"
    write_private(settings.dir / "kubeconfig", kubeconfig(server, tls.ca_pem, token))
    return {
        "server": server,
        "server_version": KUBERNETES_VERSION,
        "kubeconfig": str(settings.dir / "kubeconfig"),
        "prometheus_url": f"http://127.0.0.1:{prometheus_port}",
        "jaeger_url": f"http://127.0.0.1:{jaeger_port}",
        "control": str(socket),
        "pid": os.getpid(),
        "seed": settings.seed,
        "clock": settings.clock,
        "noise": settings.noise,
    }


_tasks: set[asyncio.Task[None]] = set()


def _keep(task: asyncio.Task[None]) -> None:
    """Hold a reference: the event loop keeps only weak ones."""
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _tick(assembly: Assembly, stop: asyncio.Event) -> None:
    """Tie virtual time to the machine's clock."""
    try:
        while not stop.is_set():
            assembly.kernel.advance(time.time())
            await asyncio.sleep(WALL_TICK_S)
    except Exception:
        stop.set()  # a cluster whose time stands still must not look alive
        raise


async def _listen(app: web.Application, runners: list[web.AppRunner]) -> int:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    runners.append(runner)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port: int = runner.addresses[0][1]
    return port


async def _listen_unix(app: web.Application, runners: list[web.AppRunner], socket: Path) -> None:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    runners.append(runner)
    folder = os.open(socket.parent, os.O_RDONLY)
    try:
        await web.UnixSite(runner, _short(socket, folder)).start()
    finally:
        os.close(folder)
    socket.chmod(0o600)


def _short(socket: Path, folder: int) -> str:
    """A name for ``socket`` that fits a socket address; ``folder`` is its folder's descriptor."""
    fits = len(os.fsencode(socket)) <= UNIX_PATH_BYTES_MAX
    return str(socket) if fits else f"/proc/self/fd/{folder}/{socket.name}"
