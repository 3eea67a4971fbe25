"""The topology snapshot: what becomes an entity, what is related, and that ids are stable."""

from __future__ import annotations

import json
from typing import Any

from aiopslab.telemetry.jaeger import Dependency, Span
from aiopslab.telemetry.topology import Objects, Topology, build_topology, read_topology

SHOP = "shop"


def owned(kind: str, name: str) -> list[dict[str, Any]]:
    return [{"kind": kind, "name": name, "controller": True}]


def pod(name: str, uid: str, replica_set: str, node: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name, "namespace": SHOP, "uid": uid, "ownerReferences": owned("ReplicaSet", replica_set),
        },
        "spec": {"nodeName": node, "containers": [{"name": "server", "image": "cart:1"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.9", "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


def objects(uid: str = "u1") -> dict[str, list[dict[str, Any]]]:
    meta = {"name": "cart", "namespace": SHOP}
    return {
        "nodes": [{"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4"}}}],
        "apps/deployments": [{"metadata": meta, "spec": {"replicas": 1}, "status": {"readyReplicas": 1}}],
        "apps/replicasets": [
            {"metadata": {**meta, "name": "cart-abc", "ownerReferences": owned("Deployment", "cart")}}
        ],
        "pods": [pod("cart-abc-x", uid, "cart-abc", "n1")],
        "services": [{"metadata": meta, "spec": {"clusterIP": "10.9.0.1", "ports": [{"port": 80}]}}],
        "discovery.k8s.io/endpointslices": [{
            "metadata": {**meta, "labels": {"kubernetes.io/service-name": "cart"}},
            "endpoints": [{"targetRef": {"name": "cart-abc-x"}, "conditions": {"ready": False}}],
        }],
    }  # fmt: skip


def span(service: str, pod_name: str, operation: str = "Get") -> Span:
    return Span(
        trace_id="t", span_id="s", parent_id="", service=service, operation=operation, kind="server", start_us=0,
        duration_us=1, error=False, status_message="", tags={}, process={"k8s.pod.name": pod_name},
    )  # fmt: skip


def snapshot(found: Objects) -> Topology:
    calls = [Dependency("web", "cartservice", 7)]
    return build_topology(found, calls, [span("cartservice", "cart-abc-x")], at=1.0, lookback_s=60)


def edges(topology: Topology) -> set[tuple[str, str, str]]:
    names = {e.id: e.name for e in topology.entities}
    return {(r.type, names[r.source], names[r.target]) for r in topology.relations}


def test_everything_is_related_across_the_three_levels() -> None:
    topology = snapshot(objects())
    assert edges(topology) == {
        ("calls", "web", "cartservice"),
        ("exposes", "cartservice", "Get"),
        ("runs_as", "cartservice", "cart-abc-x"),
        ("is_deployed_as", "cartservice", "cart"),
        ("contains", SHOP, "cart"),
        ("contains", "cart", "cart-abc-x"),
        ("contains", "cart-abc-x", "server"),
        ("routes_to", "cart", "cart-abc-x"),
        ("runs_on", "cart-abc-x", "n1"),
    }
    (call,) = [r for r in topology.relations if r.type == "calls"]
    (route,) = [r for r in topology.relations if r.type == "routes_to"]
    assert call.facts == {"calls": 7} and route.facts == {"ready": False}
    workload = topology.named("k8s.workload", "cart")
    assert workload is not None and workload.facts == {"kind_of": "Deployment", "replicas": 1, "ready": 1}


def test_ids_are_stable_unique_and_end_with_a_pod() -> None:
    first, again, replaced = snapshot(objects()), snapshot(objects()), snapshot(objects("u2"))
    assert first.to_json() == again.to_json()
    assert json.loads(first.to_json())["version"] == 1
    ids = [e.id for e in first.entities] + [r.id for r in first.relations]
    assert len(ids) == len(set(ids))
    changed = {e.kind for e in first.entities} - {e.kind for e in first.entities if e in replaced.entities}
    assert changed == {"k8s.pod", "k8s.container"}


def test_what_has_no_pod_or_owner_is_still_there() -> None:
    found = objects()
    found["pods"].append(
        {"metadata": {"name": "bare", "namespace": SHOP}, "spec": {}, "status": {"phase": "Pending"}}
    )
    topology = snapshot(found)
    assert ("contains", SHOP, "bare") in edges(topology)
    assert topology.named("apm.service", "web") is not None


async def test_it_is_read_over_the_ordinary_clients() -> None:
    class Kube:
        async def list(self, resource: str, namespace: str | None = None) -> list[dict[str, Any]]:
            assert namespace == SHOP or resource == "nodes"
            return objects().get(resource, [])

    class Traces:
        async def services(self) -> list[str]:
            return ["cartservice"]

        async def dependencies(self, end: float, lookback_s: float) -> list[Dependency]:
            assert (end, lookback_s) == (1.0, 60)
            return [Dependency("web", "cartservice", 7)]

        async def traces(self, service: str, start: float, end: float, **_: Any) -> list[list[Span]]:
            assert (start, end) == (-59.0, 1.0)
            return [[span(service, "cart-abc-x")]]

    found = await read_topology(Kube(), Traces(), [SHOP], 1.0, 60)  # type: ignore[arg-type]
    assert found.to_json() == snapshot(objects()).to_json()
