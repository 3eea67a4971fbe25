"""wrk2: constant-throughput load over a fixed number of connections, and its report.

Request n of a connection is due at ``start + n * connections / rate``; a connection that fell behind sends as fast
as answers come. The recorded latency is completion minus due time.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.blocks import Block
from aiopslab.sim.world.edges import Edge
from aiopslab.sim.world.engine import Batch
from aiopslab.sim.world.hashing import mix, salted, text_key, unit
from aiopslab.sim.world.images import split_image
from aiopslab.sim.world.loadgen import address_of, select
from aiopslab.sim.world.programs import Program, Programs
from aiopslab.sim.world.routes import RouteTable
from aiopslab.sim.world.runs import Run

IMAGE_NAMES = ("wrk2", "wrk2-client")
CALIBRATION_S = 10.0  # latencies before this are not in the report, if there are later ones
PERCENTILES = (50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0)
SPECTRUM_PER_HALF = 5  # rows of the detailed spectrum per halving of the distance to 100 %
_VALUED = {"-t": "threads", "--threads": "threads", "-c": "connections", "--connections": "connections",
           "-d": "duration", "--duration": "duration", "-R": "rate", "--rate": "rate", "-s": "script",
           "--script": "script", "-H": "header", "--header": "header", "-T": "timeout", "--timeout": "timeout",
           "-D": "dist", "--dist": "dist"}
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_POWERS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True, slots=True)
class Options:
    """A parsed command line."""

    url: str
    threads: int = 2
    connections: int = 10
    duration_s: float = 10.0
    rate: float = 0.0
    latency: bool = False
    uncorrected: bool = False
    timeout_s: float = 2.0

    @property
    def problem(self) -> str:
        """What wrk2 complains about on stderr before it ends with 1; empty when nothing."""
        if self.rate <= 0:
            return "Throughput MUST be specified with the --rate or -R option"
        return "number of connections must be >= threads" if self.connections < self.threads else ""


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
        url, int(_scaled(values.get("threads", "2"))), int(_scaled(values.get("connections", "10"))),
        _time(values.get("duration", "10s")), _scaled(values.get("rate", "0")), bool(flags & {"L", "latency", "U", "u_latency"}),
        bool(flags & {"U", "u_latency"}), _time(values.get("timeout", "2s")))


def _scaled(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKMG]?)", text)
    return float(match[1]) * _POWERS[match[2]] if match else 0.0


def _time(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    return float(match[1]) * _UNITS[match[2]] if match else 10.0


class Wrk2Load:
    """The connections of one wrk2 run."""

    def __init__(self, run: Run, options: Options, entry: Program, programs: Programs, seed: int) -> None:
        self.run = run
        self.options = options
        self.entry = entry
        self.address = address_of(options.url)
        self.lanes = options.connections
        self.timeout_ms = math.inf
        self.route_name, self._variables = route_for(entry, programs, "/" + options.url.partition("://")[2].partition("/")[2])
        self._key = np.uint64(text_key(seed, "wrk2", run.ref.namespace, options.url))
        self._start = run.started + 0.05
        self._end = self._start + options.duration_s
        self._interval = options.connections / options.rate
        self._sent = np.zeros(self.lanes, np.int64)
        self._free = np.full(self.lanes, self._start)  # when a connection has its last answer
        self._expected_s = 0.02
        self._recorded: list[NDArray[np.float64]] = []
        self._raw: list[NDArray[np.float64]] = []
        self._done_at: list[NDArray[np.float64]] = []
        self.errors = {"connect": 0, "timeout": 0, "status": 0}

    def plan(self, routes: RouteTable, edge: Edge, until: float) -> tuple[NDArray[np.int64], list[Batch]]:
        """The batch of requests that may be sent before ``until``; per request its connection."""
        until = min(until, self._end)
        due = np.ceil(np.maximum(until - self._start, 0) / self._interval - np.arange(self.lanes) / self.lanes)
        possible = np.ceil(np.maximum(until - self._free, 0) / max(self._expected_s, 1e-4)) * 1.2 + 2
        counts = np.clip(np.minimum(due - self._sent, possible), 0, None).astype(np.int64)
        lanes = np.repeat(np.arange(self.lanes), counts)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        serial = np.arange(len(lanes)) - first + self._sent[lanes]
        if not len(lanes):
            return lanes, []
        keys = mix(self._key + (serial * self.lanes + lanes).astype(np.uint64))
        variables = {n: np.full(len(lanes), v, np.int64) for n, v in self._variables.items()}
        batch = Batch(routes.route(self.entry, self.route_name), keys, lanes.astype(np.int32), edge, self.run.number,
                      self.timeout_ms, variables)
        return lanes, [batch]

    def settle(self, lanes: NDArray[np.int64], blocks: list[Block], until: float) -> list[Block]:
        """Send each request when due or when its connection is free; keep those sent before ``until``."""
        if not blocks:
            return []
        block = blocks[0]
        took = block.took[0].astype(np.float64) * 1e-3
        counts = np.bincount(lanes, minlength=self.lanes)
        start = np.empty(len(lanes))
        due = np.empty(len(lanes))
        at = 0
        for lane in np.flatnonzero(counts):
            span = slice(at, at + counts[lane])
            serial = self._sent[lane] + np.arange(counts[lane])
            due[span] = self._start + (serial + lane / self.lanes) * self._interval
            spent = np.cumsum(took[span])
            ready = np.maximum(due[span], self._free[lane]) - (spent - took[span])
            start[span] = np.maximum.accumulate(ready) + spent - took[span]
            at += counts[lane]
        keep = start < min(until, self._end)
        ends = start + took
        self._sent += np.bincount(lanes[keep], minlength=self.lanes)
        np.maximum.at(self._free, lanes[keep], ends[keep])
        self._expected_s = float(took.mean())
        self._note(block, keep, due, (start, ends))
        block.start = start
        return [block] if keep.all() else ([select(block, np.flatnonzero(keep))] if keep.any() else [])

    def _note(self, block: Block, keep: NDArray[np.bool_], due: NDArray[np.float64],
              times: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
        start, ends = times
        answered = block.run[0] >= 0
        if block.error is not None:
            self.errors["status"] += int((keep & answered & (block.error[0] != 0)).sum())
        self.errors["connect"] += int((keep & ~answered).sum())
        self.errors["timeout"] += int(np.floor((ends - start)[keep] / max(self.options.timeout_s, 0.1)).sum())
        good = keep & answered
        self._recorded.append((ends - due)[good])
        self._raw.append((ends - start)[good])
        self._done_at.append(ends[good])

    def report(self) -> list[str]:
        """The lines that wrk2 prints when it is done."""
        return report(self.options, *(np.concatenate([*a, np.zeros(0)]) for a in (self._recorded, self._raw, self._done_at)),
                      self._start, self.errors, self.entry.ops[self.route_name].response_bytes)


def match_route(entry: Program, programs: Programs, method: str, path: str) -> tuple[str, dict[str, int]] | None:
    """The route of a path with the numbers of the words that the path holds; None: no such route."""
    path = path.partition("?")[0] or "/"
    for name, op in entry.ops.items():
        if op.method != ("GET" if method == "HEAD" else method):
            continue
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(op.target))
        match = re.fullmatch(pattern, path)
        if match is None:
            continue
        found = {}
        for variable, word in match.groupdict().items():
            words = programs.words(variable)
            found[variable] = words.index(word) if word in words else 0
        return name, found
    return None


def is_wrk2(image: str) -> bool:
    """Whether an image is a build of wrk2."""
    return split_image(image)[0].rpartition("/")[2] in IMAGE_NAMES


def report(self) -> list[str]:
        """The lines that wrk2 prints when it is done."""
        return report(self.options, *(np.concatenate([*a, np.zeros(0)]) for a in (self._recorded, self._raw, self._done_at)),
                      self._start, self.errors, self.entry.ops[self.route_name].response_bytes)


def route_for(entry: Program, programs: Programs, path: str) -> tuple[str, dict[str, int]]:
    """The GET route of a path with the variables that the path holds."""
    path = path.partition("?")[0]
    for name, op in entry.ops.items():
        if op.method != "GET":
            continue
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(op.target))
        match = re.fullmatch(pattern, path)
        if match:
            found = {}
            for variable, word in match.groupdict().items():
                words = programs.words(variable)
                found[variable] = words.index(word) if word in words else 0
            return name, found
    return next(name for name, op in entry.ops.items() if op.method == "GET"), {}


def report(options: Options, recorded: NDArray[np.float64], raw: NDArray[np.float64], done: NDArray[np.float64],
           start: float, errors: dict[str, int], body_bytes: int) -> list[str]:  # noqa: PLR0913
    """wrk2's output for latencies in seconds."""
    late = done >= start + CALIBRATION_S
    counted = recorded[late] if late.any() else recorded[:0]
    plain = raw[late] if late.any() else raw[:0]
    per_thread = rates_per_thread(done[late] if late.any() else done, options.threads)
    lines = [f"Running {_duration(options.duration_s)} test @ {options.url}",
             f"  {options.threads} threads and {options.connections} connections"]
    if options.duration_s > CALIBRATION_S:
        mean = recorded[~late].mean() if (~late).any() else 0.0
        lines += [f"  Thread calibration: mean lat.: {mean * 1e3:.3f}ms, rate sampling interval: "
                  f"{max(10, int(mean * 2e3))}ms"] * options.threads
    lines.append("  Thread Stats   Avg      Stdev     Max   +/- Stdev")
    lines.append(f"    Latency  {_stats(counted, _time_text)}")
    lines.append(f"    Req/Sec  {_stats(per_thread, _count_text)}")
    if options.latency:
        lines += histogram(counted, "Recorded Latency")
    if options.uncorrected:
        lines += histogram(plain, "Uncorrected Latency (measured without taking delayed starts into account)")
    total, elapsed = len(recorded), max(options.duration_s, 1e-3)
    size = total * (body_bytes + 200)
    lines.append(f"  {total} requests in {_time_text(elapsed)}, {_bytes_text(size)} read")
    if errors["connect"] or errors["timeout"]:
        lines.append(f"  Socket errors: connect {errors['connect']}, read 0, write 0, timeout {errors['timeout']}")
    if errors["status"]:
        lines.append(f"  Non-2xx or 3xx responses: {errors['status']}")
    lines.append(f"Requests/sec: {total / elapsed:9.2f}")
    lines.append(f"Transfer/sec: {_bytes_text(size / elapsed):>10}")
    return lines


