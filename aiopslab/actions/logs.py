"""``get_logs``: finds the pods that an agent means by a name, and reads their logs."""

from __future__ import annotations

import re
from typing import Any

from aiopslab.actions.lab import KubeReads, Lab
from aiopslab.actions.submissions import ActionRefused
from aiopslab.errors import did_you_mean
from aiopslab.kube.errors import KubeError

TAIL_LINES = 500
MAX_PODS = 5
_KIND_PREFIX = re.compile(
    r"(?:pods?|po|deploy(?:ments?)?|deployments?\.apps|svc|services?|sts|statefulsets?|ds|daemonsets?)/"
)

Obj = dict[str, Any]


async def read_logs(lab: Lab, namespace: str, service: str) -> str:
    """The newest lines of every container of the pods behind ``service``: a Service, a workload or a pod."""
    pods = await _pods(lab, namespace)
    name = _KIND_PREFIX.sub("", service.strip(), count=1)
    if not name:
        raise ActionRefused(f"the service is missing. {await _choices(lab.kube, namespace, pods)}")
    chosen = await _pods_behind(lab.kube, namespace, name, pods)
    if chosen is None:
        near = did_you_mean(name, await _names(lab.kube, namespace, pods), most=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ActionRefused(
            f"there is no service {service!r} in {namespace}.{hint} {await _choices(lab.kube, namespace, pods)}"
        )
    if not chosen:
        return f"{name} in {namespace} has no pods, so there are no logs. Look at its Deployment and its events."
    parts = [await _pod_logs(lab.kube, namespace, pod) for pod in chosen[:MAX_PODS]]
    if len(chosen) > MAX_PODS:
        others = ", ".join(pod["metadata"]["name"] for pod in chosen[MAX_PODS:])
        parts.append(f"(also: {others}; give a pod's name to read it)")
    return "\n".join(parts)


async def _pods(lab: Lab, namespace: str) -> list[Obj]:
    try:
        pods = await lab.kube.list("pods", namespace)
    except KubeError as error:
        if error.code in (403, 404):
            raise ActionRefused(
                f"namespace {namespace!r} does not exist or is not yours; yours is {lab.namespace!r}."
            ) from error
        raise
    if not pods and namespace != lab.namespace:
        raise ActionRefused(f"there is nothing in namespace {namespace!r}; yours is {lab.namespace!r}.")
    return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))


async def _pods_behind(kube: KubeReads, namespace: str, name: str, pods: list[Obj]) -> list[Obj] | None:
    """Pods of the pod, workload or Service called ``name``; None when there is nothing of that name."""
    exact = [pod for pod in pods if pod["metadata"]["name"] == name]
    if exact:
        return exact
    found = False
    for resource in ("apps/deployments", "apps/statefulsets", "apps/daemonsets", "services"):
        for obj in await kube.list(resource, namespace):
            if obj["metadata"]["name"] != name:
                continue
            found = True
            selector = obj["spec"].get("selector") or {}
            labels = selector.get("matchLabels", {}) if "matchLabels" in selector else selector
            chosen = [pod for pod in pods if labels and _has(pod, labels)]
            if chosen:
                return chosen
    return [] if found else None


def _has(pod: Obj, labels: dict[str, str]) -> bool:
    own = pod["metadata"].get("labels") or {}
    return all(own.get(key) == value for key, value in labels.items())


async def _pod_logs(kube: KubeReads, namespace: str, pod: Obj) -> str:
    name = pod["metadata"]["name"]
    statuses = {s["name"]: s for s in (pod.get("status") or {}).get("containerStatuses") or []}
    parts = []
    for container in pod["spec"]["containers"]:
        restarts = statuses.get(container["name"], {}).get("restartCount", 0)
        parts.append(f"==> {name} [{container['name']}]{f' restarts: {restarts}' if restarts else ''} <==")
        parts.append(await _container_logs(kube, namespace, name, container["name"], previous=False))
        if restarts:
            parts.append(f"==> {name} [{container['name']}] before the last restart <==")
            parts.append(await _container_logs(kube, namespace, name, container["name"], previous=True))
    return "\n".join(parts)


async def _container_logs(kube: KubeReads, namespace: str, pod: str, container: str, *, previous: bool) -> str:
    try:
        text = await kube.logs(namespace, pod, container=container, tail=TAIL_LINES, previous=previous)
    except KubeError as error:
        if error.code == 0:
            raise
        return f"({error.message})"
    return text.rstrip("\n") or "(empty)"


async def _names(kube: KubeReads, namespace: str, pods: list[Obj]) -> list[str]:
    services = {str(obj["metadata"]["name"]) for obj in await kube.list("services", namespace)}
    workloads = {str(obj["metadata"]["name"]) for obj in await kube.list("apps/deployments", namespace)}
    return sorted(services | workloads) or [str(pod["metadata"]["name"]) for pod in pods]


async def _choices(kube: KubeReads, namespace: str, pods: list[Obj]) -> str:
    return f"Services in {namespace}: {', '.join(await _names(kube, namespace, pods)) or '(none)'}."
