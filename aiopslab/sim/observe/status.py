"""Status pages of the Prometheus API: build, runtime, flags, configuration, targets, store statistics."""

from __future__ import annotations

from collections import Counter
from typing import Any

from aiopslab.sim.core.kernel import rfc3339_micro
from aiopslab.sim.observe.matchers import NAME
from aiopslab.sim.observe.promql.durations import format_duration
from aiopslab.sim.observe.promql.evaluate import SAMPLES_MAX
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.observe.targets import MetricMetadata, Target

VERSIONS = {2: "2.42.0", 3: "3.14.0"}
FLAGS = {
    "config.file": "/etc/config/prometheus.yml",
    "query.lookback-delta": "5m",
    "query.max-concurrency": "20",
    "query.max-samples": str(SAMPLES_MAX),
    "query.timeout": "2m",
    "storage.tsdb.path": "/data",
    "storage.tsdb.retention.time": "15d",
    "web.enable-admin-api": "false",
    "web.enable-lifecycle": "false",
    "web.listen-address": "0.0.0.0:9090",
}
TOP = 10


def build_info(semantics: int) -> dict[str, str]:
    """``status/buildinfo``."""
    return {
        "version": VERSIONS[semantics], "revision": "", "branch": "HEAD", "buildUser": "", "buildDate": "",
        "goVersion": "",
    }  # fmt: skip


def runtime_info(started: float, now: float) -> dict[str, Any]:
    """``status/runtimeinfo``; both times in Unix seconds."""
    start = rfc3339_micro(started)
    return {
        "startTime": start, "CWD": "/prometheus", "hostname": "prometheus-server", "serverTime": rfc3339_micro(now),
        "reloadConfigSuccess": True, "lastConfigTime": start, "corruptionCount": 0, "goroutineCount": 1,
        "GOMAXPROCS": 1, "GOMEMLIMIT": 0, "GOGC": "", "GODEBUG": "", "storageRetention": "15d",
    }  # fmt: skip


def config_yaml(targets: list[Target]) -> str:
    """``status/config``: the scrape jobs there are."""
    lines = ["global:", "  scrape_interval: 15s", "scrape_configs:"]
    for pool, interval in sorted({(t.pool, t.interval_s) for t in targets}):
        lines += [f"- job_name: {pool}", f"  scrape_interval: {format_duration(round(interval * 1000))}"]
    return "\n".join(lines) + "\n"


def target_json(target: Target) -> dict[str, Any]:
    """One entry of ``activeTargets``."""
    interval = format_duration(round(target.interval_s * 1000))
    return {
        "discoveredLabels": {"__address__": target.labels.get("instance", ""), "job": target.pool},
        "labels": dict(target.labels),
        "scrapePool": target.pool,
        "scrapeUrl": target.url,
        "globalUrl": target.url,
        "lastError": target.error,
        "lastScrape": rfc3339_micro(target.last_scrape),
        "lastScrapeDuration": target.duration_s,
        "health": "down" if target.error else "up",
        "scrapeInterval": interval,
        "scrapeTimeout": interval,
    }


def metadata_json(about: MetricMetadata) -> dict[str, str]:
    """Type, help and unit of a metric family."""
    return {"type": about.type, "help": about.help, "unit": about.unit}


def tsdb(store: SeriesStore) -> dict[str, Any]:
    """``status/tsdb``."""
    names = store.label_names()
    values = {name: store.label_values(name) for name in names}
    pairs = Counter({f"{n}={v}": store.series_count(n, v) for n in names for v in values[n]})
    metrics = Counter({value: store.series_count(NAME, value) for value in values.get(NAME, ())})
    return {
        "headStats": {
            "numSeries": len(store),
            "numLabelPairs": len(pairs),
            "chunkCount": store.chunk_count,
            "minTime": store.oldest_ms or 0,
            "maxTime": store.newest_ms or 0,
        },
        "seriesCountByMetricName": _top(metrics),
        "labelValueCountByLabelName": _top(Counter({name: len(found) for name, found in values.items()})),
        "memoryInBytesByLabelName": _top(
            Counter({name: sum(len(v.encode()) for v in found) for name, found in values.items()})
        ),
        "seriesCountByLabelValuePair": _top(pairs),
    }


def _top(counts: Counter[str]) -> list[dict[str, Any]]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"name": name, "value": count} for name, count in ordered[:TOP]]


def query_stats(seconds: float, samples: int) -> dict[str, Any]:
    """``stats`` of a query that took ``seconds`` and read ``samples``."""
    return {
        "timings": {
            "evalTotalTime": seconds, "resultSortTime": 0, "queryPreparationTime": 0, "innerEvalTime": seconds,
            "execQueueTime": 0, "execTotalTime": seconds,
        },
        "samples": {"totalQueryableSamples": samples, "peakSamples": samples},
    }  # fmt: skip


def own_metrics(store: SeriesStore, semantics: int) -> str:
    """What the server says about itself at ``/metrics``."""
    return (
        "# HELP prometheus_build_info A metric with a constant '1' value labeled by version.\n"
        "# TYPE prometheus_build_info gauge\n"
        f'prometheus_build_info{{version="{VERSIONS[semantics]}"}} 1\n'
        "# HELP prometheus_tsdb_head_series Total number of series in the head block.\n"
        "# TYPE prometheus_tsdb_head_series gauge\n"
        f"prometheus_tsdb_head_series {len(store)}\n"
    )
