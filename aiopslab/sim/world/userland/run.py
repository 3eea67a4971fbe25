"""Start one command in a container, as the runtime's exec does."""

from __future__ import annotations

from aiopslab.sim.core.ports import ExecResult
from aiopslab.sim.world.userland import (  # noqa: F401  (they register programs)
    archive,
    bulk,
    files,
    network,
    redis,
    system,
    text,
)
from aiopslab.sim.world.userland.io import PROGRAMS, Io, OutputLimit
from aiopslab.sim.world.userland.machine import Machine
from aiopslab.sim.world.userland.shell import Runner, Shell

SHELLS = {"distroless": (), "alpine": ("sh", "ash"), "debian": ("sh", "dash", "bash")}

# What an image of each flavour brings. Anything else must be among the image's own tools.
EVERYWHERE = frozenset(
    """
    [ awk base64 basename cat cp cut date dd df dirname du echo egrep env fallocate false fgrep find grep head
    hostname id ls md5sum mkdir mount mv printenv printf pwd rm sed seq sha256sum sleep sort stat tail
    tar tee test timeout touch tr true uname uniq wc which whoami xargs yes
    """.split()  # noqa: SIM905
)
ALPINE = EVERYWHERE | {
    "apk", "free", "getent", "ifconfig", "ip", "kill", "nc", "netstat", "nslookup", "ping", "ps", "time", "top",
    "uptime", "wget",
}  # fmt: skip
DEBIAN = EVERYWHERE | {"apt", "apt-get", "getent"}
FLAVOUR_PROGRAMS = {"distroless": frozenset[str](), "alpine": ALPINE, "debian": DEBIAN}
RUNTIME_ERROR = (
    'OCI runtime exec failed: exec failed: unable to start container process: exec: "{name}": {why}: unknown'
)


def available(machine: Machine, name: str) -> bool:
    """Whether the image has a program of this name."""
    base = name.rsplit("/", 1)[-1]
    if name == machine.binary or base in machine.tools or base in SHELLS[machine.flavour]:
        return True
    return base in FLAVOUR_PROGRAMS[machine.flavour] and base in PROGRAMS


def run(machine: Machine, argv: list[str], stdin: bytes) -> ExecResult:
    """Run ``argv``; ``ExecResult.error`` is set when the image has no such program."""
    if not argv or not available(machine, argv[0]):
        name = argv[0] if argv else ""
        why = (
            "stat " + name + ": no such file or directory" if "/" in name else "executable file not found in $PATH"
        )
        return ExecResult(exit_code=127, error=RUNTIME_ERROR.format(name=name, why=why))
    machine.spent_s = 0.0
    stdout, stderr, code = execute(machine, argv, stdin, machine.env)
    return ExecResult(stdout, stderr, code, duration_s=machine.spent_s)


def execute(machine: Machine, argv: list[str], stdin: bytes, env: dict[str, str]) -> tuple[bytes, bytes, int]:
    """Run a program that may not exist; a missing one ends as it does in a shell (127)."""
    name = argv[0].rsplit("/", 1)[-1]
    if not available(machine, argv[0]):
        return b"", f"sh: {argv[0]}: not found\n".encode(), 127
    if name in SHELLS[machine.flavour]:
        return _shell(machine, argv, stdin, env)
    function = PROGRAMS.get(name)
    if function is None:  # the image's own server binary: a second copy cannot bind its port
        return b"", f"{name}: listen: bind: address already in use\n".encode(), 1
    io = Io(machine, stdin, lambda words, data: execute(machine, words, data, env))
    saved, machine.env = machine.env, env
    try:
        code = function(io, argv)
    except OutputLimit:
        code = 141
    finally:
        machine.env = saved
    return bytes(io.stdout), bytes(io.stderr), code


class NoScript(Exception):
    """A shell has nothing to run; the text is what it prints before it ends with 2."""


def shell_of(
    machine: Machine, argv: list[str], stdin: bytes, env: dict[str, str], run_program: Runner
) -> tuple[Shell, str, bytes]:
    """``sh -c SCRIPT [name args]``, ``sh FILE``, or a script on standard input: the shell, its script and input.

    Raises NoScript.
    """
    flags = []
    rest = argv[1:]
    while rest and rest[0].startswith("-") and rest[0] != "--":
        flags.append(rest.pop(0))
    name = zero = argv[0].rsplit("/", 1)[-1]
    if any("c" in flag for flag in flags if not flag.startswith("--")):
        if not rest:
            raise NoScript(f"{name}: -c: option requires an argument\n")
        script, arguments, zero = rest[0], rest[2:], (rest[1] if len(rest) > 1 else name)
    elif rest:
        content = machine.files.get(machine.resolved(rest[0]))
        if content is None:
            raise NoScript(f"{name}: can't open '{rest[0]}': No such file or directory\n")
        script, arguments = content.decode(errors="replace"), rest[1:]
    else:
        script, arguments, stdin = stdin.decode(errors="replace"), [], b""
    return Shell(machine, run_program, name, arguments, {**env}, zero=zero), script, stdin


def _shell(machine: Machine, argv: list[str], stdin: bytes, env: dict[str, str]) -> tuple[bytes, bytes, int]:
    try:
        shell, script, stdin = shell_of(machine, argv, stdin, env, lambda w, d, e: execute(machine, w, d, e))
    except NoScript as problem:
        return b"", str(problem).encode(), 2
    workdir = machine.workdir
    try:
        code = shell.run(script, stdin)
    except OutputLimit:
        code = 141
    finally:
        machine.workdir = workdir
    return bytes(shell.out), bytes(shell.err), code
