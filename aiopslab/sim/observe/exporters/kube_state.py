"""kube-state-metrics 2.20: the object store as metrics.

Only objects that changed since the last scrape are looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from aiopslab.sim.core.store import Change, Key, Obj, Store
from aiopslab.sim.observe.exporters import kube_objects, kube_pods, kube_workloads
from aiopslab.sim.observe.exporters.kube_help import describe_family
from aiopslab.sim.observe.exporters.kube_pods import Row
from aiopslab.sim.observe.exporters.page import Cluster, Endpoint, Floats, Ints, Layout, Page, Pairs
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.observe.targets import MetricMetadata
from aiopslab.sim.world.counters import CounterSnapshot

ENDPOINT = Endpoint("kube-state-metrics", "kube-state-metrics:8080")


class _Family(NamedTuple):
    label: str  # the label that names the object
    rows: Callable[[Obj], Iterator[Row]]
    uid: bool = False


FAMILIES: dict[str, _Family] = {
    "pods": _Family("pod", kube_pods.pod_rows, uid=True),
    "nodes": _Family("node", kube_objects.node_rows),
    "namespaces": _Family("namespace", kube_objects.namespace_rows),
    "services": _Family("service", kube_objects.service_rows, uid=True),
    "endpoints": _Family("endpoint", kube_objects.endpoints_rows),
    "configmaps": _Family("configmap", kube_objects.configmap_rows),
    "secrets": _Family("secret", kube_objects.secret_rows),
    "resourcequotas": _Family("resourcequota", kube_objects.quota_rows),
    "persistentvolumeclaims": _Family("persistentvolumeclaim", kube_objects.claim_rows),
    "persistentvolumes": _Family("persistentvolume", kube_objects.volume_rows),
    "apps/deployments": _Family("deployment", kube_workloads.deployment_rows),
    "apps/replicasets": _Family("replicaset", kube_workloads.replicaset_rows),
    "apps/statefulsets": _Family("statefulset", kube_workloads.statefulset_rows),
    "apps/daemonsets": _Family("daemonset", kube_workloads.daemonset_rows),
    "batch/jobs": _Family("job_name", kube_workloads.job_rows),
    "batch/cronjobs": _Family("cronjob", kube_workloads.cronjob_rows),
    "autoscaling/horizontalpodautoscalers": _Family("horizontalpodautoscaler", kube_workloads.autoscaler_rows),
    "discovery.k8s.io/endpointslices": _Family("endpointslice", kube_objects.endpointslice_rows),
    "networking.k8s.io/networkpolicies": _Family("networkpolicy", kube_objects.policy_rows),
    "policy/poddisruptionbudgets": _Family("poddisruptionbudget", kube_objects.budget_rows),
}


def _hides(cluster: Cluster, key: Key) -> bool:
    return key.namespace in cluster.hidden or (key.resource == "namespaces" and key.name in cluster.hidden)


class KubeStateMetrics:
    """All families of all objects, cached per object."""

    def __init__(self, store: Store, series: SeriesStore) -> None:
        self._store, self._series = store, series
        self._known: dict[Key, tuple[Ints, Floats]] = {}
        self._dirty: set[Key] = {
            Key(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            for resource in FAMILIES
            for obj in store.list(resource)
        }
        self._ids = np.empty(0, np.int64)
        self._values = np.empty(0, np.float64)
        self.metadata: dict[str, MetricMetadata] = {}
        store.subscribe(self._note)

    def _note(self, change: Change) -> None:
        if change.key.resource in FAMILIES:
            self._dirty.add(change.key)

    def collect(self, snapshot: CounterSnapshot, cluster: Cluster) -> Page:
        """The cluster as it is now."""
        if self._dirty:
            same_series = True
            for key in sorted(self._dirty):
                same_series &= _hides(cluster, key) or self._look_again(key)
            self._dirty.clear()
            known = [self._known[key] for key in sorted(self._known)]
            if known:
                self._values = np.concatenate([values for _, values in known])
            if not same_series:
                self._ids = np.concatenate([ids for ids, _ in known]) if known else np.empty(0, np.int64)
                self._values = self._values if known else np.empty(0, np.float64)
        return Page(self._ids, self._values, {ENDPOINT: len(self._ids)})

    def _look_again(self, key: Key) -> bool:
        """Recompute one object's rows. Returns whether it still has the same series."""
        obj = self._store.get(key)
        before = self._known.pop(key, None)
        if obj is None:
            return before is None
        family = FAMILIES[key.resource]
        meta = obj["metadata"]
        own: Pairs = ((family.label, key.name), ("uid", meta.get("uid", "") if family.uid else ""))
        if key.namespace:
            own = (("namespace", key.namespace), *own)
        layout = Layout(self._series)
        rows: dict[int, float] = {}
        for metric, labels, value in family.rows(obj):
            layout.add(metric, ENDPOINT, own, labels)
            rows[layout.ids[-1]] = value
            if metric not in self.metadata:
                self.metadata[metric] = describe_family(metric)
        ids = np.fromiter(rows, np.int64, len(rows))
        self._known[key] = (ids, np.fromiter(rows.values(), np.float64, len(rows)))
        return before is not None and np.array_equal(before[0], ids)
