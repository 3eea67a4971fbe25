"""The API on the wire: negotiation, status codes, paging, patches, discovery, subresources."""

from __future__ import annotations

import asyncio
import json

import pytest
import yaml

from aiopslab.sim.server.app import SERVER

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "message"),
    [
        ("GET", f"{CONFIG_MAPS}/nope", None, 404, 'configmaps "nope" not found'),
        ("GET", f"{CONFIG_MAPS}?limit=abc", None, 400, 'strconv.ParseInt: parsing "abc": invalid syntax'),
        (
            "POST",
            CONFIG_MAPS,
            "{bad",
            400,
            "invalid character 'b' looking for beginning of object key string ({bad)",
        ),
        ("POST", CONFIG_MAPS, "[1]", 400, "json: cannot unmarshal array into Go value"),
        (
            "POST",
            CONFIG_MAPS,
            {"kind": "Secret", "apiVersion": "v1"},
            400,
            "converting (v1.Secret) to (core.ConfigMap)",
        ),
        ("POST", f"{CONFIG_MAPS}?dryRun=Some", {}, 422, 'dryRun: Unsupported value: ["Some"]'),
        (
            "PUT",
            f"{DEPLOYMENTS}/x",
            {"spec": {"replicas": "x"}},
            400,
            "cannot unmarshal string into Go struct field",
        ),
        ("DELETE", CONFIG_MAPS + "/x?propagationPolicy=Odd", None, 422, 'Unsupported value: "Odd"'),
        ("PATCH", f"{CONFIG_MAPS}/x", {}, 415, "415: Unsupported Media Type"),
        ("GET", "/api/v1/namespaces/default/finalize", None, 405, "does not allow this method"),
        ("PUT", CONFIG_MAPS, {}, 405, "the server does not allow this method on the requested resource"),
        ("GET", "/api/v1/nope", None, 404, ""),
        ("GET", "/nope", None, 404, "the server could not find the requested resource"),
    ],
)
async def test_refusals(client, method, path, body, code, message):
    revision = client.cluster.kernel.store.revision
    found, answer, _ = await client(method, path, body)
    assert found == code
    if isinstance(answer, dict):
        assert answer["status"] == "Failure" and answer["code"] == code and message in answer["message"]
    assert client.cluster.kernel.store.revision == revision


async def test_media_types(client, make):
    body = yaml.safe_dump(make.config_map())
    code, created, _ = await client("POST", CONFIG_MAPS, body, Content_Type="application/yaml")
    assert code == 201 and created["data"] == {"a": "1"}
    code, text, headers = await client("GET", f"{CONFIG_MAPS}/m", Accept="application/yaml")
    assert headers["Content-Type"] == "application/yaml" and yaml.safe_load(text)["data"] == {"a": "1"}
    assert (await client("GET", CONFIG_MAPS, Accept="text/csv"))[0] == 406
    assert (await client("POST", CONFIG_MAPS, "a", Content_Type="text/csv"))[0] == 415
    _, table, _ = await client("GET", CONFIG_MAPS, Accept=TABLE)
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert table["rows"][-1]["object"]["kind"] == "PartialObjectMetadata" and table["metadata"]["resourceVersion"]
    partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    _, listed, _ = await client("GET", CONFIG_MAPS, Accept=partial)
    assert listed["kind"] == "PartialObjectMetadataList" and "data" not in listed["items"][0]


