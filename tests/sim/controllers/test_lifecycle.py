"""Namespaces, default objects, garbage collection, nodes, the first content of a cluster."""

from __future__ import annotations

import pytest

from aiopslab.sim.core.store import Key

DEPLOYMENTS, SETS = "apps/deployments", "apps/replicasets"


def _cm(name: str, **metadata) -> dict:
    return {"metadata": {"name": name, **metadata}, "data": {"a": "b"}}


def _owned_by(owner: dict, block: bool = False) -> list[dict]:
    meta = owner["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"]}
    return [{**reference, "blockOwnerDeletion": True} if block else reference]


def test_new_namespace_has_its_defaults(bare):
    assert [one["metadata"]["name"] for one in bare.list("serviceaccounts")] == ["default"]
    (bundle,) = bare.list("configmaps")
    assert bundle["metadata"]["name"] == "kube-root-ca.crt" and bundle["data"] == {"ca.crt": "CA"}
    bare.delete("configmaps", "kube-root-ca.crt")
    assert bare.find("configmaps", "kube-root-ca.crt") is not None


def test_namespace_deletion_empties_it_and_goes(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 2))
    bare.create(
        "services",
        {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}},
    )
    bare.wait(3)
    bare.delete("namespaces", "shop", namespace="")
    assert bare.get("namespaces", "shop", namespace="")["status"]["phase"] == "Terminating"
    bare.wait(60)
    assert bare.find("namespaces", "shop", namespace="") is None
    assert [r for r in bare.kernel.store.resources() if bare.kernel.store.count(r, "shop")] in (
        [],
        ["events"],
    )


def test_namespace_held_by_a_finalizer(bare):
    bare.create("configmaps", _cm("m", finalizers=["example.com/hold"]))
    bare.delete("namespaces", "shop", namespace="")
    bare.wait(30)
    conditions = bare.get("namespaces", "shop", namespace="")["status"]["conditions"]
    assert [(c["type"], c["status"], c["message"]) for c in conditions[-2:]] == [
        (
            "NamespaceContentRemaining", "True",
            "Some resources are remaining: configmaps. has 1 resource instances",
        ),
        (
            "NamespaceFinalizersRemaining", "True",
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
        ),
    ]  # fmt: skip
    bare.patch("configmaps", "m", {"metadata": {"finalizers": None}})
    bare.wait(30)
    assert bare.find("namespaces", "shop", namespace="") is None


def test_background_deletion_follows_the_chain(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 2))
    bare.wait(3)
    bare.delete(DEPLOYMENTS, "web")
    bare.wait(3)
    assert bare.list(SETS) == [] and bare.list("pods") == []


def test_foreground_deletion_waits_for_dependents(scripted, make):
    scripted.world.stop_answer = (5.0, 143)
    scripted.create(DEPLOYMENTS, make.workload("web", 1))
    scripted.wait(5)
    scripted.delete(DEPLOYMENTS, "web", propagation="Foreground")
    scripted.wait(2)
    assert scripted.find(DEPLOYMENTS, "web")["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert len(scripted.list(SETS)) == 1
    scripted.wait(10)
    assert scripted.find(DEPLOYMENTS, "web") is None and scripted.list(SETS) == [] == scripted.list("pods")


def test_orphans_lose_their_owner_and_are_adopted_again(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 1))
    bare.delete(DEPLOYMENTS, "web", propagation="Orphan")
    (one,) = bare.list(SETS)
    assert bare.find(DEPLOYMENTS, "web") is None and "ownerReferences" not in one["metadata"]
    bare.create(DEPLOYMENTS, make.workload("web", 1))
    (again,) = bare.list(SETS)
    assert again["metadata"]["uid"] == one["metadata"]["uid"]
    assert again["metadata"]["ownerReferences"][0]["kind"] == "Deployment"


def test_objects_without_any_owner_left_go(bare):
    ghost = {"metadata": {"name": "ghost", "uid": "00000000-0000-0000-0000-000000000001"}}
    bare.create("configmaps", _cm("child", ownerReferences=_owned_by(ghost)))
    assert bare.find("configmaps", "child") is None


