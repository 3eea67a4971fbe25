"""The virtual kubelet: start, images, configuration, probes, restarts, ends, files."""

from __future__ import annotations

import base64
from itertools import pairwise

import pytest

from aiopslab.sim.core.kubelet.images import wrong_reference
from aiopslab.sim.core.kubelet.run import Backoff
from aiopslab.sim.core.ports import ContainerExit, LogLine, ProbeResult, StartResult

HTTP = {"httpGet": {"path": "/", "port": "web"}}
PORT = [{"name": "web", "containerPort": 8080}]


def _state(cluster, pod: str, index: int = 0, field: str = "containerStatuses") -> dict:
    return cluster.get("pods", pod)["status"][field][index]


def _waiting(cluster, pod: str) -> str:
    return _state(cluster, pod)["state"].get("waiting", {}).get("reason", "")


def _ready(cluster, pod: str) -> bool:
    return ("Ready", "True", "") in cluster.conditions("pods", pod)


def test_first_status_then_running_with_everything_filled_in(scripted, make):
    scripted.create("pods", make.pod("p"))
    first = scripted.get("pods", "p")["status"]
    assert (first["phase"], first["containerStatuses"][0]["state"]) == (
        "Pending", {"waiting": {"reason": "ContainerCreating"}},
    )  # fmt: skip
    assert scripted.conditions("pods", "p") == [
        ("PodReadyToStartContainers", "False", ""),
        ("Initialized", "True", ""),
        ("Ready", "False", "ContainersNotReady"),
        ("ContainersReady", "False", "ContainersNotReady"),
        ("PodScheduled", "True", ""),
    ]
    assert first["conditions"][2]["message"] == "containers with unready status: [c]"
    scripted.wait(5)
    pod = scripted.get("pods", "p")
    status = pod["status"]
    node = int(pod["spec"]["nodeName"].removeprefix("node-"))
    assert status["phase"] == "Running" and status["qosClass"] == "BestEffort" and status["startTime"]
    assert status["podIP"].startswith(f"10.244.{node}.") and status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["hostIP"] == f"172.18.0.{node + 2}"
    entry = status["containerStatuses"][0]
    assert entry["ready"] and entry["started"] and entry["restartCount"] == 0 and entry["lastState"] == {}
    assert entry["image"] == "docker.io/library/nginx:1.25"
    assert entry["imageID"].startswith("docker.io/library/nginx@sha256:") and len(entry["imageID"]) == 95
    assert entry["containerID"].startswith("containerd://") and len(entry["containerID"]) == 77


def test_events_of_a_first_and_of_a_second_start(scripted, make):
    where = {"nodeName": "node-1"}
    scripted.create("pods", make.pod("a", make.pod_spec(**where)))
    scripted.wait(5)
    first = scripted.events(kind="Pod")
    assert first[0] == 'Pulling image "nginx:1.25"' and first[2:] == [
        "Container created",
        "Container started",
    ]
    assert first[1].startswith('Successfully pulled image "nginx:1.25" in 1.')
    assert first[1].endswith(" including waiting). Image size: 12345 bytes.")
    scripted.create("pods", make.pod("b", make.pod_spec(**where)))
    scripted.wait(2)
    present = 'Container image "nginx:1.25" already present on machine and can be accessed by the pod'
    assert present in scripted.events("Pulled")
    event = next(e for e in scripted.list("events") if e["reason"] == "Created")
    assert event["involvedObject"]["fieldPath"] == "spec.containers{c}"
    assert event["source"] == {"component": "kubelet", "host": "node-1"}


