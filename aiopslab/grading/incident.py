"""Incident: all four stages in one session, as an on-call goes.

    score = 0.10 detection + 0.20 localization + 0.20 analysis + 0.50 mitigation   (each stage's own score)
    pass  : every stage passes

When nothing was wrong the stages after a right "no" need no submission, and what is left of mitigation is that
nothing was damaged. Two metrics tell diagnosis and repair apart: ``fixed_although_wrongly_diagnosed`` (the repair
passes, localization or analysis does not) and ``diagnosed_but_not_fixed`` (the other way round).
"""

from __future__ import annotations

from typing import Any

from aiopslab.grading import analysis, detection, localization, mitigation
from aiopslab.grading.evidence import Evidence, Judgement
from aiopslab.record import Check

WEIGHTS = {"detection": 0.10, "localization": 0.20, "analysis": 0.20, "mitigation": 0.50}

_JUDGES = {
    "detection": detection.judge,
    "localization": localization.judge,
    "analysis": analysis.judge,
    "mitigation": mitigation.judge,
}


def judge(evidence: Evidence) -> Judgement:
    """Judge every stage. Checks are called ``<stage>.<check>``."""
    stages = {stage: judge_stage(evidence) for stage, judge_stage in _JUDGES.items()}
    if not evidence.expected.anomaly and stages["detection"].passed:
        for stage in ("localization", "analysis"):
            if not evidence.submissions(stage):
                stages[stage] = _not_needed()
    checks = [
        Check(name=f"{stage}.{check.name}", ok=check.ok, detail=check.detail)
        for stage, judgement in stages.items()
        for check in judgement.checks
    ]
    score = sum(WEIGHTS[stage] * judgement.score for stage, judgement in stages.items())
    return Judgement(checks, score, _metrics(stages))


def _not_needed() -> Judgement:
    return Judgement(
        [Check(name="answer", ok=True, detail="Nothing was wrong, so there is nothing to name.")], 1.0
    )


def _metrics(stages: dict[str, Judgement]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for stage, judgement in stages.items():
        merged |= {key: value for key, value in judgement.metrics.items() if key != "success"}
        merged[f"{stage}_score"] = judgement.score
        merged[f"{stage}_verdict"] = judgement.verdict
    diagnosed = stages["localization"].verdict, stages["analysis"].verdict
    fixed = stages["mitigation"].verdict
    right = diagnosed == ("pass", "pass")
    return merged | {
        "success": right and fixed == "pass" and stages["detection"].passed,
        "fixed_although_wrongly_diagnosed": fixed == "pass" and "fail" in diagnosed,
        "diagnosed_but_not_fixed": right and fixed == "fail",
    }
