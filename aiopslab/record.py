"""The record of one run: everything that graders, people and later tools need, in one folder.

    record.json         RunRecord: what was run, when what happened, what was submitted, the result
    trajectory.jsonl    one Step per line
    audit.jsonl         one AuditEntry per line: API requests made with the agent's identity
    snapshots/*.json    Snapshot: objects ``before`` injection, ``injected``, at the ``end``, after ``recovery``
    telemetry/slo.json  list of SloSeries over the whole run
    journal.json        what the injector saved before it changed anything

The folder is self-contained and versioned (``RECORD_VERSION``); graders read nothing else. All times named
``_s`` are seconds of cluster time since the injection (negative before it) unless they say wall.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

RECORD_VERSION = 1


class Phase(msgspec.Struct, kw_only=True):
    """A stretch of the run. ``start_s``/``end_s`` relative to the injection, cluster time."""

    name: str  # setup | baseline | inject | agent | settle | recover
    start_s: float
    end_s: float
    wall_s: float


class Submission(msgspec.Struct, kw_only=True):
    """One ``submit``: the stage it answers and the raw value, as given by the agent."""

    stage: str  # detection | localization | analysis | mitigation
    value: Any
    at_s: float
    step: int


class Injection(msgspec.Struct, kw_only=True):
    """What was broken. ``targets`` are service (workload) names; ``objects`` are ``kind/namespace/name``."""

    fault: str
    params: dict[str, Any]
    targets: list[str]
    objects: list[str]
    injected_at: float  # cluster time, Unix seconds
    symptom_after_s: float | None  # None: the problem has no fault, or it was never seen


class Expected(msgspec.Struct, kw_only=True):
    """The right answers, copied from the problem and its faults when the run started."""

    anomaly: bool
    components: list[str]
    system_levels: list[str]  # first is canonical, the rest are accepted synonyms
    fault_types: list[str]
    blast_radius: list[str]  # workloads that a right repair may restart or change
    cause_gone: list[dict[str, Any]]  # conditions on objects at the end; see grading/mitigation.py


class Slo(msgspec.Struct, kw_only=True):
    """A user-facing objective of an app: good while ``expr`` (PromQL, one sample) ``op`` ``threshold``."""

    name: str
    expr: str
    op: str  # "<", "<=", ">", ">="
    threshold: float
    unit: str = ""
    no_data_good: bool = False


class SloSeries(msgspec.Struct, kw_only=True):
    """An SLO's value over the run: ``points`` are ``[t_s, value]``; value None where there was no data."""

    slo: Slo
    points: list[tuple[float, float | None]]


class Step(msgspec.Struct, kw_only=True):
    """One turn of the agent."""

    step: int
    time_s: float
    wall_s: float
    reply: str
    action: str
    args: dict[str, Any]
    valid: bool
    observation: str


class Check(msgspec.Struct, kw_only=True):
    """One named judgement; ``detail`` is a sentence a person can read."""

    name: str
    ok: bool | None  # None: could not be judged
    detail: str


class Result(msgspec.Struct, kw_only=True):
    """What a grader says. ``score`` in 0..1; ``verdict`` pass, fail or unknown."""

    verdict: str
    score: float
    checks: list[Check]
    metrics: dict[str, Any] = msgspec.field(default_factory=dict)  # AIOpsLab's own keys (TTD, success, ...)


class RunRecord(msgspec.Struct, kw_only=True):
    """``record.json``."""

    version: int = RECORD_VERSION
    run_id: str
    problem: str  # full id, e.g. hipster-target-port-mitigation-1
    task: str  # detection | localization | analysis | mitigation | incident
    app: str
    namespace: str
    agent: str
    seed: int
    cluster: str
    versions: dict[str, str]
    config: dict[str, Any]
    started_at: float  # cluster time, Unix seconds
    wall_started_at: float
    phases: list[Phase] = msgspec.field(default_factory=list)
    injection: Injection | None = None
    expected: Expected | None = None
    slos: list[Slo] = msgspec.field(default_factory=list)
    submissions: list[Submission] = msgspec.field(default_factory=list)
    steps: int = 0
    invalid_actions: int = 0
    tokens: dict[str, int] = msgspec.field(default_factory=lambda: {"in": 0, "out": 0})
    outcome: str = ""  # submitted | step-limit | time-limit | agent-failure | lab-failure | interrupted
    failure: str = ""  # one line when outcome is a failure
    result: Result | None = None


class Snapshot(msgspec.Struct, kw_only=True):
    """Objects of the app's namespace at one instant, as the API returned them (managedFields removed)."""

    at_s: float
    objects: dict[str, list[dict[str, Any]]]  # resource -> objects


def read_record(folder: Path) -> RunRecord:
    """Load ``record.json`` of a record folder."""
    return msgspec.json.decode((folder / "record.json").read_bytes(), type=RunRecord)


def write_record(folder: Path, record: RunRecord) -> None:
    """Write ``record.json`` so that a reader sees the old or the new one, never half."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / "record.json.tmp"
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1))
    draft.replace(folder / "record.json")


def read_steps(folder: Path) -> list[Step]:
    """Load ``trajectory.jsonl``; an absent file is an empty trajectory."""
    path = folder / "trajectory.jsonl"
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Step) for line in path.read_bytes().splitlines() if line.strip()]


def read_snapshot(folder: Path, name: str) -> Snapshot | None:
    """Load ``snapshots/<name>.json``, or None when the run did not get that far."""
    path = folder / "snapshots" / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=Snapshot) if path.exists() else None


def read_slos(folder: Path) -> list[SloSeries]:
    """Load ``telemetry/slo.json``; empty when the run did not get that far."""
    path = folder / "telemetry" / "slo.json"
    return msgspec.json.decode(path.read_bytes(), type=list[SloSeries]) if path.exists() else []
