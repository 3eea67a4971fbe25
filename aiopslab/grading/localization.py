"""Localization: which components are at fault, best guess first?

With T the right components, A the answers (resolved to workloads, repetitions dropped), n = len(A):

    accuracy@k = |A[:k] ∩ T| / min(k, |T|)
    credit(t)  = 1 / (1 + wrong answers ranked before t), 0 when t is not among the answers
    score      = mean of credit(t) over T, times min(1, (|T| + 2) / n)
    pass       : the first |T| answers are exactly T, and n <= |T| + 2

So a right first answer with up to two alternatives passes, and naming everything earns next to nothing.
When nothing is wrong, the empty list is right and anything else scores 0.
AIOpsLab's own keys keep AIOpsLab's meaning: ``Localization Accuracy`` is 100 for an exact answer,
100 |T| / n when T is contained, else 0; ``success`` is an exact answer.
"""

from __future__ import annotations

from typing import Any

from aiopslab.grading.answers import names, shown
from aiopslab.grading.components import Components
from aiopslab.grading.evidence import Evidence, Judgement
from aiopslab.record import Check

ALTERNATIVES = 2  # answers beyond the right number that cost nothing when ranked below the right ones
_NAMES_SHOWN = 6


def judge(evidence: Evidence) -> Judgement:
    """Judge the localization stage: the last submission, in its ranking."""
    given = evidence.submissions("localization")
    components = Components(evidence.snapshots, more=evidence.expected.components)
    truth = components.ranked(evidence.expected.components)
    if not given:
        return _no_answer("The agent never named a component.", None)
    written = names(given[-1].value)
    if written is None:
        return _no_answer(f"The answer {shown(given[-1].value)} is not a list of components.", given[-1].at_s)
    answers = components.ranked(written)
    metrics = _metrics(answers, truth) | {"TTL": given[-1].at_s}
    if not truth:
        right = not answers
        detail = (
            "Nothing was wrong; the agent named " + (_shown(answers) if answers else "no component") + "."
        )
        return Judgement([Check(name="answer", ok=right, detail=detail)], float(right), metrics)
    return Judgement(_checks(answers, truth), _score(answers, truth), metrics)


def _no_answer(detail: str, at_s: float | None) -> Judgement:
    metrics = _metrics([], ["?"]) | {"TTL": at_s}
    return Judgement([Check(name="answer", ok=False, detail=detail)], 0.0, metrics)


def _checks(answers: list[str], truth: list[str]) -> list[Check]:
    top = set(answers[: len(truth)]) == set(truth)
    listed = _shown(answers) if answers else "nothing"
    checks = [
        Check(name="answer", ok=top, detail=f"The agent named {listed}; the fault is in {', '.join(truth)}.")
    ]
    allowed = len(truth) + ALTERNATIVES
    if len(answers) > allowed:
        detail = f"{len(answers)} components are named; at most {allowed} are an answer, more is a guess."
        checks.append(Check(name="focus", ok=False, detail=detail))
    return checks


def _shown(answers: list[str]) -> str:
    cut = [answer[:60] for answer in answers[:_NAMES_SHOWN]]
    rest = len(answers) - len(cut)
    return ", ".join(cut) + (f" and {rest} more" if rest else "")


def _score(answers: list[str], truth: list[str]) -> float:
    if not answers:
        return 0.0
    total, wrong = 0.0, 0
    for answer in answers:
        if answer in truth:
            total += 1 / (1 + wrong)
        else:
            wrong += 1
    return total / len(truth) * min(1.0, (len(truth) + ALTERNATIVES) / len(answers))


def _metrics(answers: list[str], truth: list[str]) -> dict[str, Any]:
    exact = set(answers) == set(truth)
    subset = set(truth) <= set(answers)
    contained = 100.0 * len(truth) / len(answers) if answers and subset else 0.0
    return {
        "Localization Accuracy": 100.0 if exact else contained,
        "success": exact,
        "is_subset": subset,
        "accuracy@1": _accuracy_at(1, answers, truth),
        "accuracy@3": _accuracy_at(3, answers, truth),
    }


def _accuracy_at(k: int, answers: list[str], truth: list[str]) -> float:
    if not truth:
        return float(not answers)
    return len(set(answers[:k]) & set(truth)) / min(k, len(truth))
