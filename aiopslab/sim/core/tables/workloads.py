"""Rows of controllers: Deployments, sets, Jobs, CronJobs, HPAs, PDBs."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core.kernel import parse_time
from aiopslab.sim.core.tables.columns import Cells, layout
from aiopslab.sim.core.tables.text import (
    NONE,
    UNKNOWN,
    age,
    condition,
    containers,
    equalities,
    human_duration,
    labels,
    selector,
    since,
    template_spec,
)

Obj = dict[str, Any]
HPA_METRICS_SHOWN = 2


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _deployment(obj: Obj, now: float) -> Cells:
    status, spec = obj.get("status", {}), obj["spec"]
    return [
        _name(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *containers(template_spec(obj)),
        selector(spec.get("selector")),
    ]


def _replica_set(obj: Obj, now: float) -> Cells:
    status, spec = obj.get("status", {}), obj["spec"]
    return [
        _name(obj),
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *containers(template_spec(obj)),
        selector(spec.get("selector")),
    ]


def _replication_controller(obj: Obj, now: float) -> Cells:
    spec = obj["spec"]
    cells = _replica_set({**obj, "spec": {**spec, "selector": None}}, now)
    return [*cells[:-1], equalities(spec.get("selector"))]


def _daemon_set(obj: Obj, now: float) -> Cells:
    status, pod = obj.get("status", {}), template_spec(obj)
    return [
        _name(obj),
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels(pod.get("nodeSelector")),
        age(obj, now),
        *containers(pod),
        selector(obj["spec"].get("selector")),
    ]


def _stateful_set(obj: Obj, now: float) -> Cells:
    ready = obj.get("status", {}).get("readyReplicas", 0)
    return [
        _name(obj),
        f"{ready}/{obj['spec'].get('replicas', 1)}",
        age(obj, now),
        *containers(template_spec(obj)),
    ]


def _job_status(job: Obj) -> str:
    if condition(job, "Complete").get("status") == "True":
        return "Complete"
    if condition(job, "Failed").get("status") == "True":
        return "Failed"
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition(job, kind).get("status") == "True":
            return kind
    return "Running"


def _completions(job: Obj) -> str:
    spec, succeeded = job["spec"], job.get("status", {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job(obj: Obj, now: float) -> Cells:
    status = obj.get("status", {})
    duration = ""
    if status.get("startTime"):
        end = parse_time(status["completionTime"]) if status.get("completionTime") else now
        duration = human_duration(end - parse_time(status["startTime"]))
    return [
        _name(obj),
        _job_status(obj),
        _completions(obj),
        duration,
        age(obj, now),
        *containers(template_spec(obj)),
        selector(obj["spec"].get("selector")),
    ]


def _cron_job(obj: Obj, now: float) -> Cells:
    spec, status = obj["spec"], obj.get("status", {})
    last = status.get("lastScheduleTime")
    template = spec.get("jobTemplate", {})
    return [
        _name(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or ()),
        since(last, now) if last else NONE,
        age(obj, now),
        *containers(template_spec(template)),
        selector(template.get("spec", {}).get("selector")),
    ]


def _amount(values: Obj | None) -> str:
    """``value``, else ``averageValue``, of a metric's target or current state."""
    values = values or {}
    if values.get("value") is not None:
        return str(values["value"])
    return f"{values['averageValue']} (avg)" if values.get("averageValue") is not None else ""


def _hpa_metric(metric: Obj, current: Obj | None) -> str:
    """One metric as ``current/target``."""
    kind = metric.get("type", "")
    field = kind[:1].lower() + kind[1:]
    source = metric.get(field) or {}
    target = source.get("target") or {}
    found = ((current or {}).get(field) or {}).get("current") or {}
    if kind in ("Resource", "ContainerResource"):
        if target.get("averageValue") is not None:
            pair = f"{found.get('averageValue', UNKNOWN)}/{target['averageValue']}"
        else:
            used = found.get("averageUtilization")
            shown = UNKNOWN if used is None else f"{used}%"
            pair = f"{shown}/{target.get('averageUtilization', 0)}%"
        return f"{source.get('name', '')}: {pair}"
    if kind == "Pods":
        return f"{found.get('averageValue', UNKNOWN)}/{target.get('averageValue', UNKNOWN)}"
    return f"{_amount(found) or UNKNOWN}/{_amount(target) or UNKNOWN}"


