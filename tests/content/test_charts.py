"""The charts that ship: accepted by Helm and by the schemas of Kubernetes, with the values of the real shop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from aiopslab.catalog import Catalog
from aiopslab.catalog.bundles import builtin_bundle
from aiopslab.kube.helm import Helm
from aiopslab.kube.tools import Tools
from aiopslab.load.engine import render

CHARTS = sorted(path.parent.name for path in builtin_bundle().glob("helm/*/Chart.yaml"))
VERSIONS = ["1.32", "1.37"]
EVERYTHING = {"loadGenerator": {"create": True}, "frontendExternal": {"create": True}, "replicas": 3}
# service -> (Service port, container port, CPU request, memory limit)
SHOP = {
    "adservice": (9555, 9555, "200m", "300Mi"),
    "cartservice": (7070, 7070, "200m", "256Mi"),
    "checkoutservice": (5050, 5050, "100m", "128Mi"),
    "currencyservice": (7000, 7000, "100m", "256Mi"),
    "emailservice": (5000, 8080, "100m", "128Mi"),
    "frontend": (80, 8080, "100m", "128Mi"),
    "paymentservice": (50051, 50051, "100m", "256Mi"),
    "productcatalogservice": (3550, 3550, "100m", "128Mi"),
    "recommendationservice": (8080, 8080, "100m", "450Mi"),
    "redis-cart": (6379, 6379, "70m", "256Mi"),
    "shippingservice": (50051, 50051, "100m", "128Mi"),
}


@pytest.fixture
def helm(tools: Tools, tmp_path: Path) -> Helm:
    """Helm without a cluster."""
    return Helm(tools, tmp_path / "no-kubeconfig")


async def rendered(helm: Helm, chart: str, values: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    objects = await helm.template("shop", builtin_bundle() / "helm" / chart, "hipster-shop", values)
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}


@pytest.mark.parametrize("chart", CHARTS)
async def test_helm_finds_nothing(helm: Helm, chart: str) -> None:
    await helm.lint(builtin_bundle() / "helm" / chart)


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
async def test_the_schemas_accept_it(helm: Helm, chart: str, values: dict[str, Any]) -> None:
    for obj in (await rendered(helm, chart, values)).values():
        assert obj["metadata"]["namespace"] == "hipster-shop"
        for version in VERSIONS:
            kubernetes_validate.validate(obj, version, strict=True)


def test_the_schemas_accept_the_workloads(catalog: Catalog) -> None:
    for workload in catalog.workloads.values():
        for app in catalog.apps.values():
            for obj in render(workload, app, {}):
                for version in VERSIONS:
                    kubernetes_validate.validate(obj, version, strict=True)


async def test_the_shop_has_its_ports_and_resources(helm: Helm) -> None:
    objects = await rendered(helm, "hipster-shop", {})
    deployments = {name: obj for (kind, name), obj in objects.items() if kind == "Deployment"}
    assert sorted(deployments) == sorted(SHOP)
    for name, (port, container_port, cpu, memory) in SHOP.items():
        service_port = objects["Service", name]["spec"]["ports"][0]
        assert (service_port["port"], service_port["targetPort"]) == (port, container_port)
        (container,) = deployments[name]["spec"]["template"]["spec"]["containers"]
        assert container["ports"][0]["containerPort"] == container_port
        assert container["resources"]["requests"]["cpu"] == cpu
        assert container["resources"]["limits"]["memory"] == memory
        assert deployments[name]["metadata"]["labels"] == {"app": name}
        assert deployments[name]["spec"]["replicas"] == 1


async def test_the_shop_has_its_probes(helm: Helm) -> None:
    objects = await rendered(helm, "hipster-shop", {})

    def container(name: str) -> Any:
        return objects["Deployment", name]["spec"]["template"]["spec"]["containers"][0]

    assert container("cartservice")["readinessProbe"] == {"initialDelaySeconds": 15, "grpc": {"port": 7070}}
    liveness = {"initialDelaySeconds": 15, "periodSeconds": 10, "grpc": {"port": 7070}}
    assert container("cartservice")["livenessProbe"] == liveness
    assert container("shippingservice")["readinessProbe"] == {"periodSeconds": 5, "grpc": {"port": 50051}}
    assert container("shippingservice")["livenessProbe"] == {"grpc": {"port": 50051}}
    headers = [{"name": "Cookie", "value": "shop_session-id=x-liveness-probe"}]
    probe = {"path": "/_healthz", "port": 8080, "httpHeaders": headers}
    assert container("frontend")["livenessProbe"] == {"initialDelaySeconds": 10, "httpGet": probe}


async def test_spans_are_sent_only_when_tracing_is_on(helm: Helm) -> None:
    for enabled in (True, False):
        objects = await rendered(helm, "hipster-shop", {"tracing": {"enabled": enabled}})
        traced = {
            name
            for (kind, name), obj in objects.items()
            if kind == "Deployment"
            for env in obj["spec"]["template"]["spec"]["containers"][0].get("env", [])
            if env == {"name": "ENABLE_TRACING", "value": "1"}
        }
        instrumented = set(SHOP) - {"adservice", "cartservice", "shippingservice", "redis-cart"}
        assert traced == (instrumented if enabled else set())


async def test_replicas_by_value(helm: Helm) -> None:
    values = {"replicas": 3, "services": {"adservice": {"replicas": 0}}}
    objects = await rendered(helm, "hipster-shop", values)
    replicas = {name: obj["spec"]["replicas"] for (kind, name), obj in objects.items() if kind == "Deployment"}
    assert replicas == dict.fromkeys(SHOP, 3) | {"adservice": 0, "redis-cart": 1}
