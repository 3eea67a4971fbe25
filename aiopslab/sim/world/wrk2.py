"""wrk2: constant-throughput load over a fixed number of connections, and its report.

Request n of a connection is due at ``start + n * connections / rate``; a connection that fell behind sends as fast
as answers come. The recorded latency is completion minus due time.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.addresses import plain_address
from aiopslab.sim.world.blocks import Block
from aiopslab.sim.world.edges import Edge
from aiopslab.sim.world.engine import Batch
from aiopslab.sim.world.hashing import mix, salted, text_key, unit
from aiopslab.sim.world.images import split_image
from aiopslab.sim.world.loadgen import select
from aiopslab.sim.world.programs import Program, Programs
from aiopslab.sim.world.routes import RouteTable
from aiopslab.sim.world.runs import Run
from aiopslab.sim.world.wrk2report import Options, Outcome, report

IMAGE_NAMES = ("wrk2", "wrk2-client")
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
HEADER_BYTES = 200
_FORMAT = re.compile(r'wrk\.format\(\s*"(GET|HEAD)"\s*,\s*"([^"]*)"\s*(\.\.)?')
_CHANCE = re.compile(r"math\.random\((\d+)\)\s*==\s*1[^)]*$")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_POWERS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


def parse(command: tuple[str, ...]) -> Options:
    """Read wrk2's arguments; the program name may lead."""
    values: dict[str, str] = {}
    flags: set[str] = set()
    url = ""
    rest = list(command)
    while rest:
        word = rest.pop(0)
        name, equals, inline = word.partition("=")
        attached = word[:2] if word[:2] in _VALUED and not word.startswith("--") and len(word) > 2 else ""
        if attached:
            values[_VALUED[attached]] = word[2:]
        elif name in _VALUED:
            values[_VALUED[name]] = inline if equals else (rest.pop(0) if rest else "")
        elif word.startswith("-"):
            flags.add(word.lstrip("-"))
        elif "://" in word:
            url = word
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
        values.get("dist", "") == "exp",
    )


def _scaled(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKMG]?)", text)
    return float(match[1]) * _POWERS[match[2]] if match else 0.0


