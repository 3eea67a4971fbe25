"""Services to EndpointSlices and Endpoints."""

from __future__ import annotations

from aiopslab.sim.core.store import Key

SLICES = "discovery.k8s.io/endpointslices"


def _service(name: str, target, **spec) -> dict:
    port = {"port": 80, "targetPort": target}
    return {"metadata": {"name": name}, "spec": {"selector": {"app": "web"}, "ports": [port], **spec}}


def _web(make, name: str, port: int, **fields) -> dict:
    one = make.container(ports=[{"name": "http", "containerPort": port}])
    return make.pod(name, make.pod_spec([one], **fields), labels={"app": "web"})


def _slices(cluster, service: str) -> list[dict]:
    label = "kubernetes.io/service-name"
    return [one for one in cluster.list(SLICES) if one["metadata"]["labels"].get(label) == service]


def test_named_port_with_two_numbers_makes_two_slices(bare, make):
    bare.create("services", _service("web", "http"))
    for name, port in (("a", 8080), ("b", 9090)):
        bare.create("pods", _web(make, name, port))
    bare.wait(3)
    found = {one["ports"][0]["port"]: one["endpoints"] for one in _slices(bare, "web")}
    assert sorted(found) == [8080, 9090]
    (endpoint,) = found[8080]
    pod = bare.get("pods", "a")
    assert endpoint == {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "nodeName": pod["spec"]["nodeName"],
        "targetRef": {"kind": "Pod", "name": "a", "namespace": "shop", "uid": pod["metadata"]["uid"]},
    }


def test_unknown_named_port_gives_endpoints_without_port(bare, make):
    bare.create("services", _service("web", "nosuch"))
    bare.create("pods", _web(make, "a", 8080))
    bare.wait(3)
    (one,) = _slices(bare, "web")
    assert one["ports"] is None and one["endpoints"][0]["conditions"]["ready"]
    assert "subsets" not in bare.get("endpoints", "web")


def test_empty_selector_match(bare):
    bare.create("services", _service("web", 8080))
    (one,) = _slices(bare, "web")
    assert (one["ports"], one["endpoints"]) == (None, None)
    assert one["metadata"]["name"].startswith("web-") and one["metadata"]["generateName"] == "web-"
    assert one["metadata"]["labels"] == {
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "kubernetes.io/service-name": "web",
    }


def test_target_port_change_reaches_slice_and_endpoints(bare, make):
    bare.create("services", _service("web", 8080))
    bare.create("pods", _web(make, "a", 8080))
    bare.wait(3)
    name = _slices(bare, "web")[0]["metadata"]["name"]
    bare.patch("services", "web", {"spec": {"ports": [{"port": 80, "targetPort": 9999}]}})
    (one,) = _slices(bare, "web")
    assert one["metadata"]["name"] == name
    assert one["ports"] == [{"name": "", "protocol": "TCP", "port": 9999}]
    assert bare.get("endpoints", "web")["subsets"][0]["ports"] == [{"port": 9999, "protocol": "TCP"}]


def test_unready_pod_stays_listed_and_can_be_published(bare, make):
    bare.create("services", _service("web", 8080))
    bare.create("pods", _web(make, "a", 8080, readinessGates=[{"conditionType": "x.io/gate"}]))
    bare.wait(3)
    conditions = _slices(bare, "web")[0]["endpoints"][0]["conditions"]
    assert conditions == {"ready": False, "serving": False, "terminating": False}
    subset = bare.get("endpoints", "web")["subsets"][0]
    assert "addresses" not in subset and subset["notReadyAddresses"][0]["targetRef"]["name"] == "a"
    bare.patch("services", "web", {"spec": {"publishNotReadyAddresses": True}})
    conditions = _slices(bare, "web")[0]["endpoints"][0]["conditions"]
    assert conditions == {"ready": True, "serving": False, "terminating": False}


def test_terminating_pod(scripted, make):
    scripted.world.stop_answer = (10.0, 143)
    scripted.create("services", _service("web", 8080))
    scripted.create("pods", _web(make, "a", 8080))
    scripted.wait(5)
    scripted.delete("pods", "a")
    conditions = _slices(scripted, "web")[0]["endpoints"][0]["conditions"]
    assert conditions == {"ready": False, "serving": True, "terminating": True}
    assert "subsets" not in scripted.get("endpoints", "web")
    scripted.wait(12)
    assert _slices(scripted, "web")[0]["endpoints"] is None


def test_label_that_stops_matching_removes_the_endpoint(bare, make):
    bare.create("services", _service("web", 8080))
    bare.create("pods", _web(make, "a", 8080))
    bare.wait(3)
    bare.patch("pods", "a", {"metadata": {"labels": {"app": "off"}}})
    assert _slices(bare, "web")[0]["endpoints"] is None


def test_deleted_service_takes_its_products_with_it(bare, make):
    bare.create("services", _service("web", 8080))
    bare.delete("services", "web")
    assert _slices(bare, "web") == [] and bare.find("endpoints", "web") is None


def test_headless_label(bare):
    bare.create("services", _service("web", 8080, clusterIP="None"))
    assert _slices(bare, "web")[0]["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


def test_hand_made_endpoints_are_mirrored(bare):
    bare.create("services", {"metadata": {"name": "ext"}, "spec": {"ports": [{"port": 80}]}})
    subsets = [{"addresses": [{"ip": "192.0.2.10"}], "ports": [{"port": 80}]}]
    bare.create("endpoints", {"metadata": {"name": "ext"}, "subsets": subsets})
    (one,) = _slices(bare, "ext")
    assert one["endpoints"] == [{"addresses": ["192.0.2.10"], "conditions": {"ready": True}}]
    assert one["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    bare.delete("endpoints", "ext")
    assert _slices(bare, "ext") == []


def test_more_than_a_hundred_endpoints(make):
    cluster = make.cluster(make.world())
    cluster.create("services", _service("web", 8080))
    for number in (1, 2, 3):
        status = cluster.get("nodes", f"node-{number}", namespace="")["status"]
        room = {**status, "allocatable": {**status["allocatable"], "pods": "250"}}
        cluster.api.put_status(Key("nodes", "", f"node-{number}"), room, "test")
    cluster.create("apps/replicasets", make.workload("web", 130))
    cluster.wait(60)  # every container that asks while the first pull runs pulls after it
    sizes = sorted(len(one["endpoints"]) for one in _slices(cluster, "web"))
    assert sum(sizes) == 130 and max(sizes) <= 100
