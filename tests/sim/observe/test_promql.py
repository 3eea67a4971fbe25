"""PromQL over a small data set whose answers can be worked out by hand.

Time runs from 0; all samples are 15 s apart unless noted. Queries ask at 600 s.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from aiopslab.sim.observe.promql.errors import ExecutionError
from aiopslab.sim.observe.promql.evaluate import Engine
from aiopslab.sim.observe.promql.numbers import format_sample
from aiopslab.sim.observe.promql.values import Vector, Windows
from aiopslab.sim.observe.series import STALE, SeriesStore

AT_MS = 600_000
TIMES = np.arange(0, AT_MS + 1, 15_000)
BOUNDS = {"0.1": 50.0, "0.5": 80.0, "1": 100.0, "+Inf": 100.0}


@pytest.fixture(scope="module")
def store() -> SeriesStore:
    """``requests_total`` gains 3 (pod a) and 6 (pod b) a scrape; ``restarts_total`` starts over at 300 s."""
    made = SeriesStore()

    def put(name: str, values: object, times: object = TIMES, **labels: str) -> None:
        made.extend(made.series({"__name__": name, **labels}), times, values)  # type: ignore[arg-type]

    seconds = TIMES / 1000
    put("requests_total", 1000 + seconds / 5, pod="a", app="web", code="200")
    put("requests_total", 1000 + seconds / 2.5, pod="b", app="web", code="200")
    put("requests_total", np.full(len(TIMES), 7.0), pod="a", app="web", code="500")
    put("restarts_total", np.where(seconds < 300, seconds, seconds - 300), pod="a")
    put("level", seconds, pod="a")
    put("level", 2 * seconds, pod="b")
    put("level", np.full(len(TIMES), math.nan), pod="c")
    put("pod_info", np.ones(len(TIMES)), pod="a", node="n1")
    put("pod_info", np.ones(len(TIMES)), pod="b", node="n2")
    put("node_ready", np.ones(len(TIMES)), node="n1")
    put("node_ready", np.zeros(len(TIMES)), node="n2")
    for le, count in BOUNDS.items():
        put("latency_bucket", np.full(len(TIMES), count), le=le)
    put("old", [5.0], [AT_MS - 300_000])
    put("ended", [5.0, STALE], [AT_MS - 60_000, AT_MS - 30_000])
    return made


def ask(store: SeriesStore, query: str, semantics: int = 3) -> object:
    """The answer in plain form: labels text -> number text; sorted unless the query sorts."""
    value = Engine(store, semantics).instant(query, AT_MS).value
    if isinstance(value, Vector):
        rows = [
            (",".join(f"{n}={v}" for n, v in labels), format_sample(round(float(number), 9)))
            for labels, number, there in zip(value.labels, value.values[:, 0], value.present[:, 0], strict=True)
            if there
        ]
        return dict(rows)
    assert not isinstance(value, Windows)
    return value if isinstance(value, str) else format_sample(round(float(value[0]), 9))


CASES: dict[str, list[tuple[str, object]]] = {
    "selectors": [
        ('level{pod="a"}', {"__name__=level,pod=a": "600"}),
        ('level{pod=~"a|b"} offset 1m', {"__name__=level,pod=a": "540", "__name__=level,pod=b": "1080"}),
        ('level{pod="a"} @ 300', {"__name__=level,pod=a": "300"}),
        ('level{pod="a"} @ end() offset -0.5', {"__name__=level,pod=a": "600"}),
        ('{__name__=~"node_.*",node!="n1"}', {"__name__=node_ready,node=n2": "0"}),
        ('level{pod="c"}', {"__name__=level,pod=c": "NaN"}),
        ("nothing", {}),
    ],
    "staleness": [
        ("old", {}),
        ("old offset 1s", {"__name__=old": "5"}),
        ("ended", {}),
        ("ended offset 31s", {"__name__=ended": "5"}),
        ("count_over_time(ended[5m])", {"": "1"}),
    ],
    "rates": [
        ('rate(requests_total{code="200",pod="a"}[1m])', {"app=web,code=200,pod=a": "0.2"}),
        ('increase(requests_total{pod="a",code="200"}[5m])', {"app=web,code=200,pod=a": "60"}),
        ('irate(level{pod="a"}[1m])', {"pod=a": "1"}),
        ("rate(restarts_total[10m])", {"pod=a": "0.974358974"}),
        ("resets(restarts_total[10m])", {"pod=a": "1"}),
        ('delta(level{pod="b"}[2m])', {"pod=b": "240"}),
        ('deriv(level{pod="b"}[2m])', {"pod=b": "2"}),
        ('predict_linear(level{pod="a"}[2m], 3600)', {"pod=a": "4200"}),
        ('idelta(level{pod="b"}[1m])', {"pod=b": "30"}),
        ("rate(old[10m])", {}),
    ],
    "over time": [
        ('sum_over_time(level{pod="a"}[1m])', {"pod=a": "2310"}),
        ('avg_over_time(level{pod="a"}[1m])', {"pod=a": "577.5"}),
        ('max_over_time(level{pod="a"}[1m])', {"pod=a": "600"}),
        ('min_over_time(level{pod="a"}[1m])', {"pod=a": "555"}),
        ('quantile_over_time(0.5, level{pod="a"}[1m])', {"pod=a": "577.5"}),
        ('stdvar_over_time(level{pod="a"}[1m])', {"pod=a": "281.25"}),
        ('last_over_time(level{pod="a"}[1m])', {"__name__=level,pod=a": "600"}),
        ('changes(level{pod="c"}[1m])', {"pod=c": "0"}),
        ('present_over_time(level{pod="c"}[1m])', {"pod=c": "1"}),
        ('absent_over_time(nothing{pod="a"}[1m])', {"pod=a": "1"}),
        ('max_over_time(rate(level{pod="a"}[1m])[5m:1m])', {"pod=a": "1"}),
        ('count_over_time(level{pod="a"}[5m:1m])', {"pod=a": "5"}),
    ],
    "aggregation": [
        ('sum(rate(requests_total{code="200"}[1m]))', {"": "0.6"}),
        ('sum by (pod) (rate(requests_total[1m]))', {"pod=a": "0.2", "pod=b": "0.4"}),
        ("count without (code) (requests_total)", {"app=web,pod=a": "2", "app=web,pod=b": "1"}),
        ('avg(level{pod!="c"})', {"": "900"}),
        ("max(level)", {"": "1200"}),
        ("topk(1, level)", {"__name__=level,pod=b": "1200"}),
        ("bottomk(1, level)", {"__name__=level,pod=a": "600"}),
        ('quantile(0.5, level{pod!="c"})', {"": "900"}),
        ('stddev(level{pod!="c"})', {"": "300"}),
        ('count_values("ready", node_ready)', {"ready=0": "1", "ready=1": "1"}),
        ("group(level)", {"": "1"}),
    ],
    "operators": [
        ("1 + 2 * 3 ^ 2", "19"),
        ("-2 ^ 2", "-4"),
        ("2 ^ 3 ^ 2", "512"),
        ("7 % 4 == bool 3", "1"),
        ("node_ready == 0", {"__name__=node_ready,node=n2": "0"}),
        ("node_ready == bool 0", {"node=n1": "0", "node=n2": "1"}),
        ("level > 700", {"__name__=level,pod=b": "1200"}),
        ("700 > level", {"__name__=level,pod=a": "600"}),
        ("level / on (pod) group_left (node) pod_info", {"node=n1,pod=a": "600", "node=n2,pod=b": "1200"}),
        ("pod_info * on (node) node_ready", {"node=n1": "1", "node=n2": "0"}),
        ('level{pod!="c"} unless on (pod) pod_info{node="n1"}', {"__name__=level,pod=b": "1200"}),
        ('sum by (node) (node_ready{node="n1"}) or node_ready{node="n1"} * 5', {"node=n1": "1"}),
        ('node_ready{node="n1"} * 5 or sum by (node) (node_ready)', {"node=n1": "5", "node=n2": "0"}),
        ("pod_info and on (node) (node_ready == 1)", {"__name__=pod_info,node=n1,pod=a": "1"}),
    ],
    "functions": [
        ("histogram_quantile(0.5, latency_bucket)", {"": "0.1"}),
        ("histogram_quantile(0.9, latency_bucket)", {"": "0.75"}),
        ("histogram_quantile(0.25, latency_bucket)", {"": "0.05"}),
        ("histogram_quantile(2, latency_bucket)", {"": "+Inf"}),
        ('absent(nothing{pod="a",app=~"x"})', {"pod=a": "1"}),
        ("absent(level)", {}),
        ('clamp(level{pod!="c"}, 700, 800)', {"pod=a": "700", "pod=b": "800"}),
        ('round(level{pod="a"} / 7, 0.5)', {"pod=a": "85.5"}),
        ('scalar(node_ready{node="n1"})', "1"),
        ("scalar(node_ready)", "NaN"),
        ("time()", "600"),
        ("hour(vector(86399))", {"": "23"}),
        ("days_in_month(vector(951782400))", {"": "29"}),
        ('timestamp(level{pod="a"} offset 7s)', {"pod=a": "585"}),
        ('label_replace(node_ready{node="n1"}, "n", "x-$1", "node", "n(.)") * 1', {"n=x-1,node=n1": "1"}),
        ('label_join(node_ready{node="n1"}, "id", "/", "node", "pod") * 1', {"id=n1/,node=n1": "1"}),
        ("sgn(vector(-3))", {"": "-1"}),
        ('"text"', "text"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), [case for cases in CASES.values() for case in cases])
def test_answers(store: SeriesStore, query: str, expected: object) -> None:
    assert ask(store, query) == expected


def test_sort_orders_rows_with_nan_last(store: SeriesStore) -> None:
    for query, order in (("sort(level)", "abc"), ("sort_desc(level)", "bac"), ("topk(3, level)", "bac")):
        assert "".join(key[-1] for key in ask(store, query)) == order  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("query", "two", "three"),
    [
        ('count_over_time(level{pod="a"}[1m])', {"pod=a": "5"}, {"pod=a": "4"}),
        ("old", {"__name__=old": "5"}, {}),
        ('count_over_time(level{pod="a"}[5m:1m])', {"pod=a": "6"}, {"pod=a": "5"}),
    ],
)
def test_left_edges_are_open_since_version_3(store: SeriesStore, query: str, two: object, three: object) -> None:
    assert ask(store, query, 2) == two
    assert ask(store, query, 3) == three


def test_version_2_clamps_to_zero_before_the_threshold() -> None:
    """First sample 12.5 s after the window starts, second 10 s later: the threshold is 11 s.

    The counter would be zero 10 s before its first sample. Version 2 takes these 10 s; version 3 takes half an
    interval, 5 s, because 12.5 s are beyond the threshold.
    """
    made = SeriesStore()
    made.extend(made.series({"__name__": "c"}), [12_500, 22_500], [1.0, 2.0])
    for semantics, seconds in ((2, 10 + 10 + 7.5), (3, 10 + 5 + 7.5)):
        value = Engine(made, semantics).instant("increase(c[30s])", 30_000).value
        assert isinstance(value, Vector)
        assert value.values[0, 0] == pytest.approx(seconds / 10)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("level + on () level", "found duplicate series for the match group {} on the right hand-side"),
        ("pod_info * on (pod) requests_total", "found duplicate series for the match group"),
        ("requests_total * on (pod) pod_info", "multiple matches for labels: many-to-one matching must be"),
        ('-{__name__=~"level|restarts_total",pod="a"}', "vector cannot contain metrics with the same labelset"),
        ('max_over_time({__name__=~"level|restarts_total",pod="a"}[5m])', "vector cannot contain"),
        ('label_replace(level, "pod", "x", "", "")', "vector cannot contain metrics with the same labelset"),
        ('label_replace(level, "a-b", "x", "", "")', "invalid destination label name in label_replace(): a-b"),
        ("topk(NaN, level)", "Scalar value NaN overflows int64"),
        ('count_values("", level)', 'invalid label name ""'),
    ],
)
def test_execution_errors(store: SeriesStore, query: str, message: str) -> None:
    with pytest.raises(ExecutionError) as caught:
        ask(store, query)
    assert message in str(caught.value)


def test_range_queries_evaluate_each_step_like_an_instant_query(store: SeriesStore) -> None:
    times = np.arange(0, AT_MS + 1, 37_000)
    queries = [query for cases in CASES.values() for query, _ in cases if "end()" not in query]
    engine = Engine(store)
    for query in queries:
        whole = engine.range(query, times).value
        for column, at in enumerate(times.tolist()):
            single = engine.instant(query, at).value
            if isinstance(whole, Vector) and isinstance(single, Vector):
                assert _points(whole, column) == pytest.approx(_points(single, 0), nan_ok=True), (query, at)
            elif isinstance(whole, np.ndarray) and isinstance(single, np.ndarray):
                assert whole[column] == pytest.approx(single[0], nan_ok=True)


def _points(vector: Vector, column: int) -> dict[object, float]:
    return {
        labels: float(value)
        for labels, value, there in zip(
            vector.labels, vector.values[:, column], vector.present[:, column], strict=True
        )
        if there
    }
