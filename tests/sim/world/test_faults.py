"""Causes and what they look like at each place: refused, delayed, hanging, throttled."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from aiopslab.sim.core.store import Key

SHOP = "shop"
NETEM = {"mode": "all", "direction": "to", "selector": {}}


def problems(lab: Any, since: float, pod_of: str = "frontend") -> list[tuple[str, str, str]]:
    """(severity, message, error) of error and warning lines."""
    found = []
    for pod in lab.pods(pod_of):
        for line in lab.logs(pod, since=since):
            data = json.loads(line) if line.startswith("{") else {}
            if data.get("severity") in ("error", "warning"):
                found.append((data["severity"], data["message"], data.get("error", "")))
    return found


def durations(lab: Any, service: str, kind: str, word: str, since: float) -> np.ndarray:
    traces = lab.world.spans.search(service, limit=2000, start_us=int(since * 1e6))
    return np.array(
        [
            s.duration_us / 1e3
            for t in traces
            for s in t
            if s.service == service and s.kind == kind and word in s.operation
        ]
    )


def refused(ip: str, port: int) -> str:
    return (
        f'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: '
        f'dial tcp {ip}:{port}: connect: connection refused"'
    )


def test_delay_shows_at_the_caller_and_not_at_the_callee(shop: Any) -> None:
    start = shop.now
    shop.advance(60)
    client = durations(shop, "frontend", "CLIENT", "Convert", start)
    server = durations(shop, "currencyservice", "SERVER", "Convert", start)
    rate = shop.world.counters(shop.now).spans.count.sum()
    pod = shop.pods("currencyservice")[0]
    shop.chaos(
        "networkchaos", "a", {**NETEM, "action": "delay", "delay": {"latency": "200ms"}}, (f"{SHOP}/{pod}", ".")
    )
    start = shop.now
    shop.advance(120)
    assert np.median(durations(shop, "frontend", "CLIENT", "Convert", start)) == pytest.approx(
        np.median(client) + 200, abs=2
    )
    assert np.median(durations(shop, "currencyservice", "SERVER", "Convert", start)) == pytest.approx(
        np.median(server), rel=0.1
    )
    assert not problems(shop, start)
    assert rate > 0


def test_delay_towards_a_target_spares_other_edges(shop: Any) -> None:
    front, cart = shop.pods("frontend")[0], shop.pods("cartservice")[0]
    spec = {**NETEM, "action": "delay", "delay": {"latency": "100ms"}, "target": {"selector": {}}}
    shop.chaos("networkchaos", "a", spec, (f"{SHOP}/{front}", "."), (f"{SHOP}/{cart}", ".Target"))
    start = shop.now
    shop.advance(60)
    assert np.median(durations(shop, "frontend", "CLIENT", "GetCart", start)) > 100
    assert np.median(durations(shop, "frontend", "CLIENT", "GetProduct", start)) < 5
    assert shop.world.probe(shop.refs[cart], {"grpc": {"port": 7070}}, shop.now).ok


def test_closed_loop_load_falls_when_the_shop_is_slow(shop: Any) -> None:
    def served() -> int:
        return sum(n for k, n in shop.spans(service_name="frontend").items() if k[2] == "SERVER")

    before = served()
    shop.advance(120)
    fast = served() - before
    pod = shop.pods("productcatalogservice")[0]
    shop.chaos(
        "networkchaos", "a", {**NETEM, "action": "delay", "delay": {"latency": "1s"}}, (f"{SHOP}/{pod}", ".")
    )
    shop.advance(30)
    before = served()
    shop.advance(120)
    assert served() - before < 0.65 * fast


def test_ads_later_than_their_deadline_cost_exactly_the_deadline(shop: Any) -> None:
    pod = shop.pods("adservice")[0]
    shop.chaos(
        "networkchaos", "a", {**NETEM, "action": "delay", "delay": {"latency": "300ms"}}, (f"{SHOP}/{pod}", ".")
    )
    start = shop.now
    shop.advance(60)
    assert set(durations(shop, "frontend", "CLIENT", "GetAds", start)) == {100.0}
    text = "failed to get ads: rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    assert set(problems(shop, start)) == {("warning", "failed to retrieve ads", text)}


def test_a_wrong_target_port_bites_only_when_callers_dial_again(shop: Any) -> None:
    shop.slice("productcatalogservice", 9999)
    start = shop.now
    shop.advance(60)
    assert not problems(shop, start)
    shop.remove(shop.pods("productcatalogservice")[0])
    shop.app("productcatalogservice", 1)
    shop.slice("productcatalogservice", 9999)
    start = shop.now
    shop.advance(60)
    seen = problems(shop, start)
    assert ("error", "request error", "could not retrieve products: " + refused("10.96.7.18", 3550)) in seen
    reco = next(e for s, m, e in seen if m == "failed to get product recommendations")
    assert reco.startswith(
        "rpc error: code = Unknown desc = Exception calling application: <_InactiveRpcError of RPC "
        "that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "
    )
    shop.slice("productcatalogservice", 3550)
    shop.advance(150)
    start = shop.now
    shop.advance(60)
    assert not problems(shop, start)


def test_scaled_to_zero_is_refused_at_once_and_comes_back(shop: Any) -> None:
    for pod in shop.pods("cartservice"):
        shop.remove(pod)
    shop.slice("cartservice", 7070)
    start = shop.now
    shop.advance(60)
    texts = {error for _, _, error in problems(shop, start)}
    assert "could not retrieve cart: " + refused("10.96.7.13", 7070) in texts
    assert (
        "failed to complete the order: rpc error: code = Internal desc = cart failure: failed to get user cart "
        "during checkout: " + refused("10.96.7.13", 7070)
    ) in texts
    assert shop.pods("checkoutservice")
    assert not [line for line in shop.logs(shop.pods("checkoutservice")[0], since=start) if "error" in line]
    roots = durations(shop, "frontend", "SERVER", "GET", start)
    assert np.median(roots) < 10
    shop.app("cartservice", 1)
    shop.slice("cartservice", 7070)
    shop.advance(150)
    start = shop.now
    shop.advance(60)
    assert not problems(shop, start)


def test_a_dangling_name_and_a_missing_service(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    lab.remove(lab.pods("frontend")[0])
    lab.app("frontend", 1, SHIPPING_SERVICE_ADDR="shiping:50051")
    lab.slice("frontend", 8080)
    lab.users(20)
    start = lab.now
    lab.advance(60)
    text = "rpc error: code = Unavailable desc = name resolver error: produced zero addresses"
    assert {error for _, _, error in problems(lab, start + 1)} == {"failed to get shipping quote: " + text}


def test_a_dead_store_takes_five_seconds_to_fail(shop: Any) -> None:
    shop.remove(shop.pods("redis-cart")[0])
    shop.slice("redis-cart", 6379)
    start = shop.now
    shop.advance(90)
    texts = {error for _, _, error in problems(shop, start)}
    assert any(
        t.startswith(
            "could not retrieve cart: rpc error: code = FailedPrecondition desc = Can't access cart "
            "storage. StackExchange.Redis.RedisConnectionException: "
        )
        for t in texts
    )
    assert np.median(durations(shop, "frontend", "CLIENT", "GetCart", start)) > 5000
    assert shop.world.probe(shop.refs[shop.pods("cartservice")[0]], {"grpc": {"port": 7070}}, shop.now).ok


def test_lost_packets_hang_an_established_call_until_the_client_gives_up(shop: Any) -> None:
    pod = shop.pods("checkoutservice")[0]
    shop.chaos("networkchaos", "a", {**NETEM, "action": "partition"}, (f"{SHOP}/{pod}", "."))
    start = shop.now
    shop.advance(200)
    text = "failed to complete the order: rpc error: code = Canceled desc = context canceled"
    assert {error for _, _, error in problems(shop, start)} == {text}
    assert durations(shop, "frontend", "CLIENT", "PlaceOrder", start).max() == pytest.approx(60_000, rel=0.02)
    probe = shop.world.probe(shop.refs[pod], {"grpc": {"port": 5050}}, shop.now)
    assert probe.message.endswith(':5050" within 1s: context deadline exceeded')


def test_little_loss_makes_a_tail_of_retransmissions(shop: Any) -> None:
    pod = shop.pods("currencyservice")[0]
    shop.chaos("networkchaos", "a", {**NETEM, "action": "loss", "loss": {"loss": "10"}}, (f"{SHOP}/{pod}", "."))
    start = shop.now
    shop.advance(120)
    calls = durations(shop, "frontend", "CLIENT", "Convert", start)
    assert np.median(calls) < 5
    assert 0.06 < (calls > 200).mean() < 0.15
    assert (calls > 590).any()


def test_cpu_stress_throttles_the_tail(shop: Any) -> None:
    pod = shop.pods("currencyservice")[0]
    start = shop.now
    shop.advance(60)
    calm = np.percentile(durations(shop, "currencyservice", "SERVER", "", start), [50, 95])
    before = shop.world.counters(shop.now).containers
    spec = {"mode": "all", "selector": {}, "stressors": {"cpu": {"workers": 2, "load": 100}}}
    shop.chaos("stresschaos", "a", spec, (f"{SHOP}/{pod}/server", "."))
    start = shop.now
    shop.advance(60)
    after = shop.world.counters(shop.now).containers
    row = [label.pod for label in after.labels].index(pod)
    assert (after.cpu_seconds - before.cpu_seconds)[row] / 60 == pytest.approx(0.2, rel=0.05)
    assert 0.5 < (after.cfs_throttled_seconds - before.cfs_throttled_seconds)[row] / 60 < 1.7
    assert after.processes[row] > before.processes[row]
    hot = np.percentile(durations(shop, "currencyservice", "SERVER", "", start), [50, 95])
    assert hot[0] < 3 * calm[0] and 50 < hot[1] < 100


def test_memory_beyond_the_limit_kills_the_largest_process(shop: Any) -> None:
    pod = shop.pods("adservice")[0]
    memory = {"workers": 8, "size": "400MB"}
    shop.chaos(
        "stresschaos",
        "a",
        {"mode": "all", "selector": {}, "stressors": {"memory": memory}},
        (f"{SHOP}/{pod}/server", "."),
    )
    shop.advance(15)
    exits = shop.world.exits(shop.now)
    assert [(e.ref.pod, e.exit_code, e.reason) for e in exits] == [(pod, 137, "OOMKilled")]


def test_a_network_policy_times_new_connections_out(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    lab.put(
        "networking.k8s.io/networkpolicies",
        SHOP,
        "closed",
        {"spec": {"podSelector": {"matchLabels": {"app": "shippingservice"}}, "policyTypes": ["Ingress"]}},
    )
    lab.users(20)
    start = lab.now
    lab.advance(120)
    texts = {error for _, _, error in problems(lab, start + 1) if "quote" in error}
    assert any('dial tcp 10.96.7.20:50051: i/o timeout"' in text for text in texts)


def test_a_killed_frontend_reaches_only_the_load_generator(shop: Any) -> None:
    shop.remove(shop.pods("frontend")[0])
    shop.slice("frontend", 8080)
    before = shop.spans()
    shop.advance(60)
    assert shop.spans() == before
    load = next(iter(shop.world._loads.values()))
    assert load.failures > 50
    shop.app("frontend", 1)
    shop.slice("frontend", 8080)
    shop.advance(60)
    assert sum(shop.spans(service_name="frontend").values()) > sum(
        n for k, n in before.items() if k[0] == "frontend"
    )


def test_a_missing_variable_panics_at_the_start(make_lab: Any) -> None:
    lab = make_lab()
    lab.app("frontend", 1, CART_SERVICE_ADDR="")
    assert (lab.result.exit_code, lab.result.exit_after_s) == (2, pytest.approx(0.1))
    lab.advance(1)
    assert lab.logs(lab.pods("frontend")[0])[0] == 'panic: environment variable "CART_SERVICE_ADDR" not set'


def test_recovering_a_policy_heals(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    key = ("networking.k8s.io/networkpolicies", SHOP, "closed")
    lab.put(
        *key,
        {"spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]}},
    )
    lab.users(10)
    start = lab.now
    lab.advance(60)
    assert not problems(lab, start + 1)
    lab.store.remove(Key(*key))


def test_calls_in_flight_break_off_when_their_backend_dies(shop: Any) -> None:
    pod = shop.pods("cartservice")[0]
    shop.chaos(
        "networkchaos", "a", {**NETEM, "action": "delay", "delay": {"latency": "8s"}}, (f"{SHOP}/{pod}", ".")
    )
    shop.advance(20)
    start = shop.now
    shop.remove(pod)
    shop.slice("cartservice", 7070)
    shop.advance(15)
    texts = [error for _, _, error in problems(shop, start)]
    broken = "could not retrieve cart: rpc error: code = Unavailable desc = error reading from server: EOF"
    assert broken in texts
    broken_off = sum("desc = error reading from server: EOF" in text for text in texts)
    traces = shop.world.spans.search("frontend", limit=500, start_us=int((start - 20) * 1e6))
    failed = [s for t in traces for s in t if s.status_message == "error reading from server: EOF"]
    assert len(failed) == broken_off
    for span in failed:
        assert span.start_us + span.duration_us == pytest.approx(start * 1e6, abs=5000)
    metrics = sum(n for k, n in shop.spans(service_name="frontend").items() if k[2] == "SERVER")
    everything = shop.world.spans.search("frontend", limit=10_000)
    assert metrics == sum(s.service == "frontend" and s.kind == "SERVER" for t in everything for s in t)
