"""Client connections: whom a caller talks to, and why not.

A client library keeps one connection per (caller run, address). It is pinned to the backend it was dialled to and
outlives any change of the Service; only the backend's end closes it. A failed dial is remembered, calls fail at
once with its error, and the next dial waits for the back-off.
"""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass

from aiopslab.sim.world import dialects
from aiopslab.sim.world.dialects import CLIENTS, Client, Error, Errors, fill
from aiopslab.sim.world.effects import CLEAR, Effects, Path
from aiopslab.sim.world.hashing import text_key, unit_int
from aiopslab.sim.world.lookups import Lookups
from aiopslab.sim.world.naming import REFUSED, SERVFAIL, TIMEOUT, UNREACHED, Names
from aiopslab.sim.world.programspec import Program
from aiopslab.sim.world.runs import Run, Runs
from aiopslab.sim.world.view import Endpoint, View
from aiopslab.sim.world.wording import wording

_LOOKUPS = {
    TIMEOUT: dialects.NAME_TIMEOUT,
    UNREACHED: dialects.NAME_UNREACHED,
    SERVFAIL: dialects.NAME_FAILED,
    REFUSED: dialects.NAME_REFUSED,
}
PASSWORDS, USERNAMES = ("REDIS_PASSWORD", "VALKEY_PASSWORD"), ("REDIS_USERNAME", "VALKEY_USERNAME")


@dataclass(slots=True)
class Connection:
    """State of one channel. ``backend`` is a run number, -1 while there is none."""

    backend: int = -1
    error: int = 0  # last dial's error while there is no backend
    fail_ms: float = 0.0  # how long a call takes to fail with it
    failures: int = 0
    retry_at: float = -math.inf
    dials: int = 0
    path: Path = CLEAR
    host: str = ""
    port: int = 0
    ip: str = ""  # dialled address: the Service's
    lane: int = 0


