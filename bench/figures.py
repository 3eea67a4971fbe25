"""A figure of ours beside theirs, and the tolerance that two real days of one cluster set."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

CLOSE, INSIDE, OUTSIDE = "close", "inside", "OUTSIDE"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far apart two figures of one kind may be: relative differences |a-b| / mean, absolute ones where
    ``absolute``. ``close`` is the median over figures of two real days, ``wide`` their 90th percentile."""

    kind: str
    close: float
    wide: float
    absolute: bool = False
    floor: float = 0.0  # a difference below this, in the figure's unit, is never outside

    def difference(self, theirs: float, ours: float) -> float:
        """The difference in the tolerance's own terms."""
        apart = abs(theirs - ours)
        if self.absolute or apart == 0.0:
            return apart
        return apart / ((abs(theirs) + abs(ours)) / 2)

    def verdict(self, theirs: float, ours: float) -> str:
        """``close``, ``inside`` or ``OUTSIDE``."""
        if math.isnan(ours) or math.isnan(theirs):
            return OUTSIDE
        apart = self.difference(theirs, ours)
        if apart <= self.close:
            return CLOSE
        return INSIDE if apart <= self.wide or abs(theirs - ours) <= self.floor else OUTSIDE


@dataclass(frozen=True, slots=True)
class Figure:
    """One comparison. ``group`` is a section of the table; the unit is in ``name``."""

    group: str
    name: str
    theirs: float
    ours: float
    tolerance: Tolerance

    @property
    def verdict(self) -> str:
        """``close``, ``inside`` or ``OUTSIDE``."""
        return self.tolerance.verdict(self.theirs, self.ours)


class Tolerances:
    """The day-to-day differences of a reference file, by kind."""

    def __init__(self, reference: Mapping[str, Any]) -> None:
        self._kinds = reference["day_to_day_relative_difference"]

    def of(self, kind: str, *, floor: float = 0.0) -> Tolerance:
        """The tolerance of a kind that the reference names. ``abs ...`` kinds are absolute differences."""
        row = self._kinds[kind]
        return Tolerance(kind, row["median"], row["p90"], kind.startswith("abs "), floor)

    def sampled(self, kind: str, share: float, count: float) -> Tolerance:
        """A kind's tolerance for a ``share`` that the reference estimated from ``count`` observations: 1.96
        standard errors are added in quadrature."""
        plain = self.of(kind)
        error = 1.96 * math.sqrt(max(1.0 - share, 0.0) / (share * count))
        return Tolerance(f"{kind}, sampled", plain.close, math.hypot(plain.wide, error))

    @staticmethod
    def spread(cv: float | None, *, floor: float) -> Tolerance:
        """For a kind that was seen on one day only: two standard deviations between that day's own windows."""
        wide = 2.0 * (cv or 0.0)
        return Tolerance("spread within the day", wide / 2, wide, floor=floor)

    @staticmethod
    def exact(margin: float, *, floor: float = 0.0) -> Tolerance:
        """For what the program alone decides: a relative margin for sampling only."""
        return Tolerance("decided by the program", margin / 2, margin, floor=floor)


def table(figures: Iterable[Figure]) -> list[str]:
    """Lines for a terminal: one per figure, a heading per group."""
    lines, group = [], ""
    for figure in figures:
        if figure.group != group:
            group = figure.group
            lines += ["", group, f"  {'figure':52}{'theirs':>11}{'ours':>11}{'apart':>8}{'allowed':>9}  verdict"]
        tolerance = figure.tolerance
        apart = tolerance.difference(figure.theirs, figure.ours)
        lines.append(
            f"  {figure.name:52}{figure.theirs:11.4g}{figure.ours:11.4g}"
            f"{apart:8.2f}{tolerance.wide:9.2f}  {figure.verdict}"
        )
    return lines


def totals(figures: list[Figure]) -> list[tuple[str, int, int, int]]:
    """(group, close, inside, all) per group, ``inside`` counting the close ones too; then all together."""
    groups = list(dict.fromkeys(f.group for f in figures))
    rows = []
    for name in [*groups, "all"]:
        mine = [f for f in figures if name in ("all", f.group)]
        close = sum(f.verdict == CLOSE for f in mine)
        rows.append((name, close, sum(f.verdict != OUTSIDE for f in mine), len(mine)))
    return rows
