"""Container runs: what the kubelet started, what became of it, and the log lines that requests do not write."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from aiopslab.sim.core.ports import ContainerRef, ContainerSpec
from aiopslab.sim.world.addresses import address_in
from aiopslab.sim.world.programspec import Program
from aiopslab.sim.world.userland.acl import KeySpace

_PORT = re.compile(r"\$\{(\w+):?(\d*)\}")


@dataclass(slots=True, eq=False)
class Run:
    """One run of one container. ``number`` indexes the columns of traffic and counters for good."""

    number: int
    spec: ContainerSpec
    program: Program | None
    started: float
    listening_at: float  # infinite when it will never listen
    port: int = 0
    traced: bool = False
    stopping: bool = False
    ended: float = math.inf
    network: int = -1  # row in the pods' network counters
    lines: list[tuple[float, str]] = field(default_factory=list)
    files: dict[str, bytes] | None = None  # as commands inside left them; None before the first command
    bulk: dict[str, int] = field(default_factory=dict)  # bytes of large files beyond what ``files`` keeps
    keyspace: KeySpace = field(default_factory=KeySpace)  # of a data store
    probes: list[tuple[float, str]] = field(default_factory=list)  # (when, kind) of answered probes

    @property
    def ref(self) -> ContainerRef:
        """Identity as the kubelet knows it."""
        return self.spec.ref

    @property
    def alive(self) -> bool:
        """Whether the process exists."""
        return self.ended == math.inf

    @property
    def pod_key(self) -> tuple[str, str]:
        """Namespace and name of the pod."""
        return (self.ref.namespace, self.ref.pod)

    def listening(self, now: float) -> bool:
        """Whether it accepts connections."""
        return self.alive and self.listening_at <= now


class Runs:
    """All runs since the beginning, by number and by identity."""

    def __init__(self) -> None:
        self.all: list[Run] = []
        self._by_ref: dict[ContainerRef, Run] = {}
        self._alive: dict[int, Run] = {}

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, number: int) -> Run:
        return self.all[number]

    def add(self, spec: ContainerSpec, program: Program | None, now: float, listens: bool) -> Run:
        """Register a start at ``now``."""
        delay = program.startup_s if program is not None else 0.0
        run = Run(len(self.all), spec, program, now, now + delay if listens else math.inf)
        if program is not None:
            run.port = listen_port(program, spec)
            run.traced = bool(program.span_style) and is_traced(program, spec)
        self.all.append(run)
        self._by_ref[spec.ref] = run
        self._alive[run.number] = run
        return run

    def find(self, ref: ContainerRef) -> Run | None:
        """The run of a container, or None."""
        return self._by_ref.get(ref)

    def end(self, run: Run, now: float) -> None:
        """The process is gone."""
        run.ended = min(run.ended, now)
        self._alive.pop(run.number, None)

    def forget(self, pod_uid: str) -> None:
        """Drop identities and private log lines of a deleted pod."""
        for ref in [r for r in self._by_ref if r.pod_uid == pod_uid]:
            run = self._by_ref.pop(ref)
            run.lines.clear()
            run.probes.clear()

    def alive(self) -> Iterable[Run]:
        """Living runs in order of start."""
        return self._alive.values()


def optional_addresses(runs: Runs) -> frozenset[tuple[str, str]]:
    """(program, address variable) of the optional calls whose address some container is given."""
    return frozenset(
        (run.program.key, call)
        for run in runs.alive()
        if run.program is not None
        for call in run.program.optional_calls
        if address_in(run.spec.env, call)
    )


def listen_port(program: Program, spec: ContainerSpec) -> int:
    """The port a program listens on in this container, 0 for none."""
    match = _PORT.fullmatch(program.port)
    text = spec.env.get(match[1], match[2]) if match else program.port
    return int(text) if text.isdigit() else 0


def is_traced(program: Program, spec: ContainerSpec) -> bool:
    """Whether the program exports spans in this container."""
    return not program.trace_env or spec.env.get(program.trace_env, "") in ("1", "true")
