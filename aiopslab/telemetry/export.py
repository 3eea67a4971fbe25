"""Telemetry of a stretch of time as files, in the layouts that published data sets and root-cause tools use.

``export_rcaeval`` writes one failure case as the RCAEval benchmark does: wide ``metrics.csv``, ``logs.csv``,
``traces.csv``, ``inject_time.txt``. ``export_aiops`` writes the AIOps 2025 challenge's folders, as CSV.

A pod belongs to the workload whose name its own begins with. Calls are measured where a mesh would report them: at
the caller, so that what happens on the way is seen, and at the callee for services that nobody inside calls. The
callee of a client span is the workload that bears the RPC service's name, whatever the case of the letters.
"""

from __future__ import annotations

import asyncio
import csv
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from aiopslab.telemetry.jaeger import Jaeger, Span
from aiopslab.telemetry.prometheus import Prometheus, Series

RATE_WINDOW = "1m"
APM_INTERVAL_S = 60
TRACES_MAX = 1500  # per service; Jaeger's own upper bound
_GENERATED = re.compile(r"-(?:[a-z0-9]{6,10}-[a-z0-9]{5}|\d+|[a-z0-9]{5})$")
_RPC = re.compile(r"(?:.*[./])?([A-Za-z]+)/[A-Za-z]+")
_RPC_IN_PROMQL = _RPC.pattern.replace("\\", "\\\\")
_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\S+) ?(.*)")
_CLIENT_CODES = frozenset({"3", "5", "6", "7", "9", "11", "12", "16"})  # gRPC codes that blame the caller
_DEADLINE = "4"
_CODE_TAGS = (
    "rpc.grpc.status_code", "rpc.response.status_code", "http.status_code", "http.response.status_code",
)  # fmt: skip
APM_COLUMNS = (
    "time", "object_id", "object_type", "request", "response", "rrt", "rrt_max", "error", "error_ratio",
    "client_error", "client_error_ratio", "server_error", "server_error_ratio", "timeout",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of cluster time (Unix seconds) of one namespace; metrics are read every ``step_s`` seconds."""

    namespace: str
    start: float
    end: float
    step_s: float = 15.0

    def times(self) -> list[float]:
        """The times at which metrics are read."""
        count = int((self.end - self.start) // self.step_s) + 1
        return [self.start + i * self.step_s for i in range(count)]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where telemetry is read. Without ``traces`` no spans are written, without ``logs`` (texts by pod, each line
    beginning with its RFC 3339 time) no log lines."""

    metrics: Prometheus
    traces: Jaeger | None = None
    logs: Mapping[str, str] | None = None


async def export_rcaeval(sources: Sources, folder: Path, stretch: Stretch, inject_at: float) -> Path:
    """Write one case into ``folder`` (made when missing) and return it. Some published cases have metrics only.

    Metric columns are ``<service>_cpu`` (cores), ``_mem`` (bytes), ``_workload`` and ``_error`` (calls per second),
    ``_latency-50`` and ``_latency-90`` (seconds). Raises TelemetryError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    columns = await metric_columns(sources.metrics, stretch)
    times = stretch.times()
    rows = [[round(at), *(columns[name][i] for name in columns)] for i, at in enumerate(times)]
    _write(folder / "metrics.csv", ["time", *columns], rows)
    if sources.logs is not None:
        header = ["time", "timestamp", "container_name", "message"]
        _write(folder / "logs.csv", header, _log_rows(sources.logs, stretch))
    if sources.traces is not None:
        spans = await all_spans(sources.traces, stretch)
        _write(folder / "traces.csv", list(_TRACE_COLUMNS), [_trace_row(span) for span in spans])
    (folder / "inject_time.txt").write_text(f"{round(inject_at)}\n")
    return folder


async def export_aiops(sources: Sources, folder: Path, stretch: Stretch) -> Path:
    """Write the challenge's folders ``metric/apm``, ``metric/infra``, ``trace`` and ``log`` and return ``folder``.

    APM rows cover 60 s each, ``rrt`` and ``rrt_max`` are microseconds, ratios percent. Raises TelemetryError.
    """
    pods = await _infra(sources.metrics, folder / "metric" / "infra" / "infra_pod", stretch)
    if sources.traces is not None:
        spans = await all_spans(sources.traces, stretch)
        _write_apm(spans, sorted({workload_of(pod) for pod in pods}), folder / "metric" / "apm", stretch)
        _write_spans(spans, folder / "trace" / "trace_jaeger-span.csv")
    if sources.logs is not None:
        rows = [
            [stamp, "filebeat", stretch.namespace, pod, message]
            for _, stamp, pod, message in _log_rows(sources.logs, stretch)
        ]
        header = ["@timestamp", "agent_name", "k8_namespace", "k8_pod", "message"]
        _write(folder / "log" / "log_filebeat-server.csv", header, rows)
    return folder


async def _infra(metrics: Prometheus, folder: Path, stretch: Stretch) -> set[str]:
    """One file per key figure of the pods; returns the pods' names."""
    pods: set[str] = set()
    for kpi, query in _pod_queries(stretch.namespace).items():
        rows = []
        for one in await _range(metrics, query, stretch):
            pod = one.labels.get("pod", "")
            pods.add(pod)
            rows += [[_iso(at), stretch.namespace, pod, "pod", f"pod_{kpi}", value] for at, value in one.points]
        header = ["time", "namespace", "pod", "object_type", "kpi_key", f"pod_{kpi}"]
        _write(folder / f"infra_pod_pod_{kpi}.csv", header, rows)
    return pods


def _write_apm(spans: Sequence[Span], services: Sequence[str], folder: Path, stretch: Stretch) -> None:
    for kind in ("service", "pod"):
        for name, mine in sorted(_grouped(spans, services, kind).items()):
            rows = [[row[c] for c in APM_COLUMNS] for row in apm_rows(mine, name, kind, stretch)]
            _write(folder / kind / f"{kind}_{name}.csv", list(APM_COLUMNS), rows)


def _write_spans(spans: Sequence[Span], path: Path) -> None:
    header = ["traceID", "spanID", "operationName", "references", "startTime", "startTimeMillis", "duration",
              "tags", "process"]  # fmt: skip
    _write(path, header, [_jaeger_row(span) for span in spans])


async def metric_columns(metrics: Prometheus, stretch: Stretch) -> dict[str, list[float]]:
    """``<service>_<metric>`` to one value per time of the stretch; a gap keeps the value before it.

    A column that repeats an earlier one at every time is left out: it says nothing new, and tests of correlation
    cannot take both.
    """
    queries = _pod_queries(stretch.namespace)
    found: dict[str, dict[str, list[Series]]] = {}
    names = {"cpu": "cpu_usage", "mem": "memory_working_set_bytes"}
    answers = await asyncio.gather(*(_range(metrics, queries[kpi], stretch) for kpi in names.values()))
    for column, series in zip(names, answers, strict=True):
        found[column] = _by(series, lambda labels: workload_of(labels.get("pod", "")))
    workloads = {name.lower(): name for name in found["cpu"]}
    for column, query in _span_queries(stretch.namespace, "SERVER", "service_name").items():
        found[column] = _by(await _range(metrics, query, stretch), lambda labels: labels.get("service_name", ""))
    for column, query in _span_queries(stretch.namespace, "CLIENT", "callee").items():
        series = await _range(metrics, query, stretch)
        found[column] |= _by(series, lambda labels: workloads.get(labels.get("callee", "").lower(), ""))
    columns: dict[str, list[float]] = {}
    for service in sorted(workloads.values()):
        for column in sorted(found):
            values = _filled(found[column].get(service, []), stretch)
            if service in found[column] and (not any(values) or values not in columns.values()):
                columns[f"{service}_{column}"] = values
    return columns


async def all_spans(traces: Jaeger, stretch: Stretch) -> list[Span]:
    """Every span of the stretch's traces (at most ``TRACES_MAX`` traces of each service), by start."""
    found: dict[str, list[Span]] = {}
    for service in await traces.services():
        for trace in await traces.traces(service, stretch.start, stretch.end, limit=TRACES_MAX):
            found.setdefault(trace[0].trace_id, trace)
    return sorted((s for spans in found.values() for s in spans), key=lambda s: (s.start_us, s.span_id))


def apm_rows(spans: Sequence[Span], name: str, kind: str, stretch: Stretch) -> Iterable[dict[str, Any]]:
    """One row per interval of 60 s, also for those without calls. ``spans`` are one object's calls."""
    bins: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        bins[int((span.start_us * 1e-6 - stretch.start) // APM_INTERVAL_S)].append(span)
    for number in range(math.ceil((stretch.end - stretch.start) / APM_INTERVAL_S)):
        mine = bins.get(number, [])
        codes = [_code(span) for span in mine if span.error]
        timeouts, client = codes.count(_DEADLINE), sum(code in _CLIENT_CODES for code in codes)
        count = len(mine)
        share = 100.0 / count if count else 0.0
        took = [span.duration_us for span in mine]
        yield {
            "time": _iso(stretch.start + number * APM_INTERVAL_S),
            "object_id": name,
            "object_type": kind,
            "request": count,
            "response": count - timeouts,
            "rrt": round(sum(took) / count, 2) if count else 0.0,
            "rrt_max": max(took, default=0),
            "error": len(codes),
            "error_ratio": round(share * len(codes), 2),
            "client_error": client,
            "client_error_ratio": round(share * client, 2),
            "server_error": len(codes) - client,
            "server_error_ratio": round(share * (len(codes) - client), 2),
            "timeout": timeouts,
        }


def workload_of(pod: str) -> str:
    """The workload's name in a pod's name: what a Deployment, StatefulSet or DaemonSet appended is cut off."""
    return _GENERATED.sub("", pod)


def _pod_queries(namespace: str) -> dict[str, str]:
    where = f'{{namespace="{namespace}",container!=""}}'
    network = f'{{namespace="{namespace}"}}[{RATE_WINDOW}]'
    return {
        "cpu_usage": f"sum by (pod) (rate(container_cpu_usage_seconds_total{where}[{RATE_WINDOW}]))",
        "memory_working_set_bytes": f"sum by (pod) (container_memory_working_set_bytes{where})",
        "network_receive_bytes": f"sum by (pod) (rate(container_network_receive_bytes_total{network}))",
        "network_transmit_bytes": f"sum by (pod) (rate(container_network_transmit_bytes_total{network}))",
    }


def _span_queries(namespace: str, kind: str, by: str) -> dict[str, str]:
    """Calls, errors and latency quantiles by the label ``by``; ``callee`` is the RPC service in the span's name."""

    def rate(metric: str, more: str = "") -> str:
        where = f'{{k8s_namespace_name="{namespace}",span_kind="SPAN_KIND_{kind}"{more}}}'
        plain = f"rate({metric}{where}[{RATE_WINDOW}])"
        if by != "callee":
            return plain
        return f'label_replace({plain}, "callee", "$1", "span_name", "{_RPC_IN_PROMQL}")'

    calls, buckets = "traces_span_metrics_calls_total", "traces_span_metrics_duration_milliseconds_bucket"
    failed = rate(calls, ',status_code="STATUS_CODE_ERROR"')
    counts = f"sum by (le, {by}) ({rate(buckets)})"
    return {
        "workload": f"sum by ({by}) ({rate(calls)})",
        "error": f"sum by ({by}) ({failed}) or 0 * sum by ({by}) ({rate(calls)})",
        "latency-50": f"histogram_quantile(0.5, {counts}) / 1000",
        "latency-90": f"histogram_quantile(0.9, {counts}) / 1000",
    }


async def _range(metrics: Prometheus, query: str, stretch: Stretch) -> list[Series]:
    return await metrics.query_range(query, stretch.start, stretch.end, stretch.step_s)


def _by(series: Iterable[Series], name: Any) -> dict[str, list[Series]]:
    found: dict[str, list[Series]] = defaultdict(list)
    for one in series:
        if name(one.labels):
            found[name(one.labels)].append(one)
    return dict(found)


def _filled(series: list[Series], stretch: Stretch) -> list[float]:
    """The sum of several series at each time; a gap keeps the value before it, 0 at the beginning."""
    sums: dict[int, float] = defaultdict(float)
    for one in series:
        for at, value in one.points:
            if math.isfinite(value):
                sums[round(at)] += value
    values, last = [], 0.0
    for at in stretch.times():
        last = sums.get(round(at), last)
        values.append(last)
    return values


def _grouped(spans: Iterable[Span], services: Sequence[str], key: str) -> dict[str, list[Span]]:
    """Calls by the service or pod that answered them. Client spans stand in for services without server spans."""
    served: dict[str, list[Span]] = defaultdict(list)
    asked: dict[str, list[Span]] = defaultdict(list)
    known = {name.lower(): name for name in services}
    for span in spans:
        if span.kind == "server":
            name = span.service if key == "service" else str(span.process.get("k8s.pod.name", ""))
            served[name].append(span)
        elif span.kind == "client" and key == "service":
            match = _RPC.fullmatch(span.operation)
            asked[known.get(match[1].lower(), "") if match else ""].append(span)
    found = {name: mine for name, mine in asked.items() if name and name not in served}
    return found | {name: mine for name, mine in served.items() if name}


def _code(span: Span) -> str:
    for tag in _CODE_TAGS:
        if tag in span.tags:
            return str(span.tags[tag])
    return ""


def _log_rows(logs: Mapping[str, str], stretch: Stretch) -> list[list[Any]]:
    """(nanoseconds, RFC 3339 time, pod, message) of the lines inside the stretch, by time."""
    rows = []
    for pod, text in logs.items():
        for line in text.splitlines():
            match = _LINE.fullmatch(line)
            if match is None:
                continue
            at = datetime.fromisoformat(match[1]).timestamp()
            if stretch.start <= at <= stretch.end:
                rows.append([round(at * 1e9), match[1], pod, match[2]])
    return sorted(rows)


_TRACE_COLUMNS = (
    "time", "traceID", "spanID", "parentSpanID", "serviceName", "methodName", "operationName", "startTimeMillis",
    "startTime", "duration", "statusCode",
)  # fmt: skip


def _trace_row(span: Span) -> list[Any]:
    seconds = span.start_us // 1_000_000
    method = span.operation.rpartition("/")[2]
    return [_iso(seconds), span.trace_id, span.span_id, span.parent_id, span.service, method, span.operation,
            span.start_us // 1000, span.start_us, span.duration_us, _code(span)]  # fmt: skip


def _jaeger_row(span: Span) -> list[Any]:
    parent = {"refType": "CHILD_OF", "traceID": span.trace_id, "spanID": span.parent_id}
    parents = [parent] if span.parent_id else []
    tags = [{"key": key, "value": value} for key, value in sorted(span.tags.items())]
    inside = [{"key": key, "value": value} for key, value in sorted(span.process.items())]
    process = {"serviceName": span.service, "tags": inside}
    return [span.trace_id, span.span_id, span.operation, _json(parents), span.start_us, span.start_us // 1000,
            span.duration_us, _json(tags), _json(process)]  # fmt: skip


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _write(path: Path, header: list[str], rows: Iterable[Sequence[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
