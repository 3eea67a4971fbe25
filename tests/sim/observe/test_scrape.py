"""What a scrape puts into the store: names, labels, values, endings, targets."""

from __future__ import annotations

import time
from typing import Any

import pytest

from aiopslab.sim.core.store import Key
from aiopslab.sim.observe.promql.evaluate import Engine
from aiopslab.sim.observe.promql.values import Vector


def ask(lab: Any, query: str) -> dict[str, float]:
    """Values by the labels that tell rows apart (all but those of the target)."""
    value = Engine(lab.series).instant(query, round(lab.kernel.now * 1000)).value
    assert isinstance(value, Vector)
    hidden = ("job", "instance", "__name__")
    return {
        ",".join(f"{n}={v}" for n, v in labels if n not in hidden): float(number)
        for labels, number in zip(value.labels, value.values[:, 0], strict=True)
    }


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('rate(container_cpu_usage_seconds_total{pod="web-1",container!=""}[2m]) * 10', 1.0),
        ('sum(rate(container_cpu_usage_seconds_total{namespace="shop",container=""}[2m])) * 10', 4.0),
        ('rate(container_cpu_cfs_throttled_seconds_total{pod="web-1"}[2m]) * 20', 1.0),
        ('container_memory_working_set_bytes{pod="web-1",container="server"}', 50 << 20),
        ('sum by (pod) (container_memory_working_set_bytes{pod="web-1"})', 100 << 20),
        ('rate(container_network_receive_bytes_total{pod="web-1",interface="eth0"}[2m])', 1000.0),
        ('machine_cpu_cores{node="node-a"}', 4.0),
        ('kube_pod_status_phase{pod="web-1",phase="Running"}', 1.0),
        ('kube_pod_container_resource_limits{pod="web-1",resource="memory",unit="byte"}', 128 << 20),
        ('kube_pod_container_resource_requests{pod="web-1",resource="cpu",unit="core"}', 0.1),
        ('kube_pod_info{pod="web-1",created_by_name="web",node="node-b"}', 1.0),
        ('kube_node_status_condition{node="node-a",condition="Ready",status="true"}', 1.0),
        ('kube_node_role{node="node-a",role="worker"}', 1.0),
        ('1 - avg(rate(node_cpu_seconds_total{mode="idle",node="node-a"}[2m]))', 0.25),
        ('node_memory_MemAvailable_bytes{instance="10.0.0.2:9100"} / node_memory_MemTotal_bytes', 0.75),
        ('kubelet_running_pods{node="node-a"}', 2.0),
        ('rate(traces_span_metrics_calls_total{service_name="web",status_code="STATUS_CODE_UNSET"}[2m])', 1.0),
        ('traces_span_metrics_duration_milliseconds_bucket{le="+Inf"} - ignoring (le) '
         'traces_span_metrics_duration_milliseconds_bucket{le="2"}', 0.0),
        ('count(up == 1)', 9.0),
    ],
)  # fmt: skip
def test_real_names_and_labels(lab: Any, query: str, expected: float) -> None:
    lab.run(300)
    assert list(ask(lab, query).values()) == [pytest.approx(expected)]


def test_scrapes_come_each_interval_of_virtual_time(lab: Any) -> None:
    lab.run(150)
    assert ask(lab, 'count_over_time(up{job="prometheus"}[10m])') == {"": 11.0}
    assert lab.world.simulated == lab.kernel.now


def test_runtime_ids_are_those_of_the_api(lab: Any) -> None:
    lab.run(15)
    (labels,) = ask(lab, 'container_processes{pod="web-3"}')
    assert f"name={3:064x}" in labels and f"cri-containerd-{3:064x}.scope" in labels


def test_a_deleted_pod_ends_at_once(lab: Any) -> None:
    lab.run(60)
    lab.kernel.store.remove(Key("pods", "shop", "web-1"))
    lab.world.set_pods([p for p in lab.world.containers if p[1] != "web-1"])
    lab.run(15)
    assert ask(lab, 'count({pod="web-1",job!="otel"})') == {}
    assert ask(lab, "count(container_processes)") == {"": 3.0}
    past = ask(lab, 'last_over_time(kube_pod_status_phase{pod="web-1",phase="Running"}[5m])')
    assert list(past.values()) == [1.0]


