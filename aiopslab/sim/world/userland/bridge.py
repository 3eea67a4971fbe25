"""From a container run of the world to the machine that a command sees.

The network is the world's: a name resolves, a port refuses and a packet is late exactly as for the traffic of
the application at this instant.
"""

from __future__ import annotations

import ipaddress
from typing import Protocol

from aiopslab.sim.core.ports import ExecResult, NodeUse
from aiopslab.sim.core.store import Obj
from aiopslab.sim.world.answers import Reply
from aiopslab.sim.world.dialects import NO_ROUTE, REFUSED, SILENT
from aiopslab.sim.world.disks import limits
from aiopslab.sim.world.naming import NAMESERVER, UNREACHED, Name, Settings, hosts_lines
from aiopslab.sim.world.runs import Run
from aiopslab.sim.world.userland.acl import KeySpace
from aiopslab.sim.world.userland.images import profile
from aiopslab.sim.world.userland.machine import (
    Connect,
    ConnectOutcome,
    Flavour,
    HttpReply,
    Machine,
    Process,
    Resolution,
)
from aiopslab.sim.world.userland.run import run as run_command

EXCHANGE_S = 0.0004  # one exchange inside the cluster when nothing delays it
OUTCOMES: dict[str, ConnectOutcome] = {"": "open", REFUSED: "refused", SILENT: "timeout", NO_ROUTE: "unreachable"}
MIB = 1 << 20


class Dialled(Protocol):
    """Outcome of a connection attempt, as the world gives it."""

    condition: str
    ip: str
    backend: Run | None
    delay_ms: float


class Host(Protocol):
    """What the bridge needs of the world."""

    def pod(self, run: Run) -> Obj:
        """The pod of a container; empty when it is gone."""

    def resolve(self, run: Run, host: str) -> Name:
        """A lookup inside a container."""

    def dial(self, run: Run, host: str, port: int) -> Dialled:
        """A fresh TCP connection from a container."""

    def ask(self, run: Run, backend: Run, method: str, path: str) -> Reply:
        """One HTTP request to a program; it shows in all signals like any other."""

    def key_space(self, run: Run) -> KeySpace:
        """The keys that a redis holds now."""

    def node_use(self, node: str, now: float) -> NodeUse | None:
        """Memory and disk of a node."""

    def cpu_seconds(self, run: Run) -> float:
        """CPU time that a container has used."""


class PodNetwork:
    """``Network`` of one container."""

    nameserver = NAMESERVER

    def __init__(self, host: Host, run: Run) -> None:
        self._host = host
        self._run = run

    def resolve(self, name: str) -> Resolution:
        """Implements ``Network``: the search path of the container, and what its DNS answers."""
        found = self._host.resolve(self._run, name)
        rcode = "TIMEOUT" if found.rcode == UNREACHED else found.rcode
        return Resolution(found.name, found.addresses, rcode)

    def connect(self, address: str, port: int) -> Connect:
        """Implements ``Network``."""
        found = self._host.dial(self._run, address, port)
        outcome: ConnectOutcome = OUTCOMES.get(found.condition, "unreachable")
        if outcome == "timeout" and not ipaddress.ip_address(address).is_private:
            outcome = "unreachable"  # the cluster has no way out: its gateway says so at once
        backend = found.backend
        speaks = backend.program.serves if backend is not None and backend.program is not None else ""
        return Connect(outcome, EXCHANGE_S + found.delay_ms / 1e3, speaks)

    def http(self, address: str, port: int, method: str, path: str) -> HttpReply:
        """Implements ``Network``."""
        found = self._host.dial(self._run, address, port)
        if found.condition or found.backend is None:
            return HttpReply(0, b"", "", 0.0)
        reply = self._host.ask(self._run, found.backend, method, path)
        return HttpReply(reply.status, reply.body, reply.content_type, reply.took_ms / 1e3, reply.server)

    def redis(self, address: str, port: int) -> KeySpace | None:
        """Implements ``Network``."""
        backend = self._host.dial(self._run, address, port).backend
        if backend is None or backend.program is None or backend.program.serves != "redis":
            return None
        return self._host.key_space(backend)


def run(host: Host, run: Run, argv: list[str], stdin: bytes, now: float) -> ExecResult:
    """Run a command in the container of ``run``."""
    return run_command(machine_of(host, run, now), argv, stdin)


def machine_of(host: Host, run: Run, now: float) -> Machine:
    """The machine that a process in the container of ``run`` sees at ``now``."""
    program, spec = run.program, run.spec
    flavour: Flavour
    if program is None:
        base = profile(spec.image)
        flavour, tools, user, binary = base.flavour, base.tools, "root", ""
    else:
        user = "root" if program.uid == 0 else "app"
        flavour, tools, binary = program.flavour, frozenset(program.tools), program.binary
    command = " ".join(spec.command) or binary or "/bin/sh"
    memory = int((program.resources.memory_mib if program is not None else 2.0) * MIB)
    redis = host.key_space(run) if program is not None and program.serves == "redis" else None
    return Machine(
        hostname=spec.ref.pod,
        flavour=flavour,
        env=_environment(run),
        files=_files(host, run),
        now=now,
        pod_ip=spec.pod_ip,
        network=PodNetwork(host, run),
        processes=[Process(1, user, command, host.cpu_seconds(run), memory)],
        user=user,
        uid=0 if user == "root" else program.uid if program is not None else 0,
        tools=tools,
        binary=binary,
        read_only=program.read_only if program is not None else False,
        memory_limit_bytes=spec.memory_limit_bytes,
        cpu_limit_cores=spec.cpu_limit_cores,
        listening=((run.port, binary.rsplit("/", 1)[-1] or "server"),) if run.port and run.listening(now) else (),
        redis=redis,
        mounts=tuple(sorted(path.rstrip("/") for path in spec.shared)),
        started_at=run.started,
        bulk=run.bulk,
        limits=limits(run),
        disk_room=lambda: _disk_room(host, run, now),
    )


def _disk_room(host: Host, run: Run, now: float) -> int:
    use = host.node_use(run.spec.node, now)
    return use.disk_available if use is not None else 0


def _environment(run: Run) -> dict[str, str]:
    usual = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": run.ref.pod}
    return {**usual, **run.spec.env, "HOME": run.spec.env.get("HOME", "/root")}


def _files(host: Host, run: Run) -> dict[str, bytes]:
    """Files of the run. They are kept on it, so what a command writes is there for the next one."""
    if run.files is None:
        pod = host.pod(run)
        hosts = "".join("\t".join([address, *names]) + "\n" for address, names in hosts_lines(pod, run))
        run.files = {
            "/etc/resolv.conf": Settings.of(pod.get("spec") or {}, run.ref.namespace).text().encode(),
            "/etc/hosts": hosts.encode(),
            "/etc/hostname": f"{run.ref.pod}\n".encode(),
        }
    run.files.update({path: text.encode() for path, text in run.spec.files.items() if path not in run.files})
    return run.files


__all__ = ["Host", "PodNetwork", "machine_of", "run"]
