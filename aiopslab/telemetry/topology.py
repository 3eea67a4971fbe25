"""The topology of an application as one JSON snapshot: entities and relations across APM, Kubernetes and nodes.

Entities (``kind``): ``apm.service`` and ``apm.operation`` from traces; ``k8s.namespace``, ``k8s.workload``,
``k8s.pod``, ``k8s.container``, ``k8s.service`` and ``k8s.node`` from the Kubernetes API.
Relations (``type``): ``calls`` between services, ``exposes`` (service → operation), ``is_deployed_as`` (service →
workload), ``runs_as`` (APM service → pod that sent its spans), ``contains`` (namespace → workload or Service,
workload → pod, pod → container), ``routes_to`` (Service → pod) and ``runs_on`` (pod → node).

An entity's id is a digest of what names it and nothing else, so it is the same in every snapshot of a cluster; a
pod's and a container's also depends on the pod's uid, so that one that was replaced is another entity.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from aiopslab.telemetry.jaeger import Dependency, Jaeger, Span

FORMAT_VERSION = 1
WORKLOADS = {
    "apps/deployments": "Deployment",
    "apps/statefulsets": "StatefulSet",
    "apps/daemonsets": "DaemonSet",
    "batch/jobs": "Job",
}
RESOURCES = (*WORKLOADS, "apps/replicasets", "pods", "services", "discovery.k8s.io/endpointslices")
TRACES_PER_SERVICE = 20
SERVICE_LABEL = "kubernetes.io/service-name"
Obj = dict[str, Any]
Objects = Mapping[str, Sequence[Obj]]


class Entity(Struct, frozen=True, order=True, kw_only=True):
    """One thing. ``name`` is what people call it, ``facts`` say what else is known."""

    id: str
    kind: str
    name: str
    namespace: str = ""
    facts: dict[str, Any] = {}


class Relation(Struct, frozen=True, order=True, kw_only=True):
    """One directed edge between two entities of the same snapshot."""

    id: str
    type: str
    source: str
    target: str
    facts: dict[str, Any] = {}


class Topology(Struct, frozen=True, kw_only=True):
    """A snapshot. ``at`` is Unix seconds of cluster time, ``lookback_s`` how far back traces were read."""

    version: int = FORMAT_VERSION
    at: float
    lookback_s: float
    entities: list[Entity]
    relations: list[Relation]

    def to_json(self) -> bytes:
        """The snapshot as JSON, sorted, so that equal snapshots are equal bytes."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1)

    def named(self, kind: str, name: str) -> Entity | None:
        """The first entity of a kind with this name."""
        return next((e for e in self.entities if e.kind == kind and e.name == name), None)


class Reader(Protocol):
    """What is needed of a Kubernetes client."""

    async def list(self, resource: str, namespace: str | None = None) -> list[Obj]:
        """Objects of a namespace."""


async def read_topology(
    kube: Reader, traces: Jaeger, namespaces: Sequence[str], now: float, lookback_s: float = 600.0
) -> Topology:
    """Snapshot of some namespaces at ``now`` (Unix seconds). Raises what the clients raise."""
    objects: dict[str, list[Obj]] = {"nodes": await kube.list("nodes")}
    for resource in RESOURCES:
        found = await asyncio.gather(*(kube.list(resource, namespace) for namespace in namespaces))
        objects[resource] = [obj for part in found for obj in part]
    calls = await traces.dependencies(now, lookback_s)
    spans: list[Span] = []
    for service in await traces.services():
        for trace in await traces.traces(service, now - lookback_s, now, limit=TRACES_PER_SERVICE):
            spans += trace
    return build_topology(objects, calls, spans, at=now, lookback_s=lookback_s)


def build_topology(
    objects: Objects, calls: Iterable[Dependency], spans: Iterable[Span], *, at: float, lookback_s: float
) -> Topology:
    """Snapshot from what was read: objects by resource, call counts, and spans to place services and operations.

    Only pods of ``objects`` appear; services whose spans come from none of them appear without a workload.
    """
    graph = _Graph()
    _add_nodes(graph, objects)
    _add_workloads(graph, objects)
    pods = _add_pods(graph, objects)
    _add_services(graph, objects, pods)
    _add_apm(graph, list(calls), spans, pods)
    return Topology(
        at=at, lookback_s=lookback_s, entities=sorted(graph.entities.values(), key=lambda e: (e.kind, e.id)),
        relations=sorted(graph.relations.values(), key=lambda r: (r.type, r.id)),
    )  # fmt: skip


class _Graph:
    def __init__(self) -> None:
        self.entities: dict[str, Entity] = {}
        self.relations: dict[str, Relation] = {}
        self.workload_of: dict[str, str] = {}  # pod entity -> workload entity

    def add(self, kind: str, name: str, *identity: str, namespace: str = "", **facts: Any) -> str:
        """An entity named by ``kind``, ``namespace``, ``name`` and ``identity``; returns its id."""
        own = stable_id(kind, namespace, name, *identity)
        known = self.entities.get(own)
        merged = {**(known.facts if known else {}), **{k: v for k, v in facts.items() if v not in (None, "", {})}}
        self.entities[own] = Entity(id=own, kind=kind, name=name, namespace=namespace, facts=merged)
        return own

    def join(self, type: str, source: str, target: str, **facts: Any) -> None:
        """A relation between two entities that are there."""
        own = stable_id(type, source, target)
        self.relations[own] = Relation(id=own, type=type, source=source, target=target, facts=facts)


