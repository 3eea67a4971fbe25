"""The kubelet over a pod's life: init containers, sidecars, deletion, changes in place, nodes."""

from __future__ import annotations

import pytest

from aiopslab.sim.core.kernel import parse_time
from aiopslab.sim.core.kubelet.images import canonical, duration
from aiopslab.sim.core.ports import ExecResult
from aiopslab.sim.core.store import Key


def _state(cluster, pod: str, index: int = 0, field: str = "containerStatuses") -> dict:
    return cluster.get("pods", pod)["status"][field][index]


def _ready(cluster, pod: str) -> bool:
    return ("Ready", "True", "") in cluster.conditions("pods", pod)


def test_init_containers_run_in_order(scripted, make):
    inits = [make.container("i", command=["true"]), make.container("j", command=["true"])]
    scripted.create("pods", make.pod("p", make.pod_spec(initContainers=inits)))
    status = scripted.get("pods", "p")["status"]
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
    assert (
        scripted.get("pods", "p")["status"]["conditions"][1]["message"]
        == "containers with incomplete status: [i j]"
    )
    scripted.wait(12)
    assert [spec.ref.container for spec in scripted.world.started] == ["i", "j", "c"]
    assert _ready(scripted, "p")
    entry = _state(scripted, "p", 0, "initContainerStatuses")
    assert entry["state"]["terminated"]["reason"] == "Completed" and entry["ready"]


def test_failing_init_container_backs_off(scripted, make):
    init = make.container("i", command=["false"])
    scripted.create("pods", make.pod("p", make.pod_spec(initContainers=[init])))
    scripted.wait(8)
    entry = _state(scripted, "p", 0, "initContainerStatuses")
    assert entry["state"]["waiting"]["reason"] == "CrashLoopBackOff" and entry["restartCount"] == 1
    assert scripted.get("pods", "p")["status"]["phase"] == "Pending"
    assert ("Initialized", "False", "ContainersNotInitialized") in scripted.conditions("pods", "p")


def test_sidecar_starts_first_and_stops_last(scripted, make):
    sidecar = make.container("side", restartPolicy="Always")
    spec = make.pod_spec([make.container(command=["true"])], initContainers=[sidecar], restartPolicy="Never")
    scripted.create("pods", make.pod("p", spec))
    scripted.wait(8)
    assert [one.ref.container for one in scripted.world.started] == ["side", "c"]
    assert scripted.get("pods", "p")["status"]["phase"] == "Succeeded"
    assert "terminated" in _state(scripted, "p", 0, "initContainerStatuses")["state"]


def test_graceful_deletion(scripted, make):
    scripted.world.stop_answer = (4.0, 143)
    scripted.create("pods", make.pod("p"))
    scripted.wait(5)
    uid, address = scripted.get("pods", "p")["metadata"]["uid"], scripted.get("pods", "p")["status"]["podIP"]
    scripted.delete("pods", "p")
    assert scripted.get("pods", "p")["metadata"]["deletionGracePeriodSeconds"] == 30
    assert scripted.events("Killing") == ["Stopping container c"]
    scripted.wait(3.5)
    assert scripted.find("pods", "p") is not None
    scripted.wait(0.6)
    assert _state(scripted, "p")["state"]["terminated"]["exitCode"] == 143
    scripted.wait(1)
    assert scripted.find("pods", "p") is None and scripted.world.forgotten == [uid]
    scripted.create("pods", make.pod("p"))
    scripted.wait(5)
    again = scripted.get("pods", "p")
    assert again["metadata"]["uid"] != uid and again["status"]["podIP"] == address


def test_forced_deletion_stops_the_container_all_the_same(scripted, make):
    scripted.create("pods", make.pod("p"))
    scripted.wait(5)
    uid = scripted.get("pods", "p")["metadata"]["uid"]
    scripted.delete("pods", "p", grace_s=0)
    assert scripted.find("pods", "p") is None
    scripted.wait(3)
    assert scripted.world.forgotten == [uid]


def test_deletion_while_the_image_is_pulled(scripted, make):
    scripted.world.images.seconds = 60.0
    scripted.create("pods", make.pod("p"))
    scripted.wait(5)
    scripted.delete("pods", "p")
    scripted.wait(3)
    assert scripted.find("pods", "p") is None
    scripted.wait(100)
    assert scripted.world.started == []


