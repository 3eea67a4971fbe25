"""The demo on the embedded cluster: its traffic, and what each flag makes of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from aiohttp import ClientSession

SERVICES = {
    "accounting", "ad", "cart", "checkout", "currency", "email", "flagd", "fraud-detection", "frontend",
    "frontend-proxy", "frontend-web", "image-provider", "load-generator", "payment", "product-catalog", "quote",
    "recommendation", "shipping",
}  # fmt: skip
ORDER = "oteldemo.CheckoutService/PlaceOrder"


async def order(shop: Any) -> list[Any]:
    """The spans of one order."""
    now = await shop.wait(20)
    for spans in await shop.traces.traces("checkout", now - 160, now - 20, operation=ORDER):
        return spans
    raise AssertionError("no orders")


async def test_a_healthy_shop(shop: Any, namespace: str) -> None:
    assert set(await shop.traces.services()) >= SERVICES
    errors = 'sum(traces_span_metrics_calls_total{status_code="STATUS_CODE_ERROR"})'
    assert await shop.metrics.value(errors, await shop.wait(1)) is None
    # Closed-loop users at about one task in 5.5 s; a request is one span at each layer. Pictures are not the front
    # end's.
    pictures = await shop.calls("image-provider", "image-provider")
    ingress = await shop.calls("frontend-proxy", "ingress") - pictures
    assert 6 < ingress < 13 and 0.5 < pictures < 2.5
    assert abs(await shop.calls("frontend", "GET|POST") - ingress) < 0.3 * ingress
    tasks = await shop.calls("load-generator", "user_(index|browse_product|get_.*|view_cart|checkout_.*)")
    assert 3 < tasks < 6
    assert await shop.calls("frontend-web", "HTTP GET|documentFetch|resourceFetch") > 2.5
    await check_an_order(shop)
    await check_logs(shop)
    lag = 'kafka_consumer_group_lag_sum{group="fraud-detection"}'
    assert await shop.value(lag) <= 1
    assert await shop.value('kafka_consumer_group_members{group="accounting"}') == 1
    objects = await shop.kube.list("pods", namespace)
    assert all(s["restartCount"] == 0 for pod in objects for s in pod["status"]["containerStatuses"])


async def check_an_order(shop: Any) -> None:
    spans = await order(shop)
    by_id = {span.span_id: span for span in spans}
    names = Counter((span.service, span.operation, span.kind) for span in spans)
    roots = [span for span in spans if span.parent_id not in by_id]
    assert [(r.service, r.kind) for r in roots] == [("load-generator", "client")]
    assert roots[0].operation.startswith("user_checkout_") and roots[0].process.keys() <= {"service.name"}
    for wanted in (
        ("frontend-proxy", "ingress", "server"),
        ("frontend-proxy", "router frontend egress", "client"),
        ("frontend", "POST", "server"),
        ("frontend", "POST /api/checkout", "server"),
        ("frontend", "executing api route (pages) /api/checkout", "internal"),
        ("frontend", "grpc.oteldemo.CheckoutService/PlaceOrder", "client"),
        ("checkout", ORDER, "server"),
        ("checkout", "prepareOrderItemsAndShippingQuoteFromCart", "internal"),
        ("checkout", "orders publish", "producer"),
        ("payment", "grpc.oteldemo.PaymentService/Charge", "server"),
        ("payment", "charge", "internal"),
        ("cart", "POST /oteldemo.CartService/EmptyCart", "server"),
        ("cart", "HMSET", "client"),
        ("fraud-detection", "orders process", "consumer"),
    ):
        assert names[wanted] == 1, wanted
    for span in spans:
        parent = by_id.get(span.parent_id)
        if parent is not None and parent.kind != "producer" and span.kind != "producer":
            assert parent.start_us - 2 <= span.start_us
            assert span.start_us + span.duration_us <= parent.start_us + parent.duration_us + 3
    sent = next(span for span in spans if span.kind == "producer")
    assert all(s.parent_id == sent.span_id for s in spans if s.kind == "consumer")
    await check_events_and_links(shop, sent.trace_id, sent.span_id)


async def legacy(shop: Any, path: str) -> list[dict[str, Any]]:
    """Traces in Jaeger's own JSON."""
    async with ClientSession() as session, session.get(f"{shop.cluster.info.jaeger_url}/api/{path}") as answer:
        return (await answer.json())["data"]  # type: ignore[no-any-return]


def events(spans: list[dict[str, Any]], name: str) -> list[list[str]]:
    """Names of the events in spans of a name."""
    return [[log["fields"][0]["value"] for log in s["logs"]] for s in spans if s["operationName"] == name]


