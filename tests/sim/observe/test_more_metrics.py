"""Metrics beside the core ones: disks, TCP, name server, volumes, processes, help texts."""

from __future__ import annotations

from typing import Any

import pytest

from aiopslab.sim.core.store import Key
from aiopslab.sim.observe.promql.evaluate import Engine
from aiopslab.sim.observe.promql.values import Vector
from aiopslab.sim.world.counters import DnsCounters


def ask(lab: Any, query: str) -> list[float]:
    value = Engine(lab.series).instant(query, round(lab.kernel.now * 1000)).value
    assert isinstance(value, Vector)
    return [float(number) for number in value.values[:, 0]]


def dns_pod(name: str, number: int, *, ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "kube-system", "uid": name, "labels": {"k8s-app": "kube-dns"}},
        "spec": {"nodeName": "node-a", "containers": [{"name": "coredns", "image": "coredns:1"}]},
        "status": {
            "podIP": f"10.1.9.{number}", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('node_filesystem_size_bytes{mountpoint="/",node="node-a"} / 1024 ^ 3', 100.0),
        ('count(node_filesystem_avail_bytes < node_filesystem_free_bytes)', 2.0),
        ('count(rate(node_disk_written_bytes_total[2m]) > 10000)', 2.0),
        ('count(node_disk_io_time_seconds_total > 0)', 2.0),
        ('count(rate(node_netstat_Tcp_InSegs[2m]) > 0.5)', 2.0),
        ('count(node_nf_conntrack_entries / node_nf_conntrack_entries_limit < 0.1)', 2.0),
        ('rate(node_pressure_cpu_waiting_seconds_total{node="node-a"}[2m])', 0.1 + 0.004),
        ('count(container_fs_reads_bytes_total{container="server",device="/dev/vda"})', 4.0),
        ('container_fs_limit_bytes{id="/",node="node-b"} / 1024 ^ 3', 100.0),
        ('count(process_resident_memory_bytes{job="kubernetes-nodes"} > 5e7)', 2.0),
        ('count(rate(process_cpu_seconds_total[2m]) > 0)', 4.0),
        ('scrape_samples_scraped{job="node-exporter",node="node-a"} > bool 60', 1.0),
    ],
)  # fmt: skip
def test_real_names(lab: Any, query: str, expected: float) -> None:
    lab.run(300)
    assert ask(lab, query) == [pytest.approx(expected)]


def test_the_name_server_counts_what_was_asked(lab: Any) -> None:
    lab.put("pods", dns_pod("coredns-a", 1))
    lab.put("pods", dns_pod("coredns-b", 2))
    lab.put("pods", dns_pod("coredns-c", 3, ready=False))
    plain = lab.world.counters
    answers = {("A", "NOERROR"): 0, ("AAAA", "NXDOMAIN"): 0}

    def counters(now: float) -> Any:
        answers[("A", "NOERROR")] += 5
        answers[("AAAA", "NXDOMAIN")] += 2
        found = plain(now)
        found.dns = DnsCounters(dict(answers))
        return found

    lab.world.counters = counters
    lab.run(60)
    total = answers[("A", "NOERROR")]
    assert ask(lab, 'sum(coredns_dns_requests_total{type="A"})') == [total]
    assert ask(lab, 'sum(coredns_dns_responses_total{rcode="NXDOMAIN"})') == [answers[("AAAA", "NXDOMAIN")]]
    assert len(ask(lab, 'coredns_dns_requests_total{type="A",service="kube-dns",namespace="kube-system"}')) == 2
    quantile = ask(lab, "histogram_quantile(0.5, sum by (le) (coredns_dns_request_duration_seconds_bucket))")
    assert 0 < quantile[0] < 0.001
    lab.put("pods", dns_pod("coredns-b", 2, ready=False))
    lab.run(30)
    assert len(ask(lab, 'coredns_dns_requests_total{type="A"}')) == 1


def test_mounted_claims_have_volume_stats(lab: Any, make_pod: Any) -> None:
    meta = {"name": "data", "namespace": "shop"}
    lab.put("persistentvolumeclaims", {"metadata": meta, "status": {"capacity": {"storage": "1Gi"}}})
    pod = make_pod("web-1", 1)
    pod["spec"]["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    lab.put("pods", pod)
    lab.run(15)
    own = '{namespace="shop",persistentvolumeclaim="data",job="kubernetes-nodes",node="node-b"}'
    assert ask(lab, f"kubelet_volume_stats_capacity_bytes{own}") == [1 << 30]
    (used,) = ask(lab, f"kubelet_volume_stats_used_bytes{own}")
    assert used == (20 + 10) << 20
    total = f"kubelet_volume_stats_available_bytes{own} + kubelet_volume_stats_used_bytes{own}"
    assert ask(lab, total) == [1 << 30]
    assert 0 < ask(lab, f"kubelet_volume_stats_inodes_used{own}")[0] < 1000


def test_every_metric_has_a_help_text(lab: Any) -> None:
    lab.run(15)
    known = lab.scraper.metadata()
    names = lab.series.label_values("__name__")
    ends = ("_bucket", "_sum", "_count")
    for name in names:
        about = known.get(name) or known.get(next((name.removesuffix(e) for e in ends if name.endswith(e)), ""))
        synthetic = name == "up" or name.startswith("scrape_")
        assert synthetic or (about is not None and about.help), name


def test_counters_of_a_node_do_not_fall_when_pods_go(lab: Any) -> None:
    lab.run(60)
    lab.world.set_pods([])
    for name in [f"web-{i}" for i in range(4)]:
        lab.kernel.store.remove(Key("pods", "shop", name))
    lab.run(60)
    for name in lab.series.label_values("__name__"):
        if name.startswith("node_") and name.endswith("_total"):
            assert ask(lab, f"sum(resets({name}[2m]))") == [0.0], name
