"""What a person sees while a run goes on: the phases as they pass, and the agent's steps."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from aiopslab.session.progress import Event

SETUP = ("setup", "deploy", "load", "baseline", "inject")
_ACTION_MAX = 100  # characters of an action shown


class Display(AbstractContextManager["Display"]):
    """A listener of a run's events that draws on ``console``: a bar over the set-up, then a line per step.

    On something that is not a terminal it prints the same lines without a bar.
    """

    def __init__(self, console: Console, *, steps: bool = True) -> None:
        self._console, self._steps = console, steps
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn())
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task("starting", total=len(SETUP))
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_bar()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        draw = {
            "run-started": self._started,
            "phase-started": self._phase_started,
            "phase-ended": self._phase_ended,
            "note": self._note,
            "step": self._step,
            "submitted": self._submitted,
        }.get(event.kind)
        if draw is not None:
            draw(event)

    def _started(self, event: Event) -> None:
        detail = event.detail
        self._console.print(
            Text(
                f"seed {detail.get('seed')}  {detail.get('problem')}  on {detail.get('cluster')}",
                style="bold",
            )
        )

    def _phase_started(self, event: Event) -> None:
        if event.phase == "agent":
            self._end_bar()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=event.text)

    def _phase_ended(self, event: Event) -> None:
        if self._bar is not None and self._task is not None and event.phase in SETUP:
            self._bar.advance(self._task)
        if event.phase == "agent":
            return
        wall_s = event.detail.get("wall_s", 0.0)
        if event.detail.get("ok", True):
            self._console.print(Text(f"  {event.phase:<10} {wall_s:6.2f} s  {event.text}"))
        else:
            self._console.print(
                Text(f"  {event.phase:<10} {wall_s:6.2f} s  failed: {event.text}", style="red")
            )

    def _note(self, event: Event) -> None:
        self._console.print(Text(f"  {event.text}", style="dim"))

    def _step(self, event: Event) -> None:
        if not self._steps:
            return
        detail = event.detail
        head = f"  step {detail.get('step')}/{detail.get('max_steps')}  "
        command = detail.get("args", {}).get("command") if detail.get("action") == "exec_shell" else None
        body = _shortened(f"$ {command}" if command else event.text)
        self._console.print(Text(head + body, style="" if detail.get("valid", True) else "yellow"))

    def _submitted(self, event: Event) -> None:
        self._console.print(
            Text(f"  submitted {event.detail.get('stage')}: {_shortened(str(event.detail.get('value')))}")
        )

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = self._task = None


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _ACTION_MAX else line[: _ACTION_MAX - 1] + "…"
