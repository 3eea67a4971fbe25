"""Analysis: on which level of the system, and of what type, is the fault?

    score = (system level right + fault type right) / 2
    pass  : both are right

Each label is compared with the canonical one and the synonyms that the fault's manifest declares, letters and
digits only, in any case. A list of several labels for one key is no answer. When nothing is wrong, no
labels (``submit()``, ``{}``, "no anomaly") is the right answer.
"""

from __future__ import annotations

from aiopslab.grading.answers import labels, shown, squash
from aiopslab.grading.evidence import Evidence, Judgement
from aiopslab.record import Check

_KEYS = ("system_level", "fault_type")


def judge(evidence: Evidence) -> Judgement:
    """Judge the analysis stage. Metrics: AIOpsLab's ``*_correct``, ``success`` and ``TTA``."""
    given = evidence.submissions("analysis")
    if not given:
        return _same_for_both("The agent submitted no analysis.", None)
    value, at_s = given[-1].value, given[-1].at_s
    found = labels(value, _KEYS)
    if found is None:
        return _same_for_both(f"The answer {shown(value)} has no system_level and fault_type.", at_s)
    if not evidence.expected.anomaly:
        right = not found
        detail = "Nothing was wrong; the agent " + (f"diagnosed {shown(found)}." if found else "said so.")
        checks = [Check(name=key, ok=right, detail=detail) for key in _KEYS]
    else:
        accepted = (evidence.expected.system_levels, evidence.expected.fault_types)
        checks = [_label(key, found, right) for key, right in zip(_KEYS, accepted, strict=True)]
    return _judgement(checks, at_s)


def _label(key: str, found: dict[str, str], accepted: list[str]) -> Check:
    noun = key.replace("_", " ")
    if not accepted:
        return Check(name=key, ok=None, detail=f"The problem declares no {noun}.")
    if key not in found:
        return Check(name=key, ok=False, detail=f"The analysis has no single {noun}; it is {accepted[0]}.")
    right = squash(found[key]) in {squash(label) for label in accepted}
    return Check(name=key, ok=right, detail=f"The agent said {shown(found[key])}; it is {accepted[0]}.")


def _same_for_both(detail: str, at_s: float | None) -> Judgement:
    return _judgement([Check(name=key, ok=False, detail=detail) for key in _KEYS], at_s)


def _judgement(checks: list[Check], at_s: float | None) -> Judgement:
    outcomes = [bool(check.ok) for check in checks]
    metrics = {
        "system_level_correct": outcomes[0],
        "fault_type_correct": outcomes[1],
        "success": all(outcomes),
        "TTA": at_s,
    }
    return Judgement(checks, sum(outcomes) / len(outcomes), metrics)
