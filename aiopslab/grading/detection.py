"""Detection: is something wrong?

    score = 1 if the answer is right else 0
    TTD   = seconds of cluster time from the injection to the first submission of the answer that stood

The last submission is the answer. A healthy problem's right answer is "no".
"""

from __future__ import annotations

from aiopslab.grading.answers import shown, yes_or_no
from aiopslab.grading.evidence import Evidence, Judgement
from aiopslab.record import Check


def judge(evidence: Evidence) -> Judgement:
    """Judge the detection stage. Metrics: AIOpsLab's ``Detection Accuracy`` and ``TTD``."""
    given = evidence.submissions("detection")
    if not given:
        check = Check(name="answer", ok=False, detail="The agent never said whether there is an anomaly.")
        return Judgement([check], 0.0, {"Detection Accuracy": "Invalid Format", "TTD": None})
    said = yes_or_no(given[-1].value)
    if said is None:
        detail = f"The answer {shown(given[-1].value)} says neither yes nor no."
        check = Check(name="answer", ok=False, detail=detail)
        return Judgement([check], 0.0, {"Detection Accuracy": "Invalid Format", "TTD": None})
    right = said == evidence.expected.anomaly
    first = next(entry for entry in given if yes_or_no(entry.value) == said)
    truth = "something was wrong" if evidence.expected.anomaly else "nothing was wrong"
    word = "an anomaly" if said else "no anomaly"
    check = Check(name="answer", ok=right, detail=f"The agent reported {word}; {truth}.")
    accuracy = "Correct" if right else "Incorrect"
    return Judgement([check], float(right), {"Detection Accuracy": accuracy, "TTD": first.at_s})
