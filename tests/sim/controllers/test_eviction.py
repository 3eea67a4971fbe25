"""Evictions: storage limits, node pressure, and what a node refuses; statistics are the test's, or the world's."""

from __future__ import annotations

import pytest

from aiopslab.sim.assemble import Plan, equip, make_core
from aiopslab.sim.core.kernel import parse_time
from aiopslab.sim.core.options import WriteOptions
from aiopslab.sim.core.ports import ContainerRef, ContainerUse, NodeUse
from aiopslab.sim.core.store import Key
from aiopslab.sim.world import chaos
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.world import SimWorld

MIB, GIB = 1 << 20, 1 << 30
NODE = "node-1"


class Statistics:
    """What the node's statistics say; one container per pod, named like its pod."""

    def __init__(self, cluster) -> None:
        self.cluster = cluster
        self.memory_available, self.disk_available = 4 * GIB, 50 * GIB
        self.uses: dict[str, ContainerUse] = {}
        self.volumes: dict[tuple[str, str], int] = {}  # by pod and volume
        cluster.world.node_use = self.read

    def read(self, node: str, now: float) -> NodeUse:
        specs = {spec.ref.pod: spec for spec in self.cluster.world.started if spec.node == node}
        containers = {specs[pod].ref: use for pod, use in self.uses.items() if pod in specs}
        volumes = {(specs[p].ref.pod_uid, v): size for (p, v), size in self.volumes.items() if p in specs}
        return NodeUse(8 * GIB, self.memory_available, 100 * GIB, self.disk_available, containers, volumes)


@pytest.fixture
def node(scripted, make):
    """A cluster whose pods all go to one node, with statistics."""
    scripted.stats = Statistics(scripted)
    scripted.world.stop_answer = (60.0, 143)

    def add(name: str, **spec) -> None:
        own = {k: spec.pop(k) for k in ("resources", "volumeMounts") if k in spec}
        scripted.create("pods", make.pod(name, make.pod_spec([make.container(name, **own)], nodeName=NODE, **spec)))

    scripted.add = add
    return scripted


def _storage(limit: str) -> dict:
    return {"limits": {"ephemeral-storage": limit}}


def _outcome(cluster, pod: str) -> tuple:
    status = cluster.get("pods", pod)["status"]
    return status["phase"], status.get("reason"), status.get("message")


@pytest.mark.parametrize(
    ("spec", "use", "volume", "message"),
    [
        ({"resources": _storage("100Mi")}, ContainerUse(0, 99 * MIB, 2 * MIB), 0,
         "Pod ephemeral local storage usage exceeds the total limit of containers 100Mi. "),
        ({"resources": _storage("100Mi")}, ContainerUse(0, 99 * MIB, MIB), 0, None),
        ({"resources": _storage("1G"), "sizeLimit": "1024Mi"}, ContainerUse(0, 0, 0), 1025 * MIB,
         'Usage of EmptyDir volume "v" exceeds the limit "1Gi". '),
        ({"sizeLimit": "1Gi"}, ContainerUse(0, 0, 0), GIB, None),
        ({"resources": _storage("1Gi")}, ContainerUse(0, 0, 0), 2 * GIB,
         "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "),
    ],
)  # fmt: skip
def test_storage_limits(node, spec, use, volume, message):
    empty = {"sizeLimit": spec.pop("sizeLimit")} if "sizeLimit" in spec else {}
    node.add("p", volumes=[{"name": "v", "emptyDir": empty}], **spec)
    node.wait(5)
    node.stats.uses["p"], node.stats.volumes[("p", "v")] = use, volume
    node.wait(20)
    assert _outcome(node, "p") == (("Failed", "Evicted", message) if message else ("Running", None, None))
    assert node.events("Evicted") == ([message] if message else [])
    if message:  # limits are not disruptions: only pressure sets DisruptionTarget
        assert node.conditions("pods", "p")[0] == ("PodReadyToStartContainers", "False", "")
        ended = node.get("pods", "p")["status"]["containerStatuses"][0]["state"]["terminated"]
        assert ended["exitCode"] == 143 and "Stopping container p" in node.events("Killing")


