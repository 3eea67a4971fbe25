"""metrics.k8s.io: the use of pods and nodes, as a metrics server reports it."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from aiopslab.sim.core.apierrors import method_not_allowed, not_found
from aiopslab.sim.core.kernel import rfc3339
from aiopslab.sim.core.ports import ContainerRef, Usage, World
from aiopslab.sim.core.store import Key
from aiopslab.sim.server import params
from aiopslab.sim.server.call import Call

Obj = dict[str, Any]

WINDOW = "15.036s"
NODE_BASE_CORES = 0.08  # what a node uses beside its pods: kubelet, runtime, system services


async def answer(call: Call) -> web.Response:
    """GET of pod or node metrics, one or all."""
    if call.info.verb not in ("get", "list"):
        raise method_not_allowed(call.served)
    single = call.info.verb == "get"
    if call.served.plural == "nodes":
        return _nodes(call, single)
    return _pods(call, single)


def pod_usage(world: World, pod: Obj, now: float) -> list[tuple[str, Usage]] | None:
    """Use of each running container of a pod; None while any of them has no sample yet."""
    meta, found = pod["metadata"], []
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if "running" not in (status.get("state") or {}):
            continue
        ref = ContainerRef(
            meta["namespace"], meta["name"], meta["uid"], status["name"], status.get("restartCount", 0)
        )
        usage = world.usage(ref, now)
        if usage is None:
            return None
        found.append((status["name"], usage))
    return found or None


def _pods(call: Call, single: bool) -> web.Response:
    info, api = call.info, call.api
    if single:
        pod = api.store.get(Key("pods", info.namespace, info.name))
        metrics = _pod_metrics(call, pod) if pod is not None else None
        if metrics is None:
            raise not_found(call.served, f"{info.namespace}/{info.name}")
        return call.respond(metrics)
    options = params.list_options(call.query, api.kind("pods"), watch=False)
    pods = api.list("pods", info.namespace or None, labels=options.labels, fields=options.fields)
    items = [m for m in (_pod_metrics(call, p) for p in pods) if m is not None]
    return _list(call, "PodMetricsList", items)


def _pod_metrics(call: Call, pod: Obj) -> Obj | None:
    world, now = call.server.world, call.api.kernel.now
    containers = pod_usage(world, pod, now) if world is not None else None
    if containers is None:
        return None
    usage = [{"name": name, "usage": _usage(u.cpu_cores, u.memory_bytes)} for name, u in sorted(containers)]
    return _envelope(call, "PodMetrics", pod, {"containers": usage})


def _nodes(call: Call, single: bool) -> web.Response:
    api, world, now = call.api, call.server.world, call.api.kernel.now
    cores: dict[str, float] = {}
    for pod in api.list("pods"):
        node = pod["spec"].get("nodeName", "")
        for _, usage in (pod_usage(world, pod, now) or []) if world is not None else []:
            cores[node] = cores.get(node, 0.0) + usage.cpu_cores
    nodes = api.list("nodes") if not single else [api.get("nodes", "", call.info.name)]
    items = []
    for node in nodes:
        name = node["metadata"]["name"]
        use = world.node_use(name, now) if world is not None else None
        memory = use.memory_bytes - use.memory_available if use is not None else 0
        used = _usage(cores.get(name, 0.0) + NODE_BASE_CORES, memory)
        items.append(_envelope(call, "NodeMetrics", node, {"usage": used}))
    return call.respond(items[0]) if single else _list(call, "NodeMetricsList", items)


def _usage(cores: float, memory_bytes: float) -> Obj:
    return {"cpu": f"{round(cores * 1e9)}n", "memory": f"{int(memory_bytes) // 1024}Ki"}


def _envelope(call: Call, kind: str, obj: Obj, body: Obj) -> Obj:
    meta, now = obj["metadata"], call.api.kernel.now
    shown: Obj = {"name": meta["name"], "creationTimestamp": rfc3339(now)}
    if meta.get("namespace"):
        shown["namespace"] = meta["namespace"]
    if meta.get("labels"):
        shown["labels"] = meta["labels"]
    return {
        "kind": kind, "apiVersion": "metrics.k8s.io/v1beta1", "metadata": shown,
        "timestamp": rfc3339(now - now % 15), "window": WINDOW, **body,
    }  # fmt: skip


def _list(call: Call, kind: str, items: list[Obj]) -> web.Response:
    items = [{k: v for k, v in item.items() if k not in ("kind", "apiVersion")} for item in items]
    return call.respond({"kind": kind, "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items})