def histogram(latencies: NDArray[np.float64], title: str) -> list[str]:
    """The latency block of ``-L``: eight percentiles, the spectrum, the footer and a rule."""
    ordered = np.sort(latencies) if len(latencies) else np.zeros(1)
    count = len(latencies)

    def at(percent: float) -> float:
        return float(ordered[min(len(ordered) - 1, max(0, math.ceil(percent / 100 * len(ordered)) - 1))])

    lines = [f"  Latency Distribution (HdrHistogram - {title})"]
    lines += [f"{p:7.3f}%  {_time_text(at(p)):>7}" for p in PERCENTILES]
    lines += ["", "  Detailed Percentile spectrum:", f"{'Value':>12} {'Percentile':>12} {'TotalCount':>12} {'1/(1-Percentile)':>12}", ""]
    fraction, step = 0.0, 0.5 / SPECTRUM_PER_HALF
    while count and fraction < 1.0 - 0.5 / count:
        value = at(100 * fraction)
        seen = int(np.searchsorted(ordered, value, side="right"))
        lines.append(f"{value * 1e3:12.3f} {fraction:12.6f} {seen:12d} {1 / (1 - fraction):12.2f}")
        fraction += step
        if 1.0 - fraction <= 5.001 * step:
            step /= 2
    lines.append(f"{at(100) * 1e3:12.3f} {1.0:12.6f} {count:12d} {'inf':>12}")
    mean, deviation = float(ordered.mean()) * 1e3, float(ordered.std()) * 1e3
    lines.append(f"#[Mean    = {mean:12.3f}, StdDeviation   = {deviation:12.3f}]")
    lines.append(f"#[Max     = {at(100) * 1e3:12.3f}, Total count    = {count:12d}]")
    lines.append(f"#[Buckets = {27:12d}, SubBuckets     = {2048:12d}]")
    lines.append("-" * 58)
    return lines


