"""The status that the kubelet reports for a pod: phase, conditions in order, container statuses."""

from __future__ import annotations

from dataclasses import dataclass

from aiopslab.sim.core.controllers.common import find_condition
from aiopslab.sim.core.kubelet.images import canonical
from aiopslab.sim.core.kubelet.run import ContainerRun
from aiopslab.sim.core.store import Obj

KUBELET_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
LOST: Obj = {
    "exitCode": 137,
    "finishedAt": None,
    "message": "The container could not be located when the pod was terminated",
    "reason": "ContainerStatusUnknown",
    "startedAt": None,
}
STATUS_FIELDS = {
    "init": "initContainerStatuses",
    "sidecar": "initContainerStatuses",
    "app": "containerStatuses",
    "ephemeral": "ephemeralContainerStatuses",
}


@dataclass(slots=True)
class PodView:
    """What the kubelet knows about a pod beyond its object. ``failure`` is (reason, message)."""

    runs: list[ContainerRun]
    host_ip: str
    pod_ip: str
    started_at: str
    sandbox_ready: bool
    now: str
    failure: tuple[str, str] | None = None
    disrupted: tuple[str, str] | None = None  # reason and message of condition DisruptionTarget


def build(pod: Obj, view: PodView) -> Obj:
    """The whole ``status`` of a pod; fields that others write are kept."""
    status = dict(pod.get("status") or {})
    phase = phase_of(pod, view)
    status["phase"] = phase
    status["observedGeneration"] = pod["metadata"].get("generation", 1)
    status["startTime"] = view.started_at
    status["hostIP"], status["hostIPs"] = view.host_ip, [{"ip": view.host_ip}]
    if view.pod_ip:
        status["podIP"], status["podIPs"] = view.pod_ip, [{"ip": view.pod_ip}]
    if view.failure is not None:
        status["reason"], status["message"] = view.failure
    status["conditions"] = _conditions(pod, view, phase)
    for field in dict.fromkeys(STATUS_FIELDS.values()):
        entries = [_container_status(run) for run in view.runs if STATUS_FIELDS[run.role] == field]
        if entries:
            status[field] = entries
    return status


def initialized(runs: list[ContainerRun]) -> bool:
    """Whether every init container has done its work and every sidecar has started."""
    return not _incomplete(runs)


def settle(runs: list[ContainerRun]) -> None:
    """The pod has failed: containers of which nothing is known count as killed, except those that init containers
    have kept from starting."""
    apps = [run for run in runs if run.role == "app"]
    inits = [run for run in runs if run.role in ("init", "sidecar")]
    begun = [i + 1 for i, run in enumerate(inits) if "waiting" not in run.state or run.last_state]
    lost = inits[: begun[-1] if begun else 1]
    if not inits or not _incomplete(inits[-1:]) or any("waiting" not in run.state or run.last_state for run in apps):
        lost += apps
    for run in lost:
        if run.terminated is None:
            run.state = {"terminated": dict(LOST)}


def phase_of(pod: Obj, view: PodView) -> str:
    """Pending, Running, Succeeded or Failed by the states of the containers."""
    if view.failure is not None:
        return "Failed"
    policy = pod["spec"].get("restartPolicy", "Always")
    init_failed = [
        run
        for run in view.runs
        if run.role == "init"
        and run.terminated
        and run.terminated["exitCode"]
        and run.finished_for_good(policy)
    ]
    if init_failed:
        return "Failed"
    apps = [run for run in view.runs if run.role == "app"]
    if not initialized(view.runs) and not any(
        run.running or run.terminated or run.last_state for run in apps
    ):
        return "Pending"
    if any("waiting" in run.state and not run.last_state for run in apps):
        return "Pending"
    if any(run.running for run in apps) or policy == "Always":
        return "Running"
    if all(run.finished_for_good(policy) for run in apps):
        return (
            "Succeeded"
            if all(run.terminated and not run.terminated["exitCode"] for run in apps)
            else "Failed"
        )
    return "Running"


