"""Keeps a run's record and tells its listeners: phases, steps, submissions, times."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from aiopslab.cluster.base import Cluster
from aiopslab.errors import LabFailure
from aiopslab.record import Phase, Step, Submission
from aiopslab.session.progress import Event, Listener
from aiopslab.session.record import RecordWriter

_READS = frozenset({"get", "list", "watch"})


@dataclass(slots=True)
class Ending:
    """What is said when a phase ends; the phase's code sets it."""

    text: str = ""


@dataclass(slots=True)
class _Stretch:
    name: str
    start: float
    end: float
    wall_s: float


class Diary:
    """Writes down what happens. Times become seconds since the injection, once there is one."""

    def __init__(self, writer: RecordWriter, listener: Listener) -> None:
        self.writer, self._listener = writer, listener
        self.cluster: Cluster | None = None
        self.injected_at: float | None = None
        self.phase = ""
        self._started, self._stretches = time.monotonic(), list[_Stretch]()
        self._audit_seen = 0
        self._last = 0.0

    async def now(self) -> float:
        """Cluster time, or the last known one when the cluster does not answer any more."""
        if self.cluster is not None:
            try:
                self._last = await self.cluster.clock.now()
            except LabFailure:
                self.cluster = None
        return self._last

    def since_injection(self, moment: float) -> float:
        """Seconds since the injection, or since the start of the run when nothing has been injected yet."""
        origin = self.injected_at if self.injected_at is not None else self.writer.record.started_at
        return round(moment - origin, 3)

    @asynccontextmanager
    async def during(self, name: str, text: str) -> AsyncIterator[Ending]:
        """A phase of the run. It is recorded however it ends."""
        ending, began_wall, began = Ending(text), time.monotonic(), await self.now()
        self.phase = name
        self.tell("phase-started", text)
        ok = False
        try:
            yield ending
            ok = True
        finally:
            wall_s = time.monotonic() - began_wall
            if began == 0.0 and self.cluster is not None:
                began = self.writer.record.started_at
            self._stretches.append(_Stretch(name, began, await self.now(), wall_s))
            self.save()
            self.tell("phase-ended", ending.text, wall_s=round(wall_s, 3), ok=ok)

    def tell(self, kind: Any, text: str, **detail: Any) -> None:
        """Tell the listener. What it raises is its own affair."""
        start = self.writer.record.started_at
        event = Event(
            kind=kind,
            phase=self.phase,
            text=text,
            cluster_s=max(0.0, self._last - start) if start else 0.0,
            wall_s=time.monotonic() - self._started,
            detail=detail,
        )
        try:
            self._listener(event)
        except Exception as error:
            self.writer.note_trouble(f"listener: {type(error).__name__}: {error}")

    def save(self) -> None:
        """Bring ``record.json`` up to date."""
        self.writer.record.phases = [
            Phase(
                name=one.name,
                start_s=self.since_injection(one.start),
                end_s=self.since_injection(one.end),
                wall_s=round(one.wall_s, 3),
            )
            for one in self._stretches
        ]
        self.writer.save()

    def step(self, step: Step, max_steps: int) -> None:
        """One turn of the agent."""
        record = self.writer.record
        record.steps = step.step
        record.invalid_actions += not step.valid
        self.writer.step(step)
        shown = ", ".join(f"{name}={value!r}" for name, value in step.args.items())
        text = f"{step.action}({shown})" if step.action else step.observation.split("\n", 1)[0]
        self.tell(
            "step",
            text,
            step=step.step,
            max_steps=max_steps,
            action=step.action,
            args=step.args,
            valid=step.valid,
            reply=step.reply,
            observation=step.observation,
        )

    def submission(self, submission: Submission) -> None:
        """One answer of the agent."""
        self.writer.record.submissions.append(submission)
        self.save()
        self.tell(
            "submitted", f"{submission.stage}: {submission.value!r}", stage=submission.stage, value=submission.value
        )

    async def collect_audit(self) -> None:
        """Write down the API requests that the agent's identity made since the last time."""
        if self.cluster is None:
            return
        entries = [e for e in await self.cluster.audit(self._audit_seen) if int(e.get("n", 0)) > self._audit_seen]
        if entries:
            self._audit_seen = max(int(entry["n"]) for entry in entries)
            # The shift depends on the machine's clock: the record of two equal runs is equal without it.
            kept = [{k: v for k, v in entry.items() if k != "shift_s"} for entry in entries]
            self.writer.audit(_in_order(kept))


def _in_order(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``entries`` with neighbouring reads of one instant by path: clients send some of them at once, and the order
    in which they arrive is chance. ``n`` counts on as before.
    """
    ordered: list[dict[str, Any]] = []
    stretches = groupby(entries, lambda entry: (entry.get("at"), entry.get("verb") in _READS))
    for (_, reads), stretch in stretches:
        ordered += sorted(stretch, key=lambda e: (str(e.get("path")), str(e.get("verb")))) if reads else stretch
    numbers = [entry["n"] for entry in entries]
    return [{**entry, "n": number} for number, entry in zip(numbers, ordered, strict=True)]