def test_image_pull_backoff_and_recovery(scripted, make):
    scripted.create("pods", make.pod("p", make.pod_spec([make.container(image="missing:1")])))
    scripted.wait_for(lambda: _waiting(scripted, "p") == "ErrImagePull")
    scripted.wait_for(lambda: _waiting(scripted, "p") == "ImagePullBackOff")
    state = _state(scripted, "p")["state"]["waiting"]
    assert state["message"] == 'Back-off pulling image "missing:1": ErrImagePull: missing:1: not found'
    assert scripted.get("pods", "p")["status"]["phase"] == "Pending"
    assert {"Error: ErrImagePull", "Error: ImagePullBackOff", 'Back-off pulling image "missing:1"',
            'Failed to pull image "missing:1": missing:1: not found'} <= set(scripted.events())  # fmt: skip
    scripted.wait(300)
    pulls = next(e for e in scripted.list("events") if e["reason"] == "Pulling")["count"]
    assert 4 <= pulls <= 7  # 10, 20, 40, 80, 160 s
    scripted.set_image("p", "nginx:1.26")
    scripted.wait(5)
    assert scripted.get("pods", "p")["status"]["phase"] == "Running"


def test_never_pull(scripted, make):
    scripted.create("pods", make.pod("p", make.pod_spec([make.container(imagePullPolicy="Never")])))
    scripted.wait(3)
    assert _waiting(scripted, "p") == "ErrImageNeverPull"


def test_missing_config_map_key_then_present(scripted, make):
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cfg", "key": "a"}}}]
    scripted.create("pods", make.pod("p", make.pod_spec([make.container(env=env)])))
    scripted.wait(5)
    assert _state(scripted, "p")["state"]["waiting"] == {
        "reason": "CreateContainerConfigError", "message": 'configmap "cfg" not found',
    }  # fmt: skip
    assert 'Error: configmap "cfg" not found' in scripted.events("Failed")
    scripted.create("configmaps", {"metadata": {"name": "cfg"}, "data": {"b": "1"}})
    scripted.wait(20)
    assert _state(scripted, "p")["state"]["waiting"]["message"] == "couldn't find key a in ConfigMap shop/cfg"
    scripted.patch("configmaps", "cfg", {"data": {"a": "1"}})
    scripted.wait(20)
    assert _ready(scripted, "p") and scripted.world.started[-1].env["A"] == "1"


def test_missing_volume_keeps_creating_and_says_why(scripted, make):
    volume = {"name": "v", "configMap": {"name": "cfg"}}
    mount = [{"name": "v", "mountPath": "/etc/app"}]
    scripted.create("pods", make.pod("p", make.pod_spec([make.container(volumeMounts=mount)], volumes=[volume])))
    scripted.wait(5)
    assert _waiting(scripted, "p") == "ContainerCreating"
    assert scripted.events("FailedMount") == ['MountVolume.SetUp failed for volume "v" : configmap "cfg" not found']
    scripted.create("configmaps", {"metadata": {"name": "cfg"}, "data": {"a.conf": "x=1"}})
    scripted.wait(30)
    assert scripted.world.started[0].files["/etc/app/a.conf"] == "x=1"