def _conditions(pod: Obj, view: PodView, phase: str) -> list[Obj]:
    old = (pod.get("status") or {}).get("conditions") or []
    ended = phase in ("Succeeded", "Failed")
    containers = _containers_ready(view, phase)
    states = {
        "PodReadyToStartContainers": (view.sandbox_ready and not ended, "", ""),
        "Initialized": _initialized(view.runs, phase),
        "Ready": _ready(pod, containers),
        "ContainersReady": containers,
    }
    conditions = []
    if view.disrupted is not None:
        conditions.append(_entry(pod, old, "DisruptionTarget", (True, *view.disrupted), view.now))
    conditions += [_entry(pod, old, type_, states[type_], view.now) for type_ in KUBELET_CONDITIONS]
    ours = {entry["type"] for entry in conditions}
    return conditions + [entry for entry in old if entry["type"] not in ours]


def _entry(pod: Obj, old: list[Obj], type_: str, state: tuple[bool, str, str], now: str) -> Obj:
    status = "True" if state[0] else "False"
    before = find_condition(old, type_)
    entry: Obj = {
        "type": type_,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": before["lastTransitionTime"] if before and before["status"] == status else now,
        "observedGeneration": pod["metadata"].get("generation", 1),
    }
    if state[1]:
        entry["reason"] = state[1]
    if state[2]:
        entry["message"] = state[2]
    return entry


def _incomplete(runs: list[ContainerRun]) -> list[str]:
    names = []
    for run in runs:
        done = run.terminated is not None and run.terminated["exitCode"] == 0
        if (run.role == "init" and not done) or (run.role == "sidecar" and not run.started):
            names.append(run.name)
    return names


def _initialized(runs: list[ContainerRun], phase: str) -> tuple[bool, str, str]:
    names = _incomplete(runs)
    if not names or phase == "Succeeded":
        return True, "", ""
    return False, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(names)}]"


def _containers_ready(view: PodView, phase: str) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return False, "PodCompleted", ""
    if phase == "Failed":
        return False, "PodFailed", ""
    names = [run.name for run in view.runs if run.role in ("app", "sidecar") and not run.ready]
    if not names:
        return True, "", ""
    return False, "ContainersNotReady", f"containers with unready status: [{' '.join(names)}]"


def _ready(pod: Obj, containers: tuple[bool, str, str]) -> tuple[bool, str, str]:
    if not containers[0]:
        return containers
    missing = []
    for gate in pod["spec"].get("readinessGates") or ():
        name = gate["conditionType"]
        entry = find_condition((pod.get("status") or {}).get("conditions"), name)
        if entry is None:
            missing.append(f'corresponding condition of pod readiness gate "{name}" does not exist.')
        elif entry["status"] != "True":
            missing.append(f'the status of pod readiness gate "{name}" is not "True", but {entry["status"]}')
    return (False, "ReadinessGatesNotReady", ", ".join(missing)) if missing else (True, "", "")


def _container_status(run: ContainerRun) -> Obj:
    entry: Obj = {
        "name": run.name,
        "image": canonical(run.image) if run.image_id else run.spec["image"],
        "imageID": run.image_id,
        "ready": _is_ready(run),
        "restartCount": run.restarts,
        "state": run.state,
        "lastState": run.last_state,
    }
    if run.container_id:
        entry["containerID"] = run.container_id
    if run.role != "ephemeral":
        entry["started"] = run.started
    resources = run.spec.get("resources") or {}
    if run.running and resources:
        entry["resources"] = resources
        if resources.get("requests"):
            entry["allocatedResources"] = resources["requests"]
    if mounts := run.spec.get("volumeMounts"):
        entry["volumeMounts"] = [_mount(mount) for mount in mounts]
    return entry


def _is_ready(run: ContainerRun) -> bool:
    if run.role == "init":
        return run.terminated is not None and run.terminated["exitCode"] == 0
    return run.ready and run.role != "ephemeral"


def _mount(mount: Obj) -> Obj:
    entry = {"mountPath": mount["mountPath"], "name": mount["name"]}
    return {**entry, "readOnly": True, "recursiveReadOnly": "Disabled"} if mount.get("readOnly") else entry
