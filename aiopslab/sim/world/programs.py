"""What container images do, read from ``apps/*/sim.toml``.

A *program* is chosen by a container's image. It listens, answers operations (RPC methods, HTTP routes), calls
other addresses while doing so, writes log lines and spans, and uses CPU and memory. Nothing here knows an
application by name: all of that is data. Times are milliseconds, unless a name ends in ``_s``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from aiopslab.errors import ManifestError

Mixture = list[tuple[float, float, float]]  # (weight, mu, sigma) of lognormals, milliseconds


class LogSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A log line of an operation.

    ``at``: ``start`` or ``end`` of serving, ``ok`` or ``error`` for an end with that outcome, or
    ``after:<operation>`` for each successful call of that operation. Texts are templates over the request.
    """

    at: str
    message: str
    level: str = "info"
    logger: str = ""
    fields: dict[str, str] = {}
    bare: bool = False  # without the operation's common fields
    raw: bool = False  # printed as it stands, past the logging library


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call inside an operation, or a loop over ``steps``.

    ``on_error``: ``propagate`` ends the operation with ``wrap`` around the error, ``raise`` lets the server
    library report an uncaught error, ``warn`` and ``ignore`` go on (a failed member of a ``group`` skips the
    rest of its group).
    """

    op: str = ""
    call: str = ""  # environment variable that holds the address
    times: int = 1
    each: str = ""  # once per member of this request variable, a set
    steps: list[Step] = []
    on_error: Literal["propagate", "raise", "warn", "ignore"] = "propagate"
    wrap: str = "{error}"
    code: str = ""  # gRPC code of the wrapped error; empty keeps the callee's
    group: str = ""
    deadline_ms: float = 0.0
    detached: bool = False  # passes no trace context on
    warning: LogSpec | None = None
    args: dict[str, str] = {}  # template values that only the callee's texts see
    loop: int = 0  # set when read: calls of one loop body share a number


class Op(msgspec.Struct, forbid_unknown_fields=True):
    """An operation. ``time`` is its own time: what remains when its calls take none."""

    time: Mixture
    cpu_ms: float
    steps: list[Step] = []
    logs: list[LogSpec] = []
    log_fields: dict[str, str] = {}
    request_bytes: int = 200
    response_bytes: int = 200
    status: int = 200
    error_status: int = 500
    span: str | None = None
    name: str = ""  # set when read

    @property
    def service(self) -> str:
        """RPC service, empty for HTTP routes."""
        return "" if " " in self.name else self.name.rpartition("/")[0]

    @property
    def method(self) -> str:
        """RPC method or HTTP method."""
        return self.name.partition(" ")[0] if " " in self.name else self.name.rpartition("/")[2]

    @property
    def target(self) -> str:
        """HTTP path template, empty for RPC methods."""
        return self.name.partition(" ")[2]


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Reaction to SIGTERM. Without ``after_s`` it is ignored until the grace period ends."""

    after_s: float | None = None
    code: int = 137


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user does between two pauses."""

    name: str
    weight: float
    requests: list[UserRequest]


class UserRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request of a task and what a success changes in the user's state."""

    route: str
    adds: dict[str, str] = {}  # set variable -> drawn variable
    clears: list[str] = []  # set variables
    keeps: dict[str, str] = {}  # state variable -> drawn variable
    follows: bool = False  # a redirect: only made when the request before it succeeded


