"""The report that wrk2 prints when it ends, in the layout of its author or of DeathStarBench.

Latencies pass through an HdrHistogram of three significant digits, as in the program: a value is known only up to
its bucket, and the detailed spectrum steps as the histogram's percentile iterator does (five per halving).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.wrk2.options import Options

CALIBRATION_S = 10.0  # a longer run forgets what it measured before this
RATE_WINDOW_S_MIN = 0.01
PERCENTILES = (50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0)
SPECTRUM_PER_HALF = 5
SUB_BUCKETS = 2048
RULE = "-" * 71


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run measured, per answer: latency as recorded and from sending (s), completion after the start (s)
    and thread."""

    recorded: NDArray[np.float64]
    raw: NDArray[np.float64]
    done: NDArray[np.float64]
    threads: NDArray[np.int64]
    errors: dict[str, int]  # connect, timeout, status
    bytes_read: int

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which answers are in the statistics."""
        late = self.done >= CALIBRATION_S
        return late if late.any() else np.ones(len(late), bool)

    def latencies_us(self) -> dict[str, object]:
        """Latencies as a script's ``done`` gets them."""
        values = np.sort(bucketed(self.recorded[self.counted]))
        return {"values": values.tolist(), **_moments(values)}

    def rates(self, options: Options) -> dict[str, object]:
        """Requests per second of a thread as ``done`` gets them."""
        values = np.sort(rates_per_thread(self, options.threads))
        return {"values": values.tolist(), **_moments(values)}


def report(options: Options, outcome: Outcome, *, sent: int, asked_back: bool) -> list[str]:
    """wrk2's output, line by line. ``asked_back``: the script has a ``response``."""
    lines = [
        *(["script_want_response"] if asked_back and options.forked else []),
        f"Running {_duration(options.duration_s)} test @ {options.url}",
        f"  {options.threads} threads and {options.connections} connections",
    ]
    lines += [""] if options.forked else []
    if options.duration_s > CALIBRATION_S:
        lines += [_calibration(*calibration(outcome, t)) for t in range(options.threads)]
    if options.forked:
        lines += ["", RULE, f"Test Results @ {options.url} "]
        lines += [f"Sent {sent} requests", ""] if options.sent else []
    lines += _statistics(options, outcome)
    if options.latency:
        lines += histogram(outcome.recorded[outcome.counted], "Recorded Latency")
        lines += [RULE if options.forked else "-" * 58]
    if options.uncorrected and not options.forked:
        title = "Uncorrected Latency (measured without taking delayed starts into account)"
        lines += [*histogram(outcome.raw[outcome.counted], title), "-" * 58]
    return lines + _totals(options, outcome)


def _statistics(options: Options, outcome: Outcome) -> list[str]:
    third = "99%" if options.forked else "Max"
    latencies = bucketed(outcome.recorded[outcome.counted])
    percent = 99.0 if options.forked else 100.0
    return [
        f"  Thread Stats{'Avg':>6}{'Stdev':>11}{third:>8}{'+/- Stdev':>12}",
        f"    {'Latency':<10}{_stats(latencies, percent, _time_us)}",
        f"    {'Req/Sec':<10}{_stats(rates_per_thread(outcome, options.threads), percent, _metric)}",
    ]


def _totals(options: Options, outcome: Outcome) -> list[str]:
    errors, size = outcome.errors, outcome.bytes_read
    total, elapsed = len(outcome.recorded), max(options.duration_s, 1e-3)
    blanks = "  " if options.forked else ""
    lines = [f"  {total} requests in {_time_us(elapsed * 1e6)}, {_binary(size)}B read"]
    if errors["connect"] or errors["timeout"]:
        lines.append(f"  Socket errors: connect {errors['connect']}, read 0, write 0, timeout {errors['timeout']}")
    if errors["status"]:
        lines.append(f"  Non-2xx or 3xx responses: {errors['status']}")
    lines.append(f"Requests/sec: {total / elapsed:9.2f}{blanks}")
    lines.append(f"Transfer/sec: {_binary(size / elapsed):>10}B")
    return lines


def calibration(outcome: Outcome, thread: int) -> tuple[float, float]:
    """Mean latency of a thread before the calibration (s), and how often it then samples its rate (s)."""
    early = outcome.recorded[(outcome.threads == thread) & (outcome.done < CALIBRATION_S)]
    if not len(early):
        return 0.0, RATE_WINDOW_S_MIN
    ninety = float(np.quantile(bucketed(early), 0.9, method="inverted_cdf")) * 1e-6
    return float(early.mean()), max(RATE_WINDOW_S_MIN, math.floor(2e3 * ninety) * 1e-3)


def rates_per_thread(outcome: Outcome, threads: int) -> NDArray[np.float64]:
    """Requests per second of each thread in each of its sampling windows after the calibration; none before."""
    found = [np.zeros(0)]
    last = float(outcome.done.max(initial=0.0))
    for thread in range(threads):
        _, window_s = calibration(outcome, thread)
        done = outcome.done[(outcome.threads == thread) & (outcome.done >= CALIBRATION_S)]
        windows = int((last - CALIBRATION_S) / window_s) if last > CALIBRATION_S else 0
        if windows and len(done):
            numbers = ((done - CALIBRATION_S) / window_s).astype(np.int64)
            found.append(np.floor(np.bincount(numbers[numbers < windows], minlength=windows) / window_s))
    return np.concatenate(found)


