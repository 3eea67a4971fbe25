"""Service levels at the end of a run: was the application good again for its users, and under load?

The judged stretch is the last two fifths of the settle window that the session let pass after the agent was done
(``config["settle_s"]``, or the settle phase's length): the rate windows of the objectives still hold requests from
before the repair in the first part. Every sample in it must be good; a sample without data is not good
(unless the objective says that no data is good), since an application without users proves nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

from aiopslab.grading.evidence import Evidence
from aiopslab.record import Check, Slo, SloSeries

JUDGED_SHARE = 0.4  # of the settle window, its end
SAMPLES_MIN = 2  # fewer samples than this show nothing
SETTLE_DEFAULT_S = 120.0  # when neither the configuration nor a phase tells

_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def good(slo: Slo, value: float | None) -> bool:
    """Whether one sample meets the objective. NaN is no data."""
    if value is None or value != value:
        return slo.no_data_good
    return _COMPARE[slo.op](value, slo.threshold) if slo.op in _COMPARE else False


def end_s(evidence: Evidence) -> float | None:
    """When the judged state ends: end of the settle phase, else the end snapshot, seconds since injection."""
    settled = [phase.end_s for phase in evidence.record.phases if phase.name == "settle"]
    if settled:
        return settled[-1]
    return evidence.snapshots["end"].at_s if "end" in evidence.snapshots else None


def judged_window(evidence: Evidence) -> tuple[float, float] | None:
    """Start and end of the judged stretch, seconds since the injection; None when the run did not settle."""
    end = end_s(evidence)
    if end is None:
        return None
    settle = evidence.record.config.get("settle_s")
    if not isinstance(settle, int | float) or isinstance(settle, bool) or settle <= 0:
        phases = [phase.end_s - phase.start_s for phase in evidence.record.phases if phase.name == "settle"]
        settle = phases[-1] if phases else SETTLE_DEFAULT_S
    return end - JUDGED_SHARE * settle, end


def check_slos(evidence: Evidence) -> list[Check]:
    """One check per objective, called ``slo:<name>``, and one, ``load``, that users were there at all."""
    window = judged_window(evidence)
    if window is None or not evidence.slos:
        reason = "The run has no settle window." if window is None else "No service levels were recorded."
        return [Check(name="slo", ok=None, detail=reason)]
    return [_slo_check(series, window) for series in evidence.slos] + [_load_check(evidence.slos, window)]


def _inside(series: SloSeries, window: tuple[float, float]) -> list[tuple[float, float | None]]:
    return [point for point in series.points if window[0] <= point[0] <= window[1]]


def _slo_check(series: SloSeries, window: tuple[float, float]) -> Check:
    slo, points = series.slo, _inside(series, window)
    name = f"slo:{slo.name}"
    if slo.op not in _COMPARE:
        return Check(name=name, ok=None, detail=f"The objective's op {slo.op!r} is unknown.")
    if len(points) < SAMPLES_MIN:
        detail = f"{len(points)} sample(s) in the judged {window[1] - window[0]:.0f} s; too few to judge."
        return Check(name=name, ok=None, detail=detail)
    bad = [point for point in points if not good(slo, point[1])]
    if not bad:
        last, wanted = _text(points[-1][1], slo), _text(slo.threshold, slo)
        detail = f"good for the last {window[1] - window[0]:.0f} s ({last}, wanted {slo.op} {wanted})."
        return Check(name=name, ok=True, detail=detail)
    at_s, value = bad[-1]
    detail = (
        f"not good in {len(bad)} of {len(points)} samples at the end; at {at_s:.0f} s it was "
        f"{_text(value, slo)}, wanted {slo.op} {_text(slo.threshold, slo)}."
    )
    return Check(name=name, ok=False, detail=detail)


def _load_check(slos: Sequence[SloSeries], window: tuple[float, float]) -> Check:
    demanding = [series for series in slos if not series.slo.no_data_good]
    points = [point for series in demanding for point in _inside(series, window)]
    if not points:
        return Check(name="load", ok=None, detail="No service level can tell whether users were there.")
    alive = any(value is not None and value == value for _, value in points)
    detail = "Users' requests arrived until the end." if alive else "No user request was seen at the end."
    return Check(name="load", ok=alive, detail=detail)


def _text(value: float | None, slo: Slo) -> str:
    return (
        "no data" if value is None or value != value else f"{value:.4g}{' ' + slo.unit if slo.unit else ''}"
    )


def recovered_s(evidence: Evidence) -> float | None:
    """From when on every objective was good until the end, seconds since the injection; None when never."""
    end = end_s(evidence)
    if end is None or not evidence.slos:
        return None
    latest = 0.0
    for series in evidence.slos:
        points = [point for point in series.points if 0.0 <= point[0] <= end]
        if not points or not good(series.slo, points[-1][1]):
            return None
        bad = [index for index, point in enumerate(points) if not good(series.slo, point[1])]
        if bad:
            latest = max(latest, points[bad[-1] + 1][0])
    return latest


def ever_bad(evidence: Evidence) -> bool:
    """Whether some objective was not met at some time after the injection."""
    return any(
        not good(series.slo, value) for series in evidence.slos for at_s, value in series.points if at_s > 0
    )
