"""What ``apps/*/sim.toml`` may say: programs, their operations, users and words, as structs.

Times are milliseconds, unless a name ends in ``_s``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

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
    format: str = ""  # a key of logformats.FORMATS, where it is not the program's
    to: Literal["", "stdout", "otlp"] = ""  # where it goes when not where the program's others go


class EventSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event in an operation's span.

    ``at`` as for a log line, or ``failed:<operation>`` for each failed call of that operation, whose error is then
    ``{error}`` as the program prints it. Texts are templates over the request.
    """

    at: str
    name: str
    attributes: dict[str, str] = {}


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which requests a step is for, by a feature flag of the calling program.

    A flag that is on (true, or a number from 1 up) means all of them, a number below 1 that share of them, each
    time ``chance``. ``unless`` turns the choice round. ``context`` is what the flag service is told: names of its
    evaluation context by request variable. Steps of one operation with the same flag choose the same requests.
    """

    flag: str
    chance: float = 1.0
    unless: bool = False
    context: dict[str, str] = {}


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call inside an operation, or a loop over ``steps``.

    Without ``call`` the operation is one of the program's own: it runs inside the caller, without a network
    between. ``on_error``: ``propagate`` ends the operation with ``wrap`` around the error, ``raise`` lets the
    server library report an uncaught error, ``warn`` and ``ignore`` go on (a failed member of a ``group`` skips
    the rest of its group).
    """

    op: str = ""
    program: str = ""  # whose operation; needed where several programs have one of that name
    call: str = ""  # environment variable that holds the address; with a colon: the address, ``${NAME}`` filled in
    when: When | None = None
    wait: bool = True  # the caller goes on when it has the answer; otherwise at once
    parallel: bool = False  # of a loop: its rounds start together
    span: str = ""  # name of the caller's span, where it is not the operation's
    scale: str = ""  # flag whose value multiplies the callee's own time
    scale_by: str = ""  # request variable that does
    copies: str = ""  # flag whose value is how many more messages are sent
    wrap_status: str = ""  # instead of ``wrap`` when the callee answered with an HTTP error ``{status}``
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
    optional: bool = False  # containers that are not given the address do without the call
    args: dict[str, str] = {}  # template values that only the callee's texts see
    loop: int = 0  # set when read: calls of one loop body share a number


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error that an operation ends with of its own accord."""

    code: str
    message: str


class Leak(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Memory that each run of an operation leaves behind: ``mib``, multiplied by the value of ``flag`` if there is
    one and by ``factor`` for each run before."""

    mib: float
    flag: str = ""
    factor: float = 1.0


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
    span: str | None = None  # empty: neither side has one
    server_span: str | None = None  # where the callee names it differently
    client_span: str | None = None  # where callers name it differently; empty: they have none
    kind: Literal["", "SERVER", "CLIENT", "INTERNAL", "CONSUMER"] = ""  # of its span; "": SERVER, inside INTERNAL
    events: list[EventSpec] = []  # in the callee's span
    reports_as: str = ""  # service of its span, where it is not the container's
    marks_errors: bool = False  # the handler itself marks its span as failed, whatever the error
    attributes: dict[str, str] = {}  # of the callee's span, templates over the request
    client_attributes: dict[str, str] = {}
    statuses: dict[str, int] = {}  # HTTP status by code of the error, where it is not ``error_status``
    fails: Failure | None = None
    leak: Leak | None = None
    topic: str = ""  # a call is a message in this topic
    body: str = ""  # of the answer, with {pod}, {pod_ip}, {host} and {time} filled in
    content_type: str = "text/html; charset=utf-8"
    name: str = ""  # set when read
    package: str = ""  # set when read

    @property
    def local(self) -> bool:
        """Whether it is a function inside a program, by its name."""
        return "/" not in self.name and " " not in self.name

    @property
    def full_service(self) -> str:
        """RPC service with its package."""
        return f"{self.package}.{self.service}" if self.package else self.service

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
    span: str = ""  # operation of the generator: its span is around the task
    checks: str = ""  # operation of the generator: its span comes before the task
    repeats: str = ""  # flag whose value is how often the requests are made, one after the other
    browser: bool = False  # a browser's task: only browsers do it, and they do no other
    stay_s: float = 0.0  # in the task after the last answer


