"""What a container does right after it started: run on, end by itself, or fail."""

from __future__ import annotations

import re

from aiopslab.sim.core.ports import ContainerSpec, StartResult
from aiopslab.sim.world.images import MIB
from aiopslab.sim.world.programspec import Program
from aiopslab.sim.world.userland.images import known
from aiopslab.sim.world.userland.run import ALPINE as COMMON

NOT_STARTABLE = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: "
)
QUICK_S = 0.05  # a process that has nothing to do
CRASH_S = 0.1
ATTACH_S = 1.0  # a process with an open standard input is still there when the client that wants it attaches
ENDLESS = re.compile(
    r"while\s+(true|:|\[)|sleep\s+(infinity|inf)\b|tail\s+-[fF]|\bexec\s+\S*server|\bnc\s+(-\w+\s+)*-\w*l"
)
_SLEEP = re.compile(r"\bsleep\s+(\d+(?:\.\d+)?)([smhd]?)")
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SHELLS = ("sh", "bash", "ash", "dash")


def start_result(spec: ContainerSpec, program: Program | None) -> StartResult:
    """The fate of a fresh container. Programs run until stopped unless a needed variable or memory is
    missing; other images do what a simple command line says, and run on when it says nothing."""
    if program is not None:
        return _program(spec, program)
    if not spec.command:
        return StartResult()
    return _command(spec.command)


def replaced(spec: ContainerSpec, program: Program) -> bool:
    """Whether the container's command line runs something else than the image's own program: a shell, a tool."""
    if not spec.command or spec.command[0].startswith("-"):
        return False
    name = spec.command[0].rpartition("/")[2]
    if name == program.binary.rpartition("/")[2]:
        return False
    return name in _SHELLS or name in COMMON or name in program.tools


def not_startable(spec: ContainerSpec, program: Program) -> str:
    """The runtime's complaint when the image has no such command; empty when it has."""
    name = spec.command[0]
    if program.flavour != "distroless" or name.rpartition("/")[2] in program.tools:
        return ""
    why = f"stat {name}: no such file or directory" if "/" in name else "executable file not found in $PATH"
    return NOT_STARTABLE + f'exec: "{name}": {why}: unknown'


def deaf(spec: ContainerSpec) -> bool:
    """Whether the first process does not end on SIGTERM: the kernel delivers it there only to a handler, which plain
    tools and shells without a ``trap`` do not have."""
    name, text = (spec.command or ("",))[0].rpartition("/")[2], " ".join(spec.command)
    if name in _SHELLS:
        return not re.search(r"\btrap\b|\bexec\b", text)
    return name in COMMON


def missing_variable(spec: ContainerSpec, program: Program) -> str:
    """The first required environment variable that the container does not have, or an empty text."""
    return next((name for name in program.required_env if not spec.env.get(name)), "")


def _program(spec: ContainerSpec, program: Program) -> StartResult:
    if missing_variable(spec, program):
        return StartResult(CRASH_S, 2)
    need = program.resources.memory_mib * 0.6 * MIB
    if spec.memory_limit_bytes is not None and spec.memory_limit_bytes < need:
        return StartResult(CRASH_S + 0.5 * program.startup_s, 137, "OOMKilled")
    return StartResult()


def _command(command: tuple[str, ...]) -> StartResult:
    name = command[0].rpartition("/")[2]
    if name == "true":
        return StartResult(QUICK_S, 0)
    if name == "false":
        return StartResult(QUICK_S, 1)
    if name == "sleep":
        return StartResult(_sleep(" ".join(command)), 0)
    return StartResult()


def one_shot(spec: ContainerSpec) -> tuple[str, ...]:
    """The command line of a container whose process ends by itself, as the userland takes it; empty for one
    that runs on, or of which nothing is known.

    That is a shell in any image, and any program in a well-known general-purpose image: an init
    container's check, a pod that somebody starts for one request.
    """
    command, image = spec.command, known(spec.image)
    if image is not None:
        if image.entry and command[:1] and command[0].startswith("-"):
            command = (image.entry, *command)
        command = command or image.default
    elif not _ends(command):
        return ()
    return () if ENDLESS.search(" ".join(command)) else command


def _ends(command: tuple[str, ...]) -> bool:
    """Whether this is a shell with a script, or one that reads commands: nobody types any."""
    if not command or command[0].rpartition("/")[2] not in _SHELLS:
        return False
    return len(command) == 1 or (len(command) > 2 and command[-2].lstrip("-")[-1:] == "c")


def _sleep(text: str) -> float | None:
    if re.search(r"\bsleep\s+inf", text):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _SLEEP.findall(text))
