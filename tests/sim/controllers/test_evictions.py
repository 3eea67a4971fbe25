"""The eviction manager: storage limits, nodes short of memory, and what nodes say about themselves."""

from __future__ import annotations

import pytest

from aiopslab.sim.core.ports import Held

MIB = 1 << 20
GIB = 1 << 30


def hold(cluster, pod: str, memory: int = 0, files: int = 0, **volumes: int) -> None:
    """From now on the container of a pod holds so many bytes."""
    uid = cluster.get("pods", pod)["metadata"]["uid"]
    cluster.world.holds[uid] = Held({"c": memory}, {"c": files}, volumes)


def limited(make, **amounts: str) -> dict:
    """A pod whose container has limits, with a volume that has none."""
    limits = {name.replace("_", "-"): amount for name, amount in amounts.items()}
    volumes = [{"name": "cache", "emptyDir": {}}, {"name": "small", "emptyDir": {"sizeLimit": "10Mi"}}]
    return make.pod_spec([make.container(resources={"limits": limits})], volumes=volumes, nodeName="node-1")


def condition(cluster, name: str, type_: str, resource: str = "pods") -> dict:
    found = cluster.get(resource, name, "" if resource == "nodes" else None)["status"]["conditions"]
    return next((c for c in found if c["type"] == type_), {})


STORAGE = [
    ({"files": 30 * MIB}, "Pod ephemeral local storage usage exceeds the total limit of containers 20Mi. "),
    ({"files": 8 * MIB, "cache": 14 * MIB},
     "Pod ephemeral local storage usage exceeds the total limit of containers 20Mi. "),
    ({"small": 11 * MIB}, 'Usage of EmptyDir volume "small" exceeds the limit "10Mi". '),
]  # fmt: skip


@pytest.mark.parametrize(("held", "message"), STORAGE)
def test_storage_beyond_the_limits(scripted, make, held, message):
    scripted.create("pods", make.pod("p", limited(make, ephemeral_storage="20Mi")))
    scripted.wait(15)
    hold(scripted, "p", files=1 * MIB)
    scripted.wait(15)
    assert scripted.phases() == {"p": "Running"}
    hold(scripted, "p", **held)
    scripted.wait(15)
    status = scripted.get("pods", "p")["status"]
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Evicted", message)
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] in (137, 143)
    target = condition(scripted, "p", "DisruptionTarget")
    assert (target["status"], target["reason"], target["message"]) == ("True", "TerminationByKubelet", message)
    assert scripted.events("Evicted") == [message]


def test_one_container_of_several(scripted, make):
    two = [make.container(resources={"limits": {"ephemeral-storage": "5Mi"}}), make.container("other")]
    scripted.create("pods", make.pod("p", make.pod_spec(two)))
    scripted.wait(15)
    hold(scripted, "p", files=6 * MIB)
    scripted.wait(15)
    message = 'Container c exceeded its local ephemeral storage limit "5Mi". '
    assert scripted.get("pods", "p")["status"]["message"] == message


def test_a_node_short_of_memory(scripted, make):
    asks = {"resources": {"requests": {"memory": "2Gi"}}}
    for name, fields in (("greedy", {}), ("modest", asks), ("small", {})):
        scripted.create("pods", make.pod(name, make.pod_spec([make.container(**fields)], nodeName="node-1")))
    scripted.create("pods", make.pod("else", make.pod_spec(nodeName="node-2")))
    scripted.wait(15)
    hold(scripted, "greedy", 5 * GIB)
    hold(scripted, "modest", 2 * GIB)
    hold(scripted, "small", 400 * MIB)
    scripted.wait(10)
    assert scripted.phases()["greedy"] == "Failed"
    message = (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 0. "
        "Container c was using 5Gi, request is 0, has larger consumption of memory. "
    )
    assert scripted.get("pods", "greedy")["status"]["message"] == message
    pressed = condition(scripted, "node-1", "MemoryPressure", "nodes")
    assert (pressed["status"], pressed["reason"]) == ("True", "KubeletHasInsufficientMemory")
    assert scripted.get("nodes", "node-1", "")["spec"]["taints"][0]["key"] == "node.kubernetes.io/memory-pressure"
    said = [event["reason"] for event in scripted.list("events", "default")]
    assert {"NodeHasInsufficientMemory", "EvictionThresholdMet"} <= set(said)
    scripted.create("pods", make.pod("late", make.pod_spec(nodeName="node-1")))
    scripted.wait(1)
    late = scripted.get("pods", "late")["status"]
    assert (late["reason"], late["message"]) == (
        "Evicted", "Pod was rejected: The node had condition: [MemoryPressure]. ",
    )  # fmt: skip
    scripted.wait(280)
    assert condition(scripted, "node-1", "MemoryPressure", "nodes")["status"] == "True"
    scripted.wait(40)
    relieved = condition(scripted, "node-1", "MemoryPressure", "nodes")
    assert (relieved["status"], relieved["reason"]) == ("False", "KubeletHasSufficientMemory")
    assert not scripted.get("nodes", "node-1", "")["spec"].get("taints")
    assert scripted.phases() == {
        "greedy": "Failed", "modest": "Running", "small": "Running", "else": "Running", "late": "Failed",
    }  # fmt: skip


def test_the_lowest_priority_goes_first_and_critical_pods_stay(scripted, make):
    for name, value in (("high", 100), ("low", 1)):
        scripted.create("scheduling.k8s.io/priorityclasses", {"metadata": {"name": name}, "value": value}, "")
    for name, wanted in (("a", "high"), ("b", "low"), ("c", "system-node-critical")):
        scripted.create("pods", make.pod(name, make.pod_spec(nodeName="node-1", priorityClassName=wanted)))
    scripted.wait(15)
    for name in "abc":
        hold(scripted, name, 3 * GIB)
    scripted.wait(10)
    assert scripted.phases() == {"a": "Running", "b": "Failed", "c": "Running"}


def test_a_deadline_before_the_start(scripted, make):
    spec = make.pod_spec([make.container(image="missing:1")], activeDeadlineSeconds=20)
    scripted.create("pods", make.pod("p", spec))
    scripted.wait(25)
    status = scripted.get("pods", "p")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    lost = status["containerStatuses"][0]["state"]["terminated"]
    assert (lost["reason"], lost["exitCode"]) == ("ContainerStatusUnknown", 137)


def test_nodes_list_the_images_that_they_pulled(scripted, make):
    scripted.create("pods", make.pod("p", make.pod_spec(nodeName="node-1")))
    scripted.wait(15)
    (image,) = scripted.get("nodes", "node-1", "")["status"]["images"]
    assert image["names"][1] == "docker.io/library/nginx:1.25" and "@sha256:" in image["names"][0]
    assert image["sizeBytes"] == 12345
    assert not scripted.get("nodes", "node-2", "")["status"].get("images")