def rates_per_thread(done: NDArray[np.float64], threads: int) -> NDArray[np.float64]:
    """Requests per second of a thread in each second."""
    if not len(done):
        return np.zeros(1)
    seconds = np.floor(done - done.min()).astype(np.int64)
    return np.bincount(seconds)[:-1].astype(float) / threads if seconds.max() else np.array([len(done) / threads])


def _stats(values: NDArray[np.float64], text: object) -> str:
    values = values if len(values) else np.zeros(1)
    mean, deviation = float(values.mean()), float(values.std())
    near = 100.0 * float((np.abs(values - mean) <= deviation).mean())
    show = text
    return f"{show(mean):>8}  {show(deviation):>8}  {show(float(values.max())):>8}  {near:7.2f}%"  # type: ignore[operator]


def _scaled_text(value: float, units: list[tuple[str, float]]) -> str:
    shown = units[0]
    for unit in units:
        if value >= 0.85 * unit[1]:
            shown = unit
    return f"{value / shown[1]:.2f}{shown[0]}"


def _time_text(value_s: float) -> str:
    return _scaled_text(value_s * 1e6, [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 6e7), ("h", 3.6e9)])


def _bytes_text(value: float) -> str:
    return _scaled_text(value, [("B", 1.0), ("KB", 1024.0), ("MB", 1024.0**2), ("GB", 1024.0**3)])


def _count_text(value: float) -> str:
    return _scaled_text(value, [("", 1.0), ("k", 1e3), ("M", 1e6)])


def _duration(value_s: float) -> str:
    return f"{value_s:.0f}s" if value_s < 60 or value_s % 60 else f"{value_s / 60:.0f}m"