def test_one_container_over_its_own_limit(node, make):
    two = [make.container(name, resources=_storage(size)) for name, size in (("a", "50Mi"), ("b", "1Gi"))]
    node.create("pods", make.pod("p", make.pod_spec(two, nodeName=NODE)))
    node.wait(5)
    uid = node.get("pods", "p")["metadata"]["uid"]
    use = node.stats.read(NODE, 0.0)
    use.containers = {ContainerRef("shop", "p", uid, "a", 0): ContainerUse(0, 60 * MIB, 0)}
    node.world.node_use = lambda name, now: use
    node.wait(15)
    assert _outcome(node, "p")[2] == 'Container a exceeded its local ephemeral storage limit "50Mi". '


def test_failed_when_the_containers_have_ended_and_replaced(node, make):
    spec = make.pod_spec([make.container("web", resources=_storage("1Mi"))], nodeName=NODE)
    node.create("apps/replicasets", make.workload("web", 1, spec))
    node.wait(5)
    first = node.list("pods")[0]["metadata"]["name"]
    node.stats.uses[first] = ContainerUse(0, 2 * MIB, 0)
    node.wait_for(lambda: node.events("Evicted"))
    assert node.phases() == {first: "Running"}  # two seconds of grace, whatever the pod says
    node.wait(4)
    phases = node.phases()
    assert phases.pop(first) == "Failed" and list(phases.values()) == ["Running"]
    assert node.world.forgotten == [node.get("pods", first)["metadata"]["uid"]]  # its containers are removed


def test_memory_pressure(node):
    request = {"requests": {"memory": "200Mi"}}
    node.add("keeps", resources={"requests": {"memory": "1Gi"}})
    node.add("above", resources=request)
    node.add("more", resources=request)
    node.add("vital", priorityClassName="system-node-critical")
    node.wait(5)
    node.stats.uses = {
        "keeps": ContainerUse(900 * MIB, 0, 0),
        "above": ContainerUse(300 * MIB, 0, 0),
        "more": ContainerUse(400 * MIB + 4096, 0, 0),
        "vital": ContainerUse(4 * GIB, 0, 0),
    }
    node.stats.memory_available = 96 * MIB
    node.wait_for(lambda: node.events("Evicted"))
    node.stats.memory_available = GIB
    node.wait(10)
    message = (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 96Mi. "
        "Container more was using 409604Ki, request is 200Mi, has larger consumption of memory. "
    )
    assert _outcome(node, "more") == ("Failed", "Evicted", message)
    assert [pod for pod, phase in node.phases().items() if phase == "Failed"] == ["more"]
    target = node.get("pods", "more")["status"]["conditions"][0]
    assert (target["type"], target["status"], target["reason"]) == ("DisruptionTarget", "True", "TerminationByKubelet")
    assert target["message"] == message
    event = next(e for e in node.list("events") if e["reason"] == "Evicted")
    assert event["type"] == "Warning" and event["metadata"]["annotations"] == {
        "offending_containers": "more", "offending_containers_usage": "409604Ki", "starved_resource": "memory",
    }  # fmt: skip
    about = [(e["type"], e["reason"], e["message"]) for e in node.list("events", "default")
             if e["source"].get("component") == "kubelet"]  # fmt: skip
    assert about == [
        ("Warning", "EvictionThresholdMet", "Attempting to reclaim memory"),
        ("Normal", "NodeHasInsufficientMemory", f"Node {NODE} status is now: NodeHasInsufficientMemory"),
    ]


def test_a_node_under_pressure_is_tainted_and_takes_no_best_effort_pods(node):
    node.add("first")
    node.wait(5)
    node.stats.memory_available = 0
    node.wait(25)
    node.stats.memory_available = 4 * GIB
    pressed = node.get("nodes", NODE, namespace="")
    assert pressed["spec"]["taints"][0]["key"] == "node.kubernetes.io/memory-pressure"
    entry = pressed["status"]["conditions"][0]
    assert (entry["status"], entry["reason"], entry["message"]) == (
        "True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available",
    )  # fmt: skip
    since = parse_time(entry["lastTransitionTime"])
    node.add("second")
    text = "The node had condition: [MemoryPressure]. "
    assert _outcome(node, "second") == ("Failed", "Evicted", f"Pod was rejected: {text}")
    assert text in node.events("Evicted") and "containerStatuses" not in node.get("pods", "second")["status"]
    node.add("third", resources={"requests": {"memory": "1Mi"}})
    node.add("fourth", tolerations=[{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}])
    node.wait(5)
    assert node.phases()["third"] == node.phases()["fourth"] == "Running"
    node.wait_for(lambda: "taints" not in node.get("nodes", NODE, namespace="")["spec"], most_s=400)
    assert 300 <= node.kernel.now - since <= 330  # the transition period, and the status syncs of ten seconds
    assert node.get("nodes", NODE, namespace="")["status"]["conditions"][0]["reason"] == "KubeletHasSufficientMemory"


