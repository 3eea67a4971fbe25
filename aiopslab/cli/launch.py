"""From flags to a judged run: what ``run``, ``check`` and ``shell`` share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from aiopslab.cli.flags import draw_seed

Seconds = float


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class RunFlags:
    """Flags of every verb that runs a problem."""

    seed: Annotated[int | None, Parameter(help="Seed of everything random; drawn when not given.")] = None
    cluster: Annotated[Literal["embedded", "kind", "kubeconfig"], Parameter(help="What to run on.")] = (
        "embedded"
    )
    clock: Annotated[
        Literal["stepped", "wall"],
        Parameter(help="Embedded: time moves with the agent's steps, or by itself."),
    ] = "stepped"
    max_steps: Annotated[int | None, Parameter(help="Steps that the agent has.")] = None
    baseline: Annotated[
        Seconds | None, Parameter(help="Healthy time before the fault, in seconds of cluster time.")
    ] = None
    think_time: Annotated[
        Seconds | None, Parameter(help="Cluster time that each step costs, in seconds (stepped clock).")
    ] = None
    bundle: Annotated[
        list[Path] | None, Parameter(help="Another folder of content; may be repeated.", negative="")
    ] = None
    kubeconfig: Annotated[Path | None, Parameter(help="With --cluster kubeconfig.")] = None
    prometheus_url: Annotated[str, Parameter(help="With --cluster kubeconfig.")] = ""
    jaeger_url: Annotated[str, Parameter(help="With --cluster kubeconfig.")] = ""
    out: Annotated[Path, Parameter(help="Where record folders go.")] = Path("records")
    unsafe_shell: Annotated[
        bool, Parameter(help="Run the agent's commands on this machine without a sandbox.", negative="")
    ] = False