async def check_events_and_links(shop: Any, trace: str, sent: str) -> None:
    (order,) = await legacy(shop, f"traces/{trace}")
    noted = ["prepared", "feature_flag.evaluation", "charged", "shipped"]
    assert events(order["spans"], ORDER) == [noted]
    assert events(order["spans"], "POST /oteldemo.CartService/EmptyCart") == [["Empty cart"]]
    products = events(order["spans"], "oteldemo.ProductCatalogService/GetProduct")
    assert {tuple(names[-1:]) for names in products} == {(), ("Product Found",)}  # of callers, of the callee
    found = await legacy(shop, "traces?service=accounting&limit=200")
    linked = {"refType": "FOLLOWS_FROM", "traceID": trace, "spanID": sent}
    (consumed,) = [t for t in found if any(linked in span["references"] for span in t["spans"])]
    names = {span["operationName"]: span["references"] for span in consumed["spans"]}
    assert names["order-consumed"] == [] and len(names["orders receive"]) == 2


async def check_logs(shop: Any) -> None:
    assert await shop.logs("checkout") == ""  # OTLP only
    assert "Kafka Server started" in await shop.logs("kafka")
    assert " - Targeted ad request received for [" in await shop.logs("ad")
    assert "Order confirmation email sent for order" in await shop.logs("email")
    assert '"msg":"Transaction complete."' in await shop.logs("payment")


async def test_flags_act_through_flagd(shop: Any, namespace: str) -> None:
    failed = {"status_code": "STATUS_CODE_ERROR"}
    await shop.flag("paymentFailure", "100%", restart=False)
    await shop.wait(150)
    assert await shop.calls("payment", "charge", **failed) == 0.0  # flagd still has its copy
    await shop.flag("paymentFailure", "100%")
    await shop.flag("kafkaQueueProblems", "on", restart=False)
    await shop.wait(180)
    for service, name in (("payment", "charge"), ("checkout", ORDER), ("frontend", "POST /api/checkout")):
        assert await shop.calls(service, name, "1m", **failed) > 0, service
        assert await shop.calls(service, name, "1m", status_code="STATUS_CODE_UNSET") == 0, service
    text = (
        "⨯ Error: 13 INTERNAL: failed to charge card: could not charge the card: rpc error: code = Unknown desc = "
    )
    assert f"{text}Payment request failed. Invalid token." in await shop.logs("frontend")
    assert await shop.calls("email", "POST /send_order_confirmation", "1m") == 0

    await shop.flag("paymentFailure", "off")  # and what was written before comes into force
    await shop.flag("productCatalogFailure", "on")
    await shop.wait(150)
    lag = 'kafka_consumer_group_lag_sum{group="fraud-detection"}'
    assert await shop.value(lag) > 100
    assert await shop.value('kafka_consumer_group_lag_sum{group="accounting"}') < 20
    product = "oteldemo.ProductCatalogService/GetProduct"
    share = await shop.calls("product-catalog", product, **failed) / await shop.calls("product-catalog", product)
    assert 0.04 < share < 0.2  # one product of ten
    await check_a_leak_and_busy_cores(shop, namespace)


async def check_a_leak_and_busy_cores(shop: Any, namespace: str) -> None:
    await shop.flag("emailMemoryLeak", "1000x", restart=False)
    await shop.flag("imageSlowLoad", "5sec", restart=False)
    await shop.flag("loadGeneratorFloodHomepage", "on", restart=False)
    await shop.flag("adHighCpu", "on")
    await shop.wait(240)
    (pod,) = await shop.kube.list("pods", namespace, labels="opentelemetry.io/name=email")
    status = pod["status"]["containerStatuses"][0]
    assert status["restartCount"] >= 1
    assert status["lastState"]["terminated"]["reason"] == "OOMKilled"
    cpu = f'sum(rate(container_cpu_usage_seconds_total{{namespace="{namespace}",container="ad"}}[1m]))'
    assert await shop.value(cpu) > 3
    await check_slow_pictures_and_floods(shop)


async def check_slow_pictures_and_floods(shop: Any) -> None:
    now = await shop.wait(1)
    slow = await shop.traces.traces("image-provider", now - 100, now, limit=60)
    assert slow
    for spans in slow:
        took = {span.operation: span.duration_us for span in spans}
        assert [s.service for s in spans if not s.parent_id] == ["frontend-web"]
        assert took["HTTP GET"] > took["ingress"] > 5e6 > 2e5 > took["router image-provider egress"]
    floods = await shop.traces.traces("load-generator", now - 200, now, operation="user_flood_home")
    assert floods and all(sum(s.operation == "ingress" for s in spans) == 10 for spans in floods)