def _horizontal_pod_autoscaler(obj: Obj, now: float) -> Cells:
    spec, status = obj["spec"], obj.get("status", {})
    reference = spec.get("scaleTargetRef", {})
    current = status.get("currentMetrics") or []
    shown = [
        _hpa_metric(metric, current[index] if index < len(current) else None)
        for index, metric in enumerate(spec.get("metrics") or ())
    ]
    targets = ", ".join(shown[:HPA_METRICS_SHOWN]) or NONE
    if len(shown) > HPA_METRICS_SHOWN:
        targets += f" + {len(shown) - HPA_METRICS_SHOWN} more..."
    return [
        _name(obj),
        f"{reference.get('kind', '')}/{reference.get('name', '')}",
        targets,
        str(spec.get("minReplicas", "<unset>")),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(obj, now),
    ]


def _pod_disruption_budget(obj: Obj, now: float) -> Cells:
    spec = obj["spec"]
    return [
        _name(obj),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        obj.get("status", {}).get("disruptionsAllowed", 0),
        age(obj, now),
    ]


def _controller_revision(obj: Obj, now: float) -> Cells:
    owners = [ref for ref in obj["metadata"].get("ownerReferences") or () if ref.get("controller")]
    controller = NONE
    if owners:
        group = owners[0].get("apiVersion", "").rpartition("/")[0]
        kind = owners[0].get("kind", "").lower()
        controller = f"{kind}.{group}/{owners[0]['name']}" if group else f"{kind}/{owners[0]['name']}"
    return [_name(obj), controller, obj.get("revision", 0), age(obj, now)]


def _pod_template(obj: Obj, now: float) -> Cells:
    template = obj.get("template", {})
    return [_name(obj), *containers(template.get("spec", {})), labels(template.get("metadata", {}).get("labels"))]


def _scale(obj: Obj, now: float) -> Cells:
    return [
        _name(obj),
        obj.get("spec", {}).get("replicas", 0),
        obj.get("status", {}).get("replicas", 0),
        age(obj, now),
    ]


_WIDE = "Containers*, Images*, Selector*"
LAYOUTS = {
    ("apps", "Deployment"): layout(f"Ready, Up-to-date:integer, Available:integer, Age, {_WIDE}", _deployment),
    ("apps", "ReplicaSet"): layout(
        f"Desired:integer, Current:integer, Ready:integer, Age, {_WIDE}", _replica_set
    ),
    ("", "ReplicationController"): layout(
        f"Desired:integer, Current:integer, Ready:integer, Age, {_WIDE}", _replication_controller
    ),
    ("apps", "DaemonSet"): layout(
        "Desired:integer, Current:integer, Ready:integer, Up-to-date:integer, Available:integer, "
        f"Node Selector, Age, {_WIDE}",
        _daemon_set,
    ),
    ("apps", "StatefulSet"): layout("Ready, Age, Containers*, Images*", _stateful_set),
    ("apps", "ControllerRevision"): layout("Controller, Revision:integer, Age", _controller_revision),
    ("batch", "Job"): layout(f"Status, Completions, Duration, Age, {_WIDE}", _job),
    ("batch", "CronJob"): layout(
        f"Schedule, Timezone, Suspend:boolean, Active:integer, Last Schedule, Age, {_WIDE}", _cron_job
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): layout(
        "Reference, Targets, MinPods, MaxPods:integer, Replicas:integer, Age", _horizontal_pod_autoscaler
    ),
    ("autoscaling", "Scale"): layout("Desired:integer, Available:integer, Age", _scale),
    ("policy", "PodDisruptionBudget"): layout(
        "Min Available, Max Unavailable, Allowed Disruptions:integer, Age", _pod_disruption_budget
    ),
    ("", "PodTemplate"): layout("Containers, Images, Pod Labels", _pod_template),
}