def test_a_restart_shows_up(lab: Any, make_pod: Any) -> None:
    lab.run(60)
    lab.put("pods", make_pod("web-1", 1, restarts=2))
    lab.run(15)
    assert len(ask(lab, 'increase(kube_pod_container_status_restarts_total{pod="web-1"}[1m]) > 0')) == 1
    reason = ask(lab, 'kube_pod_container_status_last_terminated_reason{reason="OOMKilled"}')
    assert [key.split("pod=")[1].split(",")[0] for key in reason] == ["web-1"]


def test_a_state_that_changes_ends_the_old_series(lab: Any, make_pod: Any) -> None:
    waiting = make_pod("web-1", 1)
    waiting["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    lab.run(15)
    lab.put("pods", waiting)
    lab.run(15)
    assert len(ask(lab, 'kube_pod_container_status_waiting_reason{reason="CrashLoopBackOff"}')) == 1
    lab.put("pods", make_pod("web-1", 1))
    lab.run(15)
    assert ask(lab, "kube_pod_container_status_waiting_reason") == {}


def test_a_silent_node_is_down_and_comes_back(lab: Any, make_node: Any) -> None:
    lab.run(30)
    lab.put("nodes", make_node("node-b", "Unknown"))
    lab.run(15)
    assert ask(lab, 'up{node="node-b"}') == {"node=node-b": 0.0}
    assert len(ask(lab, "container_processes")) == 2
    assert ask(lab, "count(up == 0)") == {"": 3.0}
    assert {t.labels["node"] for t in lab.scraper.targets() if t.error} == {"node-b"}
    lab.put("nodes", make_node("node-b"))
    lab.run(15)
    assert len(ask(lab, "container_processes")) == 4
    assert ask(lab, "count(up == 0)") == {}


def test_nothing_of_the_lab_itself_is_scraped(lab: Any, make_pod: Any) -> None:
    load = make_pod("load-1", 1)
    load["metadata"]["namespace"] = "lab-system"
    lab.put("pods", load)
    lab.put("namespaces", {"metadata": {"name": "lab-system"}})
    lab.world.containers.append(("lab-system", "load-1", "node-b"))
    lab.world.spans.append(lab.world.spans[0]._replace(namespace="lab-system", pod="load-1", span_name="attack"))
    lab.world.generation += 1
    lab.run(30)
    found = lab.series.select([], 0, round(lab.kernel.now * 1000))
    assert [labels for labels in found.labels if "lab-system" in str(labels) or "load-1" in str(labels)] == []
    assert ask(lab, "count(container_processes)") == {"": 4.0}


def test_every_kind_of_object_has_metrics(lab: Any) -> None:
    meta = {"namespace": "shop", "creationTimestamp": "2025-06-02T08:00:00Z", "uid": "u"}
    spec_status = {
        "apps/deployments": (
            {"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}},
            {"readyReplicas": 2, "conditions": [{"type": "Available", "status": "True", "reason": "R"}]},
        ),
        "apps/replicasets": ({"replicas": 3}, {"readyReplicas": 1}),
        "apps/statefulsets": ({"replicas": 1}, {"currentRevision": "s-1"}),
        "apps/daemonsets": ({}, {"numberReady": 2}),
        "batch/jobs": ({"completions": 1}, {"conditions": [{"type": "Complete", "status": "True"}]}),
        "batch/cronjobs": ({"schedule": "* * * * *"}, {}),
        "autoscaling/horizontalpodautoscalers": (
            {"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "x"}}, {"currentReplicas": 2},
        ),
        "services": ({"clusterIP": "10.2.0.1"}, {}),
        "persistentvolumeclaims": ({"resources": {"requests": {"storage": "1Gi"}}}, {"phase": "Bound"}),
        "resourcequotas": ({}, {"hard": {"pods": "10"}, "used": {"pods": "4"}}),
        "policy/poddisruptionbudgets": ({}, {"disruptionsAllowed": 1}),
        "networking.k8s.io/networkpolicies": ({"ingress": [{}]}, {}),
    }  # fmt: skip
    for resource, (spec, status) in spec_status.items():
        lab.put(resource, {"metadata": {**meta, "name": "x"}, "spec": spec, "status": status})
    lab.put("namespaces", {"metadata": {"name": "shop"}, "status": {"phase": "Active"}})
    lab.put("configmaps", {"metadata": {**meta, "name": "x"}})
    lab.put("secrets", {"metadata": {**meta, "name": "x"}, "type": "Opaque"})
    endpoints = [{"addresses": ["10.1.0.1"], "conditions": {"ready": True}}]
    slices: dict[str, Any] = {"addressType": "IPv4", "endpoints": endpoints}
    slices["ports"] = [{"port": 80}]
    lab.put("discovery.k8s.io/endpointslices", {"metadata": {**meta, "name": "x"}, **slices})
    subsets = [{"addresses": [{"ip": "10.1.0.1"}], "ports": [{"port": 80}]}]
    lab.put("endpoints", {"metadata": {**meta, "name": "x"}, "subsets": subsets})
    lab.put("persistentvolumes", {"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}}})
    lab.run(15)
    for query, expected in {
        "kube_deployment_status_replicas_ready": 2, "kube_deployment_spec_replicas": 3,
        "kube_deployment_spec_strategy_rollingupdate_max_surge": 1,
        'kube_deployment_status_condition{condition="Available",status="true"}': 1,
        "kube_replicaset_status_ready_replicas": 1, "kube_statefulset_replicas": 1,
        "kube_daemonset_status_number_ready": 2, 'kube_job_complete{job_name="x",condition="true"}': 1,
        'kube_cronjob_info{schedule="* * * * *"}': 1, "kube_horizontalpodautoscaler_spec_max_replicas": 5,
        'kube_service_info{cluster_ip="10.2.0.1"}': 1,
        'kube_persistentvolumeclaim_status_phase{phase="Bound"}': 1,
        "kube_persistentvolume_capacity_bytes": 1 << 30, 'kube_resourcequota{resource="pods",type="used"}': 4,
        "kube_poddisruptionbudget_status_pod_disruptions_allowed": 1,
        "kube_networkpolicy_spec_ingress_rules": 1, 'kube_namespace_status_phase{phase="Active"}': 1,
        "kube_configmap_info": 1, 'kube_secret_type{type="Opaque"}': 1,
        'kube_endpointslice_endpoints{address="10.1.0.1",ready="true"}': 1,
        'kube_endpoint_address{ip="10.1.0.1",ready="true",port_number="80"}': 1,
    }.items():  # fmt: skip
        assert list(ask(lab, query).values()) == [expected], query


def test_two_runs_store_the_same(make_lab: Any) -> None:
    texts = []
    for _ in range(2):
        lab = make_lab(6)
        lab.scraper.start()
        lab.run(120)
        found = lab.series.select([], 0, round(lab.kernel.now * 1000))
        texts.append((found.labels, found.times.tobytes(), found.values.tobytes()))
    assert texts[0] == texts[1]


def test_metadata_and_targets(lab: Any) -> None:
    lab.run(15)
    assert lab.scraper.metadata()["container_cpu_usage_seconds_total"].type == "counter"
    assert lab.scraper.metadata()["kube_pod_info"].type == "gauge"
    jobs = {target.pool for target in lab.scraper.targets()}
    assert jobs >= {"kubernetes-nodes-cadvisor", "kubernetes-nodes", "kube-state-metrics", "node-exporter"}


def test_a_scrape_of_forty_pods_is_cheap(make_lab: Any) -> None:
    lab = make_lab(40)
    lab.scraper.start()
    times = []
    for _ in range(10):
        began = time.perf_counter()
        lab.run(15)
        times.append(time.perf_counter() - began)
    assert min(times) < 0.008
