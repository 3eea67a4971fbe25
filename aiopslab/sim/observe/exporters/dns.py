"""CoreDNS, one endpoint per ready pod of the cluster's name server (port 9153)."""

from __future__ import annotations

import numpy as np

from aiopslab.sim.core.store import Store
from aiopslab.sim.observe.exporters.page import Cluster, Endpoint, Page, Pairs
from aiopslab.sim.observe.exporters.sheet import Column, Row, Sheet
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.observe.targets import MetricMetadata
from aiopslab.sim.world.counters import CounterSnapshot

JOB = "kubernetes-service-endpoints"
NAMESPACE, APP_LABEL, APP, PORT = "kube-system", "k8s-app", "kube-dns", 9153
_SERVER: Pairs = (("server", "dns://:53"), ("zone", "."))
_KINDS, _CODES = ("A", "AAAA"), ("NOERROR", "NXDOMAIN", "SERVFAIL")
_BOUNDS_S = ("0.00025", "0.0005", "0.001", "0.002", "0.004", "0.008", "0.016", "0.032", "+Inf")
# Answers come from memory: this share of them within each bound.
_WITHIN = (0.62, 0.9, 0.975, 0.99, 0.995, 0.998, 0.9995, 1.0, 1.0)
MEAN_S = 0.00028
CACHED = 0.55  # share of answers that the cache gives

_DURATION = "coredns_dns_request_duration_seconds"
_COLUMNS = (
    *(Column("coredns_dns_requests_total", "counter", "Counter of DNS requests made per zone, protocol and family.",
             (*_SERVER, ("proto", "udp"), ("family", "1"), ("type", kind))) for kind in _KINDS),
    *(Column("coredns_dns_responses_total", "counter", "Counter of response status codes.",
             (*_SERVER, ("plugin", "kubernetes" if code != "SERVFAIL" else "errors"), ("rcode", code)))
      for code in _CODES),
    *(Column(f"{_DURATION}_bucket", "histogram", "", (*_SERVER, ("le", bound))) for bound in _BOUNDS_S),
    Column(f"{_DURATION}_sum", "histogram", "", _SERVER),
    Column(f"{_DURATION}_count", "histogram", "", _SERVER),
    Column("coredns_cache_hits_total", "counter", "The count of cache hits.",
           (("server", "dns://:53"), ("zones", "."), ("type", "success"))),
    Column("coredns_cache_misses_total", "counter",
           "The count of cache misses. Deprecated, derive misses from cache hits/requests counters.",
           (("server", "dns://:53"), ("zones", "."))),
    Column("coredns_forward_healthcheck_failures_total", "counter",
           "Counter of the number of failed healthchecks.", (("to", "172.18.0.1:53"),)),
    Column("coredns_panics_total", "counter", "A metrics that counts the number of panics."),
)  # fmt: skip


class CoreDns:
    """The name server's questions and answers, shared out evenly among its pods."""

    def __init__(self, store: Store, series: SeriesStore) -> None:
        self._store = store
        self._sheet = Sheet(series, _COLUMNS)
        self.metadata = {
            name: about for name, about in self._sheet.metadata.items() if not name.startswith(_DURATION)
        }
        self.metadata[_DURATION] = MetricMetadata(
            "histogram", "Histogram of the time (in seconds) each request took per zone."
        )
        self._before = np.zeros((len(_KINDS), len(_CODES)))
        self._counts: dict[str, np.ndarray] = {}  # pod uid -> (kinds, codes) answers since it started

    def collect(self, snapshot: CounterSnapshot, cluster: Cluster) -> Page:
        """All ready pods on nodes that answer."""
        pods = self._pods()
        answers = snapshot.dns.answers
        total = np.array([[answers.get((kind, code), 0) for code in _CODES] for kind in _KINDS], float)
        fresh, self._before = total - self._before, total
        self._counts = {uid: self._counts.get(uid, np.zeros_like(total)) for _, uid, _ in pods}
        for place, (_, uid, _) in enumerate(pods):
            # Whole questions: the first pods take what does not divide.
            self._counts[uid] = self._counts[uid] + (fresh + len(pods) - 1 - place) // len(pods)
        shown = [(row, uid) for row, uid, node in pods if node not in cluster.silent]
        columns = np.array([_values(self._counts[uid]) for _, uid in shown]).reshape(len(shown), len(_COLUMNS))
        return self._sheet.page([row for row, _ in shown], list(columns.T))

    def _pods(self) -> list[tuple[Row, str, str]]:
        """(row, uid, node) of ready pods by name."""
        found = []
        for pod in self._store.list("pods", NAMESPACE):
            meta, status = pod["metadata"], pod.get("status", {})
            ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
            if (meta.get("labels") or {}).get(APP_LABEL) == APP and ready:
                node = pod["spec"].get("nodeName", "")
                labels: Pairs = (
                    ("namespace", NAMESPACE), ("service", APP), ("pod", meta["name"]), ("k8s_app", APP),
                )  # fmt: skip
                endpoint = Endpoint(JOB, f"{status.get('podIP', '')}:{PORT}", node)
                found.append((Row(endpoint, labels), str(meta.get("uid", "")), node))
        return found


def _values(counts: np.ndarray) -> list[float]:
    """One pod's columns from its answers by (kind, code)."""
    by_kind, by_code, total = counts.sum(axis=1), counts.sum(axis=0), float(counts.sum())
    hits = float(np.floor(CACHED * total))
    return [
        *by_kind.tolist(), *by_code.tolist(), *(float(np.floor(share * total)) for share in _WITHIN[:-2]), total,
        total, MEAN_S * total, total, hits, total - hits, 0.0, 0.0,
    ]  # fmt: skip
