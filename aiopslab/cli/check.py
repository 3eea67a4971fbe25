"""``aiopslab check PROBLEM|FOLDER``: prove a problem both ways.

Each variant is run twice with the same seed: once by an agent that does nothing and once by the recorded solution.
A problem is sound when its application is healthy before, the fault shows, doing nothing fails, the solution
passes, and recovery leaves the application as it was. Where nothing is wrong, doing nothing must pass.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from aiopslab.catalog.bundles import bundle_of
from aiopslab.catalog.catalog import Catalog
from aiopslab.catalog.manifests import Problem
from aiopslab.cli.flags import Json, draw_seed
from aiopslab.cli.launch import Finished, RunFlags, launch
from aiopslab.cli.output import console, print_json
from aiopslab.errors import UnknownIdError
from aiopslab.grading import check_recovered
from aiopslab.record import Check, read_snapshot

NOTHING, SOLUTION = "noop", "solution"
_REASONS_SHOWN = 3


def check(problem: str, *, flags: RunFlags | None = None, json: Json = False) -> int:
    """Prove a problem both ways: doing nothing fails, the recorded solution passes.

    Exit code: 0 sound, 1 not, 3 the lab failed.

    Parameters
    ----------
    problem
        A task id, a problem, or a problem's folder. Of a problem, every variant is checked.
    """
    flags = flags or RunFlags()
    flags = replace(flags, seed=draw_seed(flags.seed))
    ids, flags = resolve(problem, flags)
    out = console(stderr=json)
    out.print(f"seed {flags.seed}")
    found: dict[str, list[Check]] = {}
    lab_failed = False
    for task_id in ids:
        out.print(f"\n{task_id}")
        runs = {agent: _run(task_id, agent, flags) for agent in (NOTHING, SOLUTION)}
        found[task_id] = prove(runs[NOTHING], runs[SOLUTION])
        lab_failed |= any(run.record.outcome == "lab-failure" for run in runs.values())
        for row in found[task_id]:
            mark = {True: "✓", False: "✗", None: "?"}[row.ok]
            out.print(f"  {mark} {row.name:<22} {row.detail}", markup=False)
    sound = all(row.ok for rows in found.values() for row in rows)
    if json:
        print_json({"problem": problem, "seed": flags.seed, "sound": sound, "checks": found})
    else:
        out.print("\nsound" if sound else "\nnot sound")
    return 0 if sound else 3 if lab_failed else 1


def resolve(wanted: str, flags: RunFlags) -> tuple[list[str], RunFlags]:
    """The task ids to check, and the flags with the bundle of a folder added."""
    if Path(wanted).is_dir():
        folder = Path(wanted)
        bundles = [*(flags.bundle or []), bundle_of(folder)]
        return tasks_of(Catalog.load(bundles).at(folder)), replace(flags, bundle=bundles)
    catalog = Catalog.load(flags.bundle or [])
    if wanted in catalog.problems:
        return tasks_of(catalog.problems[wanted]), flags
    try:
        return [catalog.problem(wanted).id], flags
    except UnknownIdError:
        raise UnknownIdError("problem", wanted, [*catalog.problems, *catalog.problem_ids()]) from None


def tasks_of(problem: Problem) -> list[str]:
    """Tasks that together exercise a problem: each variant's incident, which has all stages, else each task."""
    tasks = ["incident"] if "incident" in problem.tasks else list(problem.tasks)
    numbers = range(1, len(problem.variants) + 1)
    return [f"{problem.id}-{task}-{number}" for task in tasks for number in numbers]


def _run(task_id: str, agent: str, flags: RunFlags) -> Finished:
    from aiopslab.cli.progress import Display

    with Display(console(stderr=True)) as display:
        return launch(task_id, agent, flags, display)


def prove(nothing: Finished, solution: Finished) -> list[Check]:
    """What the two runs show, as checks in the order of a run."""
    anomaly = bool(nothing.record.expected and nothing.record.expected.anomaly)
    wanted = "fail" if anomaly else "pass"
    checks = [_healthy_before(nothing)]
    if anomaly:
        checks.append(_symptom(nothing))
    checks.append(_verdict(f"doing nothing {'fails' if anomaly else 'passes'}", nothing, wanted))
    checks.append(_verdict("the solution passes", solution, "pass"))
    checks.append(_clean_after(nothing))
    return checks


def _healthy_before(run: Finished) -> Check:
    name = "healthy before"
    phases = {phase.name: phase for phase in run.record.phases}
    if "inject" not in phases:  # the gate at the end of the baseline did not open
        return Check(name=name, ok=False, detail=run.record.failure or "The run never got to the injection.")
    baseline = phases["baseline"]
    span_s = baseline.end_s - baseline.start_s
    return Check(name=name, ok=True, detail=f"Every service level held after {span_s:.0f} s of operation.")


def _symptom(run: Finished) -> Check:
    injection = run.record.injection
    after_s = injection.symptom_after_s if injection else None
    if after_s is None:
        return Check(name="symptom after", ok=False, detail=run.record.failure or "The fault never showed.")
    return Check(
        name="symptom after", ok=True, detail=f"Users felt the fault {after_s:.0f} s after the injection."
    )


def _verdict(name: str, run: Finished, wanted: str) -> Check:
    result: Any = run.result
    text = f"Verdict {result.verdict}, score {result.score:.2f}."
    if result.verdict != wanted:
        reasons = [f"{row.name}: {row.detail}" for row in result.checks if row.ok is not True]
        text = " ".join([text, *reasons[:_REASONS_SHOWN]])
    return Check(name=name, ok=result.verdict == wanted, detail=text)


def _clean_after(run: Finished) -> Check:
    last = "recovery" if run.record.injection else "end"  # without a fault there is nothing to recover from
    before, after = (read_snapshot(run.folder, name) for name in ("before", last))
    found = check_recovered(before, after)
    return Check(name="clean after recovery", ok=found.ok, detail=found.detail)