class SpanOver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The span of an operation of the generator over ``requests`` requests from this one on. It begins a trace
    unless it is ``inside`` the span around it."""

    op: str
    requests: int = 1
    inside: bool = False


class UserRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request of a task and what a success changes in the user's state."""

    route: str
    adds: dict[str, str] = {}  # set variable -> drawn variable
    clears: list[str] = []  # set variables
    keeps: dict[str, str] = {}  # state variable -> drawn variable
    uses: dict[str, str] = {}  # request variable -> drawn variable whose word it takes
    follows: bool = False  # a redirect: only made when the request before it succeeded
    values: dict[str, int] = {}  # request variable -> its number
    spans: list[SpanOver] = []  # that begin with this request
    propagates: bool = True  # passes the innermost span's context on
    parallel: bool = False  # starts together with the request before it


class Draw(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A variable drawn afresh for each task: a member of a vocabulary, or an integer in a closed range."""

    of: str = ""
    low: int = 0
    high: int = 0


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a user's set is kept: a hash in the data store ``program``, under ``key`` (``{session}`` filled in)."""

    program: str
    key: str = "{session}"
    field: str = "cart"


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
    stored: dict[str, Stored] = {}  # set variable -> where it is kept
    state: dict[str, int] = {}  # state variable -> first value
    count_flag: str = ""  # flag that sets the number of users whenever its value changes
    traffic_flag: str = ""  # flag that switches all users off
    checks: str = ""  # operation of the generator: its span comes before every task
    browsers: str = ""  # environment variable that adds a user with a browser when it is ``true``
    flag_values: dict[str, str] = {}  # request variable -> flag whose value it has


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


class Consumer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A consumer group's member: takes the messages of ``topic`` one by one from the broker at ``call`` and runs
    ``op`` for each. ``links``: not in the sender's trace, but in one of its own, whose CONSUMER spans have a link."""

    topic: str
    group: str
    call: str
    broker: str  # the broker's program
    op: str
    links: bool = False


class Burn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cores that a program keeps busy while a flag is on."""

    flag: str
    cores: float


class Program(msgspec.Struct, forbid_unknown_fields=True):
    """The behaviour of one image."""

    images: list[str]
    serves: Literal["", "http", "grpc", "redis", "postgresql", "kafka", "tcp"] = ""
    port: str = ""  # number, or ``${NAME:default}``
    client: str = ""  # library of outgoing calls, a key of dialects.CLIENTS
    clients: dict[str, str] = {}  # the library for callees that serve a protocol, where it is another
    flags: str = ""  # address of the flag service that it asks, as in ``Step.call``
    flag_file: str = ""  # of a flag service: where it has its flags from
    consumes: list[Consumer] = []
    burns: list[Burn] = []
    logs_to: Literal["stdout", "otlp"] = "stdout"
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
    root: str = ""  # folder whose files it serves
    pages: dict[str, str] = {}  # bodies of answers by HTTP status
    server_header: str = ""
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
    scope: str = ""  # set when read: the manifest it comes from

    @property
    def optional_calls(self) -> list[str]:
        """Addresses that a container of it may lack."""
        return [step.call for op in self.ops.values() for step in op.steps if step.optional]

    @property
    def key(self) -> str:
        """Identity among the programs of all manifests."""
        return f"{self.scope}/{self.name}"

    def library(self, callee: Program) -> str:
        """The client library of its calls to ``callee``."""
        return self.clients.get(callee.serves, self.client)

    def matches(self, image: str) -> bool:
        """Whether a container with this image runs this program. ``repository@suffix`` among ``images`` stands for
        tags of a shared repository that end in ``-suffix``."""
        repository, tag = split_repository(image)
        for wanted in self.images:
            name, _, suffix = wanted.partition("@")
            if is_repository(repository, name) and (not suffix or tag.endswith(f"-{suffix}")):
                return True
        return False


def split_repository(image: str) -> tuple[str, str]:
    repository = image.partition("@")[0]
    head, _, tail = repository.rpartition(":")
    return (head, tail) if head and "/" not in tail else (repository, "")


def is_repository(repository: str, wanted: str) -> bool:
    return repository == wanted or repository.endswith("/" + wanted)


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """A whole ``sim.toml``. Programs see only programs, operations and words of their own manifest."""

    programs: dict[str, Program]
    vocabularies: dict[str, Vocabulary] = {}
    stacks: dict[str, str] = {}  # stack traces, which texts take in as ``{stack:name}``
    name: str = ""  # set when read

    @property
    def sets(self) -> dict[str, str]:
        """Set variables of its users, with their vocabularies."""
        return {n: w for p in self.programs.values() if p.users is not None for n, w in p.users.sets.items()}