async def test_pages(client, make):
    for name in "abcde":
        await client("POST", CONFIG_MAPS, make.config_map(name))
    seen, token = [], ""
    while True:
        _, page, _ = await client("GET", f"{CONFIG_MAPS}?limit=2&continue={token}")
        seen += [o["metadata"]["name"] for o in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert seen == ["a", "b", "c", "d", "e", "kube-root-ca.crt"]
    assert (await client("GET", f"{CONFIG_MAPS}?continue=nonsense"))[0] == 400


async def test_list_items_have_no_kind(client, make):
    await client("POST", CONFIG_MAPS, make.config_map())
    _, listed, _ = await client("GET", CONFIG_MAPS)
    assert listed["kind"] == "ConfigMapList" and "kind" not in listed["items"][0]


@pytest.mark.parametrize(
    ("content_type", "patch", "replicas"),
    [
        ("application/merge-patch+json", {"spec": {"replicas": 3}}, 3),
        ("application/strategic-merge-patch+json", {"spec": {"replicas": 4}}, 4),
        ("application/json-patch+json", [{"op": "replace", "path": "/spec/replicas", "value": 5}], 5),
    ],
)
async def test_patches(client, make, content_type, patch, replicas):
    await client("POST", DEPLOYMENTS, make.deployment())
    code, patched, _ = await client("PATCH", f"{DEPLOYMENTS}/web", patch, Content_Type=content_type)
    assert code == 200 and patched["spec"]["replicas"] == replicas


async def test_a_patch_cannot_change_the_kind(client, make):
    await client("POST", CONFIG_MAPS, make.config_map())
    for media, expected in (("merge-patch", 422), ("strategic-merge-patch", 200)):
        how = {"Content_Type": f"application/{media}+json"}
        code, answer, _ = await client("PATCH", f"{CONFIG_MAPS}/m", {"kind": "Secret"}, **how)
        assert code == expected
    assert answer["kind"] == "ConfigMap"


async def test_server_side_apply_creates_and_then_changes(client, make):
    how = {"Content_Type": "application/apply-patch+yaml"}
    path = f"{CONFIG_MAPS}/m?fieldManager=one"
    assert (await client("PATCH", path, make.config_map(), **how))[0] == 201
    assert (await client("PATCH", path, make.config_map(a="2"), **how))[0] == 200
    code, refused, _ = await client("PATCH", f"{CONFIG_MAPS}/m", make.config_map(), **how)
    assert code == 422 and "is required for apply patch" in refused["message"]


@pytest.mark.parametrize(
    ("mode", "code", "warned"), [("Strict", 400, False), ("Warn", 201, True), ("Ignore", 201, False)]
)
async def test_field_validation(client, make, mode, code, warned):
    body = {**make.deployment(), "nope": 1}
    found, answer, headers = await client("POST", f"{DEPLOYMENTS}?fieldValidation={mode}", body)
    assert found == code and ("Warning" in headers) is warned and "nope" not in answer
    twice = '{"kind":"ConfigMap","metadata":{"name":"d"},"data":{"a":"1","a":"2"}}'
    assert (await client("POST", f"{CONFIG_MAPS}?fieldValidation={mode}", twice))[0] == code


TWICE_YAML = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\n  name: m\ndata:\n  a: '1'\n  a: '2'\n"
NAMED, VALUED = 'line 5: key "name" already set in map', 'line 8: key "a" already set in map'
TWICE = [
    ("POST application/yaml", TWICE_YAML, [NAMED, VALUED], 'ConfigMap in version "v1" cannot be handled as a '
     f"ConfigMap: strict decoding error: yaml: unmarshal errors:\n  {NAMED}\n  {VALUED}"),
    ("PATCH application/apply-patch+yaml", TWICE_YAML, [NAMED, VALUED], "error strict decoding YAML: error "
     f"converting YAML to JSON: yaml: unmarshal errors:\n  {NAMED}\n  {VALUED}"),
    ("PATCH application/merge-patch+json", b'{"data":{"b":"1","b":"2"}}', ['duplicate field "data.b"'],
     'strict decoding error: duplicate field "data.b"'),
]  # fmt: skip


@pytest.mark.parametrize(("request_line", "body", "warnings", "refusal"), TWICE)
async def test_keys_that_a_text_gives_twice(client, make, request_line, body, warnings, refusal):
    method, content_type = request_line.split()
    if "merge" in content_type:
        await client("POST", CONFIG_MAPS, make.config_map())
    path = f"{CONFIG_MAPS}/m" if method == "PATCH" else CONFIG_MAPS
    for mode, codes in (("Strict", (400, 422)), ("Ignore", (200, 201)), ("Warn", (200, 201))):
        query = f"?fieldValidation={mode}&fieldManager=t&dryRun=All"
        code, answer, headers = await client(method, path + query, body, Content_Type=content_type)
        assert code in codes
        if mode == "Strict":
            assert answer["message"].endswith(refusal)
        expected = warnings if mode == "Warn" else []
        quoted = ["299 - " + json.dumps(text) for text in expected]
        assert headers.getall("Warning", []) == quoted


async def test_a_server_that_ends_ends_its_watches(client):
    sent = {"Authorization": "Bearer admin-token"}
    async with client.http.get(f"{CONFIG_MAPS}?watch=true", headers=sent) as response:
        await response.content.readline()
        client.http.server.app[SERVER].close()
        assert await asyncio.wait_for(response.content.read(), 10) is not None


async def test_answers_to_delete(client, make):
    await client("POST", CONFIG_MAPS, make.config_map())
    _, status, _ = await client("DELETE", f"{CONFIG_MAPS}/m")
    assert status["status"] == "Success" and status["details"]["name"] == "m" and "uid" in status["details"]
    await client("POST", PODS, make.pod())
    assert (await client("DELETE", f"{PODS}/p"))[1]["kind"] == "Pod"
    for name in "ab":
        await client("POST", CONFIG_MAPS, make.config_map(name))
    _, listed, _ = await client("DELETE", f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Da")
    assert [o["metadata"]["name"] for o in listed["items"]] == ["a"]


async def test_discovery_in_both_forms(client):
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    _, groups, headers = await client("GET", "/apis", Accept=aggregated)
    assert "as=APIGroupDiscoveryList" in headers["Content-Type"]
    apps = next(g for g in groups["items"] if g["metadata"]["name"] == "apps")
    listed = {r["resource"] for r in apps["versions"][0]["resources"]}
    _, legacy, _ = await client("GET", "/apis/apps/v1")
    assert listed == {r["name"] for r in legacy["resources"] if "/" not in r["name"]}
    _, core, _ = await client("GET", "/api/v1")
    exec_ = next(r for r in core["resources"] if r["name"] == "pods/exec")
    assert exec_["kind"] == "PodExecOptions" and exec_["verbs"] == ["create", "get"]
    assert (await client("GET", "/version"))[1]["gitVersion"] == "v1.36.2"
    _, index, _ = await client("GET", "/openapi/v3")
    assert "apis/apps/v1" in index["paths"]


async def test_scale(client, make):
    await client("POST", DEPLOYMENTS, make.deployment(replicas=2))
    _, scale, _ = await client("GET", f"{DEPLOYMENTS}/web/scale")
    assert scale["spec"] == {"replicas": 2} and scale["status"]["selector"] == "app=web"
    scale["spec"]["replicas"] = 0
    assert (await client("PUT", f"{DEPLOYMENTS}/web/scale", scale))[1]["spec"] == {}
    bad = {"metadata": {"name": "web"}, "spec": {"replicas": -1}}
    assert (await client("PUT", f"{DEPLOYMENTS}/web/scale", bad))[0] == 422


async def test_eviction_and_binding(client, make):
    await client("POST", PODS, make.pod())
    target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node-1"}}
    assert (await client("POST", f"{PODS}/p/binding", target))[0] == 201
    assert (await client("POST", f"{PODS}/p/binding", target))[0] == 409
    client.cluster.kernel.advance(client.cluster.kernel.now + 5)
    assert (await client("GET", f"{PODS}/p"))[1]["status"]["phase"] == "Running"
    evict = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert (await client("POST", f"{PODS}/p/eviction", evict))[0] == 201
    assert "deletionTimestamp" in (await client("GET", f"{PODS}/p"))[1]["metadata"]


async def test_events_are_one_storage_with_two_faces(client, make, api, options):
    involved = api.create("configmaps", "default", make.config_map(), options)
    api.event(involved, "Normal", "Reason", "text", "tester")
    _, old, _ = await client("GET", "/api/v1/namespaces/default/events?fieldSelector=reason%3DReason")
    _, new, _ = await client("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
    mine = next(e for e in new["items"] if e["note"] == "text")
    assert old["items"][0]["message"] == "text" and mine["regarding"]["name"] == "m"
    path = f"/apis/events.k8s.io/v1/namespaces/default/events/{mine['metadata']['name']}"
    labels = {"metadata": {"labels": {"a": "b"}}}
    code, patched, _ = await client("PATCH", path, labels, Content_Type="application/merge-patch+json")
    assert code == 200 and patched["note"] == "text" and patched["metadata"]["labels"] == {"a": "b"}
    test = [{"op": "test", "path": "/note", "value": "text"}]
    assert (await client("PATCH", path, test, Content_Type="application/json-patch+json"))[0] == 200


async def test_health_by_check(client):
    code, body, _ = await client("GET", "/readyz?verbose")
    assert code == 200 and "[+]etcd ok" in body and body.endswith("readyz check passed\n")
    assert (await client("GET", "/livez/ping"))[1] == "ok"
    assert (await client("GET", "/readyz/nothing"))[0] == 404


async def test_a_signing_request_says_who_made_it(client):
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    spec = {"request": "eA==", "signerName": "example.com/x", "usages": ["client auth"], "username": "someone-else"}
    code, made, _ = await client("POST", path, {"metadata": {"name": "r"}, "spec": spec})
    assert code == 201 and made["spec"]["username"] == "kubernetes-admin"
    code, table, _ = await client("GET", path, Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table["rows"][0]["cells"][2:] == ["example.com/x", "kubernetes-admin", "<none>", "Pending"]