def test_one_solid_owner_keeps_an_object(bare):
    owner = bare.create("configmaps", _cm("owner"))
    ghost = {"metadata": {"name": "ghost", "uid": "00000000-0000-0000-0000-000000000001"}}
    bare.create("configmaps", _cm("child", ownerReferences=_owned_by(owner) + _owned_by(ghost)))
    assert bare.get("configmaps", "child")["metadata"]["ownerReferences"] == _owned_by(owner)
    bare.delete("configmaps", "owner")
    assert bare.find("configmaps", "child") is None


def test_silent_node_becomes_not_ready_and_loses_its_pods(bare, make):
    status = bare.get("nodes", "node-1", namespace="")["status"]
    bare.create("nodes", {"metadata": {"name": "mute"}}, namespace="")
    info = {**status["nodeInfo"], "machineID": "elsewhere"}
    bare.api.put_status(Key("nodes", "", "mute"), {**status, "nodeInfo": info}, "test")
    bare.kernel.settle()
    spec = make.pod_spec(nodeName="mute")
    bare.create("pods", make.pod("p", spec))
    bare.wait(45)
    assert not bare.get("nodes", "mute", namespace="")["spec"].get("taints")
    bare.wait(20)
    node = bare.get("nodes", "mute", namespace="")
    ready = next(c for c in node["status"]["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
    assert {(t["key"], t["effect"]) for t in node["spec"]["taints"]} == {
        ("node.kubernetes.io/unreachable", "NoSchedule"), ("node.kubernetes.io/unreachable", "NoExecute"),
    }  # fmt: skip
    bare.wait(280)
    assert not bare.get("pods", "p")["metadata"].get("deletionTimestamp")
    bare.wait(30)
    assert bare.get("pods", "p")["metadata"]["deletionTimestamp"]
    assert bare.events("TaintManagerEviction") == ["Marking for deletion Pod shop/p"]
    bare.delete("nodes", "mute", namespace="")
    bare.wait(45)
    assert bare.find("pods", "p") is None


def test_no_execute_taint_evicts_what_does_not_tolerate_it(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 3))
    bare.wait(3)
    taints = [{"key": "x", "effect": "NoExecute"}]
    bare.patch("nodes", "node-1", {"spec": {"taints": taints}}, namespace="")
    bare.wait(5)
    assert {pod["spec"]["nodeName"] for pod in bare.list("pods")} == {"node-2", "node-3"}


def test_bare_nodes_are_exactly_as_agreed(bare):
    for number in (1, 2, 3):
        node = bare.get("nodes", f"node-{number}", namespace="")
        assert node["metadata"]["labels"] == {
            "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": f"node-{number}", "kubernetes.io/os": "linux",
        }  # fmt: skip
        assert node["status"]["capacity"] == node["status"]["allocatable"]
        assert node["status"]["capacity"] == {
            "cpu": "4",
            "ephemeral-storage": "100Gi",
            "memory": "8Gi",
            "pods": "110",
        }
        assert [(c["type"], c["status"]) for c in node["status"]["conditions"]] == [
            ("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False"), ("Ready", "True"),
        ]  # fmt: skip
        assert "taints" not in node["spec"]


def test_full_cluster_has_dns_metrics_and_a_control_plane(make):
    cluster = make.cluster(make.world(), bare=False)
    cluster.wait(90)
    names = [node["metadata"]["name"] for node in cluster.list("nodes", "")]
    assert names == ["control-plane", "worker-1", "worker-2", "worker-3"]
    assert cluster.get("services", "kubernetes", "default")["spec"]["clusterIP"] == "10.96.0.1"
    assert cluster.get("services", "kube-dns", "kube-system")["spec"]["clusterIP"] == "10.96.0.10"
    for name, size in (("coredns", 2), ("metrics-server", 1)):
        assert cluster.get(DEPLOYMENTS, name, "kube-system")["status"]["availableReplicas"] == size
    cluster.create(DEPLOYMENTS, make.workload("web", 6))
    assert {pod["spec"]["nodeName"] for pod in cluster.list("pods")} == {"worker-1", "worker-2", "worker-3"}


@pytest.mark.parametrize("seed", [1, 2])
def test_equal_seeds_give_equal_clusters(make, seed):
    def snapshot():
        cluster = make.cluster(make.world(), seed=seed)
        cluster.create(DEPLOYMENTS, make.workload("web", 3))
        cluster.wait(30)
        return {r: cluster.kernel.store.list(r) for r in cluster.kernel.store.resources()}

    assert snapshot() == snapshot()
