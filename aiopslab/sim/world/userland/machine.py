"""One container as its own processes see it: files, environment, processes, network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from aiopslab.sim.world.userland.acl import KeySpace

ASK_DISK_BYTES = 1 << 20  # smaller files find their place on any disk
Flavour = Literal["distroless", "alpine", "debian"]
ConnectOutcome = Literal["open", "refused", "timeout", "unreachable"]


@dataclass(frozen=True, slots=True)
class Resolution:
    """Answer of the cluster's DNS. ``rcode`` NOERROR, NXDOMAIN, SERVFAIL or TIMEOUT."""

    name: str  # fully qualified name that answered
    addresses: tuple[str, ...]
    rcode: str = "NOERROR"


@dataclass(frozen=True, slots=True)
class Connect:
    """Outcome of a TCP connect. ``speaks`` names the protocol of the listener: http, grpc, redis, ''."""

    outcome: ConnectOutcome
    delay_s: float
    speaks: str = ""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An HTTP answer, or ``status`` 0 when the peer closed the connection without one."""

    status: int
    body: bytes
    content_type: str
    delay_s: float
    server: str = ""  # the header of that name


class Network(Protocol):
    """The container's network, as the world simulates it at this instant."""

    nameserver: str

    def resolve(self, name: str) -> Resolution:
        """Look a name up with the pod's search path."""

    def connect(self, address: str, port: int) -> Connect:
        """Open a TCP connection to an IP address (pod, Service or outside)."""

    def http(self, address: str, port: int, method: str, path: str) -> HttpReply:
        """One HTTP request on an open connection."""

    def redis(self, address: str, port: int) -> KeySpace | None:
        """The key space of the redis that answers there (shared, mutable), or None."""


@dataclass(frozen=True, slots=True)
class Process:
    """A row of ``ps``."""

    pid: int
    user: str
    command: str
    cpu_s: float
    rss_bytes: int


@dataclass
class Machine:
    """State of one container run. ``files`` is the writable view; it lives as long as the run. Of a large file it
    keeps the beginning, and ``bulk`` says how many bytes follow."""

    hostname: str
    flavour: Flavour
    env: dict[str, str]
    files: dict[str, bytes]
    now: float
    pod_ip: str
    network: Network
    processes: list[Process]
    user: str = "root"
    uid: int = 0
    workdir: str = "/"
    tools: frozenset[str] = frozenset()  # extra programs of this image: redis-cli, curl, psql ...
    binary: str = ""  # the image's own program, present even in distroless
    read_only: bool = False
    memory_limit_bytes: int | None = None
    cpu_limit_cores: float | None = None
    mounts: tuple[str, ...] = ()  # folders of mounted volumes
    bulk: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)  # folders that are a tmpfs: their size in bytes
    disk_room: Callable[[], int] | None = None  # bytes that the node's disk can still take
    listening: tuple[tuple[int, str], ...] = ()  # (port, program)
    redis: KeySpace | None = None  # this container's own key space, when it is a redis
    started_at: float = 0.0
    kill: Callable[[int, int], None] | None = None  # (pid, signal): what kill(1) does to a real process
    spent_s: float = field(default=0.0)  # simulated time that the command has used so far

    def resolved(self, path: str) -> str:
        """Absolute, normalised form of a path."""
        full = path if path.startswith("/") else f"{self.workdir.rstrip('/')}/{path}"
        parts: list[str] = []
        for part in full.split("/"):
            if part == "..":
                parts[-1:] = []
            elif part not in ("", "."):
                parts.append(part)
        return "/" + "/".join(parts)

    def size(self, path: str) -> int:
        """Bytes of a file."""
        full = self.resolved(path)
        return len(self.files.get(full, b"")) + self.bulk.get(full, 0)

    def store(self, path: str, content: bytes, bulk: int = 0) -> bool:
        """Write a whole file. False when only its beginning has found room."""
        full = self.resolved(path)
        wanted = len(content) + bulk
        kept = min(wanted, self._room(full, wanted))
        self.remove(full)
        self.files[full] = content[:kept]
        if kept > len(content):
            self.bulk[full] = kept - len(content)
        return kept == wanted

    def remove(self, path: str) -> None:
        """Remove a file, if there is one."""
        full = self.resolved(path)
        self.files.pop(full, None)
        self.bulk.pop(full, None)

    def _room(self, full: str, wanted: int) -> int:
        """Bytes that a file may have where it is."""
        for folder, limit in self.limits.items():
            inside = folder.rstrip("/") + "/"
            if full.startswith(inside):
                return limit - sum(self.size(name) for name in self.files if name.startswith(inside) and name != full)
        if self.disk_room is None or wanted <= ASK_DISK_BYTES:
            return wanted
        return self.disk_room() + self.size(full)

    def is_dir(self, path: str) -> bool:
        """Whether something lies below ``path``, or it is a standard directory."""
        path = self.resolved(path)
        prefix = path.rstrip("/") + "/"
        folders = (*STANDARD_DIRS, *self.mounts)
        return path in folders or any(name.startswith(prefix) for name in (*self.files, *self.mounts))

    def children(self, path: str) -> list[str]:
        """Names directly below a directory, sorted."""
        prefix = self.resolved(path).rstrip("/") + "/"
        known = (*self.files, *STANDARD_DIRS, *self.mounts)
        names = {name[len(prefix) :].split("/")[0] for name in known if name.startswith(prefix)}
        return sorted(names - {""})

    def writable(self, path: str) -> bool:
        """Whether a process here may write ``path``: tmpfs always, the root only when not read-only."""
        path = self.resolved(path)
        if path.startswith(("/tmp/", "/dev/shm/", "/data/")):
            return True
        return not self.read_only and self.uid == 0 and not path.startswith(("/proc", "/sys"))


STANDARD_DIRS = (
    "/",
    "/bin",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/local",
    "/var",
    "/var/log",
)
