"""Laws of the signals over random topologies, loads and faults."""

from __future__ import annotations

import json
import time
import tomllib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from aiopslab.errors import UsageError
from aiopslab.sim.world.programs import Programs
from aiopslab.testing.topologies import ENTRY, synthetic

FAULTS = ("nothing", "delay", "loss", "partition", "stress", "restart", "port")
CUMULATIVE = ("cpu_seconds", "cfs_periods", "cfs_throttled_periods", "cfs_throttled_seconds", "oom_events")
few = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],  # a failing town is small enough as it is; shrinking takes minutes
)
towns = st.tuples(st.integers(2, 30), st.integers(0, 1000))
broken = st.tuples(st.sampled_from(FAULTS), st.floats(0, 1))


@given(st.integers(2, 200), st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_generated_manifests_are_valid_and_reach_every_service(services: int, seed: int) -> None:
    app = synthetic(services, seed)
    assert app == synthetic(services, seed)
    assert tomllib.loads(app.toml()) == json.loads(json.dumps(app.manifest()))
    called = {name for service in app.services for name, _ in service.calls}
    assert called | {ENTRY} == {service.name for service in app.services}
    assert len(app.objects("n")) == 2 * services + 1


@pytest.mark.parametrize("services", [0, 1, 5000])
def test_sizes_that_make_no_sense_are_refused(services: int) -> None:
    with pytest.raises(UsageError, match="services must be"):
        synthetic(services, 1)


@few
@given(towns, broken)
def test_metrics_spans_and_log_lines_count_the_same(
    make_town: Any, break_it: Any, size: tuple[int, int], fault: tuple[str, float]
) -> None:
    town = make_town(*size)
    town.advance(40)
    break_it(town, *fault)
    town.advance(40)
    town.drain()
    traces = town.world.spans.search(ENTRY, limit=100_000)
    spans = [span for trace in traces for span in trace]
    counted = town.spans_counted()
    for service in town.app.services:
        of = [s for s in spans if s.service == service.name and s.kind == "SERVER"]
        metric = sum(n for (name, kind, _), n in counted.items() if name == service.name and kind == "SERVER")
        lines = [line for pod in town.refs if pod.startswith(service.name) for line in town.lines(pod)]
        if fault[0] in ("restart", "port"):  # the lines of a pod that is gone are gone too
            assert len(of) == metric
        else:
            assert len(of) == metric == sum('"handled"' in line for line in lines), service.name
    errors = sum(n for (_, _, status), n in counted.items() if status == "ERROR")
    assert errors == sum(s.status == "ERROR" for s in spans)


@few
@given(towns, broken)
def test_references_resolve_and_parents_contain_children(
    make_town: Any, break_it: Any, size: tuple[int, int], fault: tuple[str, float]
) -> None:
    town = make_town(*size)
    town.advance(30)
    break_it(town, *fault)
    town.advance(45)
    pods = {label.pod for label in town.world.counters(town.now).pods.labels} | set(town.refs)
    known = {service.name for service in town.app.services}
    for trace in town.world.spans.search(ENTRY, limit=200):
        by_id = {span.span_id: span for span in trace}
        assert len(by_id) == len(trace)
        for span in trace:
            assert span.service in known and span.process["k8s.pod.name"] in pods
            parent = by_id.get(span.parent_id)
            assert (parent is None) == (span.parent_id == "")
            if parent is not None and "ERROR" not in (parent.status, span.status):
                assert parent.start_us <= span.start_us + 12
                assert span.start_us + span.duration_us <= parent.start_us + parent.duration_us + 12


@few
@given(towns, st.lists(broken, min_size=1, max_size=3))
def test_counters_fall_only_at_restarts_and_keep_their_limits(
    make_town: Any, break_it: Any, rows: Any, size: tuple[int, int], faults: list[tuple[str, float]]
) -> None:
    town = make_town(*size, users=40)
    before = town.world.counters(town.now)
    for fault in faults:
        break_it(town, *fault)
        town.advance(30)
        after = town.world.counters(town.now)
        old, new = rows(before), rows(after)
        for label in old.keys() & new.keys():
            assert all(new[label][name] >= old[label][name] for name in CUMULATIVE)
            used = new[label]["cpu_seconds"] - old[label]["cpu_seconds"]
            assert used <= new[label]["cpu_limit_cores"] * (after.now - before.now) + 1e-9
        for row in new.values():
            assert row["memory_working_set_bytes"] <= row["memory_limit_bytes"]
            assert row["cfs_throttled_periods"] <= row["cfs_periods"]
        assert (after.spans.buckets[: len(before.spans.labels)] >= before.spans.buckets).all()
        assert (after.nodes.retransmitted_segments >= before.nodes.retransmitted_segments).all()
        assert all(after.dns.answers[key] >= count for key, count in before.dns.answers.items())
        before = after


@few
@given(towns, broken)
def test_a_replay_is_identical(
    make_town: Any, break_it: Any, size: tuple[int, int], fault: tuple[str, float]
) -> None:
    def play() -> Any:
        town = make_town(*size)
        town.advance(20)
        break_it(town, *fault)
        town.advance(20)
        found = town.world.counters(town.now)
        spans = town.world.spans.search(ENTRY, limit=40)
        return spans, [town.lines(p) for p in sorted(town.refs)], found.containers.cpu_seconds.tolist(), found.dns

    assert play() == play()


def mean_ms(town: Any) -> float:
    start = int((town.now - 40) * 1e6)
    traces = town.world.spans.search(ENTRY, limit=2000, start_us=start)
    return float(np.mean([trace[0].duration_us for trace in traces])) / 1e3


def test_latency_grows_with_utilisation(make_town: Any) -> None:
    found = []
    for users in (20, 500, 900):
        town = make_town(4, 3, users=users)
        town.advance(90)
        found.append(mean_ms(town))
    assert all(later > 0.97 * earlier for earlier, later in pairwise(found)), found
    assert found[-1] > 1.3 * found[0], found


def test_healthy_seeds_differ_only_within_noise(make_town: Any) -> None:
    totals, cpu = [], []
    for seed in (1, 2, 3, 4):
        town = make_town(8, seed, layout=1)
        town.advance(300)
        counted = town.spans_counted()
        assert not [key for key in counted if key[2] == "ERROR"]
        totals.append(sum(counted.values()))
        cpu.append(float(town.world.counters(town.now).containers.cpu_seconds.sum()))
    # Some 300 s / 3 s x 10 users = 1000 requests: a few standard deviations of a count like that.
    assert max(totals) / min(totals) < 1.25
    assert max(cpu) / min(cpu) < 1.3


def test_loss_makes_tcp_send_again(make_town: Any, break_it: Any) -> None:
    town = make_town(6)
    town.advance(30)
    calm = town.world.counters(town.now).nodes.retransmitted_segments.sum()
    town.advance(60)
    still = town.world.counters(town.now).nodes.retransmitted_segments.sum() - calm
    break_it(town, "loss", 0.3)
    town.advance(60)
    lossy = town.world.counters(town.now).nodes.retransmitted_segments.sum() - calm - still
    assert lossy > 5 * (still + 1)


def test_the_service_graph_agrees_with_the_spans(make_town: Any) -> None:
    town = make_town(20)
    town.advance(60)
    now_us = int(town.now * 1e6)
    calls: dict[tuple[str, str], int] = {}
    for trace in town.world.spans.search(ENTRY, limit=100_000):
        by_id = {span.span_id: span for span in trace}
        for span in trace:
            parent = by_id.get(span.parent_id)
            if parent is not None and parent.service != span.service:
                calls[(parent.service, span.service)] = calls.get((parent.service, span.service), 0) + 1
    graph = {(a, b): n for a, b, n in town.world.spans.dependencies(0, now_us)}
    assert graph.keys() == calls.keys()
    assert all(abs(graph[key] - calls[key]) <= 10 for key in calls)  # requests in flight are counted already


@pytest.mark.slow
def test_two_hundred_services_run(make_town: Any) -> None:
    town = make_town(200, 1, users=100)
    began = time.process_time()
    town.advance(120)
    spent = time.process_time() - began
    counted = town.spans_counted()
    assert {key[0] for key in counted} == {service.name for service in town.app.services}
    assert sum(counted.values()) > 20_000
    assert spent < 20


def test_names_are_looked_up_when_connections_are_made(make_town: Any) -> None:
    town = make_town(5)
    town.advance(60)
    answers = town.world.counters(town.now).dns.answers
    assert answers[("A", "NOERROR")] == answers[("AAAA", "NOERROR")] >= 5
    assert ("A", "NXDOMAIN") not in answers


def test_programs_of_a_bundle_can_be_loaded(tmp_path: Any) -> None:
    folder = synthetic(3, 1, name="tiny").write(tmp_path)
    assert folder.name == "tiny"
    names = {program.name for program in Programs.load([tmp_path]).all.values() if program.scope == "tiny"}
    assert names == {"entry", "svc-001", "svc-002", "users"}