def stable_id(*parts: str) -> str:
    """16 hex digits that depend on ``parts`` alone."""
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]


def _add_nodes(graph: _Graph, objects: Objects) -> None:
    for node in objects.get("nodes", ()):
        status = node.get("status") or {}
        ready = [c["status"] for c in status.get("conditions") or () if c["type"] == "Ready"]
        capacity = {k: v for k, v in (status.get("capacity") or {}).items() if k in ("cpu", "memory", "pods")}
        graph.add("k8s.node", node["metadata"]["name"], ready=ready[0] if ready else "", capacity=capacity)


def _namespace(graph: _Graph, name: str) -> str:
    return graph.add("k8s.namespace", name)


def _add_workloads(graph: _Graph, objects: Objects) -> None:
    for resource, kind in WORKLOADS.items():
        for obj in objects.get(resource, ()):
            meta, spec = obj["metadata"], obj.get("spec") or {}
            status = obj.get("status") or {}
            own = graph.add(
                "k8s.workload", meta["name"], kind, namespace=meta["namespace"], kind_of=kind,
                replicas=spec.get("replicas"), ready=status.get("readyReplicas", status.get("numberReady")),
            )  # fmt: skip
            graph.join("contains", _namespace(graph, meta["namespace"]), own)


def _add_pods(graph: _Graph, objects: Objects) -> dict[tuple[str, str], str]:
    """Entities of pods by namespace and name."""
    sets = {(o["metadata"]["namespace"], o["metadata"]["name"]): o for o in objects.get("apps/replicasets", ())}
    found: dict[tuple[str, str], str] = {}
    for pod in objects.get("pods", ()):
        meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
        key = (meta["namespace"], meta["name"])
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
        own = found[key] = graph.add(
            "k8s.pod", meta["name"], meta.get("uid", ""), namespace=key[0], ip=status.get("podIP"),
            phase=status.get("phase"), ready=ready,
        )  # fmt: skip
        for container in spec.get("containers") or ():
            inner = graph.add(
                "k8s.container", container["name"], meta["name"], meta.get("uid", ""), namespace=key[0],
                image=container.get("image"),
            )  # fmt: skip
            graph.join("contains", own, inner)
        if spec.get("nodeName"):
            graph.join("runs_on", own, graph.add("k8s.node", spec["nodeName"]))
        owner = _owner(pod, sets)
        parent = _namespace(graph, key[0])
        if owner is not None:
            parent = graph.workload_of[own] = graph.add("k8s.workload", owner[1], owner[0], namespace=key[0],
                                                        kind_of=owner[0])  # fmt: skip
        graph.join("contains", parent, own)
    return found


def _owner(pod: Obj, sets: Mapping[tuple[str, str], Obj]) -> tuple[str, str] | None:
    """(kind, name) of the workload that a pod belongs to, past its ReplicaSet."""
    reference = _controller(pod)
    if reference is not None and reference["kind"] == "ReplicaSet":
        above = _controller(sets.get((pod["metadata"]["namespace"], reference["name"]), {"metadata": {}}))
        reference = above or reference
    return None if reference is None else (reference["kind"], reference["name"])


def _controller(obj: Obj) -> Obj | None:
    return next((r for r in obj["metadata"].get("ownerReferences") or () if r.get("controller")), None)


def _add_services(graph: _Graph, objects: Objects, pods: Mapping[tuple[str, str], str]) -> None:
    for service in objects.get("services", ()):
        meta, spec = service["metadata"], service.get("spec") or {}
        own = graph.add(
            "k8s.service", meta["name"], namespace=meta["namespace"], type=spec.get("type"),
            cluster_ip=spec.get("clusterIP"), ports=[p["port"] for p in spec.get("ports") or ()],
        )  # fmt: skip
        graph.join("contains", _namespace(graph, meta["namespace"]), own)
    for part in objects.get("discovery.k8s.io/endpointslices", ()):
        meta = part["metadata"]
        name = (meta.get("labels") or {}).get(SERVICE_LABEL)
        source = stable_id("k8s.service", meta["namespace"], name or "")
        if source not in graph.entities:
            continue
        for endpoint in part.get("endpoints") or ():
            target = pods.get((meta["namespace"], (endpoint.get("targetRef") or {}).get("name", "")))
            if target is not None:
                graph.join("routes_to", source, target, ready=(endpoint.get("conditions") or {}).get("ready", True))


def _add_apm(
    graph: _Graph, calls: list[Dependency], spans: Iterable[Span], pods: Mapping[tuple[str, str], str]
) -> None:
    for call in calls:
        ends = graph.add("apm.service", call.parent), graph.add("apm.service", call.child)
        graph.join("calls", *ends, calls=call.calls)
    by_name = {name: own for (_, name), own in sorted(pods.items())}
    for span in spans:
        service = graph.add("apm.service", span.service)
        if span.kind in ("server", "consumer"):
            graph.join("exposes", service, graph.add("apm.operation", span.operation, span.service))
        pod = by_name.get(_pod_name(span))
        if pod is None:
            continue
        graph.join("runs_as", service, pod)
        if pod in graph.workload_of:
            graph.join("is_deployed_as", service, graph.workload_of[pod])


def _pod_name(span: Span) -> str:
    """Name of the pod that sent a span, as the usual resource attributes give it."""
    for key in ("k8s.pod.name", "host.name", "hostname", "service.instance.id"):
        if span.process.get(key):
            return str(span.process[key])
    return ""
