"""A container's inside for the userland: its machine, and a network that gives what traffic would get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiopslab.sim.core.ports import ExecResult
from aiopslab.sim.world import dialects
from aiopslab.sim.world.dialects import Error
from aiopslab.sim.world.exporting import memory_bytes
from aiopslab.sim.world.runs import Run
from aiopslab.sim.world.userland import Machine, Process, run
from aiopslab.sim.world.userland.machine import Connect, ConnectOutcome, HttpReply, Resolution

if TYPE_CHECKING:
    from aiopslab.sim.world.world import SimWorld

NAMESERVER = "10.96.0.10"
CONNECT_S = 0.0006
CONNECT_TIMEOUT_S = 60.0
NAME_S = 0.001
_OUTCOMES: dict[str, ConnectOutcome] = {"": "open", dialects.REFUSED: "refused"}


def execute(world: SimWorld, target: Run, argv: list[str], stdin: bytes, now: float) -> ExecResult:
    """Run one command in a container."""
    return run(machine_of(world, target, now), argv, stdin)


def machine_of(world: SimWorld, target: Run, now: float) -> Machine:
    """The container as its own processes see it; its files are kept for the next command."""
    program, spec = target.program, target.spec
    security = _security(world, target)
    uid = int(security.get("runAsUser", 0))
    user = "root" if uid == 0 else str(uid)
    binary = program.binary if program is not None else (spec.command[0] if spec.command else "/pause")
    if not target.files:
        target.files = {path: text.encode() for path, text in spec.files.items()}
        target.files["/etc/resolv.conf"] = _resolv_conf(target.ref.namespace)
        target.files["/etc/hostname"] = (target.ref.pod + "\n").encode()
        target.files["/etc/hosts"] = f"127.0.0.1\tlocalhost\n{spec.pod_ip}\t{target.ref.pod}\n".encode()
    rss, _ = memory_bytes(target, now, 0.0, world.effects)
    return Machine(
        hostname=target.ref.pod, flavour=program.flavour if program is not None else "alpine",
        env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": target.ref.pod,
             "HOME": "/root" if uid == 0 else "/", **spec.env},
        files=target.files, now=now, pod_ip=spec.pod_ip, network=WorldNetwork(world, target, now),
        processes=[Process(1, user, " ".join(spec.command) or binary, world.cpu_seconds(target), rss)],
        user=user, uid=uid, workdir="/", tools=frozenset(program.tools if program is not None else ()), binary=binary,
        read_only=bool(security.get("readOnlyRootFilesystem")), memory_limit_bytes=spec.memory_limit_bytes,
        cpu_limit_cores=spec.cpu_limit_cores,
        listening=((target.port, binary),) if target.port and target.listening(now) else (),
        redis=_keyspace(target), started_at=target.started,
        kill=lambda pid, signal: world.signal(target, pid, signal, now))


class WorldNetwork:
    """Implements ``userland.Network`` for one container at one instant."""

    nameserver = NAMESERVER

    def __init__(self, world: SimWorld, source: Run, now: float) -> None:
        self._world = world
        self._source = source
        self._now = now

    def resolve(self, name: str) -> Resolution:
        """Look a name up among the cluster's Services."""
        address = self._world.resolve(self._source, name)
        if address is None or not address:
            return Resolution(name, (), "NXDOMAIN")
        full = name if name[0].isdigit() else self._world.full_name(self._source, name)
        addresses = self._world.headless_addresses(self._source, name) if address == "None" else (address,)
        return Resolution(full, addresses)

    def connect(self, address: str, port: int) -> Connect:
        """Open a TCP connection."""
        attempt = self._world.dial(self._source, address, port)
        program = attempt.backend.program if attempt.backend is not None else None
        delay = CONNECT_S + attempt.delay_ms * 1e-3
        outcome = _OUTCOMES.get(attempt.condition, "timeout")
        return Connect(outcome, CONNECT_TIMEOUT_S if outcome == "timeout" else delay,
                       program.serves if program is not None else "")

    def http(self, address: str, port: int, method: str, path: str) -> HttpReply:
        """One request, answered as the program answers its users."""
        attempt = self._world.dial(self._source, address, port)
        backend = attempt.backend
        program = backend.program if backend is not None else None
        if backend is None or program is None or program.serves != "http":
            return HttpReply(0, b"", "", CONNECT_S)
        plain = path.partition("?")[0] or "/"
        if plain in program.health_paths:
            return HttpReply(200, b"ok", "text/plain; charset=utf-8", CONNECT_S + attempt.delay_ms * 1e-3)
        status, took_s, error = self._world.ask(self._source, backend, method, plain)
        body = _page(program.name, plain, status, error)
        return HttpReply(status, body, "text/html; charset=utf-8", took_s + 2e-3 * attempt.delay_ms)

    def redis(self, address: str, port: int) -> dict[str, object] | None:
        """The key space behind an address."""
        backend = self._world.dial(self._source, address, port).backend
        return _keyspace(backend) if backend is not None else None


def _keyspace(target: Run) -> dict[str, object] | None:
    if target.program is None or target.program.serves != "redis":
        return None
    return target.keyspace


def _page(title: str, path: str, status: int, error: Error | None) -> bytes:
    if status == 404:
        return b"404 page not found\n"
    text = f"<h1>Uh, oh!</h1><p>Something has failed.</p><pre>{error.message}</pre>" if error else f"<h1>{path}</h1>"
    return f"<!DOCTYPE html>\n<html>\n<head><title>{title}</title></head>\n<body>{text}</body>\n</html>\n".encode()


def _resolv_conf(namespace: str) -> bytes:
    return (f"search {namespace}.svc.cluster.local svc.cluster.local cluster.local\nnameserver {NAMESERVER}\n"
            "options ndots:5\n").encode()


def _security(world: SimWorld, target: Run) -> dict[str, object]:
    pod = world.pod(target)
    spec = (pod or {}).get("spec") or {}
    container = next((c for c in spec.get("containers") or [] if c.get("name") == target.ref.container), {})
    return {**(spec.get("securityContext") or {}), **(container.get("securityContext") or {})}
