"""Namespaces, and whether the workloads in them run: what the deploy and load engines share."""

from __future__ import annotations

from typing import Any

from aiopslab.kube.client import Kube, KubeError

WORKLOAD_RESOURCES = ("apps/deployments", "apps/statefulsets", "apps/daemonsets")
# Waiting for these is ordinary start-up; any other reason is worth reporting.
_STARTING = {"ContainerCreating", "PodInitializing"}


async def ensure_namespace(kube: Kube, name: str) -> bool:
    """Create a namespace; False when it exists already."""
    try:
        await kube.create("namespaces", "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    except KubeError as error:
        if error.reason != "AlreadyExists":
            raise
        return False
    return True


async def not_ready(kube: Kube, namespace: str) -> list[str]:
    """Names of Deployments, StatefulSets and DaemonSets without all their pods ready, sorted."""
    names = []
    for resource in WORKLOAD_RESOURCES:
        names += [obj["metadata"]["name"] for obj in await kube.list(resource, namespace) if not is_ready(obj)]
    return sorted(names)


def is_ready(workload: dict[str, Any]) -> bool:
    """Whether the controller has seen the newest spec and every wanted pod of it is updated and ready."""
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    if status.get("observedGeneration", 0) < workload["metadata"].get("generation", 0):
        return False
    if workload.get("kind") == "DaemonSet":
        wanted = status.get("desiredNumberScheduled", 0)
        ready, updated = status.get("numberReady", 0), status.get("updatedNumberScheduled", wanted)
    else:
        wanted = spec.get("replicas", 1)
        ready, updated = status.get("readyReplicas", 0), status.get("updatedReplicas", 0)
    return ready == wanted and updated == wanted and status.get("replicas", wanted) == wanted


async def pod_troubles(kube: Kube, namespace: str) -> list[str]:
    """One line per pod that is not ready: ``name: reason (message)``, sorted by name."""
    lines = []
    for pod in await kube.list("pods", namespace):
        trouble = _trouble(pod)
        if trouble:
            lines.append(f"{pod['metadata']['name']}: {trouble}")
    return sorted(lines)


def _trouble(pod: dict[str, Any]) -> str:
    status = pod.get("status") or {}
    for container in status.get("initContainerStatuses", []) + status.get("containerStatuses", []):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting and waiting.get("reason") not in _STARTING:
            message = waiting.get("message", "")
            return f"{waiting.get('reason')} ({message})" if message else str(waiting.get("reason"))
    conditions = {row["type"]: row for row in status.get("conditions") or []}
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return f"{scheduled.get('reason')} ({scheduled.get('message')})"
    if conditions.get("Ready", {}).get("status") != "True" and status.get("phase") != "Succeeded":
        return f"not ready (phase {status.get('phase', 'unknown')})"
    return ""