def test_disk_pressure_removes_unused_images_first(node, make):
    node.add("keeps")
    node.create("pods", make.pod("gone", make.pod_spec([make.container(image="big:1")], nodeName=NODE)))
    node.wait(5)
    node.delete("pods", "gone", grace_s=0)
    node.wait(15)
    names = [image["names"][1] for image in node.get("nodes", NODE, namespace="")["status"]["images"]]
    assert sorted(names) == ["docker.io/library/big:1", "docker.io/library/nginx:1.25"]
    node.stats.disk_available = 15 * GIB - 12345  # what one image takes
    node.wait_for(lambda: "EvictionThresholdMet" in [e["reason"] for e in node.list("events", "default")])
    node.stats.disk_available = 50 * GIB
    node.wait(15)
    images = node.get("nodes", NODE, namespace="")["status"]["images"]
    assert [image["names"][1] for image in images] == ["docker.io/library/nginx:1.25"]
    assert node.phases() == {"keeps": "Running"}
    node.stats.disk_available = 9 * GIB
    node.stats.uses["keeps"] = ContainerUse(0, 2 * MIB, MIB)
    node.wait(15)
    assert _outcome(node, "keeps")[2] == (
        "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi. "
        "Container keeps was using 3Mi, request is 0, has larger consumption of ephemeral-storage. "
    )
    entry = node.get("nodes", NODE, namespace="")["status"]["conditions"][1]
    assert (entry["type"], entry["reason"]) == ("DiskPressure", "KubeletHasDiskPressure")


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        ({"resources": {"requests": {"memory": "9Gi", "cpu": "100m"}}}, "OutOfmemory",
         "Node didn't have enough resource: memory, requested: 9663676416, used: 0, capacity: 8589934592"),
        ({"nodeSelector": {"disk": "fast"}}, "NodeAffinity",
         "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"),
    ],
)  # fmt: skip
def test_refusals(node, spec, reason, message):
    node.add("p", **spec)
    assert _outcome(node, "p") == ("Failed", reason, f"Pod was rejected: {message}")
    assert node.events(reason) == [message]


def test_more_refusals(node, make):
    ports = [{"containerPort": 80, "hostPort": 8080}]
    for name in ("a", "b"):
        spec = make.pod_spec([make.container(name, ports=ports)], nodeName=NODE)
        node.create("pods", make.pod(name, spec))
    assert _outcome(node, "b")[:2] == ("Failed", "NodePorts")
    obj = node.get("nodes", NODE, namespace="")
    full = {**obj["status"], "allocatable": {**obj["status"]["allocatable"], "pods": "1"}}
    node.api.put_status(Key("nodes", "", NODE), full, "test")
    node.add("c")
    assert _outcome(node, "c")[1:] == (
        "OutOfpods",
        "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1",
    )
    taint = {"key": "k", "value": "v", "effect": "NoExecute"}
    node.api.put(Key("nodes", "", "node-2"), {**node.get("nodes", "node-2", ""), "spec": {"taints": [taint]}}, "test")
    node.create("pods", make.pod("d", make.pod_spec(nodeName="node-2")))
    assert _outcome(node, "d")[:2] == ("Failed", "TaintToleration")


def test_deadline_of_a_pod_that_never_started(node):
    node.world.images.seconds = 60.0
    node.add("p", activeDeadlineSeconds=10)
    node.wait(12)
    text = "Pod was active on the node longer than the specified deadline"
    assert _outcome(node, "p") == ("Failed", "DeadlineExceeded", text)
    assert node.get("pods", "p")["status"]["containerStatuses"][0]["state"] == {"terminated": {
        "exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None,
        "message": "The container could not be located when the pod was terminated",
    }}  # fmt: skip
    node.wait(90)
    assert not node.world.started and node.events("DeadlineExceeded") == [text]


# With the simulated world -----------------------------------------------------------------------------------


