"""From flags to a judged run: what ``run``, ``check`` and ``shell`` share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from aiopslab.cli.flags import draw_seed
from aiopslab.cli.running import run_async
from aiopslab.errors import UsageError
from aiopslab.record import Result, RunRecord

if TYPE_CHECKING:
    from aiopslab.session.options import RunOptions
    from aiopslab.session.progress import Event

PERSON_WALL_S = 7 * 86_400.0  # how long a person may take over a reply: nobody is hurried


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class RunFlags:
    """Flags of every verb that runs a problem. Times in seconds of cluster time."""

    seed: Annotated[int | None, Parameter(help="Seed of everything random; drawn when not given.")] = None
    cluster: Annotated[Literal["embedded", "kind", "kubeconfig"], Parameter(help="What to run on.")] = (
        "embedded"
    )
    clock: Annotated[
        Literal["stepped", "wall"],
        Parameter(help="Embedded: time moves with the agent's steps, or by itself."),
    ] = "stepped"
    max_steps: Annotated[int, Parameter(help="Steps that the agent has.")] = 30
    baseline: Annotated[
        float | None, Parameter(help="Healthy seconds before the fault; default 600, on the wall clock 60.")
    ] = None
    think_time: Annotated[float, Parameter(help="Seconds that each step costs on the stepped clock.")] = 10.0
    bundle: Annotated[
        list[Path] | None, Parameter(help="Another folder of content; may be repeated.", negative="")
    ] = None
    kubeconfig: Annotated[Path | None, Parameter(help="With --cluster kubeconfig.")] = None
    prometheus_url: Annotated[str, Parameter(help="With --cluster kubeconfig.")] = ""
    jaeger_url: Annotated[str, Parameter(help="With --cluster kubeconfig.")] = ""
    noise: Annotated[
        Literal["off", "light", "full"],
        Parameter(help="Embedded: what a healthy cluster does by itself, though nothing is wrong."),
    ] = "off"
    out: Annotated[Path, Parameter(help="Where record folders go.")] = Path("records")
    unsafe_shell: Annotated[
        bool, Parameter(help="Run the agent's commands on this machine without a sandbox.", negative="")
    ] = False


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that came to its end, judged."""

    record: RunRecord
    result: Result
    folder: Path


def launch(
    problem: str,
    agent: Any,
    flags: RunFlags,
    listener: Callable[[Event], None],
    *,
    person: bool = False,
) -> Finished:
    """Run one problem and judge it. Wrong input raises before anything is started.

    ``agent`` is what ``--agent`` takes, or an agent. ``person`` lifts the limits on the time of a reply.
    KeyboardInterrupt comes after everything is taken down; where the record is has then been said on stderr.
    """
    from aiopslab.session.run import run_problem

    folder = _FolderNote(listener)
    try:
        record, path = run_async(run_problem(problem, agent, options_of(flags, person=person), folder))
    except KeyboardInterrupt:
        if folder.path:
            print(f"aiopslab: the record so far is in {folder.path}", file=sys.stderr)
        raise
    result = record.result or Result(verdict="unknown", score=0.0, checks=[])
    return Finished(record, result, path)


def options_of(flags: RunFlags, *, person: bool = False) -> RunOptions:
    """The session's options for these flags; a seed is drawn when none is given."""
    from aiopslab.session.limits import Limits
    from aiopslab.session.options import RunOptions

    if flags.cluster != "kubeconfig":
        given = [name for name in ("kubeconfig", "prometheus_url", "jaeger_url") if getattr(flags, name)]
        if given:
            raise UsageError(
                f"--{given[0].replace('_', '-')} belongs to --cluster kubeconfig: add that, or leave it out"
            )
    limits = Limits(reply_wall_s=PERSON_WALL_S, run_wall_s=PERSON_WALL_S) if person else Limits()
    return RunOptions(
        seed=draw_seed(flags.seed),
        cluster=flags.cluster,
        clock=flags.clock,
        max_steps=flags.max_steps,
        baseline_s=flags.baseline,
        think_time_s=flags.think_time,
        bundles=tuple(flags.bundle or ()),
        kubeconfig=flags.kubeconfig,
        prometheus_url=flags.prometheus_url,
        jaeger_url=flags.jaeger_url,
        noise=flags.noise,
        out=flags.out,
        unsafe_shell=flags.unsafe_shell,
        limits=limits,
    )


class _FolderNote:
    """Passes events on and remembers where the record is."""

    def __init__(self, listener: Callable[[Event], None]) -> None:
        self._listener = listener
        self.path = ""

    def __call__(self, event: Event) -> None:
        if event.kind == "run-started":
            self.path = str(event.detail.get("folder", ""))
        self._listener(event)
