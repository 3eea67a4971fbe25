"""What ``sh`` runs itself. Each takes the shell, the words, standard input and output, and gives the status."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aiopslab.sim.world.userland.shell_parser import parse

if TYPE_CHECKING:
    from aiopslab.sim.world.userland.shell import Shell


Builtin = Callable[["Shell", list[str], bytearray, bytearray], int]


class Exit(Exception):
    """``exit N``."""

    def __init__(self, code: int) -> None:
        self.code = code


class LoopJump(Exception):
    """``break`` or ``continue``."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


class Return(Exception):
    """``return`` from a function."""


def _cd(shell: Shell, argv: list[str], stdin: bytearray, out: bytearray) -> int:
    target = argv[1] if len(argv) > 1 else shell.environment().get("HOME", "/")
    if not shell.machine.is_dir(target):
        shell.complain(f"cd: can't cd to {target}: No such file or directory")
        return 2
    shell.machine.workdir = shell.machine.resolved(target)
    return 0


def _export(shell: Shell, argv: list[str], stdin: bytearray, out: bytearray) -> int:
    for word in argv[1:]:
        name, equals, value = word.partition("=")
        if equals:
            shell.variables[name] = value
    return 0


def _exit(shell: Shell, argv: list[str], stdin: bytearray, out: bytearray) -> int:
    raise Exit(int(argv[1]) & 255 if len(argv) > 1 and argv[1].isdigit() else shell.status)


def _jump(shell: Shell, argv: list[str], stdin: bytearray, out: bytearray) -> int:
    raise LoopJump(argv[0])


def _nothing(shell: Shell, argv: list[str], stdin: bytearray, out: bytearray) -> int:
    return 0


def _set(shell: Shell, argv: list[str], stdin: bytearray, out: bytearray) -> int:
    """``-e`` and ``+e``, and new arguments; other options change nothing that is simulated."""
    for index, word in enumerate(argv[1:], 1):
        if word == "--" or word[:1] not in "+-":
            shell.arguments[:] = argv[index + (word == "--") :]
            break
        if "e" in word[1:] and word[1:2] != "o":
            shell.ends_on_error = word[0] == "-"
        elif word == "errexit":
            shell.ends_on_error = argv[index - 1] == "-o"
    return 0


def _shift(shell: Shell, argv: list[str], stdin: bytearray, out: bytearray) -> int:
    count = int(argv[1]) if len(argv) > 1 and argv[1].isdigit() else 1
    if count > len(shell.arguments):
        shell.complain("shift: can't shift that many")
        return 2
    del shell.arguments[:count]
    return 0


def _read(shell: Shell, argv: list[str], stdin: bytearray, out: bytearray) -> int:
    """One line into variables; the last takes the rest. 1 at the end of the input."""
    names = [word for word in argv[1:] if not word.startswith("-")] or ["REPLY"]
    line, newline, _ = bytes(stdin).partition(b"\n")
    del stdin[: len(line) + len(newline)]
    text = line.decode(errors="replace")
    marks = shell.environment().get("IFS")
    parts = text.strip(None if marks is None else " \t").split(marks or None, len(names) - 1) if marks != "" else [text]
    for index, name in enumerate(names):
        shell.variables[name] = parts[index] if index < len(parts) else ""
    return 0 if newline else 1


def _return(shell: Shell, argv: list[str], stdin: bytearray, out: bytearray) -> int:
    if len(argv) > 1 and argv[1].isdigit():
        shell.status = int(argv[1]) & 255
    raise Return


def _unset(shell: Shell, argv: list[str], stdin: bytearray, out: bytearray) -> int:
    for name in argv[1:]:
        shell.variables.pop(name, None)
    return 0


def _eval(shell: Shell, argv: list[str], stdin: bytearray, out: bytearray) -> int:
    shell.sequence(parse(" ".join(argv[1:])), stdin, out)
    return shell.status


BUILTINS: dict[str, Builtin] = {
    ":": _nothing,
    "break": _jump,
    "cd": _cd,
    "continue": _jump,
    "eval": _eval,
    "exit": _exit,
    "export": _export,
    "local": _export,
    "read": _read,
    "return": _return,
    "set": _set,
    "shift": _shift,
    "trap": _nothing,
    "unset": _unset,
    "wait": _nothing,
}
