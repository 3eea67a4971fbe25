"""The smaller parts: random tables, waiting, images, probes, programs, log formats."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiopslab.errors import ManifestError
from aiopslab.sim.core.ports import LogQuery
from aiopslab.sim.world.hashing import lognormal_table, mix, mix_int, unit
from aiopslab.sim.world.images import Registry
from aiopslab.sim.world.logformats import FORMATS, Entry
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.queueing import Load, queue_wait_s, waiting


@given(st.integers(0, 2**64 - 1))
def test_array_and_integer_hashes_agree(key: int) -> None:
    assert int(mix(np.array([key], np.uint64))[0]) == mix_int(key)


def test_quantile_tables_have_the_right_quantiles() -> None:
    table = lognormal_table([(1.0, 1.0, 0.5)])
    assert np.median(table) == pytest.approx(math.e, rel=2e-3)
    assert table.mean() == pytest.approx(math.exp(1 + 0.125), rel=5e-3)
    draws = unit(mix(np.arange(100_000, dtype=np.uint64)))
    assert draws.mean() == pytest.approx(0.5, abs=5e-3) and draws.min() >= 0 and draws.max() < 1


@settings(max_examples=50)
@given(st.floats(0, 2), st.floats(0.01, 0.5), st.floats(0, 300))
def test_waiting_is_finite_and_use_keeps_the_limit(demand: float, limit: float, calls: float) -> None:
    found = waiting(Load(demand, calls, 0.001, 0.002, 0.0, limit, 10, 2.0))
    assert 0 <= found.hit <= 1 and 0 <= found.throttled_periods <= 1
    assert 0 <= found.queue_ms < 1e6 and found.busy <= limit + 1e-12
    assert found.overload == pytest.approx(max(0.0, demand - min(limit, 2.0)))


def test_queueing_grows_with_load_and_matches_mm1() -> None:
    assert queue_wait_s(0.5, 1, 0.01) == pytest.approx(0.01)
    waits = [queue_wait_s(rho, 4, 0.01) for rho in (0.1, 0.5, 0.9)]
    assert waits == sorted(waits)


IMAGES = [
    ("redis:alpine", True),
    ("shop.example/x:1", False),
    ("busybox", True),
    ("registry.k8s.io/pause:3.9", True),
    ("us-central1-docker.pkg.dev/online-boutique-ci/microservices-demo/frontend:v0.10.6", True),
    ("us-central1-docker.pkg.dev/online-boutique-ci/microservices-demo/frontend:broken", False),
]


@pytest.mark.parametrize(("image", "there"), IMAGES)
def test_images(image: str, there: bool, lab: Any) -> None:
    registry = Registry(lab.world.programs)
    assert (registry.pull(image) is None) == there
    assert registry.pull_seconds(image) > 0 and registry.size_bytes(image) > 1e6


PROBES = [
    ("frontend", {"httpGet": {"path": "/_healthz", "port": 8080}}, True, ""),
    ("frontend", {"httpGet": {"path": "/nothing", "port": 8080}}, False, "HTTP probe failed with statuscode: 404"),
    (
        "frontend",
        {"httpGet": {"path": "/", "port": 8081}},
        False,
        'Get "http://{ip}:8081/": dial tcp {ip}:8081: connect: connection refused',
    ),
    ("frontend", {"tcpSocket": {"port": 8080}}, True, ""),
    ("adservice", {"grpc": {"port": 9555}}, True, ""),
    (
        "adservice",
        {"grpc": {"port": 9556}},
        False,
        'timeout: failed to connect service "{ip}:9556" within 1s: context deadline exceeded',
    ),
    ("redis-cart", {"tcpSocket": {"port": 6380}}, False, "dial tcp {ip}:6380: connect: connection refused"),
]


@pytest.mark.parametrize(("service", "probe", "ok", "message"), PROBES)
def test_probes(shop: Any, service: str, probe: dict[str, Any], ok: bool, message: str) -> None:
    pod = shop.pods(service)[0]
    ip = shop.world.runs.find(shop.refs[pod]).spec.pod_ip
    result = shop.world.probe(shop.refs[pod], probe, shop.now)
    assert (result.ok, result.message) == (ok, message.replace("{ip}", ip))


def test_a_starting_program_does_not_answer_yet(lab: Any) -> None:
    lab.app("adservice", 1)
    pod = lab.pods("adservice")[0]
    assert not lab.world.probe(lab.refs[pod], {"grpc": {"port": 9555}}, lab.now).ok
    lab.advance(10)
    assert lab.world.probe(lab.refs[pod], {"grpc": {"port": 9555}}, lab.now).ok


def test_probe_lines(shop: Any) -> None:
    front, cart = shop.pods("frontend")[0], shop.pods("cartservice")[0]
    probe = {
        "httpGet": {
            "path": "/_healthz",
            "port": 8080,
            "httpHeaders": [{"name": "Cookie", "value": "shop_session-id=x-readiness-probe"}],
        }
    }
    start = shop.now
    shop.world.probe(shop.refs[front], probe, start)
    shop.world.probe(shop.refs[cart], {"grpc": {"port": 7070}}, start)
    lines = [json.loads(line) for line in shop.logs(front, since=start) if "x-readiness-probe" in line]
    assert [line["message"] for line in lines] == ["request started", "request complete"]
    assert lines[0]["http.req.id"] == lines[1]["http.req.id"]
    assert "Checking CartService Health" in shop.logs(cart, since=start)


def test_log_queries(shop: Any) -> None:
    ref = shop.refs[shop.pods("frontend")[0]]
    lines = shop.world.logs(ref, LogQuery())
    assert [line.at for line in lines] == sorted(line.at for line in lines)
    assert shop.world.logs(ref, LogQuery(tail=7)) == lines[-7:]
    assert shop.world.logs(ref, LogQuery(tail=0)) == []
    middle = lines[len(lines) // 2].at
    assert shop.world.logs(ref, LogQuery(since=middle)) == [line for line in lines if line.at >= middle]
    shop.world.forget(ref.pod_uid)
    assert shop.world.logs(ref, LogQuery()) is None


def test_stopping(shop: Any) -> None:
    front, currency = shop.pods("frontend")[0], shop.pods("currencyservice")[0]
    assert shop.world.stop(shop.refs[front], shop.now, 30) == (0.03, 2)
    assert shop.world.stop(shop.refs[currency], shop.now, 5) == (5, 137)
    cart = shop.pods("cartservice")[0]
    shop.world.stop(shop.refs[cart], shop.now, 5)
    assert "Application is shutting down..." in shop.logs(cart)[-1]


FORMATTED = [
    ("logrus", '{"a":1,"message":"hi","severity":"info","timestamp":"2025-06-02T09:00:00.500000123Z","z":"2"}'),
    (
        "pino",
        '{"severity":"info","time":1748854800500,"pid":1,"hostname":"pod-1","name":"app","z":"2","a":1,"message":"hi"}',
    ),
    (
        "python-json",
        '{"timestamp": 1748854800.5, "severity": "INFO", "name": "app", "message": "hi", "z": "2", "a": 1}',
    ),
    ("redis", "1:M 02 Jun 2025 09:00:00.500 * hi"),
    ("locust", "[2025-06-02 09:00:00,500] pod-1/INFO/app: hi"),
    ("plain", "hi"),
]


@pytest.mark.parametrize(("name", "text"), FORMATTED)
def test_log_formats(name: str, text: str) -> None:
    entry = Entry(1748854800.5, "info", "hi", "app", "pod-1", {"z": "2", "a": 1}, 123)
    assert FORMATS[name](entry) == text


def test_log4j2_keeps_its_key_order() -> None:
    entry = Entry(1748854800.5, "warning", "hi", "app", "pod-1", {}, 123)
    data = json.loads(FORMATS["log4j2"](entry))
    assert list(data) == [
        "instant",
        "thread",
        "level",
        "loggerName",
        "message",
        "endOfBatch",
        "loggerFqcn",
        "threadId",
        "threadPriority",
        "logging.googleapis.com/trace",
        "logging.googleapis.com/spanId",
        "logging.googleapis.com/traceSampled",
        "time",
    ]
    assert data["level"] == "WARN" and data["logging.googleapis.com/trace"] == "${ctx:traceId}"


MISTAKES = [
    ("programs = 3", "Expected `object`, got `int`"),
    ('[programs.a]\nimages = ["a"]\nport_number = 3', "unknown field `port_number`"),
    (
        '[programs.a]\nimages = ["a"]\n[programs.a.ops."GET /"]\ntime = [[1, 0, 1]]\ncpu_ms = 1\n'
        'steps = [{ op = "B/C", call = "B" }]',
        "no program offers 'B/C'",
    ),
    (
        '[programs.a]\nimages = ["a"]\nchatter_logs = [{ at = "start", message = "{stack:b}" }]',
        "no stack trace 'b'",
    ),
    (
        '[programs.a]\nimages = ["a"]\n[programs.a.users]\ntarget = "A"\nprogram = "a"\non_start = "b"\n'
        'tasks = [{ name = "b", weight = 1, span = "c", requests = [] }]',
        "no operation 'c' for a user's span",
    ),
    ("x = [", "Invalid"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_unusable_manifests_name_the_file(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "apps" / "a" / "sim.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(ManifestError) as caught:
        Programs.load([tmp_path])
    assert str(file) in str(caught.value) and message in str(caught.value)


def test_exec_sees_the_network_of_the_traffic(shop: Any) -> None:
    redis = shop.refs[shop.pods("redis-cart")[0]]

    def sh(script: str) -> str:
        result = shop.world.exec(redis, ["sh", "-c", script], b"", shop.now)
        return (result.stdout + result.stderr).decode()

    assert "PONG" in sh("redis-cli ping")
    assert "10.96.7.13" in sh("nslookup cartservice")
    assert "open" in sh("nc -zv cartservice 7070")
    assert "200 OK" in sh("wget -S -O /dev/null http://frontend/ 2>&1") or sh("wget -q -O - http://frontend/")
    shop.slice("cartservice", 7070, [])
    assert "refused" in sh("nc -zv cartservice 7070")
    front = shop.refs[shop.pods("frontend")[0]]
    assert shop.world.exec(front, ["sh"], b"", shop.now).error


def test_span_search(shop: Any) -> None:
    spans = shop.world.spans
    traces = spans.search("frontend", "hipstershop.CheckoutService/PlaceOrder", limit=5)
    assert 1 <= len(traces) <= 5
    starts = [t[0].start_us for t in traces]
    assert starts == sorted(starts, reverse=True)
    slow = spans.search("frontend", "GET", min_us=20_000, limit=50)
    assert slow and all(t[0].duration_us >= 20_000 for t in slow)
    tagged = spans.search("frontend", tags={"url.path": "/cart"}, limit=3)
    assert {t[0].attributes["url.path"] for t in tagged} == {"/cart"}
    one = tagged[0]
    assert spans.trace(one[0].trace_id) == one
    assert spans.trace("0" * 32) == [] and spans.trace("nonsense") == []
    edges = {(a, b) for a, b, _ in spans.dependencies(0, int(shop.now * 1e6))}
    assert ("frontend", "currencyservice") in edges and ("frontend", "cartservice") not in edges
    assert ("GET", "SERVER") in spans.operations("frontend")
