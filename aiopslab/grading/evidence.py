"""What the graders look at: a record's parts, read once and never changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from aiopslab.record import (
    Check,
    Expected,
    RunRecord,
    SloSeries,
    Snapshot,
    Step,
    Submission,
    read_record,
    read_slos,
    read_snapshot,
    read_steps,
)

SNAPSHOTS = ("before", "injected", "end")

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One run as graders see it. ``snapshots`` holds those of ``SNAPSHOTS`` that the run got to;
    ``audit`` the API requests made with the agent's identity, empty where the cluster cannot tell; ``saved`` what
    the injector noted before it changed anything."""

    record: RunRecord
    expected: Expected
    snapshots: Mapping[str, Snapshot]
    slos: Sequence[SloSeries] = ()
    steps: Sequence[Step] = ()
    audit: Sequence[Mapping[str, Any]] = ()
    saved: Mapping[str, Any] = field(default_factory=dict)

    def submissions(self, stage: str) -> list[Submission]:
        """Submissions to ``stage``, oldest first."""
        return [entry for entry in self.record.submissions if entry.stage == stage]


@dataclass(frozen=True, slots=True)
class Judgement:
    """One task's judgement: every check decides, ``score`` in 0..1, ``metrics`` are for the reader."""

    checks: list[Check]
    score: float
    metrics: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """``fail`` when a check failed, else ``unknown`` when one could not be judged, else ``pass``."""
        return verdict_of(self.checks)

    @property
    def passed(self) -> bool:
        return self.verdict == "pass"


def verdict_of(checks: Iterable[Check]) -> str:
    """The verdict that a set of deciding checks gives. No checks at all judge nothing: ``unknown``."""
    outcomes = [check.ok for check in checks]
    if False in outcomes:
        return "fail"
    return "pass" if outcomes and None not in outcomes else "unknown"


def share(outcomes: Sequence[bool | None]) -> float:
    """The part of ``outcomes`` that is True, 0..1; an unjudged one counts as not shown."""
    return sum(1 for ok in outcomes if ok) / len(outcomes) if outcomes else 0.0


def objects(snapshot: Snapshot | None, plural: str) -> list[Obj]:
    """Objects of one resource by its plural (``deployments``), whatever its group, sorted by name."""
    if snapshot is None:
        return []
    found = [
        obj for resource, rows in snapshot.objects.items() if plural_of(resource) == plural for obj in rows
    ]
    return sorted(found, key=name_of)


def plural_of(resource: str) -> str:
    """``apps/deployments`` and ``deployments.apps`` → ``deployments``."""
    return resource.rsplit("/", 1)[-1].split(".", 1)[0]


def name_of(obj: Mapping[str, Any]) -> str:
    """``metadata.name``, or an empty text."""
    return str((obj.get("metadata") or {}).get("name") or "")


def controller_of(obj: Mapping[str, Any]) -> tuple[str, str] | None:
    """``(kind, name)`` of the object's managing owner, or None."""
    for owner in (obj.get("metadata") or {}).get("ownerReferences") or []:
        if owner.get("controller"):
            return str(owner.get("kind")), str(owner.get("name"))
    return None


def load(folder: Path) -> dict[str, Any]:
    """Every part of a record folder that grading uses, as the arguments of ``grade_record``."""
    return {
        "record": read_record(folder),
        "snapshots": {
            name: found for name in SNAPSHOTS if (found := read_snapshot(folder, name)) is not None
        },
        "slos": read_slos(folder),
        "steps": read_steps(folder),
        "audit": _read_audit(folder),
        "saved": _read_saved(folder),
    }


def _read_audit(folder: Path) -> list[Obj]:
    path = folder / "audit.jsonl"
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=dict) for line in path.read_bytes().splitlines() if line.strip()]


def _read_saved(folder: Path) -> Obj:
    path = folder / "journal.json"
    saved = msgspec.json.decode(path.read_bytes(), type=dict).get("saved") if path.exists() else None
    return saved if isinstance(saved, dict) else {}
