"""Scheduling: messages of a 1.36 scheduler, constraints, spreading, retries, preemption."""

from __future__ import annotations

from collections import Counter

import pytest

from aiopslab.sim.core.store import Key

NOT_HELPFUL = (
    "0/3 nodes are available: 3 {0}. no new claims to deallocate, preemption: 0/3 nodes are available: 3"
    " Preemption is not helpful for scheduling."
)


def _node(cluster, pod: str) -> str:
    return cluster.get("pods", pod)["spec"].get("nodeName", "")


def _cpu(make, amount: str, **fields):
    return make.pod_spec([make.container(resources={"requests": {"cpu": amount}})], **fields)


def _near(label: str, kind: str = "podAffinity") -> dict:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": label}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}]}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, "node(s) didn't match Pod's node affinity/selector"),
        (
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ZONE}}},
            "node(s) didn't match Pod's node affinity/selector",
        ),
        ({"affinity": _near("nosuch")}, "node(s) didn't match pod affinity rules"),
    ],
)
def test_messages_of_pods_that_fit_nowhere(bare, make, fields, reason):
    bare.create("pods", make.pod("p", make.pod_spec(**fields)))
    assert bare.events("FailedScheduling") == [NOT_HELPFUL.format(reason)]
    (entry,) = bare.get("pods", "p")["status"]["conditions"]
    assert (entry["type"], entry["status"], entry["reason"]) == ("PodScheduled", "False", "Unschedulable")
    assert entry["message"] == NOT_HELPFUL.format(reason)
    (event,) = [e for e in bare.list("events") if e["reason"] == "FailedScheduling"]
    assert (event["reportingComponent"], event["action"]) == ("default-scheduler", "Scheduling")


def test_more_than_any_node_has(bare, make):
    bare.create("pods", make.pod("p", _cpu(make, "100")))
    assert bare.events("FailedScheduling") == [NOT_HELPFUL.format("Insufficient cpu")]


def test_cordon_and_uncordon(bare, make):
    for number in (1, 2, 3):
        bare.patch("nodes", f"node-{number}", {"spec": {"unschedulable": True}}, namespace="")
    (taint,) = bare.get("nodes", "node-1", namespace="")["spec"]["taints"]
    assert (taint["key"], taint["effect"]) == ("node.kubernetes.io/unschedulable", "NoSchedule")
    bare.create("pods", make.pod("p"))
    assert bare.events("FailedScheduling") == [NOT_HELPFUL.format("node(s) were unschedulable")]
    bare.patch("nodes", "node-2", {"spec": {"unschedulable": None}}, namespace="")
    assert _node(bare, "p") == "node-2"
    assert "taints" not in bare.get("nodes", "node-2", namespace="")["spec"]


def test_taints_and_tolerations(bare, make):
    for number in (1, 2, 3):
        taints = [{"key": "kc", "value": "x", "effect": "NoSchedule"}]
        bare.patch("nodes", f"node-{number}", {"spec": {"taints": taints}}, namespace="")
    bare.create("pods", make.pod("p"))
    bare.create("pods", make.pod("t", make.pod_spec(tolerations=[{"key": "kc", "operator": "Exists"}])))
    assert bare.events("FailedScheduling") == [NOT_HELPFUL.format("node(s) had untolerated taint(s)")]
    assert _node(bare, "t") and not _node(bare, "p")


def test_mixed_reasons_are_sorted(bare, make):
    bare.patch("nodes", "node-1", {"spec": {"unschedulable": True}}, namespace="")
    bare.create("pods", make.pod("big", _cpu(make, "3", nodeSelector={"kubernetes.io/hostname": "node-2"})))
    bare.create("pods", make.pod("p", _cpu(make, "3", nodeSelector={"kubernetes.io/hostname": "node-2"})))
    assert bare.events("FailedScheduling") == [
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, 1"
        " node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 1 No"
        " preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    ]


def test_missing_claim(bare, make):
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "nope"}}
    bare.create("pods", make.pod("p", make.pod_spec(volumes=[volume])))
    assert bare.events("FailedScheduling") == [
        '0/3 nodes are available: persistentvolumeclaim "nope" not found. not found'
    ]


def test_gates(bare, make):
    bare.create("pods", make.pod("p", make.pod_spec(schedulingGates=[{"name": "x.io/gate"}])))
    (entry,) = bare.get("pods", "p")["status"]["conditions"]
    assert (entry["reason"], entry["message"]) == (
        "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates",
    )  # fmt: skip
    assert bare.events("FailedScheduling") == []
    bare.patch("pods", "p", {"spec": {"schedulingGates": None}})
    assert _node(bare, "p")