class Draw(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A variable drawn afresh for each task: a member of a vocabulary, or an integer in a closed range."""

    of: str = ""
    low: int = 0
    high: int = 0


class Users(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A closed loop of users: each does a task, waits for its answers, thinks, and so on."""

    target: str  # environment variable with the address
    program: str  # whose routes are asked for
    tasks: list[Task]
    on_start: str
    count: str = "USERS"
    rate: str = "RATE"
    think_s: tuple[float, float] = (1.0, 10.0)
    timeout_s: float = 60.0
    draws: dict[str, Draw] = {}
    sets: dict[str, str] = {}  # set variable -> vocabulary
    state: dict[str, int] = {}  # state variable -> first value


class Vocabulary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Words by number. ``by`` names the request variable that numbers them when it is not the own name."""

    values: list[str]
    by: str = ""


class Resources(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a program uses apart from requests. CPU in millicores, memory in MiB."""

    idle_cpu_m: float = 1.0
    startup_cpu_s: float = 0.05
    probe_cpu_ms: float = 0.4
    memory_mib: float = 20.0
    memory_per_inflight_mib: float = 0.05
    memory_wave_mib: float = 0.0  # amplitude of a garbage collector's saw-tooth
    memory_wave_s: float = 3600.0  # its period
    memory_growth_mib_h: float = 0.02
    cache_mib: float = 4.0
    gc_cpu_ms: float = 0.0  # CPU of one collection of a managed runtime, over all its threads
    gc_every_s: float = 15.0
    gc_threads: int = 1
    processes: int = 1
    threads: int = 10


class Program(msgspec.Struct, forbid_unknown_fields=True):
    """The behaviour of one image."""

    images: list[str]
    serves: Literal["", "http", "grpc", "redis", "tcp"] = ""
    port: str = ""  # number, or ``${NAME:default}``
    client: str = ""  # library of outgoing calls, a key of dialects.CLIENTS
    server: str = ""  # how uncaught errors leave, a key of dialects.SERVERS
    package: str = ""
    span_style: str = ""
    span_prefix: str = ""
    trace_env: str = ""  # environment variable that turns tracing on; empty with a style: always on
    log_format: str = "plain"
    logger: str = ""
    image_mib: float = 60.0
    flavour: Literal["distroless", "alpine", "debian"] = "distroless"  # what its image brings beside the program
    tools: list[str] = []  # extra commands of the image
    binary: str = "/src/server"
    uid: int = 1000
    read_only: bool = True  # its root file system
    startup_s: float = 0.5
    warm_up_s: float = 0.0  # time constant with which a just-in-time compiler catches up
    cold_factor: float = 1.0  # by how much the first calls are slower
    stop: Stop = Stop()
    health_paths: list[str] = []
    required_env: list[str] = []
    missing_env_log: str = ""
    workers: int = 64  # calls served at one time
    cores: float = 4.0  # how many cores it can keep busy
    resources: Resources = Resources()
    start_logs: list[LogSpec] = []
    stop_logs: list[LogSpec] = []
    probe_logs: list[LogSpec] = []
    periodic_logs: list[LogSpec] = []
    period_s: float = 300.0
    chatter_logs: list[LogSpec] = []  # harmless lines now and then, one at a time, when there is background noise
    chatter_per_h: float = 4.0
    ops: dict[str, Op] = {}
    users: Users | None = None
    name: str = ""  # set when read

    def matches(self, image: str) -> bool:
        """Whether a container with this image runs this program."""
        repository = image.partition("@")[0]
        head, _, tail = repository.rpartition(":")
        if head and "/" not in tail:
            repository = head
        return any(repository == wanted or repository.endswith("/" + wanted) for wanted in self.images)


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """A whole ``sim.toml``."""

    programs: dict[str, Program]
    vocabularies: dict[str, Vocabulary] = {}


class Programs:
    """All programs of all bundles."""

    def __init__(self, manifests: Iterable[Manifest] = ()) -> None:
        self.all: dict[str, Program] = {}
        self.vocabularies: dict[str, Vocabulary] = {}
        self._sets: dict[str, str] = {}
        self._ops: dict[str, tuple[Program, Op]] = {}
        for manifest in manifests:
            self._add(manifest)

    @classmethod
    def load(cls, bundles: list[Path]) -> Programs:
        """Read every ``apps/*/sim.toml`` of the bundle folders, in order of folder and name.

        Raises ManifestError with the file's name when one cannot be used.
        """
        files = [file for bundle in bundles for file in sorted(bundle.glob("apps/*/sim.toml"))]
        loaded = [(file, read_manifest(file)) for file in files]
        programs = cls(manifest for _, manifest in loaded)
        for file, manifest in loaded:
            programs._check(file, manifest)
        return programs

    def match(self, image: str) -> Program | None:
        """The program of an image, or None for one that nothing is known about."""
        return next((p for p in self.all.values() if p.matches(image)), None)

    def operation(self, name: str) -> tuple[Program, Op]:
        """The program that offers an operation, with the operation."""
        return self._ops[name]

    def operations(self) -> Iterable[tuple[Program, Op]]:
        """Every operation with its program, in order of reading."""
        return self._ops.values()

    def vocabulary_size(self, name: str) -> int:
        """How many words a vocabulary has; a set variable has the size of its vocabulary."""
        return len(self.vocabularies[self._sets.get(name, name)].values)

    def words(self, name: str) -> list[str]:
        """The words of a vocabulary, or of the vocabulary of a set variable."""
        return self.vocabularies[self._sets.get(name, name)].values

    def is_set(self, name: str) -> bool:
        """Whether a request variable is a set (a bit per word)."""
        return name in self._sets

    def _add(self, manifest: Manifest) -> None:
        self.vocabularies.update(manifest.vocabularies)
        for name, program in manifest.programs.items():
            program.name = name
            self.all[name] = program
            if program.users is not None:
                self._sets.update(program.users.sets)
            for op_name, op in program.ops.items():
                op.name = op_name
                op.steps = flatten(op.steps)
                if op.span is None:
                    op.span = default_span(program, op)
                self._ops[op_name] = (program, op)

    def _check(self, file: Path, manifest: Manifest) -> None:
        for program in manifest.programs.values():
            for op in program.ops.values():
                for step in op.steps:
                    if step.op not in self._ops:
                        raise ManifestError(
                            f"{file}: {program.name}: {op.name}: no program offers {step.op!r}; "
                            "correct the step's op"
                        )
                    if step.each and step.each not in self._sets and step.each not in self.vocabularies:
                        raise ManifestError(
                            f"{file}: {program.name}: {op.name}: no vocabulary or set {step.each!r}; "
                            "add it under [vocabularies] or a program's users.sets"
                        )


def read_manifest(file: Path) -> Manifest:
    """Read one ``sim.toml``."""
    try:
        return convert(tomllib.loads(file.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as problem:
        raise ManifestError(f"{file}: {problem}") from None


def convert(data: dict[str, Any]) -> Manifest:
    """A manifest from parsed TOML."""
    return msgspec.convert(data, Manifest)


def flatten(steps: list[Step]) -> list[Step]:
    """Loops unrolled into their bodies, each body call marked with the number of its loop."""
    flat: list[Step] = []
    for number, step in enumerate(steps, 1):
        if step.steps:
            flat += [msgspec.structs.replace(s, loop=number, each=step.each, times=step.times) for s in step.steps]
        else:
            flat.append(msgspec.structs.replace(step, loop=number))
    return flat


def default_span(program: Program, op: Op) -> str:
    """The span name that the instrumentation libraries give: the RPC's full name or the HTTP method."""
    if program.serves == "grpc":
        return f"{program.package}.{op.name}"
    return op.method if program.serves == "http" else ""
