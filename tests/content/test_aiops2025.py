"""The shop as in the AIOps 2025 challenge: its pods and spans, and what a broken storage tier looks like from above."""

from __future__ import annotations

from collections import Counter

from aiopslab.catalog import Catalog
from aiopslab.cluster import ClusterOptions, open_cluster
from aiopslab.deploy.engine import Deployer
from aiopslab.kube.client import Kube
from aiopslab.kube.helm import Helm
from aiopslab.kube.tools import Tools
from aiopslab.load.engine import Loader
from aiopslab.telemetry.jaeger import Jaeger

APP = "hipster-shop-aiops2025"
STORAGE = {"redis-cart-0", "tidb-pd-0", "tidb-tidb-0", "tidb-tiflash-0", "tidb-tikv-0"}


async def test_the_challenges_shop(catalog: Catalog, tools: Tools) -> None:
    app = catalog.apps[APP]
    cluster = await open_cluster("embedded", ClusterOptions(seed=11, bundles=catalog.roots)).up()
    traces = Jaeger(cluster.info.jaeger_url)
    try:
        async with Kube(cluster.info.kubeconfig) as kube:
            await Deployer(cluster, kube, Helm(tools, cluster.info.kubeconfig)).deploy(app)
            pods = {pod["metadata"]["name"] for pod in await kube.list("pods", app.namespace)}
            services = set(app.services) - {name.removesuffix("-0") for name in STORAGE}
            assert pods == STORAGE | {f"{name}-{number}" for name in services for number in range(3)}
            await Loader(cluster, kube).start(catalog.workloads["locust-users"], app)
            now = await cluster.clock.sleep(120)
            await check_spans(traces, now)
            for member, text in (
                ("tidb-tikv", "rpc error: code = Unknown desc = Error 9005 (HY000): Region is unavailable"),
                ("tidb-pd", "rpc error: code = Unknown desc = Error 9001 (HY000): PD server timeout"),
            ):
                await kube.patch("apps/statefulsets", app.namespace, member, {"spec": {"replicas": 0}})
                await cluster.clock.sleep(60)
                logs = [await kube.logs(app.namespace, f"frontend-{n}", tail=300) for n in range(3)]
                assert any(f"could not retrieve product: {text}" in log for log in logs), member
                await kube.patch("apps/statefulsets", app.namespace, member, {"spec": {"replicas": 1}})
                await cluster.clock.sleep(180)
    finally:
        await cluster.close()


async def check_spans(traces: Jaeger, now: float) -> None:
    found: Counter[tuple[str, str, str]] = Counter()
    product_ms = []
    for spans in await traces.traces("frontend", now - 90, now, limit=300):
        found.update((span.service, span.operation, span.kind) for span in spans)
        product_ms += [
            span.duration_us * 1e-3
            for span in spans
            if (span.service, span.kind) == ("productcatalogservice", "server") and "GetProduct" in span.operation
        ]
    assert found["cartservice", "HGET", "client"] > 10
    assert found["cartservice", "POST /hipstershop.CartService/GetCart", "server"] > 10
    assert found["shippingservice", "hipstershop.ShippingService/GetQuote", "server"] > 0
    assert 9 < sorted(product_ms)[len(product_ms) // 2] < 12  # 9.9 ms in the challenge's data
