"""A small shop as recorded runs see it: builders of snapshots, service levels and records."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from aiopslab.record import Expected, Injection, Phase, RunRecord, Slo, SloSeries, Snapshot, Submission

NAMESPACE = "shop"
SERVICES = ("frontend", "cartservice", "productcatalogservice", "redis-cart")
HASHES = {"frontend": "6c8d9f7b5c", "cartservice": "7d4b9c6f5d", "productcatalogservice": "5f6d7c8b9f"}
SETTLE_S = 120.0
END_S = 400.0


class Shop:
    """The objects of the namespace, to be broken by a test. ``snapshot`` copies them."""

    def __init__(self) -> None:
        self.objects: dict[str, list[dict[str, Any]]] = {
            "apps/deployments": [],
            "apps/replicasets": [],
            "pods": [],
            "services": [],
            "configmaps": [],
            "apps/statefulsets": [],
        }
        for name in SERVICES:
            self._add(name)
        self.objects["configmaps"].append(_object("ConfigMap", "cart-settings", data={"mode": "fast"}))

    def _add(self, name: str) -> None:
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "server", "image": "img:1"}]},
        }
        if name == "cartservice":
            template["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "cart-settings"}}]  # type: ignore[index]
        deployment = _object("Deployment", name, spec={"replicas": 2, "template": template})
        deployment["metadata"]["generation"] = 1
        deployment["status"] = {
            "replicas": 2,
            "readyReplicas": 2,
            "updatedReplicas": 2,
            "observedGeneration": 1,
        }
        self.objects["apps/deployments"].append(deployment)
        replica_set = f"{name}-{HASHES.get(name, '5b4c6d7f8b')}"
        owned = _object("ReplicaSet", replica_set, spec={"replicas": 2})
        owned["metadata"]["ownerReferences"] = [{"kind": "Deployment", "name": name, "controller": True}]
        self.objects["apps/replicasets"].append(owned)
        for tail in ("bcdfg", "hjklm"):
            self.objects["pods"].append(pod(f"{replica_set}-{tail}", replica_set))
        spec = {"selector": labels, "ports": [{"name": "grpc", "port": 3550, "targetPort": 3550}]}
        self.objects["services"].append(_object("Service", name, spec=spec))

    def one(self, resource: str, name: str) -> dict[str, Any]:
        return next(obj for obj in self.objects[resource] if obj["metadata"]["name"] == name)

    def remove(self, resource: str, name: str) -> None:
        self.objects[resource].remove(self.one(resource, name))

    def pods_of(self, name: str) -> list[dict[str, Any]]:
        return [obj for obj in self.objects["pods"] if obj["metadata"]["name"].startswith(f"{name}-")]

    def replace_pods(self, name: str) -> None:
        for obj in self.pods_of(name):
            obj["metadata"]["uid"] += "-new"

    def snapshot(self, at_s: float) -> Snapshot:
        return Snapshot(at_s=at_s, objects=copy.deepcopy(self.objects))


def _object(kind: str, name: str, **body: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"{kind}-{name}"}, **body}


def pod(name: str, owner: str, owner_kind: str = "ReplicaSet") -> dict[str, Any]:
    body = _object("Pod", name, spec={}, status={"phase": "Running"})
    body["metadata"]["ownerReferences"] = [{"kind": owner_kind, "name": owner, "controller": True}]
    body["status"]["containerStatuses"] = [{"name": "server", "ready": True, "restartCount": 0, "state": {}}]
    return body


class Run:
    """One run of a target-port-like fault in ``productcatalogservice``; tests change its parts, then judge."""

    def __init__(self, task: str, *, anomaly: bool = True) -> None:
        self.shop = Shop()
        self.before = self.shop.snapshot(-30.0)
        self.record = RunRecord(
            run_id="r1",
            problem=f"shop-{task}-1",
            task=task,
            app="shop",
            namespace=NAMESPACE,
            agent="someone",
            seed=7,
            cluster="embedded",
            versions={},
            config={"settle_s": SETTLE_S},
            started_at=0.0,
            wall_started_at=0.0,
            outcome="submitted",
            steps=5,
            tokens={"in": 100, "out": 20},
        )
        self.record.phases = [Phase(name="settle", start_s=END_S - SETTLE_S, end_s=END_S, wall_s=1.0)]
        self.record.expected = EXPECTED if anomaly else HEALTHY
        if anomaly:
            self._inject()
        self.injected = self.shop.snapshot(60.0)
        self.success = [
            (float(t), 0.5 if anomaly and t >= 60 else 1.0) for t in range(-60, int(END_S) + 1, 15)
        ]
        self.audit: list[dict[str, Any]] = []

    def _inject(self) -> None:
        self.shop.one("services", "productcatalogservice")["spec"]["ports"][0]["targetPort"] = 9999
        self.record.injection = Injection(
            fault="f",
            params={},
            targets=["productcatalogservice"],
            objects=["Service/shop/productcatalogservice"],
            injected_at=0.0,
            symptom_after_s=50.0,
        )

    def submit(self, stage: str, value: Any, at_s: float = 200.0) -> None:
        self.record.submissions.append(Submission(stage=stage, value=value, at_s=at_s, step=1))

    def repair(self, at_s: float = 250.0) -> None:
        """The right repair, declared; users are served again from ``at_s`` on."""
        self.shop.one("services", "productcatalogservice")["spec"]["ports"][0]["targetPort"] = 3550
        self.success = [(t, 1.0 if t >= at_s else value) for t, value in self.success]
        self.submit("mitigation", None, at_s)

    def parts(self) -> dict[str, Any]:
        slo = Slo(name="success", expr="x", op=">=", threshold=0.99)
        snapshots = {"before": self.before, "injected": self.injected, "end": self.shop.snapshot(END_S)}
        return {
            "record": self.record,
            "snapshots": snapshots,
            "slos": [SloSeries(slo=slo, points=list(self.success))],
            "audit": self.audit,
        }


EXPECTED = Expected(
    anomaly=True,
    components=["productcatalogservice"],
    system_levels=["Virtualization", "Kubernetes"],
    fault_types=["Misconfiguration", "Wrong port"],
    blast_radius=["productcatalogservice"],
    cause_gone=[
        {
            "resource": "services",
            "name": "productcatalogservice",
            "path": "spec.ports.0.targetPort",
            "op": "not_equals",
            "value": 9999,
        },
    ],
)
HEALTHY = Expected(
    anomaly=False, components=[], system_levels=[], fault_types=[], blast_radius=[], cause_gone=[]
)


@pytest.fixture(scope="session")
def new_run() -> type[Run]:
    return Run
