"""A world for a bare cluster: containers that only run, or exit at once as their command says.

``true`` exits 0, ``false`` 1, ``sh -c "exit N"`` N; anything else runs until it is stopped. Images under
``invalid.example/`` cannot be pulled, all others are there already.
"""

from __future__ import annotations

import re

from aiopslab.sim.core.ports import (
    Answer,
    ContainerExit,
    ContainerRef,
    ContainerSpec,
    ExecResult,
    LogLine,
    LogQuery,
    NodeUse,
    Obj,
    ProbeResult,
    StartResult,
    Usage,
)

EXIT_AFTER_S = 0.1
STOP_AFTER_S = 0.1
SIGTERM_CODE = 143
INVALID_HOST = "invalid.example/"
IMAGE_BYTES = 50_000_000
_EXIT = re.compile(r"exit\s+(\d+)")


class BareImages:
    """Every image is present, except under the reserved host."""

    def pull(self, image: str) -> str | None:
        """Error text for images under the reserved host."""
        if image.startswith(INVALID_HOST):
            return (
                f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": failed to'
                f' do request: Head "https://{INVALID_HOST}v2/": dial tcp: lookup invalid.example: no such'
                " host"
            )
        return None

    def runs_as_root(self, image: str) -> bool:
        """Nobody asks."""
        return False

    def pull_seconds(self, image: str) -> float:
        """Nothing is ever pulled."""
        return 0.0

    def size_bytes(self, image: str) -> int:
        """A plausible size."""
        return IMAGE_BYTES


class BareWorld:
    """The least that a kubelet needs; implements ``ports.World``."""

    def __init__(self) -> None:
        self.images = BareImages()

    def start(self, spec: ContainerSpec, now: float) -> StartResult:
        """Runs for ever unless the command is one of the known short ones."""
        code = exit_code(spec.command)
        return StartResult() if code is None else StartResult(exit_after_s=EXIT_AFTER_S, exit_code=code)

    def stop(self, ref: ContainerRef, now: float, grace_s: float) -> tuple[float, int]:
        """Everything ends at once on SIGTERM."""
        return min(STOP_AFTER_S, grace_s), SIGTERM_CODE

    def ended(self, ref: ContainerRef, now: float) -> None:
        """Nothing is kept."""

    def forget(self, pod_uid: str) -> None:
        """Nothing is kept."""

    def refresh_files(self, ref: ContainerRef, files: dict[str, str], now: float) -> None:
        """Nothing reads them."""

    def probe(self, ref: ContainerRef, probe: Obj, now: float) -> ProbeResult:
        """Everything is well."""
        return ProbeResult(ok=True)

    def exits(self, now: float) -> list[ContainerExit]:
        """Nothing ends by itself other than by its command."""
        return []

    def run_until(self, now: float) -> None:
        """There is no traffic."""

    def usage(self, ref: ContainerRef, now: float) -> Usage | None:
        """Nothing is measured."""
        return None

    def node_use(self, node: str, now: float) -> NodeUse | None:
        """Nothing is measured."""
        return None

    def exec(self, ref: ContainerRef, argv: list[str], stdin: bytes, now: float) -> ExecResult:
        """There is no userland."""
        name = argv[0] if argv else ""
        return ExecResult(exit_code=127, error=f'exec: "{name}": executable file not found in $PATH')

    def listens(self, ref: ContainerRef, port: int, now: float) -> bool:
        """Nobody listens."""
        return False

    def converse(self, ref: ContainerRef, port: int, received: bytes, now: float) -> Answer:
        """Nobody answers."""
        return Answer(consumed=len(received), close=True)

    def logs(self, ref: ContainerRef, query: LogQuery) -> list[LogLine] | None:
        """Containers that print nothing."""
        return []


def exit_code(command: tuple[str, ...]) -> int | None:
    """The code with which a command exits at once, None when it keeps running."""
    if command[:1] == ("true",):
        return 0
    if command[:1] == ("false",):
        return 1
    if len(command) == 3 and command[:2] == ("sh", "-c") and (match := _EXIT.fullmatch(command[2].strip())):
        return int(match[1])
    return None