def test_environment_and_files_are_resolved(scripted, make):
    scripted.create("secrets", {"metadata": {"name": "s"}, "data": {"k": base64.b64encode(b"hush").decode()}})
    scripted.create("configmaps", {"metadata": {"name": "cfg"}, "data": {"X": "1"}})
    scripted.create("services", {"metadata": {"name": "my-db"}, "spec": {"ports": [{"name": "sql", "port": 5432}]}})
    env = [
        {"name": "PLAIN", "value": "v"},
        {"name": "EXPANDED", "value": "$(PLAIN)-$(NOPE)-$$(PLAIN)"},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        {"name": "GONE", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k", "optional": True}}},
    ]
    one = make.container(
        env=env, envFrom=[{"prefix": "P_", "configMapRef": {"name": "cfg"}}], command=["run"],
        args=["--to=$(PLAIN)"],
        resources={"limits": {"memory": "64Mi", "cpu": "500m"}},
    )  # fmt: skip
    scripted.create("pods", make.pod("p", make.pod_spec([one]), labels={"app": "x"}))
    scripted.wait(5)
    (spec,) = scripted.world.started
    pod = scripted.get("pods", "p")
    wanted = {
        "PLAIN": "v", "EXPANDED": "v-$(NOPE)-$(PLAIN)", "SECRET": "hush", "IP": pod["status"]["podIP"],
        "LABEL": "x",
        "LIMIT": "64", "P_X": "1", "HOSTNAME": "p", "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "MY_DB_SERVICE_PORT": "5432", "MY_DB_SERVICE_PORT_SQL": "5432",
    }  # fmt: skip
    assert wanted.items() <= spec.env.items() and "GONE" not in spec.env
    assert spec.env["MY_DB_PORT"] == f"tcp://{spec.env['MY_DB_SERVICE_HOST']}:5432"
    assert spec.command == ("run", "--to=v")
    assert (spec.cpu_limit_cores, spec.memory_limit_bytes) == (0.5, 64 * 2**20)
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert spec.files[f"{account}/namespace"] == "shop" and spec.files[f"{account}/ca.crt"] == "CA"
    assert spec.files[f"{account}/token"]


def test_changed_config_map_reaches_the_files_within_90_seconds(scripted, make):
    scripted.create("configmaps", {"metadata": {"name": "cfg"}, "data": {"a": "1"}})
    volume = {"name": "v", "configMap": {"name": "cfg"}}
    mounts = [{"name": "v", "mountPath": "/c"}, {"name": "v", "mountPath": "/one", "subPath": "a"}]
    scripted.create("pods", make.pod("p", make.pod_spec([make.container(volumeMounts=mounts)], volumes=[volume])))
    scripted.wait(5)
    assert scripted.world.started[0].files["/one"] == "1"
    scripted.patch("configmaps", "cfg", {"data": {"a": "2"}})
    scripted.wait(55)
    assert scripted.world.refreshed == []
    scripted.wait(40)
    ((pod, files),) = scripted.world.refreshed
    assert pod == "p" and files["/c/a"] == "2" and "/one" not in files


def test_crash_loop_timings(scripted, make):
    command = make.container(command=["sh", "-c", "exit 3"])
    scripted.create("pods", make.pod("p", make.pod_spec([command])))
    scripted.wait_for(lambda: _waiting(scripted, "p") == "CrashLoopBackOff")
    entry, uid = _state(scripted, "p"), scripted.get("pods", "p")["metadata"]["uid"]
    assert entry["state"]["waiting"]["message"] == f"back-off 10s restarting failed container=c pod=p_shop({uid})"
    assert (
        entry["lastState"]["terminated"]["exitCode"] == 3 and entry["lastState"]["terminated"]["reason"] == "Error"
    )
    assert entry["restartCount"] == 1 and not entry["ready"] and not entry["started"]
    assert f"Back-off restarting failed container c in pod p_shop({uid})" in scripted.events("BackOff")
    assert scripted.get("pods", "p")["status"]["phase"] == "Running"
    starts = []
    scripted.world.on_start = lambda spec: starts.append(scripted.kernel.now) or StartResult(0.0, 3)
    scripted.wait(700)
    gaps = [round(after - before) for before, after in pairwise(starts)]
    assert all(abs(gap - wanted) <= 1 for gap, wanted in zip(gaps, [20, 40, 80, 160, 300], strict=False))


def test_long_run_resets_the_crash_backoff():
    backoff = Backoff()
    at = 0.0
    for wanted in (0.0, 10.0, 20.0, 40.0):
        assert backoff.waiting_until(at) - at == wanted
        backoff.next(at)
    assert backoff.waiting_until(at + 601) == at + 601
    backoff.next(at + 601)
    assert backoff.delay_s == 10.0


@pytest.mark.parametrize(
    ("command", "policy", "end"),
    [
        (["true"], "Never", ("Succeeded", "Completed", 0)),
        (["true"], "OnFailure", ("Succeeded", "Completed", 0)),
        (["sh", "-c", "exit 7"], "Never", ("Failed", "Error", 7)),
    ],
)
def test_pods_that_end(bare, make, command, policy, end):
    phase, *ended = end
    bare.create("pods", make.pod("p", make.pod_spec([make.container(command=command)], restartPolicy=policy)))
    bare.wait(3)
    assert bare.get("pods", "p")["status"]["phase"] == phase
    state = _state(bare, "p")["state"]["terminated"]
    assert [state["reason"], state["exitCode"]] == ended
    wanted = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    assert bare.conditions("pods", "p") == [
        ("PodReadyToStartContainers", "False", ""),
        ("Initialized", "True", ""),
        ("Ready", "False", wanted),
        ("ContainersReady", "False", wanted),
        ("PodScheduled", "True", ""),
    ]


def test_one_of_two_containers_ends_under_never(bare, make):
    both = [make.container("a"), make.container("b", command=["true"])]
    bare.create("pods", make.pod("p", make.pod_spec(both, restartPolicy="Never")))
    bare.wait(3)
    assert bare.get("pods", "p")["status"]["phase"] == "Running" and not _ready(bare, "p")


def test_start_error(scripted, make):
    scripted.world.on_start = lambda spec: StartResult(error='exec: "nope": executable file not found in $PATH')
    scripted.create("pods", make.pod("p"))
    scripted.wait_for(lambda: _waiting(scripted, "p") == "CrashLoopBackOff")
    ended = _state(scripted, "p")["lastState"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
    assert any("executable file not found" in text for text in scripted.events("Failed"))


def test_oom_kill_reported_by_the_world(scripted, make):
    scripted.create("pods", make.pod("p"))
    scripted.wait(5)
    scripted.world.pending_exits = [ContainerExit(scripted.world.started[0].ref, 137, "OOMKilled")]
    scripted.wait(10)
    entry = _state(scripted, "p")
    assert entry["lastState"]["terminated"]["reason"] == "OOMKilled" and entry["restartCount"] == 1
    assert "running" in entry["state"]
    assert [spec.ref.attempt for spec in scripted.world.started] == [0, 1]


# Probes ---------------------------------------------------------------------------------------------------


def test_readiness_follows_the_probe_with_its_thresholds(scripted, make):
    answers = {"ok": True}
    text = 'Get "http://10.244.1.5:8080/": dial tcp 10.244.1.5:8080: connect: connection refused'
    seen = []

    def answer(ref, probe, now):
        seen.append(probe["httpGet"]["port"])
        return ProbeResult(answers["ok"], text)

    scripted.world.answer = answer
    one = make.container(ports=PORT, readinessProbe={**HTTP, "periodSeconds": 5, "successThreshold": 2})
    scripted.create("pods", make.pod("p", make.pod_spec([one])))
    scripted.wait(4)
    assert scripted.get("pods", "p")["status"]["phase"] == "Running" and not _ready(scripted, "p")
    scripted.wait(2)
    assert _ready(scripted, "p") and set(seen) == {8080}
    answers["ok"] = False
    scripted.wait(11)
    assert _ready(scripted, "p")
    scripted.wait(5)
    assert not _ready(scripted, "p")
    assert scripted.events("Unhealthy") == [f"Readiness probe failed: {text}"]
    answers["ok"] = True
    scripted.wait(11)
    assert _ready(scripted, "p")


def test_initial_delay(scripted, make):
    one = make.container(ports=PORT, readinessProbe={**HTTP, "initialDelaySeconds": 20})
    scripted.create("pods", make.pod("p", make.pod_spec([one])))
    scripted.wait(20)
    assert scripted.world.probe_calls == 0
    scripted.wait(12)
    assert _ready(scripted, "p")


def test_liveness_failure_restarts_the_container(scripted, make):
    sick = {"on": False}
    scripted.world.answer = lambda ref, probe, now: ProbeResult(
        not sick["on"], "HTTP probe failed with statuscode: 500"
    )
    scripted.world.stop_answer = (3.0, 137)
    scripted.create("pods", make.pod("p", make.pod_spec([make.container(ports=PORT, livenessProbe=HTTP)])))
    scripted.wait(5)
    sick["on"] = True
    scripted.wait_for(lambda: scripted.events("Killing"))
    sick["on"] = False
    assert scripted.events("Killing") == ["Container c failed liveness probe, will be restarted"]
    unhealthy = next(e for e in scripted.list("events") if e["reason"] == "Unhealthy")
    assert unhealthy["message"] == "Liveness probe failed: HTTP probe failed with statuscode: 500"
    assert unhealthy["count"] == 3
    scripted.wait(6)
    entry = _state(scripted, "p")
    assert entry["restartCount"] == 1 and "running" in entry["state"]
    assert entry["lastState"]["terminated"]["exitCode"] == 137
    scripted.wait(60)
    assert _state(scripted, "p")["restartCount"] == 1


def test_startup_probe_holds_the_others_back(scripted, make):
    kinds = []
    up = {"ok": False}

    def answer(ref, probe, now):
        kinds.append("startup" if probe.get("failureThreshold") == 30 else "other")
        return ProbeResult(up["ok"], "no")

    scripted.world.answer = answer
    startup = {**HTTP, "periodSeconds": 2, "failureThreshold": 30}
    one = make.container(ports=PORT, startupProbe=startup, readinessProbe=HTTP, livenessProbe=HTTP)
    scripted.create("pods", make.pod("p", make.pod_spec([one])))
    scripted.wait(20)
    assert set(kinds) == {"startup"} and not _state(scripted, "p")["started"]
    up["ok"] = True
    scripted.wait(4)
    assert _state(scripted, "p")["started"] and _ready(scripted, "p")
    before = len([kind for kind in kinds if kind == "startup"])
    scripted.wait(20)
    assert len([kind for kind in kinds if kind == "startup"]) == before


def test_steady_probes_write_nothing(scripted, make):
    probes = {"readinessProbe": HTTP, "livenessProbe": HTTP}
    spec = make.pod_spec([make.container(ports=PORT, **probes)])
    scripted.create("apps/deployments", make.workload("web", 5, spec))
    scripted.wait(60)
    revisions = [pod["metadata"]["resourceVersion"] for pod in scripted.list("pods")]
    calls = scripted.world.probe_calls
    scripted.wait(300)
    assert scripted.world.probe_calls - calls == 5 * 2 * 30
    assert [pod["metadata"]["resourceVersion"] for pod in scripted.list("pods")] == revisions


# Init containers, sidecars, ends ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ("Foo", ": repository name (library/Foo) must be lowercase"),
        ("team/App:1", ": repository name (team/App) must be lowercase"),
        ("a:::b", ""),
        ("web:", ""),
    ],
)
def test_a_name_that_is_no_image(scripted, make, image: str, why: str):
    scripted.create("pods", make.pod("p", make.pod_spec([make.container(image=image)])))
    scripted.wait(3)
    text = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": '
    assert _waiting(scripted, "p") == "InvalidImageName"
    assert scripted.events("InspectFailed") == [f"{text}invalid reference format{why}"]
    assert "Error: InvalidImageName" in scripted.events("Failed")


