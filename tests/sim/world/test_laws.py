"""What must hold whatever happens: modalities agree, counters only grow, replays are equal."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiopslab.sim.core.ports import LogQuery
from aiopslab.sim.core.store import Key

SHOP = "shop"
DELAY = {"action": "delay", "mode": "all", "direction": "to", "selector": {}}


def break_something(lab: Any, what: str) -> None:
    """One of a few different faults."""
    if what == "slice":
        lab.remove(lab.pods("cartservice")[0])
        lab.app("cartservice", 1)
        lab.slice("cartservice", 9999, [])
    elif what == "kill":
        for pod in lab.pods("currencyservice"):
            lab.remove(pod)
        lab.slice("currencyservice", 7000)
    elif what == "delay":
        pod = lab.pods("adservice")[0]
        lab.chaos("networkchaos", "a", {**DELAY, "delay": {"latency": "150ms"}}, (f"{SHOP}/{pod}", "."))
    elif what == "partition":
        pod = lab.pods("productcatalogservice")[0]
        lab.chaos("networkchaos", "a", {**DELAY, "action": "partition"}, (f"{SHOP}/{pod}", "."))
    elif what == "stress":
        pod = lab.pods("frontend")[0]
        spec = {"mode": "all", "selector": {}, "stressors": {"cpu": {"workers": 2, "load": 100}}}
        lab.chaos("stresschaos", "a", spec, (f"{SHOP}/{pod}/server", "."))


def frontend_lines(lab: Any, message: str) -> list[dict[str, Any]]:
    found = []
    for pod in lab.pods("frontend"):
        lines = [json.loads(line) for line in lab.logs(pod) if line.startswith("{")]
        found += [ln for ln in lines if ln["message"] == message and not ln["session"].startswith("x-")]
    return found


@pytest.mark.parametrize("what", ["nothing", "slice", "kill", "delay", "stress"])
def test_log_lines_spans_and_metrics_count_the_same_requests(make_lab: Any, what: str) -> None:
    lab = make_lab()
    lab.shop()
    lab.users(20)
    lab.advance(60)
    break_something(lab, what)
    lab.advance(60)
    metrics = sum(n for key, n in lab.spans(service_name="frontend").items() if key[2] == "SERVER")
    traces = lab.world.spans.search("frontend", limit=10_000)
    servers = [s for t in traces for s in t if s.service == "frontend" and s.kind == "SERVER"]
    done = frontend_lines(lab, "request complete")
    assert metrics == len(servers) == len(done) > 50
    assert len(frontend_lines(lab, "request error")) == sum(s.status == "ERROR" for s in servers)
    errors = sum(n for k, n in lab.spans(service_name="frontend").items() if k[2] == "SERVER" and k[3] == "ERROR")
    assert errors == sum(s.status == "ERROR" for s in servers)
    assert (errors > 0) == (what in ("slice", "kill"))


@pytest.mark.parametrize("what", ["nothing", "kill", "partition"])
def test_children_lie_inside_their_parents(make_lab: Any, what: str) -> None:
    lab = make_lab()
    lab.shop()
    lab.users(20)
    lab.advance(60)
    break_something(lab, what)
    lab.advance(120)
    for spans in lab.world.spans.search("frontend", limit=300):
        by_id = {s.span_id: s for s in spans}
        assert len(by_id) == len(spans)
        for span in spans:
            parent = by_id.get(span.parent_id)
            assert span.duration_us >= 0
            assert (parent is None) == (span.parent_id == "")
            if parent is not None:
                slack = 12  # float32 milliseconds, rounded to microseconds
                assert parent.start_us <= span.start_us + slack
                within_deadline = parent.status == "ERROR" or span.status == "ERROR"
                end, limit = span.start_us + span.duration_us, parent.start_us + parent.duration_us
                assert end <= limit + slack or within_deadline


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    what=st.lists(st.sampled_from(["slice", "kill", "delay", "partition", "stress"]), max_size=3),
    seed=st.integers(0, 1000),
)
def test_counters_are_monotone_and_cpu_keeps_its_limit(make_lab: Any, what: list[str], seed: int) -> None:
    lab = make_lab(seed)
    lab.shop()
    lab.users(60, 60)
    before = lab.world.counters(lab.now)
    for fault in [*what, "nothing"]:
        break_something(lab, fault)
        lab.advance(45)
        after = lab.world.counters(lab.now)
        _check_containers(before, after)
        count = len(before.spans.labels)
        assert after.spans.labels[:count] == before.spans.labels
        assert (after.spans.buckets[:count] >= before.spans.buckets).all()
        assert (np.diff(after.spans.buckets, axis=1) >= 0).all()
        assert (after.spans.count > 0).all()
        assert (after.nodes.cpu_seconds >= before.nodes.cpu_seconds - 1e-6).all()
        before = after


def _check_containers(before: Any, after: Any) -> None:
    rows = {label: row for row, label in enumerate(before.containers.labels)}
    elapsed = after.now - before.now
    for row, label in enumerate(after.containers.labels):
        if label not in rows:
            continue
        old = rows[label]
        for name in ("cpu_seconds", "cfs_periods", "cfs_throttled_periods", "cfs_throttled_seconds"):
            assert getattr(after.containers, name)[row] >= getattr(before.containers, name)[old]
        used = after.containers.cpu_seconds[row] - before.containers.cpu_seconds[old]
        assert used <= after.containers.cpu_limit_cores[row] * elapsed + 1e-9
        assert after.containers.cfs_throttled_periods[row] <= after.containers.cfs_periods[row]
        limit = after.containers.memory_limit_bytes[row]
        assert after.containers.memory_working_set_bytes[row] <= limit


def test_no_error_series_before_the_first_error(shop: Any) -> None:
    assert not [key for key in shop.spans(span_kind="SPAN_KIND_SERVER") if key[3] == "ERROR"]
    break_something(shop, "kill")
    shop.advance(30)
    assert [key for key in shop.spans(service_name="frontend") if key[3] == "ERROR"]


def test_a_replay_is_identical(make_lab: Any) -> None:
    def play() -> tuple[Any, ...]:
        lab = make_lab(3)
        lab.shop(2)
        lab.users(15)
        lab.advance(40)
        break_something(lab, "kill")
        lab.advance(40)
        logs = [lab.logs(pod) for pod in sorted(lab.refs) if lab.world.runs.find(lab.refs[pod])]
        counters = lab.world.counters(lab.now)
        traces = lab.world.spans.search("frontend", limit=50)
        return logs, counters.containers.cpu_seconds.tolist(), counters.spans.labels, traces

    assert play() == play()


def test_users_do_the_same_things_with_and_without_a_fault(make_lab: Any) -> None:
    def paths(what: str) -> dict[str, list[str]]:
        lab = make_lab(5)
        lab.shop()
        lab.users(10)
        lab.advance(30)
        break_something(lab, what)
        lab.advance(60)
        found: dict[str, list[str]] = {}
        for line in frontend_lines(lab, "request started"):
            found.setdefault(line["session"], []).append(line["http.req.method"] + line["http.req.path"])
        return found

    plain, slow = paths("nothing"), paths("delay")
    assert plain.keys() == slow.keys()
    for session, done in slow.items():
        assert plain[session][: len(done) - 2] == done[: len(done) - 2]


def test_how_often_time_is_cut_does_not_matter_to_users(make_lab: Any) -> None:
    def starts(step: float) -> list[float]:
        lab = make_lab(5)
        lab.shop()
        lab.users(10)
        lab.advance(60, step)
        run = lab.refs[lab.pods("frontend")[0]]
        lines = lab.world.logs(run, LogQuery())
        return [line.at for line in lines if "request started" in line.text and "/_healthz" not in line.text]

    # Warm-up and waiting are taken once per piece; everything else is the same draw.
    assert starts(15.0) == pytest.approx(starts(4.0), abs=0.15)


def test_a_fault_that_is_taken_back_leaves_no_errors(shop: Any) -> None:
    pod = shop.pods("currencyservice")[0]
    spec = {**DELAY, "delay": {"latency": "400ms"}}
    shop.chaos("networkchaos", "a", spec, (f"{SHOP}/{pod}", "."))
    shop.advance(60)
    shop.store.remove(Key("chaos-mesh.org/networkchaos", "chaos-mesh", "a"))
    shop.advance(30)
    start = int(shop.now * 1e6)
    shop.advance(60)
    for spans in shop.world.spans.search("frontend", limit=200, start_us=start):
        root = spans[0]
        assert root.duration_us < 150_000
        assert root.status == "UNSET"
