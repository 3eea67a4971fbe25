"""The healthy shop: rates, latencies, call ratios and CPU of the measured application."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

# Requests per second with ten users, from the load generator's weights.
RATES = [
    ("frontend", "GET", 2.09),
    ("frontend", "POST", 0.575),
    ("frontend", "hipstershop.CurrencyService/GetSupportedCurrencies", 2.2),
    ("frontend", "hipstershop.CartService/GetCart", 2.1),
    ("frontend", "hipstershop.CartService/AddItem", 0.29),
    ("frontend", "hipstershop.AdService/GetAds", 1.5),
    ("frontend", "hipstershop.RecommendationService/ListRecommendations", 1.9),
    ("productcatalogservice", "hipstershop.ProductCatalogService/GetProduct", 12.5),
    ("productcatalogservice", "hipstershop.ProductCatalogService/ListProducts", 2.2),
    ("currencyservice", "grpc.hipstershop.CurrencyService/Convert", 6.0),
    ("checkoutservice", "hipstershop.CheckoutService/PlaceOrder", 0.095),
    ("paymentservice", "grpc.hipstershop.PaymentService/Charge", 0.095),
    ("emailservice", "/hipstershop.EmailService/SendOrderConfirmation", 0.095),
]
# Millicores at 27 requests per second, one pod per service; medians of the stock application.
CPU = [
    ("frontend", 72),
    ("currencyservice", 41),
    ("productcatalogservice", 28),
    ("recommendationservice", 28),
    ("adservice", 35),
    ("cartservice", 20),
    ("redis-cart", 5),
    ("shippingservice", 4),
]


@pytest.fixture(scope="module")
def hour(request: Any) -> Any:
    """An hour of ten users."""
    lab = request.getfixturevalue("lab_class")()
    lab.shop()
    lab.users()
    lab.advance(30)
    before = lab.spans()
    lab.advance(3600, 30)
    return lab, before


@pytest.mark.parametrize(("service", "name", "rate"), RATES)
def test_rates(hour: Any, service: str, name: str, rate: float) -> None:
    lab, before = hour
    kind = "CLIENT" if service == "frontend" and "/" in name else "SERVER"
    key = (service, name, kind, "UNSET")
    seen = (lab.spans()[key] - before.get(key, 0)) / 3600
    assert seen == pytest.approx(rate, rel=0.10 if rate > 0.2 else 0.25)


def test_latencies(hour: Any) -> None:
    lab, _ = hour
    traces = lab.world.spans.search("frontend", limit=1500)
    roots = np.array([t[0].duration_us / 1e3 for t in traces if t[0].kind == "SERVER" and t[0].operation == "GET"])
    assert np.median(roots) == pytest.approx(16, rel=0.2)
    assert np.percentile(roots, 95) == pytest.approx(26.6, rel=0.25)


def test_instrumentation_gaps(hour: Any) -> None:
    lab, _ = hour
    assert lab.world.spans.services() == [
        "checkoutservice",
        "currencyservice",
        "emailservice",
        "frontend",
        "paymentservice",
        "productcatalogservice",
        "recommendationservice",
    ]
    alone = [t for t in lab.world.spans.search("checkoutservice", limit=50) if t[0].service == "checkoutservice"]
    assert alone
    for spans in alone:
        assert [(s.service, s.kind) for s in spans] == [
            ("checkoutservice", "CLIENT"),
            ("currencyservice", "SERVER"),
        ]
        assert lab.world.spans.trace(spans[0].trace_id) == spans


@pytest.mark.parametrize(("name", "millicores"), CPU)
def test_cpu(busy: Any, name: str, millicores: float) -> None:
    before, after = busy
    row = [label.pod.rsplit("-", 1)[0] for label in after.containers.labels].index(name)
    used = (after.containers.cpu_seconds - before.containers.cpu_seconds)[row] / (after.now - before.now)
    assert used * 1e3 == pytest.approx(millicores, rel=0.45)


@pytest.fixture(scope="module")
def busy(request: Any) -> Any:
    """Counters at both ends of five minutes with 27 requests per second."""
    lab = request.getfixturevalue("lab_class")()
    lab.shop()
    lab.users(102, 50)
    lab.advance(60)
    before = lab.world.counters(lab.now)
    lab.advance(300)
    return before, lab.world.counters(lab.now)
