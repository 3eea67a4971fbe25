"""CronJob: creates Jobs on a schedule, honours the concurrency policy, keeps a bounded history."""

from __future__ import annotations

from collections.abc import Iterable

from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.controllers import cron
from aiopslab.sim.core.controllers.common import (
    Base,
    condition,
    controlled_by,
    controller_of,
    deleting,
    error_text,
    is_code,
    key_of,
    owner_reference,
)
from aiopslab.sim.core.kernel import parse_time, rfc3339
from aiopslab.sim.core.store import Change, Key, Obj

RESOURCE, JOBS = "batch/cronjobs", "batch/jobs"
SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MISSED_MAX = 100


class CronJobs(Base):
    """The cronjob-controller."""

    name = "cronjob-controller"

    def keys(self, change: Change) -> Iterable[Key]:
        """CronJobs, and Jobs of theirs."""
        if change.key.resource == RESOURCE:
            return (change.key,)
        if change.key.resource != JOBS:
            return ()
        owner = controller_of(change.obj)
        mine = owner is not None and owner["kind"] == "CronJob"
        return (Key(RESOURCE, change.key.namespace, owner["name"]),) if owner and mine else ()

    def reconcile(self, key: Key) -> None:
        """Book finished Jobs, trim the history, start what is due, wake up for the next time."""
        cron_job = self.store.get(key)
        if cron_job is None or deleting(cron_job):
            self.kernel.cancel(f"{self.name}/{'/'.join(key)}")
            return
        jobs = [
            job for job in self.index.owned(cron_job["metadata"]["uid"], JOBS) if controlled_by(job, cron_job)
        ]
        status = self._booked(cron_job, jobs)
        self._trim(cron_job, jobs)
        if not cron_job["spec"].get("suspend"):
            self._run_if_due(key, cron_job, status)
        self.update_status(key, status)

    def _booked(self, cron_job: Obj, jobs: list[Obj]) -> Obj:
        status = dict(cron_job.get("status") or {})
        by_uid = {job["metadata"]["uid"]: job for job in jobs}
        active = []
        for reference in status.get("active") or ():
            job = by_uid.get(reference["uid"])
            if job is None:
                text = f"Active job went missing: {reference['name']}"
                self.event(cron_job, "Normal", "MissingJob", text)
                continue
            outcome = _outcome(job)
            if outcome is None:
                active.append(reference)
                continue
            text = f"Saw completed job: {reference['name']}, condition: {outcome}"
            self.event(cron_job, "Normal", "SawCompletedJob", text)
        finished = [job["status"]["completionTime"] for job in jobs if _outcome(job) == "Complete"]
        if finished:
            status["lastSuccessfulTime"] = max(finished)
        status.pop("active", None)
        if active:
            status["active"] = active
        return status

    def _trim(self, cron_job: Obj, jobs: list[Obj]) -> None:
        for outcome, field, usual in (
            ("Complete", "successfulJobsHistoryLimit", 3),
            ("Failed", "failedJobsHistoryLimit", 1),
        ):
            limit = cron_job["spec"].get(field, usual)
            ended = sorted(
                (job for job in jobs if _outcome(job) == outcome and not deleting(job)),
                key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]),
            )
            for job in ended[: max(0, len(ended) - limit)]:
                self.delete(key_of(JOBS, job), job["metadata"]["uid"], propagation="Background")
                self.event(cron_job, "Normal", "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")

    def _run_if_due(self, key: Key, cron_job: Obj, status: Obj) -> None:
        spec, now = cron_job["spec"], self.kernel.now
        try:
            schedule = cron.parse(spec["schedule"], spec.get("timeZone") or "")
        except (ValueError, KeyError) as error:
            text = f"unparseable schedule: {spec['schedule']} : {error}"
            self.event(cron_job, "Warning", "UnparseableSchedule", text)
            return
        due = self._latest_due(cron_job, status, schedule)
        if due is not None and self._may_run(cron_job, status, due):
            self._start(cron_job, status, due)
        upcoming = schedule.next(now)
        if upcoming is not None:
            self.requeue_after(upcoming - now, key)

    def _latest_due(self, cron_job: Obj, status: Obj, schedule: cron.Schedule) -> float | None:
        """The last scheduled time that has passed and was not run."""
        since = parse_time(status.get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"])
        deadline_s = cron_job["spec"].get("startingDeadlineSeconds")
        if deadline_s is not None:
            since = max(since, self.kernel.now - deadline_s)
        due = None
        for _ in range(MISSED_MAX):
            upcoming = schedule.next(since)
            if upcoming is None or upcoming > self.kernel.now:
                break
            due = since = upcoming
        return due

    def _may_run(self, cron_job: Obj, status: Obj, due: float) -> bool:
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        active = status.get("active") or []
        if active and policy == "Forbid":
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.event(cron_job, "Normal", "JobAlreadyActive", text)
            return False
        if active and policy == "Replace":
            for reference in active:
                job = Key(JOBS, cron_job["metadata"]["namespace"], reference["name"])
                self.delete(job, reference["uid"], propagation="Background")
                self.event(cron_job, "Normal", "SuccessfulDelete", f"Deleted job {reference['name']}")
            status.pop("active")
        return True

    def _start(self, cron_job: Obj, status: Obj, due: float) -> None:
        meta, template = cron_job["metadata"], cron_job["spec"]["jobTemplate"]
        own = template.get("metadata") or {}
        name = f"{meta['name']}-{int(due) // 60}"
        metadata: Obj = {
            "name": name,
            "namespace": meta["namespace"],
            "annotations": {**(own.get("annotations") or {}), SCHEDULED_AT: rfc3339(due)},
            "ownerReferences": [owner_reference(cron_job)],
        }
        if own.get("labels"):
            metadata["labels"] = own["labels"]
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}
        try:
            job = self.api.create(JOBS, meta["namespace"], body, self.options)
        except ApiError as error:
            if not is_code(error, "AlreadyExists"):
                self.event(cron_job, "Warning", "FailedCreate", f"Error creating job: {error_text(error)}")
            return
        self.event(cron_job, "Normal", "SuccessfulCreate", f"Created job {name}")
        reference = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "namespace": meta["namespace"],
            "resourceVersion": job["metadata"]["resourceVersion"],
            "uid": job["metadata"]["uid"],
        }
        status["active"] = [*(status.get("active") or ()), reference]
        status["lastScheduleTime"] = rfc3339(due)


def _outcome(job: Obj) -> str | None:
    for type_ in ("Complete", "Failed"):
        entry = condition(job, type_)
        if entry is not None and entry["status"] == "True":
            return type_
    return None
