"""The measurements themselves, on short stretches: the load is the reference's, the shapes are the stock shop's."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def shop(bench, health):
    """Five minutes of the shop under the made-up day's load."""
    made = bench["stock"].loaded(health, 3)
    made.began = made.now
    made.advance(300)
    return made


def test_page_shares_follow_from_request_rates(bench, health):
    shares = bench["stock"].shares(health)
    expected = {"home": 0.2, "product": 0.3, "view-cart": 0.2, "add-to-cart": 0.1, "checkout": 0.1, "no-rpc": 0.1}
    assert shares == pytest.approx(expected)


def test_the_load_reproduces_the_rates(bench, health, shop):
    calls = shop.served(shop.began, bench["stock"].by_service)
    for name in ("frontend", "adservice", "recommendationservice", "shippingservice", "cartservice"):
        assert len(calls[name].start) / 300 == pytest.approx(health[name]["rps"]["p50"], rel=0.12), name


def test_latency_and_usage_are_in_the_stock_ranges(bench, shop):
    calls = shop.served(shop.began, bench["stock"].by_service)
    quantile = bench["shop"].mesh_quantile
    assert quantile(calls["paymentservice"].served, 0.5) == pytest.approx(3.0, abs=0.7)
    assert 10 < quantile(calls["frontend"].served, 0.5) < 25
    assert quantile(calls["productcatalogservice"].served, 0.5) < 0.5
    assert not calls["frontend"].failed.any()
    assert shop.samples.series("frontend", "memory")[-1] > 2**20


def test_a_busy_neighbour_takes_the_quota_and_stalls_some_calls(bench, health):
    stock, shop = bench["stock"], bench["stock"].loaded(health, 4)
    began = shop.now
    shop.advance(120)
    at = shop.now
    stock.inject(shop, "pod_cpu_overload", "adservice", False)
    shop.advance(120)
    calls = shop.served(began, stock.by_service)["adservice"]
    before, during = calls.within(began, at), calls.within(at + 20, shop.now)
    _, cpu = shop.samples.rate("adservice", "cpu_s", 15)
    assert cpu[-1] == pytest.approx(0.2, rel=0.02)  # the limit
    assert np.median(during.took) < 2 * np.median(before.took)  # most calls pass
    assert np.quantile(during.took, 0.95) > 30  # some wait for the next period
    assert not during.failed.any()
    _, throttled = shop.samples.rate("adservice", "throttled_s", 15)
    assert 0.7 < throttled[-1] < 1.3
    assert shop.samples.series("adservice", "memory")[-1] > shop.samples.series("adservice", "memory")[-14]


def test_delay_shows_at_the_caller_only(bench, health):
    stock, shop = bench["stock"], bench["stock"].loaded(health, 5)
    began = shop.now
    shop.advance(60)
    at = shop.now
    stock.inject(shop, "pod_network_delay", "currencyservice", False)
    shop.advance(60)
    calls = shop.served(began, stock.by_service)["currencyservice"]
    before, during = calls.within(began, at), calls.within(at + 5, shop.now)
    assert np.median(during.took) - np.median(before.took) == pytest.approx(stock.DELAY_MS, rel=0.02)
    assert np.median(during.served) == pytest.approx(np.median(before.served), rel=0.2)
    assert bench["shapes"].onset_s(calls, at) <= 10


@pytest.mark.parametrize(("values", "expected"), [([1.0, 1.0, 1.0], 0.0), ([1.0, -1.0] * 50, -0.99)])
def test_autocorrelation(bench, values, expected):
    assert bench["shapes"].autocorrelation(np.array(values)) == pytest.approx(expected, abs=0.01)
