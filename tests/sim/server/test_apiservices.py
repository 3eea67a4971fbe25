"""APIServices: the server's own group versions, and metrics.k8s.io behind its Service."""

from __future__ import annotations

import pytest

from aiopslab.sim.core.apiservices import metrics_service
from aiopslab.sim.core.kinds import metrics_kinds

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
SYSTEM = "/api/v1/namespaces/kube-system/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
METRICS = "/apis/metrics.k8s.io/v1beta1"
AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
SERVICE = {"metadata": {"name": "metrics-server"}, "spec": {"ports": [{"name": "https", "port": 443}]}}
SLICE = {
    "metadata": {"name": "m", "labels": {"kubernetes.io/service-name": "metrics-server"}},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.244.1.9"], "conditions": {"ready": True}}],
    "ports": [{"name": "https", "port": 10250, "protocol": "TCP"}],
}


@pytest.fixture
async def metered(client, api):
    """A client of a cluster with a metrics server that answers."""
    for kind in metrics_kinds():
        api.kinds.add(kind)
    for path, body in ((SYSTEM, SERVICE), (SLICES, SLICE), (SERVICES, metrics_service())):
        assert (await client("POST", path, body))[0] == 201
    return client


async def condition(client):
    found = (await client("GET", f"{SERVICES}/v1beta1.metrics.k8s.io"))[1]["status"]["conditions"][0]
    return found["status"], found["reason"], found["message"]


async def freshness(client):
    _, found, _ = await client("GET", "/apis", **AGGREGATED)
    versions = {item["metadata"]["name"]: item["versions"] for item in found["items"]}
    return versions.get("metrics.k8s.io", [{}])[0].get("freshness")


async def test_every_served_group_version_is_registered(client):
    rows = (await client("GET", SERVICES, **TABLE))[1]["rows"]
    cells = {row["cells"][0]: row["cells"][1:3] for row in rows}
    assert {"v1.", "v1.apps", "v1.autoscaling", "v2.autoscaling", "v1.batch"} <= cells.keys()
    assert set(map(tuple, cells.values())) == {("Local", "True")}
    assert (await client("DELETE", f"{SERVICES}/v1.apps"))[0] == 200
    assert (await client("GET", f"{SERVICES}/v1.apps"))[0] == 200


async def test_metrics_of_pods_and_nodes(metered, make):
    pod = make.pod()
    del pod["spec"]["schedulerName"]
    await metered("POST", "/api/v1/namespaces/default/pods", pod)
    metered.cluster.kernel.advance(metered.cluster.kernel.now + 5)
    _, pods, _ = await metered("GET", f"{METRICS}/namespaces/default/pods")
    assert pods["items"][0]["containers"] == [{"name": "c", "usage": {"cpu": "250000000n", "memory": "65536Ki"}}]
    assert len((await metered("GET", f"{METRICS}/nodes"))[1]["items"]) == 3
    assert await condition(metered) == ("True", "Passed", "all checks passed")


async def test_metrics_need_their_server(metered):
    assert await freshness(metered) == "Current"
    unready = {**SLICE, "endpoints": [{"addresses": ["10.244.1.9"], "conditions": {"ready": False}}]}
    assert (await metered("PUT", f"{SLICES}/m", unready))[0] == 200
    where = 'service/metrics-server in "kube-system"'
    missing = f'endpoints for {where} have no addresses with port name "https"'
    assert await condition(metered) == ("False", "MissingEndpoints", missing)
    assert (await metered("GET", f"{METRICS}/nodes"))[:2] == (503, "service unavailable\n")
    assert await freshness(metered) == "Stale"
    await metered("DELETE", f"{SYSTEM}/metrics-server")
    assert await condition(metered) == ("False", "ServiceNotFound", f"{where} is not present")
    await metered("DELETE", f"{SERVICES}/v1beta1.metrics.k8s.io")
    assert (await metered("GET", f"{METRICS}/nodes"))[0] == 404
    assert await freshness(metered) is None


async def test_the_group_of_a_definition_comes_and_goes(client):
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    assert (await client("POST", path, {"metadata": {"name": "widgets.example.com"}, "spec": spec}))[0] == 201
    code, found, _ = await client("GET", f"{SERVICES}/v1.example.com")
    assert (code, found["metadata"]["labels"]) == (200, {"kube-aggregator.kubernetes.io/automanaged": "true"})
    await client("DELETE", f"{path}/widgets.example.com")
    assert (await client("GET", f"{SERVICES}/v1.example.com"))[0] == 404


async def test_names_follow_from_the_group_version(client):
    body = {**metrics_service(), "metadata": {"name": "metrics"}}
    code, status, _ = await client("POST", SERVICES, body)
    assert (code, status["message"]) == (
        422,
        'APIService.apiregistration.k8s.io "metrics" is invalid: metadata.name: Invalid value: "metrics": '
        'must be `spec.version+"."+spec.group`: "v1beta1.metrics.k8s.io"',
    )
