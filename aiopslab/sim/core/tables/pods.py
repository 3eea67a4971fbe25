"""The pod row: ready count, the STATUS summary, restarts."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core.tables.columns import Cells, layout
from aiopslab.sim.core.tables.text import NONE, age, condition, since

Obj = dict[str, Any]


class _Summary:
    """Counters that the row collects while it walks the container statuses."""

    def __init__(self) -> None:
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""

    def add(self, status: Obj) -> None:
        """Count a container's restarts."""
        self.restarts += status.get("restartCount", 0)
        finished = (status.get("lastState") or {}).get("terminated", {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)


def pod_cells(pod: Obj, now: float) -> Cells:
    """Cells of a pod row, wide ones included."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    reason, summary = _summarize(pod)
    sidecars = _sidecars(spec)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts += f" ({since(summary.last_restart, now)} ago)"
    gates = spec.get("readinessGates") or []
    passed = sum(condition(pod, gate.get("conditionType", "")).get("status") == "True" for gate in gates)
    ips = status.get("podIPs") or [{"ip": status.get("podIP", "")}]
    return [
        pod["metadata"]["name"],
        f"{summary.ready}/{len(spec.get('containers') or ()) + len(sidecars)}",
        reason,
        restarts,
        age(pod, now),
        ips[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{passed}/{len(gates)}" if gates else NONE,
    ]


def pod_status(pod: Obj) -> str:
    """The STATUS cell."""
    return _summarize(pod)[0]


def _sidecars(spec: Obj) -> set[str]:
    inits = spec.get("initContainers") or ()
    return {c["name"] for c in inits if c.get("restartPolicy") == "Always"}


def _summarize(pod: Obj) -> tuple[str, _Summary]:
    status = pod.get("status", {})
    phase = status.get("phase", "")
    reason = status.get("reason") or phase
    if condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    summary, own = _Summary(), _Summary()
    blocked = _init_reason(pod, summary, own)
    if blocked is None or condition(pod, "Initialized").get("status") == "True":
        own.ready = summary.ready
        reason = _container_reason(pod, blocked or reason, own)
        summary = own
    else:
        reason = blocked
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            reason = "Terminating"
    return reason, summary


def _init_reason(pod: Obj, summary: _Summary, own: _Summary) -> str | None:
    """What the first unfinished init container says; None when all are done. ``own`` counts sidecars only."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    sidecars = _sidecars(spec)
    for index, found in enumerate(status.get("initContainerStatuses") or ()):
        summary.add(found)
        sidecar = found.get("name") in sidecars
        if sidecar:
            own.add(found)
        state = found.get("state") or {}
        ended = state.get("terminated")
        if ended and ended.get("exitCode") == 0:
            continue
        if sidecar and found.get("started"):
            summary.ready += bool(found.get("ready"))
            continue
        if ended:
            return f"Init:{_ended(ended)}"
        waiting = (state.get("waiting") or {}).get("reason", "")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{len(spec.get('initContainers') or ())}"
    return None


def _ended(state: Obj) -> str:
    if state.get("reason"):
        return str(state["reason"])
    return f"Signal:{state['signal']}" if state.get("signal") else f"ExitCode:{state.get('exitCode', 0)}"


def _container_reason(pod: Obj, reason: str, summary: _Summary) -> str:
    running, failed = False, ""
    for found in reversed(pod.get("status", {}).get("containerStatuses") or []):
        summary.add(found)
        state = found.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif state.get("terminated"):
            reason = _ended(state["terminated"])
            if state["terminated"].get("exitCode"):
                failed = reason
        elif found.get("ready") and "running" in state:
            running = True
            summary.ready += 1
    if reason != "Completed":
        return reason
    if running and condition(pod, "Ready").get("status") == "True":
        return "Running"
    return failed or ("NotReady" if running else reason)


POD = layout("Ready, Status, Restarts, Age, IP*, Node*, Nominated Node*, Readiness Gates*", pod_cells)