class Site:
    """Three plain nodes whose containers the world simulates."""

    def __init__(self) -> None:
        self.kernel, self.api = make_core(7, 1748854800.0)
        self.world = SimWorld(self.kernel, self.kernel.store, Programs(), 7)
        equip(self.kernel, self.api, self.world, Plan(bare=True, workers=1))
        chaos.install(self.kernel, self.api, self.world)
        for name in ("shop", "chaos-mesh"):
            self.create("namespaces", "", {"metadata": {"name": name}})

    def create(self, resource: str, namespace: str, body: dict) -> None:
        self.api.create(resource, namespace, body, WriteOptions("test"))
        self.kernel.settle()

    def pod(self, name: str, script: str, empty: dict) -> ContainerRef:
        mounts = [{"name": "v", "mountPath": "/data"}]
        shell = {"name": "c", "image": "busybox:1.37", "command": ["sh", "-c", script], "volumeMounts": mounts}
        spec = {"nodeName": NODE, "containers": [shell], "volumes": [{"name": "v", "emptyDir": empty}]}
        self.create("pods", "shop", {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec})
        self.wait(8)
        return ContainerRef("shop", name, self.api.get("pods", "shop", name)["metadata"]["uid"], "c", 0)

    def run(self, ref: ContainerRef, command: str) -> tuple[str, int]:
        done = self.world.exec(ref, ["sh", "-c", command], b"", self.kernel.now)
        return (done.stdout + done.stderr).decode(), done.exit_code

    def status(self, name: str) -> dict:
        return self.api.get("pods", "shop", name)["status"]

    def wait(self, seconds: float) -> None:
        self.kernel.advance(self.kernel.now + seconds)


def test_a_script_that_fills_its_volume():
    site = Site()
    ref = site.pod("p", "dd if=/dev/zero of=/data/x bs=1M count=200; sleep 3600", {"sizeLimit": "250Mi"})
    site.wait(20)
    assert site.status("p")["phase"] == "Running"
    text, code = site.run(ref, "ls -l /data/x; du -sm /data; dd if=/dev/zero of=/data/y bs=1M count=60")
    assert code == 0 and "209715200 /data/x" in text and "201\t/data" in text
    assert "60+0 records in\n60+0 records out\n62914560 bytes (60.0MB) copied, " in text
    site.wait(20)
    status = site.status("p")
    assert status["message"] == 'Usage of EmptyDir volume "v" exceeds the limit "250Mi". '
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_a_volume_in_memory_is_full_at_its_limit():
    site = Site()
    ref = site.pod("p", "sleep 3600", {"medium": "Memory", "sizeLimit": "64Mi"})
    before = site.world.node_use(NODE, site.kernel.now)
    text, code = site.run(ref, "dd if=/dev/zero of=/data/x bs=1M count=100")
    assert code == 1 and "dd: error writing '/data/x': No space left on device\n65+0 records in\n64+0" in text
    after = site.world.node_use(NODE, site.kernel.now)
    assert before.memory_available - after.memory_available == 64 * MIB
    assert after.disk_available == before.disk_available
    site.wait(20)
    assert site.status("p")["phase"] == "Running"


def test_a_disk_that_a_command_fills():
    site = Site()
    ref = site.pod("p", "sleep 3600", {})
    text, code = site.run(ref, "dd if=/dev/zero of=/big bs=1M")
    assert code == 1 and "No space left on device" in text
    counters = site.world.counters(site.kernel.now)
    assert counters.nodes.stored_bytes[0] > 80 * GIB
    site.wait(30)
    assert site.status("p")["message"].startswith(
        "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 0. Container c was using"
    )


def test_stress_beyond_the_nodes_memory_leads_to_an_eviction():
    site = Site()
    site.pod("p", "sleep 3600", {})
    selector = {"namespaces": ["shop"], "labelSelectors": {"app": "p"}}
    stress = {"mode": "all", "selector": selector, "stressors": {"memory": {"workers": 1, "size": "9GB"}}}
    site.create("chaos-mesh.org/stresschaos", "chaos-mesh", {"metadata": {"name": "s"}, "spec": stress})
    site.wait(1)
    seen = site.world.counters(site.kernel.now)
    use = site.world.node_use(NODE, site.kernel.now)
    assert [c.memory for c in use.containers.values()] == seen.containers.memory_working_set_bytes.tolist()
    assert use.memory_available == seen.nodes.memory_available_bytes[0] == 0
    site.wait(20)
    status = site.status("p")
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert status["message"].startswith("The node was low on resource: memory. Threshold quantity: 100Mi, available: 0")
    assert site.world.node_use(NODE, site.kernel.now).memory_available > 7 * GIB
