"""Mitigation: is the fault's cause gone, are users served again, and was nothing else damaged?

    cause  = 1 when every cause condition holds, else 0
    served = 1 when every service level is back at the end, else 0
    repair = (cause + served) / 2, and just cause when the fault never broke a service level
    care   = share of these that hold: submitted, load, workloads, deleted, replicas, changes, restarts
    score  = repair * care
    pass   : every check holds

When nothing was wrong there is nothing to repair: repair = served. Doing nothing about a real fault repairs nothing
and scores 0; so does removing what is broken.
"""

from __future__ import annotations

from aiopslab.grading.conditions import evaluate
from aiopslab.grading.damage import check_damage
from aiopslab.grading.evidence import Evidence, Judgement, share
from aiopslab.grading.health import check_health
from aiopslab.grading.objectives import check_slos, ever_bad, recovered_s
from aiopslab.record import Check


def judge(evidence: Evidence) -> Judgement:
    """Judge the state that the agent left. Metrics: AIOpsLab's ``success`` and ``TTM`` (seconds of cluster time
    from the injection to the submission) and ``recovered_s`` (until users were served well for good)."""
    given = evidence.submissions("mitigation")
    submitted = _check_submitted(bool(given), anomaly=evidence.expected.anomaly)
    causes = _check_causes(evidence)
    levels = check_slos(evidence)
    slos = [check for check in levels if check.name.startswith("slo")]
    load = [check for check in levels if check.name == "load"]
    care = [*submitted, *load, check_health(evidence), *check_damage(evidence)]
    halves = [causes, slos] if not causes or ever_bad(evidence) else [causes]
    done = [float(all(check.ok for check in half)) for half in halves if half]
    score = sum(done) / len(done) * share([check.ok for check in care])
    judgement = Judgement([*causes, *slos, *care], score)
    judgement.metrics.update(
        success=judgement.passed,
        TTM=given[-1].at_s if given else None,
        recovered_s=recovered_s(evidence),
    )
    return judgement


def _check_submitted(given: bool, *, anomaly: bool) -> list[Check]:
    if not anomaly:  # nothing to repair, so nothing to declare
        return []
    detail = "The agent declared the repair done." if given else "The agent never declared the repair done."
    return [Check(name="submitted", ok=given, detail=detail)]


def _check_causes(evidence: Evidence) -> list[Check]:
    if not evidence.expected.anomaly:
        return []
    conditions = evidence.expected.cause_gone
    if not conditions:
        detail = "The fault declares no condition under which its cause is gone."
        return [Check(name="cause", ok=None, detail=detail)]
    end, before = evidence.snapshots.get("end"), evidence.snapshots.get("before")
    return [evaluate(condition, end, before, evidence.saved) for condition in conditions]
