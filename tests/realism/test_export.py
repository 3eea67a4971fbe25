"""Exports in the layouts of published data sets, from fakes with known content."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path
from typing import Any

import pytest

from aiopslab.telemetry.export import Sources, Stretch, export_aiops, export_rcaeval, workload_of
from aiopslab.telemetry.jaeger import Span
from aiopslab.telemetry.prometheus import Series

STRETCH = Stretch("shop", 1000.0, 1120.0, 30.0)
POD, CART = "frontend-7c9d8f6b5-abcde", "cartservice-5d9fbcc6c4-x2x4z"


class FakePrometheus:
    """Answers each kind of query with one or two series."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def query_range(self, expr: str, start: float, end: float, step_s: float) -> list[Series]:
        self.asked.append(expr)
        times = [start + i * step_s for i in range(int((end - start) / step_s) + 1)]
        if "sum by (pod)" in expr:
            return [Series({"pod": p}, [(t, t + i) for t in times]) for i, p in enumerate((POD, CART))]
        label, name = ("service_name", "frontend") if "SPAN_KIND_SERVER" in expr else ("callee", "CartService")
        return [Series({label: name}, [(t, float(sum(map(ord, expr))) + t) for t in times[1:]])]


class FakeJaeger:
    """One trace of a page that calls the cart, which failed for want of time."""

    async def services(self) -> list[str]:
        return ["frontend"]

    async def traces(self, service: str, start: float, end: float, *, limit: int) -> list[list[Span]]:
        root = span("a", "", "frontend", "GET", "server")
        return [[root, span("b", "a", "frontend", CALL, "client", error=True)]]


CALL = "hipstershop.CartService/GetCart"


def span(span_id: str, parent: str, service: str, operation: str, kind: str, error: bool = False) -> Span:
    tags: dict[str, Any] = {"rpc.grpc.status_code": 4} if error else {"http.status_code": 200}
    return Span(
        trace_id="t1", span_id=span_id, parent_id=parent, service=service, operation=operation, kind=kind,
        start_us=1_010_000_000, duration_us=5000, error=error, status_message="", tags=tags,
        process={"k8s.pod.name": POD},
    )  # fmt: skip


LOGS = {POD: "1970-01-01T00:17:00.5Z {\"message\":\"hello, world\"}\n1970-01-01T00:30:00Z too late\nno time"}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def sources() -> Sources:
    return Sources(FakePrometheus(), FakeJaeger(), LOGS)  # type: ignore[arg-type]


def test_rcaeval_case(sources, tmp_path):
    folder = asyncio.run(export_rcaeval(sources, tmp_path / "case", STRETCH, 1060.4))
    assert (folder / "inject_time.txt").read_text() == "1060\n"
    metrics = rows(folder / "metrics.csv")
    assert [row["time"] for row in metrics] == ["1000", "1030", "1060", "1090", "1120"]
    assert {"frontend_cpu", "cartservice_cpu", "frontend_latency-90", "cartservice_workload"} <= set(metrics[0])
    assert metrics[0]["frontend_workload"] == "0.0"  # nothing before the first point
    assert float(metrics[2]["frontend_cpu"]) == 1060.0
    traces = rows(folder / "traces.csv")
    assert [(t["operationName"], t["parentSpanID"], t["methodName"]) for t in traces] == [
        ("GET", "", "GET"),
        (CALL, "a", "GetCart"),
    ]
    (line,) = rows(folder / "logs.csv")
    assert json.loads(line["message"]) == {"message": "hello, world"}
    assert line["container_name"] == POD


def test_columns_that_repeat_another_are_left_out(sources, tmp_path):
    asyncio.run(export_rcaeval(Sources(sources.metrics), tmp_path, STRETCH, 1060.0))
    header = set(rows(tmp_path / "metrics.csv")[0])
    assert "frontend_mem" not in header  # equal to frontend_cpu in this fake
    assert not (tmp_path / "traces.csv").exists()
    assert not (tmp_path / "logs.csv").exists()


def test_aiops_folders(sources, tmp_path):
    asyncio.run(export_aiops(sources, tmp_path, STRETCH))
    cart = rows(tmp_path / "metric/apm/service/service_cartservice.csv")
    assert [row["request"] for row in cart] == ["1", "0"]
    assert (cart[0]["timeout"], cart[0]["response"], cart[0]["rrt"]) == ("1", "0", "5000.0")
    assert (cart[0]["error_ratio"], cart[0]["client_error"], cart[0]["server_error"]) == ("100.0", "0", "1")
    page = rows(tmp_path / f"metric/apm/pod/pod_{POD}.csv")
    assert (page[0]["request"], page[0]["error"], page[0]["object_type"]) == ("1", "0", "pod")
    usage = rows(tmp_path / "metric/infra/infra_pod/infra_pod_pod_cpu_usage.csv")
    assert {row["pod"] for row in usage} == {POD, CART}
    child = rows(tmp_path / "trace/trace_jaeger-span.csv")[1]
    assert json.loads(child["references"])[0]["spanID"] == "a"
    assert rows(tmp_path / "log/log_filebeat-server.csv")[0]["k8_pod"] == POD


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        (POD, "frontend"),
        (CART, "cartservice"),
        ("tidb-tikv-0", "tidb-tikv"),
        ("redis-cart-54ccf46f95-qmf9k", "redis-cart"),
    ],
)
def test_workload_of_a_pod(pod, workload):
    assert workload_of(pod) == workload