def test_pre_stop_sleep_delays_the_end(scripted, make):
    hook = {"preStop": {"sleep": {"seconds": 5}}}
    scripted.create("pods", make.pod("p", make.pod_spec([make.container(lifecycle=hook)])))
    scripted.wait(5)
    scripted.delete("pods", "p")
    scripted.wait(4.9)
    assert "running" in _state(scripted, "p")["state"]
    scripted.wait(2)
    assert scripted.find("pods", "p") is None


def test_failing_post_start_hook_kills_the_container(scripted, make):
    scripted.world.exec = lambda ref, argv, stdin, now: ExecResult(exit_code=1)
    hook = {"postStart": {"exec": {"command": ["no"]}}}
    scripted.create("pods", make.pod("p", make.pod_spec([make.container(lifecycle=hook)])))
    scripted.wait(5)
    assert scripted.events("FailedPostStartHook") == ["PostStartHook failed"]
    assert _state(scripted, "p")["restartCount"] >= 1


def test_changed_image_restarts_the_container_in_place(scripted, make):
    scripted.create("pods", make.pod("p"))
    scripted.wait(5)
    scripted.set_image("p", "nginx:1.27")
    scripted.wait(6)
    assert scripted.events("Killing") == ["Container c definition changed, will be restarted"]
    entry = _state(scripted, "p")
    assert entry["image"] == "docker.io/library/nginx:1.27" and entry["restartCount"] == 1


def test_active_deadline(scripted, make):
    scripted.create("pods", make.pod("p", make.pod_spec(activeDeadlineSeconds=10)))
    scripted.wait(15)
    status = scripted.get("pods", "p")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert "terminated" in _state(scripted, "p")["state"]


def test_readiness_gate(bare, make):
    bare.create("pods", make.pod("p", make.pod_spec(readinessGates=[{"conditionType": "x.io/gate"}])))
    bare.wait(3)
    assert ("Ready", "False", "ReadinessGatesNotReady") in bare.conditions("pods", "p")
    status = bare.get("pods", "p")["status"]
    gate = {"type": "x.io/gate", "status": "True"}
    bare.api.put_status(Key("pods", "shop", "p"), {**status, "conditions": [*status["conditions"], gate]}, "test")
    bare.kernel.settle()
    assert _ready(bare, "p")


def test_a_pod_that_does_not_fit_its_node_is_rejected(bare, make):
    spec = make.pod_spec([make.container(resources={"requests": {"cpu": "5"}})], nodeName="node-1")
    bare.create("pods", make.pod("p", spec))
    status = bare.get("pods", "p")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert status["message"].startswith("Pod was rejected: Node didn't have enough resource: cpu, requested: 5000")


def test_nodes_without_a_kubelet_run_nothing(bare, make):
    bare.create("nodes", {"metadata": {"name": "other"}}, namespace="")
    bare.create("pods", make.pod("p", make.pod_spec(nodeName="other")))
    bare.wait(5)
    assert bare.get("pods", "p")["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_leases_are_renewed_every_ten_seconds(bare):
    key = Key("coordination.k8s.io/leases", "kube-node-lease", "node-1")

    def renewed() -> float:
        return parse_time(bare.kernel.store.get(key)["spec"]["renewTime"])

    first = renewed()
    bare.wait(35)
    assert renewed() - first == 30


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("redis:alpine", "docker.io/library/redis:alpine"),
        ("a/b:1", "docker.io/a/b:1"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("localhost:5000/x", "localhost:5000/x:latest"),
        ("x@sha256:ab", "docker.io/library/x@sha256:ab"),
    ],
)
def test_canonical_image_names(image, name):
    assert canonical(image) == name


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.412, "412ms"),
        (1.2, "1.2s"),
        (10.0, "10s"),
        (62.5, "1m2.5s"),
        (300, "5m0s"),
        (3725, "1h2m5s"),
        (0, "0s"),
    ],
)
def test_durations_are_written_as_go_does(seconds, text):
    assert duration(seconds) == text


def test_ephemeral_container_joins_a_running_pod(scripted, make):
    scripted.create("pods", make.pod("p"))
    scripted.wait(5)
    pod = scripted.get("pods", "p")
    debug = {"name": "debug", "image": "busybox:1.37", "imagePullPolicy": "IfNotPresent"}
    changed = {**pod, "spec": {**pod["spec"], "ephemeralContainers": [debug]}}
    scripted.api.put(Key("pods", "shop", "p"), changed, "x")
    scripted.kernel.settle()
    scripted.wait(5)
    entry = _state(scripted, "p", 0, "ephemeralContainerStatuses")
    assert "running" in entry["state"] and _ready(scripted, "p")
    assert scripted.world.started[-1].ref.container == "debug"
