"""From a record to a result: which task's judge, and what the run's outcome does to the verdict.

A run that the lab failed, or that a person interrupted, is ``unknown`` with score 0: it says nothing about the
agent. An agent that raised, hung or answered with something unusable fails, with the score of what it got done.
A grader that breaks is the lab's failure too, so ``unknown``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from aiopslab.errors import UsageError
from aiopslab.grading import analysis, detection, incident, localization, mitigation
from aiopslab.grading.evidence import Evidence, Judgement, load, verdict_of
from aiopslab.record import RECORD_VERSION, Check, Result, RunRecord, SloSeries, Snapshot, Step

TASKS: dict[str, Callable[[Evidence], Judgement]] = {
    "detection": detection.judge,
    "localization": localization.judge,
    "analysis": analysis.judge,
    "mitigation": mitigation.judge,
    "incident": incident.judge,
}


def grade(record_dir: Path) -> Result:
    """Judge a record folder. Nothing is written. UsageError when the folder is not a record of this format."""
    path = record_dir / "record.json"
    if not path.is_file():
        raise UsageError(
            f"{record_dir} is not a record: it has no record.json. `aiopslab run` prints where its record is."
        )
    try:
        parts = load(record_dir)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{record_dir} cannot be read as a record: {error}. Was it cut short?") from None
    version = parts["record"].version
    if version > RECORD_VERSION:
        raise UsageError(
            f"{record_dir} has record format {version}; this aiopslab reads up to {RECORD_VERSION}. "
            "Grade it with a newer aiopslab."
        )
    return grade_record(**parts)


def grade_record(
    record: RunRecord,
    snapshots: Mapping[str, Snapshot],
    slos: Sequence[SloSeries] = (),
    steps: Sequence[Step] = (),
    audit: Sequence[Mapping[str, Any]] = (),
    saved: Mapping[str, Any] | None = None,
) -> Result:
    """Judge the parts of a record. Pure: equal parts give an equal result. Never raises on what an agent sent.

    ``snapshots`` by name (``before``, ``injected``, ``end``), ``slos`` over the whole run, ``audit`` the API
    requests made with the agent's identity (``{verb, path, code, ...}``), ``saved`` what the injector noted before
    it changed anything.
    """
    if record.outcome == "lab-failure":
        return _unknown(record, "lab", record.failure or "The lab failed.")
    if record.outcome == "interrupted":
        return _unknown(record, "interrupted", record.failure or "The run was interrupted by a person.")
    if record.expected is None or record.task not in TASKS:
        missing = (
            f"the task {record.task!r} has no grader" if record.expected else "it has no expected answers"
        )
        return _unknown(record, "record", f"The record cannot be judged: {missing}.")
    evidence = Evidence(record, record.expected, snapshots, slos, steps, audit, saved or {})
    try:
        judgement = TASKS[record.task](evidence)
    except Exception as error:
        return _unknown(
            record, "grader", f"The grader broke: {type(error).__name__}: {error}. Please report it."
        )
    checks = [*_outcome_checks(record), *judgement.checks]
    return Result(
        verdict=verdict_of(checks),
        score=round(min(1.0, max(0.0, judgement.score)), 6),
        checks=checks,
        metrics=judgement.metrics | _effort(record),
    )


def _outcome_checks(record: RunRecord) -> list[Check]:
    if record.outcome == "agent-failure":
        return [Check(name="agent", ok=False, detail=record.failure or "The agent failed.")]
    return []


def _unknown(record: RunRecord, name: str, detail: str) -> Result:
    return Result(
        verdict="unknown",
        score=0.0,
        checks=[Check(name=name, ok=None, detail=detail)],
        metrics=_effort(record),
    )


def _effort(record: RunRecord) -> dict[str, Any]:
    return {
        "steps": record.steps,
        "in_tokens": record.tokens.get("in", 0),
        "out_tokens": record.tokens.get("out", 0),
    }
