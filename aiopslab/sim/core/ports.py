"""What the cluster core asks of the world: the container runtime, probes, logs, usage, exec.

``sim.world`` implements ``World``; the kubelet and the API server see only these protocols, so both can
be tested with a few lines of fake.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ContainerRef:
    """One run of one container. ``attempt`` counts restarts, so each run has its own log."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    attempt: int


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What the kubelet starts: everything resolved, as the runtime would get it."""

    ref: ContainerRef
    image: str
    command: tuple[str, ...]  # command + args as given; empty means the image's own
    env: dict[str, str]
    files: dict[str, str]  # mounted ConfigMaps, Secrets, token: absolute path -> text
    labels: dict[str, str]
    node: str
    pod_ip: str
    cpu_limit_cores: float | None
    memory_limit_bytes: int | None
    tty: bool = False
    stdin: bool = False
    shared: dict[str, str] = field(default_factory=dict)  # mounted emptyDir volumes: path -> volume of the pod
    in_memory: dict[str, int] = field(default_factory=dict)  # those of them that are a tmpfs: volume -> size in bytes


@dataclass(frozen=True, slots=True)
class StartResult:
    """What a freshly started container will do by itself.

    ``exit_after_s`` None means it runs until stopped. ``error`` set means the runtime could not even
    start it (``RunContainerError``/``StartError``, exit 128).
    """

    exit_after_s: float | None = None
    exit_code: int = 0
    reason: str = ""  # "" lets the kubelet choose Completed/Error
    error: str = ""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Outcome of one probe. ``message`` is what follows ``Readiness probe failed: `` in the event."""

    ok: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class ContainerExit:
    """The world ended a container by itself: a crash, an OOM kill (137, ``OOMKilled``)."""

    ref: ContainerRef
    exit_code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Momentary use of one container: cores, bytes."""

    cpu_cores: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """What a running container holds of its node, in bytes: its working set, what it wrote outside of volumes, its
    log."""

    memory: int
    layer: int
    log: int


@dataclass(slots=True)
class NodeUse:
    """A node's statistics as its kubelet reads them, in bytes. ``volumes``: emptyDir by pod uid and name."""

    memory_bytes: int
    memory_available: int
    disk_bytes: int
    disk_available: int
    containers: dict[ContainerRef, ContainerUse]
    volumes: dict[tuple[str, str], int]


@dataclass(slots=True)
class ExecResult:
    """Outcome of a command in a container. ``error`` set means it could not be started (exit 126/127)."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0
    error: str = ""
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a listening program makes of the bytes that arrived on one connection.

    ``consumed`` bytes of them are dealt with; the rest is an unfinished request. ``close``: it ends the
    connection after ``reply``. ``delay_s`` is cluster time until the reply.
    """

    reply: bytes = b""
    consumed: int = 0
    close: bool = False
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line as the runtime stored it; ``at`` is Unix seconds with sub-second part."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which lines: from ``since`` (exclusive of older), the last ``tail``; None means no bound. Lines are those of
    the newest log file; ``rotated`` means of those before it too, as who follows a log has them."""

    since: float | None = None
    until: float | None = None
    tail: int | None = None
    rotated: bool = False


class ImageRegistry(Protocol):
    """What can be pulled. Unknown tags of known repositories fail; reserved hosts fail."""

    def pull(self, image: str) -> str | None:
        """None when it can be pulled, else the error text of the runtime."""

    def pull_seconds(self, image: str) -> float:
        """How long the first pull on a node takes."""

    def size_bytes(self, image: str) -> int:
        """Image size for the ``Pulled`` event."""

    def runs_as_root(self, image: str) -> bool:
        """Whether the user that the image names, or its default, is root."""


class World(Protocol):
    """What containers do. All times are virtual Unix seconds."""

    @property
    def images(self) -> ImageRegistry:
        """What can be pulled."""

    def start(self, spec: ContainerSpec, now: float) -> StartResult:
        """A container starts; the world runs its program from now on."""

    def stop(self, ref: ContainerRef, now: float, grace_s: float) -> tuple[float, int]:
        """SIGTERM. Returns (seconds until it ends, exit code); 137 when the grace period is used up."""

    def ended(self, ref: ContainerRef, now: float) -> None:
        """The container is gone (after stop, or after its own exit); the log stays readable."""

    def forget(self, pod_uid: str) -> None:
        """The pod was deleted: logs go, as on a node."""

    def refresh_files(self, ref: ContainerRef, files: dict[str, str], now: float) -> None:
        """A mounted ConfigMap or Secret changed, and the kubelet has brought the files up to date."""

    def probe(self, ref: ContainerRef, probe: Obj, now: float) -> ProbeResult:
        """Run a probe (``httpGet``, ``tcpSocket``, ``grpc`` or ``exec`` in ``probe``; named ports are
        already numbers) against what the container really answers at ``now``."""

    def exits(self, now: float) -> list[ContainerExit]:
        """Containers that the world ended since the last call."""

    def run_until(self, now: float) -> None:
        """Simulate traffic up to ``now`` with the state seen so far. Idempotent."""

    def usage(self, ref: ContainerRef, now: float) -> Usage | None:
        """Use over the last window, or None before the first sample."""

    def node_use(self, node: str, now: float) -> NodeUse | None:
        """Memory and disk of a node and of what runs there, at most 15 s old; None when nothing is measured."""

    def exec(self, ref: ContainerRef, argv: list[str], stdin: bytes, now: float) -> ExecResult:
        """Run a command in the container's simulated userland."""

    def listens(self, ref: ContainerRef, port: int, now: float) -> bool:
        """Whether the container accepts connections from inside its pod on a TCP port."""

    def converse(self, ref: ContainerRef, port: int, received: bytes, now: float) -> Answer:
        """Bytes that arrived on a connection from inside the pod and are not dealt with yet."""

    def logs(self, ref: ContainerRef, query: LogQuery) -> list[LogLine] | None:
        """Lines of one container run, oldest first; None when there is no such log."""


@dataclass
class Principal:
    """Who asks. ``extra`` as in UserInfo."""

    username: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = field(default_factory=dict)
