"""StatefulSets, DaemonSets, Jobs, CronJobs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiopslab.sim.core.controllers import cron
from aiopslab.sim.core.controllers.jobs import ranges
from aiopslab.sim.core.kernel import parse_time

STS, DS, JOBS, CRON = "apps/statefulsets", "apps/daemonsets", "batch/jobs", "batch/cronjobs"


def _sts(make, replicas: int, spec=None, **fields) -> dict:
    return make.workload("s", replicas, spec, serviceName="s", **fields)


def _job(make, command: list[str], **fields) -> dict:
    pod = make.pod_spec([make.container(command=command)], restartPolicy="Never")
    return {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}, **fields}}


def _image(make, image: str) -> dict:
    return {"spec": {"template": {"spec": {"containers": [make.container(image=image)]}}}}


# StatefulSet ------------------------------------------------------------------------------------------------


def test_ordered_start_scale_down_and_events(bare, make):
    bare.create(STS, _sts(make, 3))
    assert list(bare.phases()) == ["s-0"]
    bare.wait(10)
    assert bare.phases() == {"s-0": "Running", "s-1": "Running", "s-2": "Running"}
    labels = bare.get("pods", "s-1")["metadata"]["labels"]
    status = bare.get(STS, "s")["status"]
    assert labels == {
        "app": "s", "apps.kubernetes.io/pod-index": "1", "statefulset.kubernetes.io/pod-name": "s-1",
        "controller-revision-hash": status["updateRevision"],
    }  # fmt: skip
    assert (
        bare.get("pods", "s-1")["spec"]["hostname"] == "s-1" and bare.get("pods", "s-1")["spec"]["subdomain"] == "s"
    )
    assert {k: status[k] for k in ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas")} == {
        "replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3,
    }  # fmt: skip
    assert bare.events("SuccessfulCreate") == [f"Create Pod s-{n} in StatefulSet s successful" for n in range(3)]
    bare.patch(STS, "s", {"spec": {"replicas": 1}})
    assert set(bare.phases()) == {"s-0", "s-1", "s-2"}
    bare.wait(5)
    assert list(bare.phases()) == ["s-0"]
    assert bare.events("SuccessfulDelete") == [f"Delete Pod s-{n} in StatefulSet s successful" for n in (2, 1)]


def test_parallel_starts_all_at_once(bare, make):
    spec = make.pod_spec(schedulerName="manual")
    bare.create(STS, _sts(make, 3, spec, podManagementPolicy="Parallel"))
    assert list(bare.phases()) == ["s-0", "s-1", "s-2"]


def test_update_goes_from_the_highest_ordinal(bare, make):
    bare.create(STS, _sts(make, 3))
    bare.wait(10)
    bare.patch(STS, "s", _image(make, "nginx:2"))
    bare.wait(1.0)
    assert bare.get("pods", "s-0")["spec"]["containers"][0]["image"] == "nginx:1.25"
    bare.wait(15)
    assert {pod["spec"]["containers"][0]["image"] for pod in bare.list("pods")} == {"nginx:2"}
    status = bare.get(STS, "s")["status"]
    assert status["currentRevision"] == status["updateRevision"]
    assert [one["revision"] for one in bare.list("apps/controllerrevisions")] in ([1, 2], [2, 1])


def test_partition_keeps_lower_ordinals(bare, make):
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    bare.create(STS, _sts(make, 3, updateStrategy=strategy))
    bare.wait(10)
    bare.patch(STS, "s", _image(make, "nginx:2"))
    bare.wait(10)
    bare.delete("pods", "s-0")
    bare.wait(10)
    images = {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in bare.list("pods")}
    assert images == {"s-0": "nginx:1.25", "s-1": "nginx:1.25", "s-2": "nginx:2"}


def test_deleted_pod_comes_back_under_its_name(bare, make):
    bare.create(STS, _sts(make, 2))
    bare.wait(8)
    uid = bare.get("pods", "s-0")["metadata"]["uid"]
    bare.delete("pods", "s-0")
    bare.wait(5)
    assert bare.get("pods", "s-0")["metadata"]["uid"] != uid


# DaemonSet --------------------------------------------------------------------------------------------------


def test_one_pod_per_node_with_real_status_and_tolerations(bare, make):
    bare.create(DS, make.workload("d", None))
    bare.wait(3)
    assert sorted(pod["spec"]["nodeName"] for pod in bare.list("pods")) == ["node-1", "node-2", "node-3"]
    assert bare.get(DS, "d")["status"] == {
        "currentNumberScheduled": 3, "desiredNumberScheduled": 3, "numberAvailable": 3, "numberMisscheduled": 0,
        "numberReady": 3, "observedGeneration": 1, "updatedNumberScheduled": 3,
    }  # fmt: skip
    assert [(t["key"], t["effect"]) for t in bare.list("pods")[0]["spec"]["tolerations"]] == [
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ]


def test_daemon_pods_follow_node_labels(bare, make):
    bare.create(DS, make.workload("d", None, make.pod_spec(nodeSelector={"disk": "ssd"})))
    assert bare.list("pods") == []
    bare.patch("nodes", "node-2", {"metadata": {"labels": {"disk": "ssd"}}}, namespace="")
    bare.wait(3)
    assert [pod["spec"]["nodeName"] for pod in bare.list("pods")] == ["node-2"]
    bare.patch("nodes", "node-2", {"metadata": {"labels": {"disk": None}}}, namespace="")
    bare.wait(3)
    assert bare.list("pods") == []


def test_daemon_update_replaces_one_node_at_a_time(bare, make):
    bare.create(DS, make.workload("d", None))
    bare.wait(3)
    bare.patch(DS, "d", _image(make, "nginx:2"))
    fewest = 3
    for _ in range(60):
        bare.wait(0.25)
        fewest = min(fewest, bare.get(DS, "d")["status"].get("numberAvailable", 0))
    assert fewest == 2
    assert {pod["spec"]["containers"][0]["image"] for pod in bare.list("pods")} == {"nginx:2"}


# Job --------------------------------------------------------------------------------------------------------


def test_job_completes(bare, make):
    bare.create(JOBS, _job(make, ["true"], completions=2))
    bare.wait(30)
    status = bare.get(JOBS, "j")["status"]
    assert status["succeeded"] == 2 and status["completionTime"] and "active" not in status
    assert bare.conditions(JOBS, "j") == [
        ("SuccessCriteriaMet", "True", "CompletionsReached"), ("Complete", "True", "CompletionsReached"),
    ]  # fmt: skip
    assert bare.events("Completed") == ["Job completed"]


def test_job_fails_at_its_backoff_limit(bare, make):
    bare.create(JOBS, _job(make, ["false"], backoffLimit=0))
    bare.wait(5)
    conditions = bare.get(JOBS, "j")["status"]["conditions"]
    text = "Job has reached the specified backoff limit"
    assert [(c["type"], c["reason"], c["message"]) for c in conditions] == [
        ("FailureTarget", "BackoffLimitExceeded", text), ("Failed", "BackoffLimitExceeded", text),
    ]  # fmt: skip
    assert bare.get(JOBS, "j")["status"]["failed"] == 1


def test_failed_pods_are_retried_with_backoff(bare, make):
    bare.create(JOBS, _job(make, ["false"], backoffLimit=2))
    bare.wait(8)
    assert len(bare.list("pods")) == 1
    bare.wait(10)
    assert len(bare.list("pods")) == 2
    bare.wait(60)
    assert bare.get(JOBS, "j")["status"]["failed"] == 3


def test_job_deadline_kills_pods(bare, make):
    bare.create(JOBS, _job(make, ["sleep", "99"], activeDeadlineSeconds=5))
    bare.wait(10)
    assert bare.conditions(JOBS, "j")[-1] == ("Failed", "True", "DeadlineExceeded")
    assert bare.list("pods") == []


def test_indexed_and_suspended(bare, make):
    bare.create(JOBS, _job(make, ["true"], completions=3, parallelism=3, completionMode="Indexed", suspend=True))
    assert bare.conditions(JOBS, "j") == [("Suspended", "True", "JobSuspended")]
    assert bare.list("pods") == []
    bare.patch(JOBS, "j", {"spec": {"suspend": False}})
    pods = bare.list("pods")
    assert sorted(
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in pods
    ) == list("012")
    bare.wait(5)
    assert bare.get(JOBS, "j")["status"]["completedIndexes"] == "0-2"
    assert ("Suspended", "False", "JobResumed") in bare.conditions(JOBS, "j")


def test_finished_job_is_cleaned_up_after_its_ttl(bare, make):
    bare.create(JOBS, _job(make, ["true"], ttlSecondsAfterFinished=10))
    bare.wait(8)
    assert bare.find(JOBS, "j") is not None
    bare.wait(10)
    assert bare.find(JOBS, "j") is None and bare.list("pods") == []


@given(st.sets(st.integers(0, 60)))
@settings(deadline=None)
def test_ranges_name_exactly_the_numbers(numbers):
    found = set()
    for part in filter(None, ranges(sorted(numbers)).split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    assert found == numbers


# CronJob ----------------------------------------------------------------------------------------------------


def _cron(make, command: list[str], **fields) -> dict:
    pod = make.pod_spec([make.container(command=command)], restartPolicy="Never")
    spec = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}, **fields}
    return {"metadata": {"name": "c"}, "spec": spec}


def test_cron_job_runs_on_schedule_and_keeps_its_history(bare, make):
    bare.create(CRON, _cron(make, ["true"], successfulJobsHistoryLimit=2))
    bare.wait(299)
    assert bare.list(JOBS) == []
    bare.wait(20)
    (job,) = bare.list(JOBS)
    assert job["metadata"]["name"] == f"c-{int(parse_time('2025-06-02T09:05:00Z')) // 60}"
    status = bare.get(CRON, "c")["status"]
    assert status["lastScheduleTime"] == "2025-06-02T09:05:00Z" and status["lastSuccessfulTime"]
    assert f"Saw completed job: {job['metadata']['name']}, condition: Complete" in bare.events("SawCompletedJob")
    bare.wait(1200)
    assert len(bare.list(JOBS)) == 2


@pytest.mark.parametrize(("policy", "jobs"), [("Allow", 2), ("Forbid", 1), ("Replace", 1)])
def test_concurrency_policies(bare, make, policy, jobs):
    bare.create(CRON, _cron(make, ["sleep", "9999"], concurrencyPolicy=policy))
    bare.wait(310)
    first = bare.list(JOBS)[0]["metadata"]["name"]
    bare.wait(300)
    names = [job["metadata"]["name"] for job in bare.list(JOBS)]
    assert len(names) == jobs and (first in names) == (policy != "Replace")


def test_suspended_cron_job_does_nothing(bare, make):
    bare.create(CRON, _cron(make, ["true"], suspend=True))
    bare.wait(900)
    assert bare.list(JOBS) == []


@pytest.mark.parametrize(
    ("text", "zone", "after", "wanted"),
    [
        ("0 0 1 1 *", "", "2025-06-02T09:00:00Z", "2026-01-01T00:00:00Z"),
        ("*/15 9-10 * * *", "", "2025-06-02T09:45:00Z", "2025-06-02T10:00:00Z"),
        ("30 4 * * mon-fri", "", "2025-06-06T05:00:00Z", "2025-06-09T04:30:00Z"),
        ("0 0 13 * 5", "", "2025-06-02T00:00:00Z", "2025-06-06T00:00:00Z"),
        ("@hourly", "", "2025-06-02T09:00:00Z", "2025-06-02T10:00:00Z"),
        ("0 0 * * 7", "", "2025-06-02T09:00:00Z", "2025-06-08T00:00:00Z"),
        ("0 9 * * *", "Europe/Berlin", "2025-06-02T09:00:00Z", "2025-06-03T07:00:00Z"),
        ("0 0 29 2 *", "", "2025-06-02T09:00:00Z", "2028-02-29T00:00:00Z"),
    ],
)
def test_cron_next(text, zone, after, wanted):
    assert cron.parse(text, zone).next(parse_time(after)) == parse_time(wanted)


@pytest.mark.parametrize("text", ["", "* * * *", "61 * * * *", "a * * * *", "*/0 * * * *", "5-1 * * * *"])
def test_bad_cron_texts(text):
    with pytest.raises(ValueError):
        cron.parse(text)


@given(st.integers(0, 59), st.integers(0, 23), st.integers(0, 10**9))
@settings(deadline=None, max_examples=50)
def test_cron_next_is_later_and_matches(minute, hour, after):
    at = cron.parse(f"{minute} {hour} * * *").next(after)
    assert at is not None and after < at <= after + 86400
    moment = datetime.fromtimestamp(at, UTC)
    assert (moment.minute, moment.hour, moment.second) == (minute, hour, 0)
