"""The steps of a run around the agent: deploy, load, baseline, injection, settling, recovery."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from aiopslab.catalog.manifests import App, ProblemTask, Symptom
from aiopslab.errors import InjectionError, LabFailure
from aiopslab.kube.workloads import not_ready
from aiopslab.record import Snapshot
from aiopslab.session.diary import Diary
from aiopslab.session.stage import Stage
from aiopslab.telemetry.slo import compare, evaluate, violations

POLL_S = 15.0
BASELINE_GRACE_S = 120.0
RECOVERY_S_MAX = 180.0


async def deploy(stage: Stage, diary: Diary, app: App) -> None:
    """Install the app and wait until it is ready."""
    async with diary.during("deploy", f"installing {app.title}") as ending:
        await stage.deployer.deploy(app)
        ending.text = f"{app.title} is ready"


async def start_load(stage: Stage, diary: Diary, task: ProblemTask) -> None:
    """Let users come."""
    async with diary.during("load", f"starting {task.workload.title}") as ending:
        await stage.loader.start(task.workload, task.app, task.problem.workload_params)
        ending.text = f"{task.workload.title} runs"


async def baseline(stage: Stage, diary: Diary, app: App, seconds: float) -> None:
    """Let a healthy stretch pass. LabFailure when the users' objectives do not hold at its end."""
    clock = stage.cluster.clock
    async with diary.during("baseline", f"{seconds:g} s of healthy operation") as ending:
        now = await clock.sleep(seconds)
        broken = await violations(stage.metrics, app.slos, now)
        end = now + BASELINE_GRACE_S
        while broken and now < end:
            now = await clock.sleep(POLL_S)
            broken = await violations(stage.metrics, app.slos, now)
        if broken:
            raise LabFailure(f"{app.id} is not healthy before anything was broken: {'; '.join(broken)}")
        ending.text = f"healthy after {seconds:g} s: all {len(app.slos)} objectives hold"


async def inject(stage: Stage, diary: Diary, task: ProblemTask) -> None:
    """Break what the problem breaks, and see that it bites. Without a fault only the time is taken."""
    record = diary.writer.record
    text = "breaking something" if task.fault else "leaving everything as it is"
    async with diary.during("inject", text) as ending:
        began = await stage.cluster.clock.now()
        before = await snapshot(stage, diary, task.app)
        diary.writer.snapshot("before", before)
        if task.fault is None:
            diary.injected_at = await stage.cluster.clock.now()
            ending.text = "nothing was broken"
        else:
            injection = await stage.injector.inject(
                task.fault, task.params, diary.writer.journal, task.app.namespace
            )
            record.injection, diary.injected_at = injection, injection.injected_at
            diary.save()
            if task.symptom is not None:
                injection.symptom_after_s = await _bite(stage, task.symptom, injection.injected_at)
                ending.text = f"the fault shows after {injection.symptom_after_s:g} s"
        before.at_s = diary.since_injection(began)
        diary.writer.snapshot("before", before)
        diary.writer.snapshot("injected", await snapshot(stage, diary, task.app))


async def _bite(stage: Stage, symptom: Symptom, injected_at: float) -> float:
    """Seconds from the injection until the symptom shows. InjectionError when it does not within its budget."""
    clock = stage.cluster.clock
    now, value = await clock.now(), None
    while now - injected_at <= symptom.budget_s:
        value = await stage.metrics.value(symptom.expr, now)
        if value is not None and compare(value, symptom.op, symptom.threshold):
            return round(now - injected_at, 3)
        now = await clock.sleep(POLL_S)
    shown = "without data" if value is None else f"{value:.4g}"
    raise InjectionError(
        f"the fault does not show after {symptom.budget_s:g} s: its symptom is {shown}, and should be"
        f" {symptom.op} {symptom.threshold:g}"
    )


async def settle(stage: Stage, diary: Diary, app: App, seconds: float) -> None:
    """Let what the agent did take effect, then keep the final state."""
    async with diary.during("settle", f"{seconds:g} s for the last change to take effect") as ending:
        await stage.cluster.clock.sleep(seconds)
        diary.writer.snapshot("end", await snapshot(stage, diary, app))
        record = diary.writer.record
        if app.slos and diary.injected_at is not None:
            now = await stage.cluster.clock.now()
            start = _baseline_start(diary)
            series = await evaluate(stage.metrics, app.slos, start, now, origin=diary.injected_at)
            diary.writer.slos(series)
        record.slos = list(app.slos)
        ending.text = "final state kept"


def _baseline_start(diary: Diary) -> float:
    assert diary.injected_at is not None
    starts = [phase.start_s for phase in diary.writer.record.phases if phase.name == "baseline"]
    return diary.injected_at + (starts[0] if starts else 0.0)


async def recover(stage: Stage, diary: Diary, app: App) -> None:
    """Take back what is left of the fault, wait until the app is whole, keep that state."""
    if not diary.writer.journal.exists():
        return
    async with diary.during("recover", "taking the fault back") as ending:
        await stage.injector.recover(diary.writer.journal)
        clock = stage.cluster.clock
        end = await clock.now() + RECOVERY_S_MAX
        lacking: Sequence[str] = await not_ready(stage.kube, app.namespace)
        while lacking and await clock.sleep(POLL_S) < end:
            lacking = await not_ready(stage.kube, app.namespace)
        diary.writer.snapshot("recovery", await snapshot(stage, diary, app))
        ending.text = f"recovered, but not ready: {', '.join(lacking)}" if lacking else "the fault is gone"


async def tear_down(stage: Stage, diary: Diary, app: App) -> None:
    """Take away what the run put on a cluster that outlives it. One failure does not keep the rest from
    happening.
    """
    if not stage.shared:
        return
    async with diary.during("teardown", "cleaning up"):
        errors: list[str] = []
        for act in (stage.loader.stop, lambda: stage.deployer.undeploy(app)):
            try:
                await act()
            except LabFailure as error:
                errors.append(str(error))
        if errors:
            raise LabFailure("; ".join(errors))


async def snapshot(stage: Stage, diary: Diary, app: App) -> Snapshot:
    """The objects of the app's namespace now."""
    now = await stage.cluster.clock.now()
    return await stage.kube.list_all(app.namespace, diary.since_injection(now))


async def finish(work: Coroutine[Any, Any, None]) -> None:
    """Await ``work`` to its end even when this task is cancelled meanwhile; the cancellation is passed on
    afterwards.
    """
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            cancelled = True
        except BaseException:
            break
    if cancelled and not task.cancelled() and task.exception() is None:
        raise asyncio.CancelledError
    task.result()
