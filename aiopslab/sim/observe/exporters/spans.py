"""Span metrics as the OpenTelemetry collector's connector makes them and Prometheus ingests them over OTLP:
``job`` is the service, ``instance`` its pod, and resource attributes are labels. Of pods in hidden namespaces the
collector knows nothing: their spans count, but do not say where they ran."""

from __future__ import annotations

import numpy as np

from aiopslab.sim.observe.exporters.page import Cluster, Endpoint, Layout, Page, Pairs, describe
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.world.counters import SPAN_BOUNDS_MS, CounterSnapshot, SpanSeries
from aiopslab.sim.world.hashing import text_key
from aiopslab.sim.world.requests import uuid_of

COLLECTOR = Endpoint("otel-collector", "otel-collector:8888")
_BUCKET = "traces_span_metrics_duration_milliseconds_bucket"
_LE = tuple("+Inf" if bound == float("inf") else str(bound) for bound in SPAN_BOUNDS_MS)


class SpanMetrics:
    """Calls and durations per service, operation, kind and status."""

    metadata = describe(
        [
            ("traces_span_metrics_calls_total", "counter", "Number of spans"),
            ("traces_span_metrics_duration_milliseconds", "histogram", "Duration of spans in milliseconds"),
        ]
    )

    def __init__(self, series: SeriesStore) -> None:
        self._series = series
        self._ids = np.empty((0, len(_LE) + 3), np.int64)
        self._flat = self._ids.ravel()

    def collect(self, snapshot: CounterSnapshot, cluster: Cluster) -> Page:
        """All series there ever were: the connector keeps counting from where it was."""
        spans = snapshot.spans
        new = spans.labels[len(self._ids) :]
        if new:
            ids = [self._lay_out(labels, labels.namespace in cluster.hidden) for labels in new]
            self._ids = np.concatenate([self._ids, np.array(ids, np.int64)])
            self._flat = self._ids.ravel()
        columns = np.column_stack([spans.buckets, spans.count, spans.count, spans.sum_ms]).astype(float)
        return Page(self._flat, columns.ravel(), {COLLECTOR: self._flat.size})

    def _lay_out(self, labels: SpanSeries, unknown: bool) -> list[int]:
        layout = Layout(self._series)
        instance = uuid_of(text_key(labels.namespace, labels.pod)) if unknown else labels.pod
        at = Endpoint(labels.service_name, instance)
        place: Pairs = (
            ("k8s_namespace_name", labels.namespace), ("k8s_pod_name", labels.pod), ("k8s_node_name", labels.node),
        )  # fmt: skip
        pairs: Pairs = (
            ("service_name", labels.service_name), ("span_name", labels.span_name),
            ("span_kind", labels.span_kind), ("status_code", labels.status_code),
            *(() if unknown else place), ("collector_instance_id", COLLECTOR.instance),
        )  # fmt: skip
        for le in _LE:
            layout.add(_BUCKET, at, pairs, (("le", le),))
        layout.add("traces_span_metrics_duration_milliseconds_count", at, pairs)
        layout.add("traces_span_metrics_calls_total", at, pairs)
        layout.add("traces_span_metrics_duration_milliseconds_sum", at, pairs)
        return layout.ids
