"""kube-state-metrics families of workloads: what owns pods."""

from __future__ import annotations

from collections.abc import Iterator

from aiopslab.sim.core.store import Obj
from aiopslab.sim.observe.exporters.kube_pods import Row, conditions, owner_row, timed, truth
from aiopslab.sim.observe.exporters.page import Pairs


def _numbers(prefix: str, found: Obj, fields: dict[str, str]) -> Iterator[Row]:
    """Counts of an object; a missing one is 0."""
    for metric, field in fields.items():
        yield f"{prefix}_{metric}", (), float(found.get(field) or 0)


def _condition_rows(metric: str, obj: Obj, *, with_reason: bool = False) -> Iterator[Row]:
    for kind, found in sorted(conditions(obj).items()):
        for option in ("true", "false", "unknown"):
            labels: Pairs = (("condition", kind), ("status", option))
            if with_reason:
                labels = (*labels, ("reason", found.get("reason", "")))
            yield metric, labels, truth(found["status"].lower() == option)


def _common(prefix: str, obj: Obj) -> Iterator[Row]:
    meta = obj["metadata"]
    yield from timed(f"{prefix}_created", meta.get("creationTimestamp"))
    yield f"{prefix}_metadata_generation", (), float(meta.get("generation", 0))


def _share(value: object, replicas: int, *, up: bool) -> float:
    """``25%`` of the replicas, or a plain number."""
    text = str(value)
    if not text.endswith("%"):
        return float(text)
    scaled = int(text[:-1]) * replicas
    return float(-(-scaled // 100) if up else scaled // 100)


def deployment_rows(obj: Obj) -> Iterator[Row]:
    """``kube_deployment_*``."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    prefix = "kube_deployment"
    replicas = spec.get("replicas", 1)
    yield from _common(prefix, obj)
    yield f"{prefix}_spec_replicas", (), float(replicas)
    yield f"{prefix}_spec_paused", (), truth(spec.get("paused"))
    rolling = (spec.get("strategy") or {}).get("rollingUpdate")
    if rolling:
        surge = _share(rolling.get("maxSurge", "25%"), replicas, up=True)
        missing = _share(rolling.get("maxUnavailable", "25%"), replicas, up=False)
        yield f"{prefix}_spec_strategy_rollingupdate_max_surge", (), surge
        yield f"{prefix}_spec_strategy_rollingupdate_max_unavailable", (), missing
    yield from _numbers(prefix, status, {
        "status_replicas": "replicas", "status_replicas_ready": "readyReplicas",
        "status_replicas_available": "availableReplicas", "status_replicas_unavailable": "unavailableReplicas",
        "status_replicas_updated": "updatedReplicas", "status_observed_generation": "observedGeneration",
    })  # fmt: skip
    yield from _condition_rows(f"{prefix}_status_condition", obj, with_reason=True)


def replicaset_rows(obj: Obj) -> Iterator[Row]:
    """``kube_replicaset_*``."""
    prefix = "kube_replicaset"
    yield from _common(prefix, obj)
    yield f"{prefix}_spec_replicas", (), float(obj.get("spec", {}).get("replicas", 1))
    yield from _numbers(prefix, obj.get("status", {}), {
        "status_replicas": "replicas", "status_fully_labeled_replicas": "fullyLabeledReplicas",
        "status_ready_replicas": "readyReplicas", "status_observed_generation": "observedGeneration",
    })  # fmt: skip
    yield owner_row(f"{prefix}_owner", obj)


def statefulset_rows(obj: Obj) -> Iterator[Row]:
    """``kube_statefulset_*``."""
    prefix, status = "kube_statefulset", obj.get("status", {})
    yield from _common(prefix, obj)
    yield f"{prefix}_replicas", (), float(obj.get("spec", {}).get("replicas", 1))
    yield from _numbers(prefix, status, {
        "status_replicas": "replicas", "status_replicas_ready": "readyReplicas",
        "status_replicas_current": "currentReplicas", "status_replicas_available": "availableReplicas",
        "status_replicas_updated": "updatedReplicas", "status_observed_generation": "observedGeneration",
    })  # fmt: skip
    for which in ("current", "update"):
        yield f"{prefix}_status_{which}_revision", (("revision", status.get(f"{which}Revision", "")),), 1.0


def daemonset_rows(obj: Obj) -> Iterator[Row]:
    """``kube_daemonset_*``."""
    prefix = "kube_daemonset"
    yield from _common(prefix, obj)
    yield from _numbers(prefix, obj.get("status", {}), {
        "status_desired_number_scheduled": "desiredNumberScheduled",
        "status_current_number_scheduled": "currentNumberScheduled", "status_number_ready": "numberReady",
        "status_number_available": "numberAvailable", "status_number_unavailable": "numberUnavailable",
        "status_number_misscheduled": "numberMisscheduled",
        "status_updated_number_scheduled": "updatedNumberScheduled",
        "status_observed_generation": "observedGeneration",
    })  # fmt: skip


def job_rows(obj: Obj) -> Iterator[Row]:
    """``kube_job_*`` (the label is ``job_name``)."""
    prefix, spec, status = "kube_job", obj.get("spec", {}), obj.get("status", {})
    yield f"{prefix}_info", (), 1.0
    yield from timed(f"{prefix}_created", obj["metadata"].get("creationTimestamp"))
    yield owner_row(f"{prefix}_owner", obj)
    for metric, field in (("parallelism", "parallelism"), ("completions", "completions")):
        if spec.get(field) is not None:
            yield f"{prefix}_spec_{metric}", (), float(spec[field])
    yield from _numbers(prefix, status, {
        "status_active": "active", "status_succeeded": "succeeded", "status_failed": "failed",
    })  # fmt: skip
    yield from timed(f"{prefix}_status_start_time", status.get("startTime"))
    yield from timed(f"{prefix}_status_completion_time", status.get("completionTime"))
    for kind, metric in (("Complete", "complete"), ("Failed", "failed")):
        found = conditions(obj).get(kind)
        if found:
            for option in ("true", "false", "unknown"):
                yield f"{prefix}_{metric}", (("condition", option),), truth(found["status"].lower() == option)


def cronjob_rows(obj: Obj) -> Iterator[Row]:
    """``kube_cronjob_*``."""
    prefix, spec, status = "kube_cronjob", obj.get("spec", {}), obj.get("status", {})
    policy = spec.get("concurrencyPolicy", "Allow")
    yield f"{prefix}_info", (("schedule", spec.get("schedule", "")), ("concurrency_policy", policy)), 1.0
    yield from timed(f"{prefix}_created", obj["metadata"].get("creationTimestamp"))
    yield f"{prefix}_spec_suspend", (), truth(spec.get("suspend"))
    yield f"{prefix}_status_active", (), float(len(status.get("active") or ()))
    yield from timed(f"{prefix}_status_last_schedule_time", status.get("lastScheduleTime"))


def autoscaler_rows(obj: Obj) -> Iterator[Row]:
    """``kube_horizontalpodautoscaler_*``."""
    prefix, spec, status = "kube_horizontalpodautoscaler", obj.get("spec", {}), obj.get("status", {})
    target = spec.get("scaleTargetRef") or {}
    yield f"{prefix}_info", (
        ("scaletargetref_api_version", target.get("apiVersion", "")),
        ("scaletargetref_kind", target.get("kind", "")), ("scaletargetref_name", target.get("name", "")),
    ), 1.0  # fmt: skip
    yield f"{prefix}_spec_min_replicas", (), float(spec.get("minReplicas", 1))
    yield f"{prefix}_spec_max_replicas", (), float(spec.get("maxReplicas", 0))
    yield from _numbers(prefix, status, {
        "status_current_replicas": "currentReplicas", "status_desired_replicas": "desiredReplicas",
    })  # fmt: skip
    yield from _condition_rows(f"{prefix}_status_condition", obj)
    wanted = [found.get("resource") or {} for found in spec.get("metrics") or ()]
    actual = [found.get("resource") or {} for found in status.get("currentMetrics") or ()]
    for metric, rows, field in (("spec", wanted, "target"), ("status", actual, "current")):
        for found in rows:
            share = (found.get(field) or {}).get("averageUtilization")
            if share is not None:
                labels: Pairs = (("metric_name", found.get("name", "")), ("metric_target_type", "utilization"))
                yield f"{prefix}_{metric}_target_metric", labels, float(share)
