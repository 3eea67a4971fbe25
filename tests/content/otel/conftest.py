"""The OpenTelemetry Demo on an embedded cluster, deployed as a user would, and what its flags make of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from aiopslab.catalog import Catalog
from aiopslab.cluster import ClusterOptions, open_cluster
from aiopslab.cluster.base import Cluster
from aiopslab.deploy.engine import Deployer
from aiopslab.kube.client import Kube
from aiopslab.kube.helm import Helm
from aiopslab.kube.tools import Tools
from aiopslab.load.engine import Loader
from aiopslab.telemetry.jaeger import Jaeger
from aiopslab.telemetry.prometheus import Prometheus

NAMESPACE = "otel-demo"
FILE = "demo.flagd.json"


@dataclass
class Shop:
    """The deployed demo. Times are seconds of virtual time."""

    cluster: Cluster
    kube: Kube
    metrics: Prometheus
    traces: Jaeger
    loader: Loader

    async def wait(self, seconds: float) -> float:
        """Let time pass; returns the time reached."""
        return await self.cluster.clock.sleep(seconds)

    async def value(self, expr: str) -> float:
        """One sample now, 0 when there is none."""
        return await self.metrics.value(expr, await self.cluster.clock.now()) or 0.0

    async def calls(self, service: str, name: str, window: str = "2m", **labels: str) -> float:
        """Spans per second of one kind."""
        more = "".join(f',{key}="{value}"' for key, value in labels.items())
        selector = f'service_name="{service}",span_name=~"{name}"{more}'
        return await self.value(f"sum(rate(traces_span_metrics_calls_total{{{selector}}}[{window}]))")

    async def flag(self, name: str, variant: str, *, restart: bool = True) -> None:
        """Set a flag's default variant (or the first result of its rule) in the ConfigMap; a flag that is not there
        gets the variant ``on``, which is 10."""
        config = await self.kube.get("configmaps", NAMESPACE, "flagd-config")
        data = json.loads(config["data"][FILE])
        new = {"state": "ENABLED", "variants": {"on": 10, "off": 0}, "defaultVariant": "off"}
        flag = data["flags"].setdefault(name, new)
        if "targeting" in flag:
            flag["targeting"]["if"][1] = variant
        else:
            flag["defaultVariant"] = variant
        await self.kube.patch("configmaps", NAMESPACE, "flagd-config", {"data": {FILE: json.dumps(data)}})
        if restart:
            pods = await self.kube.list("pods", NAMESPACE, labels="opentelemetry.io/name=flagd")
            for pod in pods:
                await self.kube.delete("pods", NAMESPACE, pod["metadata"]["name"])

    async def logs(self, component: str) -> str:
        """Output of a component's pod."""
        (pod,) = await self.kube.list("pods", NAMESPACE, labels=f"opentelemetry.io/name={component}")
        return await self.kube.logs(NAMESPACE, pod["metadata"]["name"], container=component)


@asynccontextmanager
async def deployed(catalog: Catalog, tools: Tools, users: int) -> AsyncIterator[Shop]:
    """The demo with users, one of them in a browser."""
    cluster = await open_cluster("embedded", ClusterOptions(seed=5, bundles=catalog.roots)).up()
    metrics, traces = Prometheus(cluster.info.prometheus_url), Jaeger(cluster.info.jaeger_url)
    app = catalog.app("otel-demo")
    try:
        async with Kube(cluster.info.kubeconfig) as kube:
            await Deployer(cluster, kube, Helm(tools, cluster.info.kubeconfig)).deploy(app)
            loader = Loader(cluster, kube)
            await loader.start(catalog.workload("otel-users"), app, {"users": users, "browser": True})
            await cluster.clock.sleep(180)
            yield Shop(cluster, kube, metrics, traces, loader)
    finally:
        metrics.close()
        traces.close()
        await cluster.close()


@pytest.fixture
async def shop(catalog: Catalog, tools: Tools) -> AsyncIterator[Shop]:
    """The demo with thirty users and a browser, three minutes after they came."""
    async with deployed(catalog, tools, 30) as found:
        yield found


@pytest.fixture(scope="session")
def namespace() -> str:
    """Where it is."""
    return NAMESPACE
