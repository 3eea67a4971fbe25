"""``get_metrics`` and ``get_traces``: telemetry as CSV files in the agent's home folder, with a readable
summary.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
from collections.abc import Iterable, Sequence

from aiopslab.actions.lab import Lab
from aiopslab.telemetry.jaeger import Span
from aiopslab.telemetry.prometheus import Series

STEP_S = 15.0
TRACES_PER_SERVICE = 100
MAX_DURATION_MIN = 24 * 60

_CONTAINER_COUNTERS = (
    "cpu_usage_seconds_total", "cpu_user_seconds_total", "cpu_system_seconds_total",
    "cpu_cfs_throttled_seconds_total", "cpu_cfs_throttled_periods_total", "cpu_cfs_periods_total",
    "network_receive_bytes_total", "network_receive_packets_total", "network_receive_packets_dropped_total",
    "network_receive_errors_total", "network_transmit_bytes_total", "network_transmit_packets_total",
    "network_transmit_packets_dropped_total", "network_transmit_errors_total", "oom_events_total",
)  # fmt: skip
_CONTAINER_GAUGES = (
    "cpu_load_average_10s", "memory_cache", "memory_usage_bytes", "memory_working_set_bytes", "memory_rss",
    "memory_mapped_file", "spec_cpu_period", "spec_cpu_quota", "spec_memory_limit_bytes", "spec_cpu_shares",
    "threads", "threads_max",
)  # fmt: skip
_OBJECT_GAUGES = (
    "kube_pod_container_status_restarts_total", "kube_pod_container_status_ready",
    "kube_deployment_spec_replicas", "kube_deployment_status_replicas_available",
    "kube_endpoint_address",
)  # fmt: skip
TRACE_COLUMNS = (
    "trace_id", "span_id", "parent_span", "service_name", "operation_name", "start_time", "duration",
    "has_error", "response",
)  # fmt: skip
_CALLS, _BUCKETS = "traces_span_metrics_calls_total", "traces_span_metrics_duration_milliseconds_bucket"


def metric_queries(namespace: str, services: Sequence[str]) -> dict[str, str]:
    """PromQL by file name (folder and KPI): counters as they are and as rates per second, gauges, and for
    each service its requests per second, share of failed requests and 95th percentile of latency in
    milliseconds.
    """
    inside = f'{{namespace="{namespace}"}}'
    queries: dict[str, str] = {}
    for name in _CONTAINER_COUNTERS:
        metric = f"container_{name}"
        queries[f"container/kpi_{metric}"] = f"{metric}{inside}"
        queries[f"container/kpi_{metric.removesuffix('_total')}_rate"] = f"rate({metric}{inside}[1m])"
    for name in _CONTAINER_GAUGES:
        queries[f"container/kpi_container_{name}"] = f"container_{name}{inside}"
    for name in _OBJECT_GAUGES:
        queries[f"object/kpi_{name}"] = f"{name}{inside}"
    served = (
        f'service_name=~"{"|".join(services)}",span_kind="SPAN_KIND_SERVER"'
        if services
        else 'span_kind="SPAN_KIND_SERVER"'
    )
    calls = f"sum by (service_name) (rate({_CALLS}{{{served}}}[1m]))"
    failed = f'sum by (service_name) (rate({_CALLS}{{{served},status_code="STATUS_CODE_ERROR"}}[1m]))'
    queries["service/kpi_requests_per_s"] = calls
    queries["service/kpi_error_ratio"] = f"({failed} or 0 * {calls}) / {calls}"
    queries["service/kpi_latency_p95_ms"] = (
        f"histogram_quantile(0.95, sum by (service_name, le) (rate({_BUCKETS}{{{served}}}[1m])))"
    )
    return queries


async def export_metrics(lab: Lab, namespace: str, duration_min: float) -> str:
    """Write one CSV per KPI and return where, what, and how the services do."""
    end = await lab.cluster.clock.now()
    start = end - min(duration_min, MAX_DURATION_MIN) * 60.0
    folder = f"metrics/metric_{_stamp(end)}"
    services: dict[str, list[Series]] = {}
    written: list[str] = []
    for name, expr in metric_queries(namespace, lab.services).items():
        series = await lab.metrics.query_range(expr, start, end, STEP_S)
        if name.startswith("service/"):
            services[name.removeprefix("service/kpi_")] = series
        if series:
            await lab.shell.put(f"{folder}/{name}.csv", _metric_rows(name.rpartition("/")[2], series))
            written.append(f"{name}.csv")
    if not written:
        return (
            f"No metrics of namespace {namespace} in the last {duration_min:g} minutes. Yours is {lab.namespace}."
        )
    where = f"{lab.shell.room.shown_home}/{folder}"
    lines = [
        f"Metrics of {namespace}, {_clock(start)} to {_clock(end)} UTC, every {STEP_S:g} s, exported to {where}:"
    ]
    lines += _tree(written)
    lines += [
        "",
        "Columns: timestamp (Unix seconds), cmdb_id (node.pod.container, or the service), kpi_name, value.",
        "",
    ]
    return "\n".join(lines + _service_table(services))


def _metric_rows(kpi: str, series: Sequence[Series]) -> bytes:
    rows = [
        (f"{at:.0f}", _cmdb_id(one.labels), kpi, f"{value:.6g}" if math.isfinite(value) else str(value))
        for one in series
        for at, value in one.points
    ]
    return _csv(("timestamp", "cmdb_id", "kpi_name", "value"), rows)


def _cmdb_id(labels: dict[str, str]) -> str:
    if "service_name" in labels:
        return labels["service_name"]
    node = labels.get("node") or labels.get("instance", "").split(":")[0]
    names = ("pod", "container", "deployment", "endpoint", "ip")
    return ".".join(part for part in (node if "pod" in labels else "", *(labels.get(n, "") for n in names)) if part)


def _tree(files: Sequence[str]) -> list[str]:
    lines, last = [], ""
    for name in files:
        folder, _, file = name.rpartition("/")
        if folder != last:
            lines.append(f"  {folder}/")
            last = folder
        lines.append(f"    {file}")
    return lines


def _service_table(services: dict[str, list[Series]]) -> list[str]:
    """Each service now and at the start of the window."""
    names = sorted({one.labels.get("service_name", "") for rows in services.values() for one in rows})
    if not names:
        return ["No requests were seen at any service."]
    lines = [f"{'service':<26}{'requests/s':>22}{'failed %':>22}{'p95 ms':>22}   (first minute -> last minute)"]
    for name in names:
        cells = []
        for kpi, factor in (("requests_per_s", 1.0), ("error_ratio", 100.0), ("latency_p95_ms", 1.0)):
            points = [
                p for one in services.get(kpi, []) if one.labels.get("service_name") == name for p in one.points
            ]
            cells.append(f"{_mean(points[:4], factor)} -> {_mean(points[-4:], factor)}")
        lines.append(f"{name:<26}" + "".join(f"{cell:>22}" for cell in cells))
    return lines


def _mean(points: Sequence[tuple[float, float]], factor: float) -> str:
    values = [value for _, value in points if math.isfinite(value)]
    return f"{factor * sum(values) / len(values):.4g}" if values else "-"


async def export_traces(lab: Lab, namespace: str, duration_min: float) -> str:
    """Write the newest traces of every service as one CSV and return where, and what stands out."""
    end = await lab.cluster.clock.now()
    start = end - min(duration_min, MAX_DURATION_MIN) * 60.0
    wanted = set(lab.services) if namespace == lab.namespace else set()
    spans: dict[tuple[str, str], Span] = {}
    for service in sorted(wanted & set(await lab.traces.services())):
        for trace in await lab.traces.traces(service, start, end, limit=TRACES_PER_SERVICE):
            spans |= {(span.trace_id, span.span_id): span for span in trace}
    if not spans:
        return f"No traces of namespace {namespace} in the last {duration_min:g} minutes. Yours is {lab.namespace}."
    ordered = sorted(spans.values(), key=lambda span: (span.start_us, span.trace_id, span.span_id))
    path = await lab.shell.put(f"traces/traces_{end:.0f}.csv", _trace_rows(ordered))
    count = len({span.trace_id for span in ordered})
    lines = [
        f"Traces data exported to: {path}",
        f"{count} traces with {len(ordered)} spans, {_clock(start)} to {_clock(end)} UTC"
        f" (at most the newest {TRACES_PER_SERVICE} of each service).",
        f"Columns: {', '.join(TRACE_COLUMNS)}; start_time and duration in microseconds.",
        "",
    ]
    return "\n".join(lines + _operation_table(ordered))


def _trace_rows(spans: Iterable[Span]) -> bytes:
    return _csv(
        TRACE_COLUMNS,
        [
            (
                span.trace_id,
                span.span_id,
                span.parent_id or "ROOT",
                span.service,
                span.operation,
                str(span.start_us),
                str(span.duration_us),
                str(span.error),
                _response(span),
            )
            for span in spans
        ],
    )


def _response(span: Span) -> str:
    for key in ("http.status_code", "http.response.status_code", "rpc.grpc.status_code", "response_class"):
        if key in span.tags:
            return str(span.tags[key])
    return span.status_message or "Unknown"


def _operation_table(spans: Sequence[Span]) -> list[str]:
    """Operations by kind: how many, how many failed, how long."""
    groups: dict[tuple[str, str, str], list[Span]] = {}
    for span in spans:
        groups.setdefault((span.service, span.kind, span.operation), []).append(span)
    lines = [f"{'service':<24}{'kind':<10}{'operation':<52}{'spans':>7}{'failed':>8}{'p50 ms':>10}{'p95 ms':>10}"]
    for (service, kind, operation), rows in sorted(groups.items()):
        times = sorted(row.duration_us / 1000 for row in rows)
        failed = sum(row.error for row in rows)
        p50, p95 = times[(len(times) - 1) // 2], times[min(len(times) - 1, int(0.95 * len(times)))]
        lines.append(
            f"{service:<24}{kind:<10}{operation[:50]:<52}{len(rows):>7}{failed:>8}{p50:>10.1f}{p95:>10.1f}"
        )
    return lines


def _csv(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue().encode()


def _stamp(moment: float) -> str:
    return f"{dt.datetime.fromtimestamp(moment, dt.UTC):%Y%m%d_%H%M%S}"


def _clock(moment: float) -> str:
    return f"{dt.datetime.fromtimestamp(moment, dt.UTC):%H:%M:%S}"