def histogram(latencies: NDArray[np.float64], title: str) -> list[str]:
    """The latency block of ``-L``: eight percentiles, the spectrum and its footer. Latencies in seconds."""
    values = np.sort(bucketed(latencies))
    lines = [f"  Latency Distribution (HdrHistogram - {title})"]
    lines += [f"{p:7.3f}%{_units(_percentile(values, p), _time_us, 10)}" for p in PERCENTILES]
    lines += ["", "  Detailed Percentile spectrum:"]
    lines += [f"{'Value':>12} {'Percentile':>12} {'TotalCount':>12} {'1/(1-Percentile)':>12}", ""]
    lines += _spectrum(values)
    middle = values - _bucket_us(values) / 2 if len(values) else np.zeros(1)
    mean, deviation = float(middle.mean()) * 1e-3, float(middle.std()) * 1e-3
    highest = float(values[-1]) * 1e-3 if len(values) else 0.0
    lines.append(f"#[Mean    = {mean:12.3f}, StdDeviation   = {deviation:12.3f}]")
    lines.append(f"#[Max     = {highest:12.3f}, Total count    = {len(values):12d}]")
    lines.append(f"#[Buckets = {27:12d}, SubBuckets     = {SUB_BUCKETS:12d}]")
    return lines


def _spectrum(values: NDArray[np.float64]) -> list[str]:
    total = len(values)
    if not total:
        return [f"{0.0:12.3f} {1.0:12.6f} {0:12d} {'inf':>12}"]
    levels, counts = np.unique(values, return_counts=True)
    seen = np.cumsum(counts)
    lines, percent, reached = [], 0.0, 0
    while reached < total:
        at = int(np.searchsorted(100.0 * seen / total, percent))
        reached = int(seen[at])
        share = percent / 100
        lines.append(f"{levels[at] * 1e-3:12.3f} {share:12.6f} {reached:12d} {1 / (1 - share):12.2f}")
        halvings = int(math.log2(100 / (100 - percent))) + 1
        percent += 100 / (SPECTRUM_PER_HALF * 2**halvings)
    return [*lines, f"{levels[-1] * 1e-3:12.3f} {1.0:12.6f} {total:12d} {'inf':>12}"]


def bucketed(latencies: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds to the µs that the histogram reports: the highest value of the bucket."""
    whole = np.maximum(np.floor(latencies * 1e6), 1)
    width = _bucket_us(whole)
    return np.floor(whole / width) * width + width - 1


def _bucket_us(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if not len(values):
        return np.ones(0)
    return np.exp2(np.maximum(np.floor(np.log2(values)) - math.log2(SUB_BUCKETS) + 1, 0))


def _percentile(values: NDArray[np.float64], percent: float) -> float:
    if not len(values):
        return 0.0
    return float(values[max(0, min(len(values), int(percent / 100 * len(values) + 0.5)) - 1)])


def _moments(values: NDArray[np.float64]) -> dict[str, object]:
    some = values if len(values) else np.zeros(1)
    return {"mean": float(some.mean()), "stdev": float(some.std())}


def _calibration(mean_s: float, window_s: float) -> str:
    mean_ms, window_ms = int(mean_s * 1e6) / 1e3, round(window_s * 1e3)
    return f"  Thread calibration: mean lat.: {mean_ms:.3f}ms, rate sampling interval: {window_ms}ms"


def _stats(values: NDArray[np.float64], percent: float, show: Callable[[float], str]) -> str:
    values = values if len(values) else np.zeros(1)
    mean, deviation = float(values.mean()), float(values.std())
    near = 100.0 * float((np.abs(values - mean) <= deviation).mean())
    top = _percentile(np.sort(values), percent)
    return f"{_units(mean, show, 8)}{_units(deviation, show, 10)}{_units(top, show, 9)}{near:8.2f}%"


def _units(value: float, show: Callable[[float], str], width: int) -> str:
    """Right-aligned so that the digits of all units end in one column."""
    text = show(value)
    pad = 2 - text[-1].isalpha() - text[-2:-1].isalpha()
    return f"{text:>{width - pad}}{' ' * pad}"


def _scaled(value: float, units: list[tuple[str, float]]) -> str:
    shown = units[0]
    for unit in units:
        if value >= 0.85 * unit[1]:
            shown = unit
    return f"{value / shown[1]:.2f}{shown[0]}"


def _time_us(value_us: float) -> str:
    return _scaled(value_us, [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 6e7), ("h", 3.6e9)])


def _binary(value: float) -> str:
    return _scaled(value, [("", 1.0), ("K", 1024.0), ("M", 1024.0**2), ("G", 1024.0**3)])


def _metric(value: float) -> str:
    return _scaled(value, [("", 1.0), ("k", 1e3), ("M", 1e6)])


def _duration(value_s: float) -> str:
    whole = round(value_s)
    for unit, seconds in (("h", 3600), ("m", 60)):
        if whole >= seconds and whole % seconds == 0:
            return f"{whole // seconds}{unit}"
    return f"{whole}s"
