"""The chart of the OpenTelemetry Demo: names, ports, memory, environment and flags of the release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aiopslab.catalog.bundles import builtin_bundle
from aiopslab.kube.helm import Helm
from aiopslab.kube.tools import Tools

# component -> (Service ports, memory limit)
COMPONENTS: dict[str, tuple[list[int], str]] = {
    "accounting": ([], "160Mi"),
    "ad": ([8080, 9465], "300Mi"),
    "astronomy-db": ([5432], "100Mi"),
    "cart": ([8080], "160Mi"),
    "checkout": ([8080], "20Mi"),
    "currency": ([8080], "20Mi"),
    "email": ([8080], "100Mi"),
    "flagd": ([8013, 8016, 4000], "75Mi"),
    "fraud-detection": ([], "300Mi"),
    "frontend": ([8080], "250Mi"),
    "frontend-proxy": ([8080], "90Mi"),
    "image-provider": ([8081], "50Mi"),
    "kafka": ([9092, 9093], "700Mi"),
    "payment": ([8080], "140Mi"),
    "product-catalog": ([8080], "20Mi"),
    "quote": ([8080], "40Mi"),
    "recommendation": ([8080], "500Mi"),
    "shipping": ([8080], "20Mi"),
    "valkey-cart": ([6379], "20Mi"),
}
WAITS = {
    "accounting": "wait-for-kafka",
    "checkout": "wait-for-kafka",
    "fraud-detection": "wait-for-kafka",
    "cart": "wait-for-valkey-cart",
    "product-catalog": "wait-for-astronomy-db",
    "flagd": "init-config",
}
FLAGS = {
    "adFailure": "off",
    "adHighCpu": "off",
    "adManualGc": "off",
    "cartFailure": "off",
    "emailMemoryLeak": "off",
    "failedReadinessProbe": "off",
    "imageSlowLoad": "off",
    "intlShippingSlowdown": "off",
    "kafkaQueueProblems": "off",
    "loadGeneratorTraffic": "on",
    "loadGeneratorVUs": "5",
    "paymentFailure": "off",
    "paymentUnreachable": "off",
    "productCatalogFailure": "off",
    "recommendationCacheFailure": "off",
}


@pytest.fixture
async def objects(tools: Tools, tmp_path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The chart's objects with its defaults, by kind and name."""
    helm = Helm(tools, tmp_path / "no-kubeconfig")
    found = await helm.template("otel-demo", builtin_bundle() / "helm" / "otel-demo", "otel-demo", {})
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in found}


def test_components_have_their_ports_and_memory(objects: dict[tuple[str, str], Any]) -> None:
    assert sorted(name for kind, name in objects if kind == "Deployment") == sorted(COMPONENTS)
    for name, (ports, memory) in COMPONENTS.items():
        service = objects.get(("Service", name))
        assert [p["port"] for p in service["spec"]["ports"]] == ports if ports else service is None
        deployment = objects["Deployment", name]
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        assert container["name"] == name
        assert container["resources"] == {"limits": {"memory": memory}}
        assert "livenessProbe" not in container
        assert "readinessProbe" not in container
        labels = {"opentelemetry.io/name": name, "app.kubernetes.io/version": "3.0.0"}
        assert labels.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
        assert deployment["spec"]["selector"]["matchLabels"] == {"opentelemetry.io/name": name}


def test_who_waits_for_whom(objects: dict[tuple[str, str], Any]) -> None:
    found = {
        name: container["name"]
        for (kind, name), obj in objects.items()
        if kind == "Deployment"
        for container in obj["spec"]["template"]["spec"].get("initContainers", [])
    }
    assert found == WAITS


def test_the_flag_file_is_as_shipped(objects: dict[tuple[str, str], Any]) -> None:
    flags = json.loads(objects["ConfigMap", "flagd-config"]["data"]["demo.flagd.json"])["flags"]
    assert {name: flag["defaultVariant"] for name, flag in flags.items()} == FLAGS
    assert flags["paymentFailure"]["variants"]["90%"] == 0.95
    assert flags["productCatalogFailure"]["targeting"]["if"][1:] == ["off", "off"]