@pytest.mark.parametrize("image", ["a", "a/b:1", "reg.io:5000/a/b-c:v1.2", "A.io/b", "a@sha256:" + "0" * 64])
def test_names_of_images(image: str):
    assert wrong_reference(image) == ""


def test_run_as_non_root(scripted, make):
    spec = make.pod_spec([make.container(image="root/app", securityContext={"runAsNonRoot": True})])
    scripted.create("pods", make.pod("p", spec))
    scripted.wait(5)
    assert _waiting(scripted, "p") == "CreateContainerConfigError"
    (event,) = set(scripted.events("Failed"))
    assert event.startswith('Error: container has runAsNonRoot and image will run as root (pod: "p_')
    allowed = make.container(image="root/app", securityContext={"runAsNonRoot": True, "runAsUser": 7})
    scripted.create("pods", make.pod("q", make.pod_spec([allowed])))
    scripted.wait(5)
    assert scripted.get("pods", "q")["status"]["phase"] == "Running"


def test_last_words_of_a_failed_container(scripted, make):
    scripted.world.logs = lambda ref, query: [LogLine(0.0, "boom"), LogLine(0.0, "gone")]
    failing = make.container(command=["false"], terminationMessagePolicy="FallbackToLogsOnError")
    scripted.create("pods", make.pod("p", make.pod_spec([failing], restartPolicy="Never")))
    scripted.wait(5)
    state = scripted.get("pods", "p")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["message"]) == (1, "boom\ngone\n")
