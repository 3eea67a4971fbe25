"""The command line of wrk2: of its author's tree, and of DeathStarBench's (image ``wrk2-client``)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from aiopslab.sim.world.images import split_image

IMAGE_NAMES = ("wrk2", "wrk2-client")
FORKED = "wrk2-client"
SPACINGS = ("fixed", "exp", "norm", "zipf")
ZIPF_TERMS, ZIPF_EXPONENT = 100, 3.0
_VALUED = {
    "-t": "threads",
    "--threads": "threads",
    "-c": "connections",
    "--connections": "connections",
    "-d": "duration",
    "--duration": "duration",
    "-R": "rate",
    "--rate": "rate",
    "-s": "script",
    "--script": "script",
    "-H": "header",
    "--header": "header",
    "-T": "timeout",
    "--timeout": "timeout",
    "-D": "dist",
    "--dist": "dist",
}
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_POWERS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True, slots=True)
class Options:
    """A parsed command line.

    ``spacing`` is the distribution of the time between two requests of a connection: ``fixed``, ``exp``, ``zipf``,
    or ``norm``, which DeathStarBench's program accepts and takes as no time at all. ``forked`` is that program: it
    records latency from sending instead of from the due time, and prints another layout.
    """

    url: str
    threads: int = 2
    connections: int = 10
    duration_s: float = 10.0
    rate: float = 0.0
    latency: bool = False
    uncorrected: bool = False
    timeout_s: float = 2.0
    script: str = ""
    spacing: str = "fixed"
    forked: bool = False
    sent: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    arguments: tuple[str, ...] = ()  # what stands after ``--``: for the script

    @property
    def problem(self) -> str:
        """What wrk2 complains about on stderr before it ends with 1; empty when nothing."""
        if self.connections < self.threads:
            return "number of connections must be >= threads"
        return "" if self.rate > 0 else "Throughput MUST be specified with the --rate or -R option"

    @property
    def threads_of_connections(self) -> list[int]:
        """The thread that serves each connection, ascending."""
        return [connection * self.threads // self.connections for connection in range(self.connections)]


def parse(command: tuple[str, ...], image: str = "") -> Options:
    """Read wrk2's arguments; the program name may lead. Unknown flags are taken as ones without a value."""
    values: dict[str, str] = {}
    headers: list[tuple[str, str]] = []
    flags: set[str] = set()
    url = ""
    rest, arguments = _split(list(command))
    while rest:
        name, value = _valued(rest)
        if name == "header":
            key, colon, text = value.partition(": ")
            headers += [(key, text)] if colon else []
        elif name in _VALUED.values():
            values[name] = value
        elif name.startswith("-"):
            flags.add(name.lstrip("-"))
        elif "://" in name:
            url = name
    spacing = values.get("dist", "fixed")
    return Options(
        url,
        int(_scaled(values.get("threads", "2"))),
        int(_scaled(values.get("connections", "10"))),
        _time(values.get("duration", "10s")),
        _scaled(values.get("rate", "0")),
        bool(flags & {"L", "latency", "U", "u_latency"}),
        bool(flags & {"U", "u_latency"}),
        _time(values.get("timeout", "2s")),
        values.get("script", ""),
        spacing if spacing in SPACINGS else "fixed",
        split_image(image)[0].rpartition("/")[2] == FORKED,
        bool(flags & {"r", "requests"}),
        tuple(headers),
        tuple(arguments),
    )


def is_wrk2(image: str) -> bool:
    """Whether an image is a build of wrk2."""
    return split_image(image)[0].rpartition("/")[2] in IMAGE_NAMES


def zipf_shares() -> list[float]:
    """Probabilities of 1, 2, ... of the bounded Zipf distribution that ``-D zipf`` draws intervals from."""
    weights = [1 / math.pow(i, ZIPF_EXPONENT) for i in range(1, ZIPF_TERMS + 1)]
    return [w / sum(weights) for w in weights]


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _valued(rest: list[str]) -> tuple[str, str]:
    """Take one argument: (what it sets, its value), or (the word itself, "")."""
    word = rest.pop(0)
    name, equals, inline = word.partition("=")
    if word[:2] in _VALUED and not word.startswith("--") and len(word) > 2:
        return _VALUED[word[:2]], word[2:]
    if name in _VALUED:
        return _VALUED[name], inline if equals else (rest.pop(0) if rest else "")
    return word, ""


def _scaled(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKMG]?)", text)
    return float(match[1]) * _POWERS[match[2]] if match else 0.0


def _time(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    return float(match[1]) * _UNITS[match[2]] if match else 10.0
