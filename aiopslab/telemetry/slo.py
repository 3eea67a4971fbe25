"""Objectives: what their values were, and whether they held.

Used for the baseline gate, for symptoms, and (through the record) by graders.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from operator import ge, gt, le, lt

from aiopslab.record import Slo, SloSeries
from aiopslab.telemetry.prometheus import Prometheus

STEP_S = 15.0
_OPS = {"<": lt, "<=": le, ">": gt, ">=": ge}


def compare(value: float, op: str, threshold: float) -> bool:
    """``value op threshold`` for ``<``, ``<=``, ``>``, ``>=``."""
    return bool(_OPS[op](value, threshold))


def good(slo: Slo, value: float | None) -> bool:
    """Whether an objective holds at one value; None is no data."""
    return slo.no_data_good if value is None else compare(value, slo.op, slo.threshold)


async def evaluate(
    prometheus: Prometheus,
    slos: Sequence[Slo],
    start: float,
    end: float,
    *,
    origin: float,
    step_s: float = STEP_S,
) -> list[SloSeries]:
    """Values of objectives from ``start`` to ``end`` (Unix seconds of cluster time), one series each.

    Points are ``(seconds since origin, value)`` at start, start + step_s, ...; None where there was no data.
    An objective that gives several series is judged by the worst one. Raises TelemetryError.
    """
    times = [start + i * step_s for i in range(int((end - start) / step_s + 1e-6) + 1)] if end >= start else []
    if not times:
        return [SloSeries(slo=slo, points=[]) for slo in slos]
    found = await asyncio.gather(*(prometheus.query_range(slo.expr, start, times[-1], step_s) for slo in slos))
    result = []
    for slo, rows in zip(slos, found, strict=True):
        worst: dict[int, float] = {}
        for at, value in (point for row in rows for point in row.points):
            if math.isfinite(value):
                slot = round((at - start) / step_s)
                pick = min if slo.op in (">", ">=") else max
                worst[slot] = pick(value, worst.get(slot, value))
        points = [(at - origin, worst.get(i)) for i, at in enumerate(times)]
        result.append(SloSeries(slo=slo, points=points))
    return result


async def violations(prometheus: Prometheus, slos: Sequence[Slo], at: float) -> list[str]:
    """One sentence per objective that does not hold at one moment; empty when all do. Raises TelemetryError."""
    rows = await evaluate(prometheus, slos, at, at, origin=at)
    return [sentence(row.slo, row.points[-1][1]) for row in rows if not good(row.slo, row.points[-1][1])]


def sentence(slo: Slo, value: float | None) -> str:
    """``p95 latency is 812 ms (objective: <= 500 ms)``."""
    unit = f" {slo.unit}" if slo.unit else ""
    shown = "without data" if value is None else f"{value:.4g}{unit}"
    return f"{slo.name} is {shown} (objective: {slo.op} {slo.threshold:g}{unit})"


def share_good(series: SloSeries, from_s: float, to_s: float) -> float | None:
    """Share of points in ``[from_s, to_s]`` at which the objective held, 0..1; None without points there."""
    judged = [good(series.slo, value) for at, value in series.points if from_s <= at <= to_s]
    return sum(judged) / len(judged) if judged else None