@dataclass(slots=True)
class Attempt:
    """Outcome of a dial. ``condition`` is empty when it was accepted, else one of ``dialects``'."""

    condition: str
    ip: str  # address that the name stood for
    backend: Run | None
    delay_ms: float = 0.0  # extra time of one round trip


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a dial depends on."""

    view: View
    effects: Effects
    now: float
    names: Names


class Connections:
    """All channels of all callers. ``resolve`` is called when the surroundings changed."""

    def __init__(self, runs: Runs, errors: Errors, seed: int) -> None:
        self._runs = runs
        self._errors = errors
        self._seed = seed
        self._all: dict[tuple[int, str, int], Connection] = {}
        self.lookups = Lookups()

    def resolve(
        self,
        caller: Run,
        address: str,
        expected: Program,
        around: Surroundings,
        *,
        lane: int = 0,
        library: str = "",
    ) -> Connection:
        """The channel of ``caller`` to ``address`` (``host:port``), dialled when it is time to.

        ``lane`` numbers several connections to one address; ``library`` overrides the program's client.
        """
        key = (caller.number, address, lane)
        connection = self._all.get(key)
        if connection is None:
            connection = self._all[key] = Connection()
            connection.host, connection.port = split_address(address)
            connection.lane = lane
        client = CLIENTS[library or (caller.program.client if caller.program else "") or "http"]
        if connection.backend >= 0 and not self._runs[connection.backend].alive:
            connection.backend, connection.error, connection.failures = -1, 0, 0
            connection.retry_at = -math.inf
        if connection.backend < 0:
            self._dial(connection, caller, expected, client, around)
        if connection.backend >= 0:
            callee = self._runs[connection.backend]
            connection.path = around.effects.path(caller.pod_key, callee.pod_key)
        return connection

    def drop(self, run: Run) -> None:
        """Forget the channels of an ended caller."""
        for key in [k for k in self._all if k[0] == run.number]:
            del self._all[key]

    def next_retry(self, after: float) -> float:
        """The earliest time after ``after`` at which a channel without backend dials again."""
        return min(
            (c.retry_at for c in self._all.values() if c.backend < 0 and c.retry_at > after), default=math.inf
        )

    def overdue(self, now: float) -> bool:
        """Whether some channel without backend should have dialled again by ``now``."""
        return any(c.backend < 0 and c.dials > 0 and c.retry_at <= now for c in self._all.values())

    def counts(self) -> dict[int, int]:
        """Open channels by run, as a caller or as a callee."""
        found: dict[int, int] = {}
        for (caller, _, _), connection in self._all.items():
            if connection.backend >= 0:
                found[caller] = found.get(caller, 0) + 1
                found[connection.backend] = found.get(connection.backend, 0) + 1
        return found

    def _dial(
        self, connection: Connection, caller: Run, expected: Program, client: Client, around: Surroundings
    ) -> None:
        if connection.retry_at > around.now:
            return
        connection.dials += 1
        backend, condition = self._try(connection, caller, expected, around)
        if backend is not None:
            connection.backend, connection.error, connection.failures = backend.number, 0, 0
            return
        text = wording(client, condition)
        own_port = 32768 + text_key(self._seed, "port", caller.ref, connection.host, connection.dials) % 28000
        facts = {
            "source": f"{caller.spec.pod_ip}:{own_port}",
            "host": connection.host,
            "ip": connection.ip or connection.host,
            "port": str(connection.port),
            "service": f"{expected.package}.{expected.name}",
            "method": expected.name,
        }
        connection.error = self._errors.intern(Error(text.code, fill(text.message, facts)))
        connection.fail_ms = text.fail_after_s * 1e3
        connection.failures += 1
        connection.retry_at = around.now
        if client.backoff is not None:
            draw = unit_int(text_key(self._seed, "backoff", caller.ref, connection.host, connection.dials))
            connection.retry_at += text.fail_after_s + client.backoff.delay(connection.failures, draw)

    def attempt(self, caller: Run, host: str, port: int, around: Surroundings) -> Attempt:
        """One dial from a container, whatever answers; nothing is remembered."""
        connection = Connection(host=host, port=port)
        return self._attempt(connection, caller, around)

    def _try(
        self, connection: Connection, caller: Run, expected: Program, around: Surroundings
    ) -> tuple[Run | None, str]:
        found = self._attempt(connection, caller, around)
        connection.ip = found.ip
        if found.backend is not None and expected.serves == "redis" and not self._let_in(caller, found.backend):
            return None, dialects.NO_LOGIN
        if found.backend is None or found.backend.program is expected:
            return found.backend, found.condition
        program = found.backend.program
        same = program is not None and program.serves == expected.serves
        return None, dialects.UNIMPLEMENTED if same else dialects.WRONG_PROTOCOL

    def _attempt(self, connection: Connection, caller: Run, around: Surroundings) -> Attempt:
        view = around.view
        name = around.names.lookup(caller, connection.host)
        self.lookups.note(connection.host, name)
        if not name.addresses:
            return Attempt(_LOOKUPS.get(name.rcode, dialects.UNKNOWN_NAME), "", None)
        draw = text_key(self._seed, "endpoint", caller.ref, connection.lane, connection.host, connection.dials)
        ip = name.addresses[int(unit_int(draw) * len(name.addresses))]
        service = view.service(ip, connection.port)
        endpoints = view.endpoints(ip, connection.port)
        if service is not None and service.local:
            endpoints = tuple(e for e in endpoints if e.node == caller.spec.node)
            if not endpoints and service.endpoints:
                return Attempt(dialects.SILENT, ip, None)  # kube-proxy drops what it may not send to another node
        if not endpoints:
            known = service is not None or ip in view.pod_by_ip
            # A cluster address without a rule for this port is not rejected by kube-proxy: packets vanish.
            inside = ipaddress.ip_address(ip).is_private
            return Attempt(
                dialects.REFUSED if known else dialects.SILENT if inside else dialects.NO_ROUTE, ip, None
            )
        chosen = endpoints[int(unit_int(draw) * len(endpoints))]
        if service is not None and service.sticky:
            # Rendezvous hashing: a client keeps its endpoint for as long as there is one.
            chosen = max(endpoints, key=lambda e: text_key(self._seed, "affinity", caller.spec.pod_ip, ip, e.ip))
        return self._arrive(caller, ip, chosen, around)

    def _arrive(self, caller: Run, ip: str, chosen: Endpoint, around: Surroundings) -> Attempt:
        view = around.view
        backend = view.listener(chosen, around.now)
        target = backend or next(iter(view.runs_by_ip.get(chosen.ip, ())), None)
        if target is None:
            return Attempt(dialects.SILENT, ip, None)
        path = around.effects.path(caller.pod_key, target.pod_key)
        if path.cut or view.blocked(caller, target, chosen.port):
            return Attempt(dialects.SILENT, ip, None)
        if backend is None:
            return Attempt(dialects.REFUSED, ip, None)
        return Attempt("", ip, backend, path.delay_ms)

    @staticmethod
    def _let_in(caller: Run, backend: Run) -> bool:
        """Whether a data store takes the login that the caller's environment holds."""
        password = next((caller.spec.env[n] for n in PASSWORDS if caller.spec.env.get(n)), "")
        user = next((caller.spec.env[n] for n in USERNAMES if caller.spec.env.get(n)), "")
        return backend.keyspace.open or (bool(password) and backend.keyspace.allows(user, password))


def split_address(address: str) -> tuple[str, int]:
    """``host:port``; port 80 when none is given."""
    host, _, port = address.rpartition(":")
    if not host:
        return address, 80
    return host, int(port) if port.isdigit() else 0
