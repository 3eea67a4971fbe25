"""kube-state-metrics families of pods. Each function yields rows ``(metric, labels, value)`` of one object."""

from __future__ import annotations

from collections.abc import Iterator

from aiopslab.sim.core.kernel import parse_time
from aiopslab.sim.core.quantity import parse as parse_quantity
from aiopslab.sim.core.store import Obj
from aiopslab.sim.observe.exporters.page import Pairs

Row = tuple[str, Pairs, float]

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
TRUTHS = ("true", "false", "unknown")


def truth(value: object) -> float:
    """1 for true things, 0 for others."""
    return 1.0 if value else 0.0


def seconds(text: str | None) -> float | None:
    """RFC 3339 to Unix seconds; None for no time."""
    return parse_time(text) if text else None


def timed(metric: str, text: str | None, labels: Pairs = ()) -> Iterator[Row]:
    """A row holding a time, when there is one."""
    at = seconds(text)
    if at is not None:
        yield metric, labels, at


def three_way(metric: str, status: str | None, labels: Pairs = ()) -> Iterator[Row]:
    """A condition as three rows, one of which is 1. An absent condition has no rows."""
    if status is not None:
        for option in TRUTHS:
            yield metric, (*labels, ("condition", option)), truth(status.lower() == option)


def conditions(obj: Obj) -> dict[str, Obj]:
    """Conditions by type."""
    return {found["type"]: found for found in obj.get("status", {}).get("conditions") or ()}


def owner(obj: Obj) -> Obj:
    """The controlling owner reference, or the first, or an empty one."""
    references = obj["metadata"].get("ownerReferences") or []
    return next((found for found in references if found.get("controller")), references[0] if references else {})


def owner_row(metric: str, obj: Obj) -> Row:
    """Who owns an object; labels are empty when nobody does."""
    owned = owner(obj)
    controls = ("true" if owned.get("controller") else "false") if owned else ""
    kind, name = owned.get("kind", ""), owned.get("name", "")
    return metric, (("owner_kind", kind), ("owner_name", name), ("owner_is_controller", controls)), 1.0


def resource_rows(metric: str, amounts: Obj | None, labels: Pairs = ()) -> Iterator[Row]:
    """One row per resource with its unit."""
    for name, amount in sorted((amounts or {}).items()):
        if name == "cpu":
            unit = "core"
        elif name in ("memory", "ephemeral-storage", "storage") or name.startswith("hugepages-"):
            unit = "byte"
        else:
            unit = "integer"
        label = name.translate(str.maketrans("-./", "___"))
        yield metric, (*labels, ("resource", label), ("unit", unit)), float(parse_quantity(amount))


def pod_rows(pod: Obj) -> Iterator[Row]:
    """``kube_pod_*``; ``namespace``, ``pod`` and ``uid`` are added by the exporter."""
    meta, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
    owned = owner(pod)
    yield "kube_pod_info", (
        ("host_ip", status.get("hostIP", "")), ("pod_ip", status.get("podIP", "")),
        ("node", spec.get("nodeName", "")),
        ("created_by_kind", owned.get("kind", "")), ("created_by_name", owned.get("name", "")),
        ("priority_class", spec.get("priorityClassName", "")),
        ("host_network", "true" if spec.get("hostNetwork") else "false"),
    ), 1.0  # fmt: skip
    yield owner_row("kube_pod_owner", pod)
    yield from _pod_status(pod)
    yield "kube_pod_restart_policy", (("type", spec.get("restartPolicy", "Always")),), 1.0
    yield "kube_pod_service_account", (("service_account", spec.get("serviceAccountName", "")),), 1.0
    for found in status.get("podIPs") or ():
        family = "6" if ":" in found.get("ip", "") else "4"
        yield "kube_pod_ips", (("ip", found.get("ip", "")), ("ip_family", family)), 1.0
    for taint in spec.get("tolerations") or ():
        labels = tuple((name, str(taint.get(field, ""))) for name, field in (
            ("key", "key"), ("operator", "operator"), ("value", "value"), ("effect", "effect"),
            ("toleration_seconds", "tolerationSeconds"),
        ))  # fmt: skip
        yield "kube_pod_tolerations", labels, 1.0
    yield from timed("kube_pod_created", meta.get("creationTimestamp"))
    yield from timed("kube_pod_deletion_timestamp", meta.get("deletionTimestamp"))
    yield from timed("kube_pod_start_time", status.get("startTime"))
    node = spec.get("nodeName", "")
    for kind, prefix in (("containers", "kube_pod_container"), ("initContainers", "kube_pod_init_container")):
        statuses = {s["name"]: s for s in status.get(kind[:-1] + "Statuses") or ()}
        for container in spec.get(kind) or ():
            yield from _container_rows(prefix, container, statuses.get(container["name"]), node)


