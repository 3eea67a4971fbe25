"""The report that wrk2 prints when it ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CALIBRATION_S = 10.0  # latencies before this are not in the report
PERCENTILES = (50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0)
SPECTRUM_PER_HALF = 5  # rows of the detailed spectrum per halving of the distance to 100 %


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
    script: str = ""
    poisson: bool = False

    @property
    def problem(self) -> str:
        """What wrk2 complains about on stderr before it ends with 1; empty when nothing."""
        if self.rate <= 0:
            return "Throughput MUST be specified with the --rate or -R option"
        return "number of connections must be >= threads" if self.connections < self.threads else ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run measured: latencies from due time and from sending (s), completion times after the start (s)."""

    recorded: NDArray[np.float64]
    raw: NDArray[np.float64]
    done: NDArray[np.float64]
    errors: dict[str, int]  # connect, timeout, status
    bytes_read: int


def report(options: Options, outcome: Outcome) -> list[str]:
    """wrk2's output, line by line."""
    recorded, raw, done, errors = outcome.recorded, outcome.raw, outcome.done, outcome.errors
    late = done >= CALIBRATION_S
    counted = recorded[late] if late.any() else recorded[:0]
    plain = raw[late] if late.any() else raw[:0]
    per_thread = rates_per_thread(done[late] if late.any() else done, options.threads)
    lines = [
        f"Running {_duration(options.duration_s)} test @ {options.url}",
        f"  {options.threads} threads and {options.connections} connections",
    ]
    if options.duration_s > CALIBRATION_S:
        mean = recorded[~late].mean() if (~late).any() else 0.0
        lines += [
            f"  Thread calibration: mean lat.: {mean * 1e3:.3f}ms, rate sampling interval: "
            f"{max(10, int(mean * 2e3))}ms"
        ] * options.threads
    lines.append("  Thread Stats   Avg      Stdev     Max   +/- Stdev")
    lines.append(f"    Latency  {_stats(counted, _time_text)}")
    lines.append(f"    Req/Sec  {_stats(per_thread, _count_text)}")
    if options.latency:
        lines += histogram(counted, "Recorded Latency")
    if options.uncorrected:
        lines += histogram(plain, "Uncorrected Latency (measured without taking delayed starts into account)")
    total, elapsed = len(recorded), max(options.duration_s, 1e-3)
    size = outcome.bytes_read
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
    lines += [
        "",
        "  Detailed Percentile spectrum:",
        f"{'Value':>12} {'Percentile':>12} {'TotalCount':>12} {'1/(1-Percentile)':>12}",
        "",
    ]
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


def _stats(values: NDArray[np.float64], show: Callable[[float], str]) -> str:
    values = values if len(values) else np.zeros(1)
    mean, deviation = float(values.mean()), float(values.std())
    near = 100.0 * float((np.abs(values - mean) <= deviation).mean())
    return f"{show(mean):>8}  {show(deviation):>8}  {show(float(values.max())):>8}  {near:7.2f}%"


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
