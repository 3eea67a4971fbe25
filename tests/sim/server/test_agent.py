"""What an agent's identity sees, what it cannot reach, and what is written down about it."""

from __future__ import annotations

import asyncio
import json

import pytest

from aiopslab.sim.server.policy import shift_times

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def agent(client, api, options):
    """Headers of an agent: a ServiceAccount of the lab's namespace that may read everything here."""
    api.create("namespaces", "", {"metadata": {"name": "lab-system"}}, options)
    api.create("serviceaccounts", "lab-system", {"metadata": {"name": "oncall"}}, options)
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "oncall"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "oncall", "namespace": "lab-system"}],
    }
    api.create(f"{group}/rolebindings", "default", binding, options)
    _, answer, _ = await client("POST", "/api/v1/namespaces/lab-system/serviceaccounts/oncall/token", {})
    return {"Authorization": f"Bearer {answer['status']['token']}"}


async def test_hidden_groups(client, api, options, agent):
    names = {"plural": "networkchaos", "kind": "NetworkChaos"}
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    spec = {"group": "chaos-mesh.org", "scope": "Namespaced", "names": names, "versions": [version]}
    crds = "apiextensions.k8s.io/customresourcedefinitions"
    api.create(crds, "", {"metadata": {"name": "networkchaos.chaos-mesh.org"}, "spec": spec}, options)
    for path in ("/apis", "/openapi/v3", "/"):
        assert "chaos-mesh" in json.dumps((await client("GET", path))[1])
        assert "chaos-mesh" not in json.dumps((await client("GET", path, **agent))[1])
    for path in (
        "/apis/chaos-mesh.org",
        "/apis/chaos-mesh.org/v1alpha1",
        "/openapi/v3/apis/chaos-mesh.org/v1alpha1",
    ):
        assert (await client("GET", path))[0] == 200
        assert (await client("GET", path, **agent))[:2] == (404, "404 page not found\n")
    path = "/apis/chaos-mesh.org/v1alpha1/networkchaos"
    assert (await client("GET", path))[0] == 200
    code, status, _ = await client("GET", path, **agent)
    unknown, same, _ = await client("GET", path.replace("chaos-mesh", "nothing"), **agent)
    assert code == unknown == 403
    assert status["message"] == same["message"].replace("nothing", "chaos-mesh")


async def test_agents_are_counted_and_listed(client, agent):
    response = await client.http.get(f"{CONFIG_MAPS}?watch=true", headers={**agent, "User-Agent": "kubectl/v1"})
    assert client.activity.as_dict() == {"in_flight": 1, "streams": 1, "serial": 1}
    await client("GET", "/api/v1/nodes", **agent)
    response.close()
    while client.activity.in_flight:
        await asyncio.sleep(0.01)
    entries = client.activity.since(0)
    assert [(e["n"], e["verb"], e["code"]) for e in entries] == [(1, "list", 403), (2, "watch", 200)] or len(
        entries
    ) == 2
    assert entries[-1]["user"] == "system:serviceaccount:lab-system:oncall"
    await client("GET", CONFIG_MAPS)
    assert len(client.activity.audit) == 2


async def test_times_are_shifted_for_client_side_ages(client, agent):
    path = f"{CONFIG_MAPS}/kube-root-ca.crt"
    plain = (await client("GET", path, **agent))[1]["metadata"]["creationTimestamp"]
    described = (await client("GET", path, Kubectl_Command="kubectl describe", **agent))[1]["metadata"]
    admin = (await client("GET", path, Kubectl_Command="kubectl describe"))[1]["metadata"]["creationTimestamp"]
    assert plain == admin == "2025-06-02T09:00:00Z" and described["creationTimestamp"] == "2025-06-13T22:46:40Z"


def test_only_whole_times_are_shifted():
    body = b'{"a":"2025-06-02T09:00:00Z","b":"2025-06-02T09:00:00.123456Z","c":"at 2025-06-02T09:00:00Z"}'
    assert shift_times(body, 60.0) == (
        b'{"a":"2025-06-02T09:01:00Z","b":"2025-06-02T09:01:00.123456Z","c":"at 2025-06-02T09:00:00Z"}'
    )


METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "get": "GET"}


def paths_of(kind, namespace):
    """Every path and method of a kind: collection, object, subresources."""
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    where = f"{base}/namespaces/{namespace}/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
    yield "GET", f"{base}/{kind.plural}"
    for method in ("GET", "POST", "DELETE"):
        yield method, where
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        yield method, f"{where}/x"
    for sub in kind.subresources:
        for verb in sub.verbs:
            yield METHODS[verb], f"{where}/x/{sub.name}"


@pytest.mark.parametrize("namespace", ["lab-system", "kube-system"])
async def test_every_path_outside_is_closed(client, api, agent, namespace):
    before = api.store.revision
    reviews = {"SelfSubjectAccessReview", "SelfSubjectRulesReview", "SelfSubjectReview"}
    for kind in api.kinds.served():
        if kind.kind in reviews:
            continue
        for method, path in paths_of(kind, namespace):
            code, _, _ = await client(method, path, {} if method != "GET" else None, **agent)
            assert code in (403, 404), (method, path, code)
    assert api.store.revision == before
