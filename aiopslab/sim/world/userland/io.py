"""What a simulated program gets: its machine, its input, and somewhere to write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from aiopslab.sim.world.userland.machine import Machine

OUTPUT_BYTES_MAX = 4_000_000
NO_SPACE = "No space left on device"


class OutputLimit(Exception):
    """A program wrote more than ``OUTPUT_BYTES_MAX``; it is ended as by SIGPIPE."""


@dataclass
class Io:
    """Streams of one running program. ``call`` starts another program (xargs, env, timeout)."""

    machine: Machine
    stdin: bytes
    call: Callable[[list[str], bytes], tuple[bytes, bytes, int]]
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)

    def out(self, text: str | bytes) -> None:
        """Write to standard output."""
        self.stdout += text if isinstance(text, bytes) else text.encode()
        if len(self.stdout) > OUTPUT_BYTES_MAX:
            raise OutputLimit

    def line(self, text: str) -> None:
        """Write a line to standard output."""
        self.out(text + "\n")

    def err(self, text: str) -> None:
        """Write a line to standard error."""
        self.stderr += (text + "\n").encode()

    def text(self) -> str:
        """Standard input as text."""
        return self.stdin.decode(errors="replace")


Program = Callable[[Io, list[str]], int]
PROGRAMS: dict[str, Program] = {}


def program(*names: str) -> Callable[[Program], Program]:
    """Register a function as the implementation of some programs; ``argv[0]`` is the name used."""

    def register(function: Program) -> Program:
        for name in names:
            PROGRAMS[name] = function
        return function

    return register


def options(argv: list[str], with_value: str = "") -> tuple[dict[str, str], list[str]]:
    """Split short options from operands: ``-n5 -i x`` with ``with_value="n"`` → ``{n: 5, i: ""}, [x]``.

    Long options become keys without dashes; ``--name=value`` and, for names in ``with_value`` written
    with commas, nothing else. ``--`` ends the options.
    """
    found: dict[str, str] = {}
    operands: list[str] = []
    at = 1
    while at < len(argv):
        word = argv[at]
        at += 1
        if word == "--":
            operands += argv[at:]
            break
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found[name] = value
        elif word.startswith("-") and len(word) > 1:
            at = _short(word[1:], argv, at, with_value, found)
        else:
            operands.append(word)
    return found, operands


def _short(letters: str, argv: list[str], at: int, with_value: str, found: dict[str, str]) -> int:
    for index, letter in enumerate(letters):
        if letter not in with_value:
            found[letter] = ""
            continue
        rest = letters[index + 1 :]
        if rest:
            found[letter] = rest
        elif at < len(argv):
            found[letter] = argv[at]
            at += 1
        break
    return at


def number(text: str, default: int) -> int:
    """An integer option value, or the default."""
    try:
        return int(text.lstrip("+"))
    except ValueError:
        return default