def _time(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    return float(match[1]) * _UNITS[match[2]] if match else 10.0


class Target(NamedTuple):
    """A route that is asked for with some probability. ``variables`` are fixed, ``drawn`` differ by request."""

    weight: float
    route: str
    variables: dict[str, int]
    drawn: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Plan:
    """Requests in order of connection and number; ``places`` are those of each batch."""

    lanes: NDArray[np.int64]
    due: NDArray[np.float64]
    places: list[NDArray[np.int64]] = field(default_factory=list)


class Wrk2Load:
    """The connections of one wrk2 run that asks ``entry`` for its routes."""

    def __init__(self, run: Run, options: Options, entry: Program, programs: Programs, seed: int) -> None:
        self.run = run
        self.options = options
        self.entry = entry
        self.address = plain_address(options.url)
        self.lanes = options.connections
        self.timeout_ms = math.inf
        self._programs = programs
        self._targets = targets_of(entry, programs, options, run.spec.files.get(options.script, ""))
        self._key = np.uint64(text_key(seed, "wrk2", run.ref.namespace, options.url))
        self._start = run.started + 0.05
        self._end = self._start + options.duration_s
        self._interval = options.connections / options.rate
        self._sent = np.zeros(self.lanes, np.int64)
        self._free = np.full(self.lanes, self._start)  # when a connection has its last answer
        self._expected_s = 0.02
        self._measured: list[NDArray[np.float64]] = []  # rows: corrected latency, latency, completion
        self._bytes = 0
        self.errors = {"connect": 0, "timeout": 0, "status": 0}

    def plan(self, routes: RouteTable, edge: Edge, until: float) -> tuple[Plan, list[Batch]]:
        """Batches of the requests that may be sent before ``until``."""
        until = min(until, self._end)
        due = np.ceil(np.maximum(until - self._start, 0) / self._interval - np.arange(self.lanes) / self.lanes)
        possible = np.ceil(np.maximum(until - self._free, 0) / max(self._expected_s, 1e-4)) * 1.2 + 2
        counts = np.clip(np.minimum(due - self._sent, possible), 0, None).astype(np.int64)
        lanes = np.repeat(np.arange(self.lanes), counts)
        serial = np.arange(len(lanes)) - np.repeat(np.cumsum(counts) - counts, counts) + self._sent[lanes]
        keys = mix(self._key + (serial * self.lanes + lanes).astype(np.uint64))
        when = serial + lanes / self.lanes
        if self.options.poisson:
            when = when + unit(salted(keys, 3)) - 0.5
        plan = Plan(lanes, self._start + np.maximum(when, 0) * self._interval)
        batches = []
        shares = np.cumsum([t.weight for t in self._targets])
        choice = np.searchsorted(shares, unit(salted(keys, 4)) * shares[-1], side="right")
        for number, target in enumerate(self._targets):
            places = np.flatnonzero(choice == number)
            if len(places):
                plan.places.append(places)
                batches.append(self._batch(target, keys[places], lanes[places], (routes, edge)))
        return plan, batches

    def settle(self, plan: Plan, blocks: list[Block], until: float) -> list[Block]:
        """Send each request when due or when its connection is free; keep those sent before ``until``."""
        lanes = plan.lanes
        if not len(lanes):
            return []
        took = np.empty(len(lanes))
        for places, block in zip(plan.places, blocks, strict=True):
            took[places] = block.took[0].astype(np.float64) * 1e-3
        start = self._send(plan, took)
        keep = start < min(until, self._end)
        self._sent += np.bincount(lanes[keep], minlength=self.lanes)
        np.maximum.at(self._free, lanes[keep], (start + took)[keep])
        self._expected_s = float(took.mean())
        found = []
        for places, block in zip(plan.places, blocks, strict=True):
            mine = keep[places]
            block.start = start[places]
            self._note(block, mine, plan.due[places])
            if mine.all():
                found.append(block)
            elif mine.any():
                found.append(select(block, np.flatnonzero(mine)))
        return found

    def report(self) -> list[str]:
        """The lines that wrk2 prints when it is done."""
        rows = np.concatenate([*self._measured, np.zeros((3, 0))], axis=1)
        outcome = Outcome(rows[0], rows[1], rows[2] - self._start, self.errors, self._bytes)
        return report(self.options, outcome)

    def _batch(
        self, target: Target, keys: NDArray[np.uint64], lanes: NDArray[np.int64], where: tuple[RouteTable, Edge]
    ) -> Batch:
        routes, edge = where
        variables = {n: np.full(len(keys), v, np.int64) for n, v in target.variables.items()}
        for name in target.drawn:
            size = self._programs.vocabulary_size(self.entry, name)
            variables[name] = (unit(salted(keys, text_key(name))) * size).astype(np.int64)
        return Batch(
            routes.route(self.entry, target.route),
            keys,
            lanes.astype(np.int32),
            edge,
            self.run.number,
            self.timeout_ms,
            variables,
        )

    def _send(self, plan: Plan, took: NDArray[np.float64]) -> NDArray[np.float64]:
        """Start times: per connection, a request waits for its due time and for the answer before it."""
        start = np.empty(len(took))
        bounds = np.searchsorted(plan.lanes, np.arange(self.lanes + 1))
        for lane in range(self.lanes):
            span = slice(bounds[lane], bounds[lane + 1])
            earlier = np.cumsum(took[span]) - took[span]
            ready = np.maximum(plan.due[span], self._free[lane]) - earlier
            start[span] = np.maximum.accumulate(ready) + earlier
        return start

    def _note(self, block: Block, keep: NDArray[np.bool_], due: NDArray[np.float64]) -> None:
        ends = block.ends()
        answered = block.run[0] >= 0
        if block.error is not None:
            self.errors["status"] += int((keep & answered & (block.error[0] != 0)).sum())
        self.errors["connect"] += int((keep & ~answered).sum())
        self.errors["timeout"] += int(np.floor((ends - block.start)[keep] / max(self.options.timeout_s, 0.1)).sum())
        good = keep & answered
        self._bytes += int(good.sum()) * (block.route.op.response_bytes + HEADER_BYTES)
        self._measured.append(np.stack([ends - due, ends - block.start, ends])[:, good])


def targets_of(entry: Program, programs: Programs, options: Options, script: str) -> list[Target]:
    """What is asked for: the paths that a Lua script formats, else the path of the URL.

    A script is not run. Its ``wrk.format`` calls are read: a path that is continued by an expression stands for
    any word there; a call guarded by ``math.random(N) == 1`` has one chance in N, the others share the rest.
    """
    found: list[tuple[float | None, str, bool]] = []
    for match in _FORMAT.finditer(script):
        guard = _CHANCE.search(script[max(0, match.start() - 80) : match.start()])
        found.append((1 / int(guard[1]) if guard else None, match[2], bool(match[3])))
    if not found:
        found = [(None, "/" + options.url.partition("://")[2].partition("/")[2], False)]
    rest = 1.0 - sum(share for share, _, _ in found if share is not None)
    open_ones = sum(1 for share, _, _ in found if share is None)
    targets = []
    for share, path, continued in found:
        weight = rest / open_ones if share is None else share
        route = match_route(entry, programs, "GET", path + "x" if continued else path)
        if route is not None:
            name, variables = route
            targets.append(
                Target(weight, name, {} if continued else variables, tuple(variables) if continued else ())
            )
    if not targets:
        first = next(name for name, op in entry.ops.items() if op.method == "GET")
        targets = [Target(1.0, first, {}, ())]
    return targets


def match_route(entry: Program, programs: Programs, method: str, path: str) -> tuple[str, dict[str, int]] | None:
    """The route of a path with the numbers of the words that the path holds; None: no such route."""
    path = path.partition("?")[0] or "/"
    for name, op in entry.ops.items():
        if op.method != ("GET" if method == "HEAD" else method):
            continue
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(op.target.partition("?")[0]))
        match = re.fullmatch(pattern, path)
        if match is None:
            continue
        found = {}
        for variable, word in match.groupdict().items():
            words = programs.words(entry, variable)
            found[variable] = words.index(word) if word in words else 0
        return name, found
    return None


def is_wrk2(image: str) -> bool:
    """Whether an image is a build of wrk2."""
    return split_image(image)[0].rpartition("/")[2] in IMAGE_NAMES
