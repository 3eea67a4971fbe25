"""The JSON object of a judged run, and the exit code of a verdict. The keys are a contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from aiopslab.record import Result, RunRecord

_EXIT = {"pass": 0, "fail": 1, "unknown": 3}
_STAGE_TIMES = {
    "detect_s": "detection",
    "localize_s": "localization",
    "analyze_s": "analysis",
    "mitigate_s": "mitigation",
}
SETUP_PHASES = ("setup", "deploy", "load", "baseline", "inject")


def exit_code(verdict: str) -> int:
    """0 pass, 1 fail, 3 unknown."""
    return _EXIT.get(verdict, 3)


def summary(record: RunRecord, result: Result, folder: Path) -> dict[str, Any]:
    """One run as ``run --json`` and ``grade --json`` print it. Times: see ``stage_times``."""
    return {
        "problem": record.problem,
        "task": record.task,
        "app": record.app,
        "agent": record.agent,
        "seed": record.seed,
        "cluster": record.cluster,
        "verdict": result.verdict,
        "score": result.score,
        "checks": msgspec.to_builtins(result.checks),
        "submission": submission(record),
        "expected": msgspec.to_builtins(record.expected),
        "times": times(record),
        "steps": record.steps,
        "invalid_actions": record.invalid_actions,
        "tokens": record.tokens,
        "outcome": record.outcome,
        "failure": record.failure,
        "results": result.metrics,
        "record": str(folder.resolve()),
    }


def submission(record: RunRecord) -> Any:
    """What was submitted: the last value of each stage by name; for a one-stage task that value alone."""
    by_stage = {entry.stage: entry.value for entry in record.submissions}
    return by_stage if record.task == "incident" else by_stage.get(record.task)


def times(record: RunRecord) -> dict[str, float | None]:
    """Seconds of cluster time from the injection to the last submission of each stage (None: never), and two
    of wall time: the whole run, and what came before the agent's first turn."""
    last = {entry.stage: entry.at_s for entry in record.submissions}
    found: dict[str, float | None] = {name: last.get(stage) for name, stage in _STAGE_TIMES.items()}
    found["wall_s"] = round(sum(phase.wall_s for phase in record.phases), 3)
    found["setup_wall_s"] = round(sum(p.wall_s for p in record.phases if p.name in SETUP_PHASES), 3)
    return found
