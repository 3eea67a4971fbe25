"""Job: runs pods to completion, with retries, indexes, deadlines, suspension and clean-up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from aiopslab.sim.core.api import Api
from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers.common import (
    Base,
    annotations_of,
    condition,
    controlled_by,
    controller_of,
    deleting,
    error_text,
    key_of,
    namespace_is_ending,
    without_condition,
)
from aiopslab.sim.core.controllers.index import Index
from aiopslab.sim.core.kernel import Kernel, parse_time
from aiopslab.sim.core.store import Change, Key, Obj

RESOURCE = "batch/jobs"
INDEX = "batch.kubernetes.io/job-completion-index"
# After a failed pod its replacement waits: 10 s, doubling, at most 10 minutes.
BACKOFF_FIRST_S, BACKOFF_MOST_S = 10.0, 600.0


class Outcome(NamedTuple):
    """How a job ends: condition type, reason, message."""

    type: str
    reason: str
    message: str


class Counts(NamedTuple):
    """Pods of a job that have ended, counted once each also when the pod object is gone."""

    succeeded: int
    failed: int
    indexes: frozenset[int]


class Jobs(Base):
    """The job-controller."""

    name = "job-controller"

    def __init__(self, kernel: Kernel, api: Api, index: Index) -> None:
        super().__init__(kernel, api, index)
        self._counted: dict[str, dict[str, tuple[bool, int | None]]] = {}  # job uid -> pod uid -> (ok, index)

    def keys(self, change: Change) -> Iterable[Key]:
        """Jobs, and their pods."""
        if change.key.resource == RESOURCE:
            return (change.key,)
        if change.key.resource != "pods":
            return ()
        owner = controller_of(change.obj)
        if owner is None or owner["kind"] != "Job":
            return ()
        return (Key(RESOURCE, change.key.namespace, owner["name"]),)

    def reconcile(self, key: Key) -> None:
        """One sync: count, end or go on, write the status."""
        job = self.store.get(key)
        if job is None:
            self.forget(key)
            return
        if _ended(job):
            self._expire(key, job)
            return
        if deleting(job):
            return
        pods = [pod for pod in self.index.owned(job["metadata"]["uid"], "pods") if controlled_by(pod, job)]
        counts = self._count(job, pods)
        active = [pod for pod in pods if podlib.active(pod)]
        status = self._started_status(key, job)
        outcome = self._outcome(job, status, pods, counts)
        if outcome is not None:
            self._end(key, job, status, active, counts, outcome)
            return
        if job["spec"].get("suspend"):
            self._suspend(key, job, active)
            active = []
        else:
            active = self._manage(key, job, active, counts)
        self._write(key, job, status, active, counts)

    # Counting ---------------------------------------------------------------------------------------------

    def _count(self, job: Obj, pods: list[Obj]) -> Counts:
        seen = self._counted.setdefault(job["metadata"]["uid"], {})
        for pod in pods:
            failed_by_deletion = deleting(pod) and podlib.phase(pod) in ("Pending", "Running")
            if podlib.finished(pod):
                seen[pod["metadata"]["uid"]] = (podlib.phase(pod) == "Succeeded", completion_index(pod))
            elif failed_by_deletion and not job["spec"].get("suspend"):
                seen.setdefault(pod["metadata"]["uid"], (False, completion_index(pod)))
        good = [index for ok, index in seen.values() if ok]
        indexes = frozenset(index for index in good if index is not None)
        succeeded = len(indexes) if _indexed(job) else len(good)
        return Counts(succeeded, sum(not ok for ok, _ in seen.values()), indexes)

    def _started_status(self, key: Key, job: Obj) -> Obj:
        status = dict(job.get("status") or {})
        if not status.get("startTime") and not job["spec"].get("suspend"):
            status["startTime"] = self.kernel.timestamp()
            deadline_s = job["spec"].get("activeDeadlineSeconds")
            if deadline_s is not None:
                self.requeue_after(float(deadline_s), key)
        return status

    # Ends -------------------------------------------------------------------------------------------------

    def _outcome(self, job: Obj, status: Obj, pods: list[Obj], counts: Counts) -> Outcome | None:
        spec = job["spec"]
        failures = counts.failed
        if spec["template"]["spec"].get("restartPolicy") == "OnFailure":
            failures += sum(podlib.restarts(pod) for pod in pods if podlib.active(pod))
        if failures > spec.get("backoffLimit", 6):
            return Outcome("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        deadline_s = spec.get("activeDeadlineSeconds")
        start = status.get("startTime")
        if deadline_s is not None and start and parse_time(start) + deadline_s <= self.kernel.now:
            return Outcome("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
        wanted = spec.get("completions")
        if wanted is not None:
            done = counts.succeeded >= wanted
        else:
            done = counts.succeeded > 0 and not any(podlib.active(pod) for pod in pods)
        if done and not spec.get("suspend"):
            return Outcome("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        return None

    def _end(
        self, key: Key, job: Obj, status: Obj, active: list[Obj], counts: Counts, outcome: Outcome
    ) -> None:
        for pod in active:
            self.delete(key_of("pods", pod), pod["metadata"]["uid"])
            self.event(job, "Normal", "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
        interim = "FailureTarget" if outcome.type == "Failed" else "SuccessCriteriaMet"
        conditions = list(status.get("conditions") or ())
        for type_ in (interim, outcome.type):
            conditions = [*without_condition(conditions, type_), self._condition(type_, "True", outcome)]
        status["conditions"] = conditions
        failed = counts.failed + (len(active) if outcome.type == "Failed" else 0)
        if outcome.type == "Complete":
            status["completionTime"] = self.kernel.timestamp()
            self.event(job, "Normal", "Completed", "Job completed")
        else:
            self.event(job, "Warning", outcome.reason, outcome.message)
        self._counted.pop(job["metadata"]["uid"], None)
        self._write(key, job, status, [], counts._replace(failed=failed))

    def _condition(self, type_: str, value: str, outcome: Outcome) -> Obj:
        now = self.kernel.timestamp()
        return {
            "type": type_,
            "status": value,
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": outcome.reason,
            "message": outcome.message,
        }

    def _expire(self, key: Key, job: Obj) -> None:
        """``ttlSecondsAfterFinished``."""
        ttl_s = job["spec"].get("ttlSecondsAfterFinished")
        if ttl_s is None or deleting(job):
            return
        entry = condition(job, "Complete") or condition(job, "Failed")
        due = parse_time(entry["lastTransitionTime"]) + ttl_s if entry is not None else self.kernel.now
        if due <= self.kernel.now:
            self.delete(key, job["metadata"]["uid"], propagation="Foreground")
        else:
            self.requeue_after(due - self.kernel.now, key)

    # Pods -------------------------------------------------------------------------------------------------

    def _suspend(self, key: Key, job: Obj, active: list[Obj]) -> None:
        for pod in active:
            self.delete(key_of("pods", pod), pod["metadata"]["uid"])
            self.event(job, "Normal", "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")

    def _manage(self, key: Key, job: Obj, active: list[Obj], counts: Counts) -> list[Obj]:
        spec = job["spec"]
        parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
        if completions is None:
            wanted = parallelism if not counts.succeeded else len(active)
        else:
            wanted = min(parallelism, completions - counts.succeeded)
        if len(active) > wanted:
            surplus = sorted(active, key=lambda pod: (podlib.ready(pod), pod["metadata"]["name"]))
            for pod in surplus[: len(active) - wanted]:
                self.delete(key_of("pods", pod), pod["metadata"]["uid"])
                self.event(job, "Normal", "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
        elif len(active) < wanted and not self._backs_off(key, job):
            self._create(key, job, active, counts, wanted)
        return [pod for pod in self.index.owned(job["metadata"]["uid"], "pods") if podlib.active(pod)]

    def _backs_off(self, key: Key, job: Obj) -> bool:
        """Whether a replacement must wait after the last failure."""
        ends = []
        failures = 0
        for pod in self.index.owned(job["metadata"]["uid"], "pods"):
            if podlib.phase(pod) == "Failed":
                failures += 1
                ends.append(_finished_at(pod))
        if not failures:
            return False
        due = max(ends) + min(BACKOFF_FIRST_S * 2.0 ** (failures - 1), BACKOFF_MOST_S)
        if due <= self.kernel.now:
            return False
        self.requeue_after(due - self.kernel.now, key)
        return True

    def _create(self, key: Key, job: Obj, active: list[Obj], counts: Counts, wanted: int) -> None:
        busy = {completion_index(pod) for pod in active}
        free = [
            i for i in range(job["spec"].get("completions") or 0) if i not in busy and i not in counts.indexes
        ]
        for position in range(wanted - len(active)):
            index = free[position] if _indexed(job) and position < len(free) else None
            try:
                self._create_pod(job, index)
            except ApiError as error:
                if not namespace_is_ending(error):
                    self.event(job, "Warning", "FailedCreate", f"Error creating: {error_text(error)}")
                    self.retry(key)
                return
        self.forget(key)

    def _create_pod(self, job: Obj, index: int | None) -> None:
        meta = job["metadata"]
        prefix = meta["name"] if index is None else f"{meta['name']}-{index}"
        name = self.unused_name("pods", meta["namespace"], prefix, meta["uid"], index)
        pod = podlib.from_template(job["spec"]["template"], job, name, f"{prefix}-")
        if index is not None:
            pod["metadata"]["annotations"] = {**annotations_of(pod), INDEX: str(index)}
            pod["metadata"].setdefault("labels", {})[INDEX] = str(index)
            pod["spec"].setdefault("hostname", prefix)
            pod["spec"]["containers"] = [_with_index(c) for c in pod["spec"]["containers"]]
        self.api.create("pods", meta["namespace"], pod, self.options)
        self.event(job, "Normal", "SuccessfulCreate", f"Created pod: {name}")

    # Status -----------------------------------------------------------------------------------------------

    def _write(self, key: Key, job: Obj, status: Obj, active: list[Obj], counts: Counts) -> None:
        if not _ended({"status": status}):
            self._note_suspension(job, status)
        numbers = {"active": len(active), "succeeded": counts.succeeded, "failed": counts.failed}
        for name, number in numbers.items():
            status.pop(name, None)
            if number:
                status[name] = number
        status["ready"] = sum(podlib.ready(pod) for pod in active)
        status["terminating"] = sum(
            deleting(pod) and not podlib.finished(pod)
            for pod in self.index.owned(job["metadata"]["uid"], "pods")
        )
        status["uncountedTerminatedPods"] = {}
        if _indexed(job) and counts.indexes:
            status["completedIndexes"] = ranges(sorted(counts.indexes))
        self.update_status(key, status)

    def _note_suspension(self, job: Obj, status: Obj) -> None:
        entry = condition({"status": status}, "Suspended")
        suspended = bool(job["spec"].get("suspend"))
        if suspended == (entry is not None and entry["status"] == "True"):
            return
        value, verb = ("True", "Suspended") if suspended else ("False", "Resumed")
        self.event(job, "Normal", verb, f"Job {verb.lower()}")
        outcome = Outcome("Suspended", f"Job{verb}", f"Job {verb.lower()}")
        kept = without_condition(status.get("conditions"), "Suspended")
        status["conditions"] = [*kept, self._condition("Suspended", value, outcome)]
        if suspended:
            status.pop("startTime", None)


def completion_index(pod: Obj) -> int | None:
    """The index of a pod of an Indexed job."""
    text = annotations_of(pod).get(INDEX, "")
    return int(text) if text.isdigit() else None


def ranges(numbers: list[int]) -> str:
    """``0-3,5``: runs of three or more as ranges."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    joined = []
    for first, last in parts:
        if first == last:
            joined.append(str(first))
        else:
            joined.append(f"{first},{last}" if last == first + 1 else f"{first}-{last}")
    return ",".join(joined)


def _indexed(job: Obj) -> bool:
    return job["spec"].get("completionMode") == "Indexed"


def _ended(job: Obj) -> bool:
    return any(
        entry is not None and entry["status"] == "True"
        for entry in (condition(job, "Complete"), condition(job, "Failed"))
    )


def _finished_at(pod: Obj) -> float:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = [entry["state"].get("terminated", {}).get("finishedAt") for entry in statuses]
    times = [parse_time(text) for text in ends if text]
    return max(times) if times else parse_time(pod["metadata"]["creationTimestamp"])


def _with_index(container: Obj) -> Obj:
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    env = [entry for entry in container.get("env") or () if entry["name"] != variable["name"]]
    return {**container, "env": [*env, variable]}