def test_scheduled_event(bare, make):
    bare.create("pods", make.pod("p", make.pod_spec(nodeSelector={"kubernetes.io/hostname": "node-2"})))
    assert bare.events("Scheduled") == ["Successfully assigned shop/p to node-2"]
    assert bare.get("pods", "p")["metadata"]["generation"] == 1


def test_replicas_are_spread(bare, make):
    bare.create("apps/deployments", make.workload("web", 6, _cpu(make, "100m")))
    nodes = Counter(pod["spec"]["nodeName"] for pod in bare.list("pods"))
    assert nodes == {"node-1": 2, "node-2": 2, "node-3": 2}


def test_room_that_becomes_free_is_used(bare, make):
    for number in (1, 2, 3):
        bare.create("pods", make.pod(f"big-{number}", _cpu(make, "3")))
    bare.create("pods", make.pod("late", _cpu(make, "2")))
    assert not _node(bare, "late")
    bare.wait(2)
    bare.delete("pods", "big-2")
    bare.wait(2)
    assert _node(bare, "late")


def test_host_ports_conflict(bare, make):
    one = make.container(ports=[{"containerPort": 80, "hostPort": 80}])
    for number in range(4):
        bare.create("pods", make.pod(f"p{number}", make.pod_spec([one])))
    assert Counter(bool(_node(bare, f"p{n}")) for n in range(4)) == {True: 3, False: 1}
    assert "3 node(s) didn't have free ports for the requested pod ports" in bare.events("FailedScheduling")[0]


def test_anti_affinity_keeps_pods_apart(bare, make):
    spec = make.pod_spec(affinity=_near("web", "podAntiAffinity"))
    bare.create("apps/deployments", make.workload("web", 4, spec))
    placed = [pod["spec"].get("nodeName") for pod in bare.list("pods")]
    assert sorted(map(str, placed)) == ["None", "node-1", "node-2", "node-3"]
    assert "3 node(s) didn't match pod anti-affinity rules" in bare.events("FailedScheduling")[0]


def test_affinity_follows_and_waits_for_its_pod(bare, make):
    bare.create("pods", make.pod("follower", make.pod_spec(affinity=_near("leader"))))
    assert not _node(bare, "follower")
    bare.create("pods", make.pod("leader", labels={"app": "leader"}))
    assert _node(bare, "follower") == _node(bare, "leader") != ""


def test_first_pod_of_a_group_that_wants_itself(bare, make):
    bare.create("apps/deployments", make.workload("web", 3, make.pod_spec(affinity=_near("web"))))
    assert len({pod["spec"]["nodeName"] for pod in bare.list("pods")}) == 1


def test_topology_spread(bare, make):
    constraint = {
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }  # fmt: skip
    bare.patch("nodes", "node-3", {"spec": {"unschedulable": True}}, namespace="")
    spec = make.pod_spec(topologySpreadConstraints=[constraint])
    bare.create("apps/deployments", make.workload("web", 4, spec))
    assert sum(bool(pod["spec"].get("nodeName")) for pod in bare.list("pods")) == 2
    assert any(
        "2 node(s) didn't match pod topology spread constraints" in text for text in bare.events("FailedScheduling")
    )


def test_preemption_takes_the_cheapest_victim(bare, make):
    for name, value in (("low", 10), ("mid", 20), ("high", 100)):
        body = {"metadata": {"name": name}, "value": value}
        bare.create("scheduling.k8s.io/priorityclasses", body, namespace="")
    for number, rank in enumerate(("mid", "low", "mid")):
        bare.create("pods", make.pod(f"v{number}", _cpu(make, "3", priorityClassName=rank)))
    bare.wait(2)
    bare.create("pods", make.pod("boss", _cpu(make, "3", priorityClassName="high")))
    bare.wait(3)
    assert set(bare.phases()) == {"boss", "v0", "v2"} and _node(bare, "boss")
    uid, node = bare.get("pods", "boss")["metadata"]["uid"], _node(bare, "boss")
    assert bare.events("Preempted") == [f"Preempted by pod {uid} on node {node}"]


def test_large_clusters_stay_usable(make):
    cluster = make.cluster(make.world())
    node = cluster.get("nodes", "node-1", namespace="")
    for number in range(100):
        body = {"metadata": {"name": f"x-{number}"}, "spec": {}, "status": node["status"]}
        cluster.create("nodes", body, namespace="")
        cluster.api.put_status(Key("nodes", "", f"x-{number}"), node["status"], "test")
    cluster.kernel.settle()
    cluster.create("apps/deployments", make.workload("web", 300, _cpu(make, "100m")))
    nodes = Counter(pod["spec"]["nodeName"] for pod in cluster.list("pods"))
    assert sum(nodes.values()) == 300 and max(nodes.values()) <= 4