def _pod_status(pod: Obj) -> Iterator[Row]:
    status = pod.get("status", {})
    phase = status.get("phase", "Pending")
    for option in PHASES:
        yield "kube_pod_status_phase", (("phase", option),), truth(phase == option)
    known = conditions(pod)
    ready, scheduled = known.get("Ready", {}), known.get("PodScheduled", {})
    yield from three_way("kube_pod_status_ready", ready.get("status"))
    yield from three_way("kube_pod_status_scheduled", scheduled.get("status"))
    if status.get("reason"):
        yield "kube_pod_status_reason", (("reason", status["reason"]),), 1.0
    if scheduled.get("status") == "False":
        yield "kube_pod_status_unschedulable", (), 1.0
    if ready.get("status") == "True":
        yield from timed("kube_pod_status_ready_time", ready.get("lastTransitionTime"))
    if (contained := known.get("ContainersReady", {})).get("status") == "True":
        yield from timed("kube_pod_status_container_ready_time", contained.get("lastTransitionTime"))
    if scheduled.get("status") == "True":
        yield from timed("kube_pod_status_scheduled_time", scheduled.get("lastTransitionTime"))
    if status.get("qosClass"):
        for option in ("BestEffort", "Burstable", "Guaranteed"):
            yield "kube_pod_status_qos_class", (("qos_class", option),), truth(status["qosClass"] == option)
    if phase in ("Succeeded", "Failed"):
        ends = [
            found["state"]["terminated"].get("finishedAt", "")
            for found in status.get("containerStatuses") or ()
            if "terminated" in found.get("state", {})
        ]
        yield from timed("kube_pod_completion_time", max(ends, default=""))


def _container_rows(prefix: str, container: Obj, status: Obj | None, node: str) -> Iterator[Row]:
    name: Pairs = (("container", container["name"]),)
    resources = container.get("resources") or {}
    where: Pairs = (*name, ("node", node))
    yield from resource_rows(f"{prefix}_resource_requests", resources.get("requests"), where)
    yield from resource_rows(f"{prefix}_resource_limits", resources.get("limits"), where)
    if status is None:
        return
    yield f"{prefix}_info", (
        *name, ("image", status.get("image", "")), ("image_spec", container.get("image", "")),
        ("image_id", status.get("imageID", "")), ("container_id", status.get("containerID", "")),
    ), 1.0  # fmt: skip
    state, last = status.get("state") or {}, (status.get("lastState") or {}).get("terminated")
    yield f"{prefix}_status_ready", name, truth(status.get("ready"))
    yield f"{prefix}_status_restarts_total", name, float(status.get("restartCount", 0))
    for option in ("running", "waiting", "terminated"):
        yield f"{prefix}_status_{option}", name, truth(option in state)
    for option in ("waiting", "terminated"):
        if (reason := state.get(option, {}).get("reason")) is not None:
            yield f"{prefix}_status_{option}_reason", (*name, ("reason", reason)), 1.0
    if prefix == "kube_pod_container":
        begun = state.get("running") or state.get("terminated") or {}
        yield from timed("kube_pod_container_state_started", begun.get("startedAt"), name)
    if last:
        yield f"{prefix}_status_last_terminated_reason", (*name, ("reason", last.get("reason", ""))), 1.0
        if prefix == "kube_pod_container":
            yield f"{prefix}_status_last_terminated_exitcode", name, float(last.get("exitCode", 0))
            yield from timed(f"{prefix}_status_last_terminated_timestamp", last.get("finishedAt"), name)
