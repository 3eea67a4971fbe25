"""Watches, logs, exec; what is counted and hidden for agents."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import WSMsgType

from aiopslab.sim.core.kinds import metrics_kinds
from aiopslab.sim.server.policy import shift_times

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
HEADERS = {"Authorization": "Bearer admin-token"}
INITIAL = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"


class Watching:
    """An open watch: ``next()`` gives the next event."""

    def __init__(self, response: Any) -> None:
        self._response = response

    async def next(self) -> tuple[str, Any]:
        """``(type, object)`` of the next event, or fail after two seconds."""
        line = await asyncio.wait_for(self._response.content.readline(), 2)
        event = json.loads(line)
        return event["type"], event["object"]


async def open_watch(client, query: str, path: str = CONFIG_MAPS):
    response = await client.http.get(f"{path}?{query}", headers=HEADERS)
    assert response.status == 200
    return response, Watching(response)


async def test_initial_events_then_changes(client, make):
    await client("POST", CONFIG_MAPS, make.config_map("a"))
    response, watching = await open_watch(client, INITIAL + "&fieldSelector=metadata.name%3Da")
    assert (await watching.next())[0] == "ADDED"
    kind, mark = await watching.next()
    assert kind == "BOOKMARK" and mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    await client("PATCH", f"{CONFIG_MAPS}/a", {"data": {"x": "y"}}, Content_Type="application/merge-patch+json")
    kind, changed = await watching.next()
    assert kind == "MODIFIED" and changed["data"]["x"] == "y"
    await client("DELETE", f"{CONFIG_MAPS}/a")
    assert (await watching.next())[0] == "DELETED"
    response.close()


async def test_replay_with_a_selector(client, make):
    _, listed, _ = await client("GET", CONFIG_MAPS)
    body = make.config_map("a")
    body["metadata"]["labels"] = {"w": "1"}
    await client("POST", CONFIG_MAPS, body)
    merge = {"Content_Type": "application/merge-patch+json"}
    await client("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"w": None}}}, **merge)
    version = listed["metadata"]["resourceVersion"]
    response, watching = await open_watch(client, f"watch=true&resourceVersion={version}&labelSelector=w%3D1")
    assert [(await watching.next())[0] for _ in range(2)] == ["ADDED", "DELETED"]
    response.close()


async def test_an_old_version_is_expired(client):
    response, watching = await open_watch(client, "watch=true&resourceVersion=1")
    kind, status = await watching.next()
    assert (
        kind == "ERROR" and status["code"] == 410 and status["message"].startswith("too old resource version: 1 (")
    )
    assert await response.content.read() == b""


async def test_a_watcher_that_leaves_frees_everything(client):
    store = client.cluster.kernel.store
    before = len(store._listeners)
    response, _ = await open_watch(client, "watch=true")
    assert len(store._listeners) == before + 1
    response.close()
    for _ in range(100):
        if len(store._listeners) == before:
            return
        await asyncio.sleep(0.01)
    pytest.fail("the watch is still subscribed")


async def test_a_watch_ends_after_its_timeout(client):
    response, _ = await open_watch(client, "watch=true&timeoutSeconds=1&resourceVersion=" +
                                   str(client.cluster.kernel.store.revision))  # fmt: skip
    assert await asyncio.wait_for(response.content.read(), 3) == b""


async def running_pod(client, make, **spec):
    await client("POST", PODS, make.pod(schedulerName="default-scheduler", **spec))
    client.cluster.kernel.advance(client.cluster.kernel.now + 10)
    assert (await client("GET", f"{PODS}/p"))[1]["status"]["phase"] == "Running"


async def test_logs(client, make):
    await running_pod(client, make)
    assert (await client("GET", f"{PODS}/p/log?tailLines=2"))[1] == "line 9\nline 10\n"
    assert (await client("GET", f"{PODS}/p/log?sinceSeconds=1&timestamps=true"))[1] == (
        "2025-06-02T09:00:09.000000000Z line 9\n2025-06-02T09:00:10.000000000Z line 10\n"
    )
    assert (await client("GET", f"{PODS}/p/log?limitBytes=3"))[1] == "lin"
    refusals = {
        "container=nope": (400, "container nope is not valid for pod p"),
        "previous=true": (400, 'previous terminated container "c" in pod "p" not found'),
        "tailLines=-1": (422, "must be greater than or equal to 0"),
        "sinceSeconds=0": (422, "must be greater than 0"),
    }
    for query, (code, message) in refusals.items():
        found, status, _ = await client("GET", f"{PODS}/p/log?{query}")
        assert found == code and message in status["message"]


async def test_followed_logs_see_time_pass(client, make):
    await running_pod(client, make)
    response = await client.http.get(f"{PODS}/p/log?follow=true&tailLines=1", headers=HEADERS)
    assert await response.content.readline() == b"line 10\n"
    client.cluster.kernel.advance(client.cluster.kernel.now + 2)
    assert [await asyncio.wait_for(response.content.readline(), 2) for _ in range(2)] == [
        b"line 11\n",
        b"line 12\n",
    ]
    response.close()


async def test_a_waiting_container_has_no_log(client, make):
    broken = [{"name": "c", "image": "invalid.example/x:1"}]
    await client("POST", PODS, make.pod(schedulerName="default-scheduler", containers=broken))
    client.cluster.kernel.advance(client.cluster.kernel.now + 30)
    code, status, _ = await client("GET", f"{PODS}/p/log")
    assert code == 400 and status["message"] == (
        'container "c" in pod "p" is waiting to start: trying and failing to pull image'
    )


async def execute(client, query: str, protocol: str = "v5.channel.k8s.io", stdin: bytes | None = None):
    path = f"{PODS}/p/exec?{query}&stdout=true&stderr=true"
    async with client.http.ws_connect(path, protocols=(protocol,), headers=HEADERS) as socket:
        if stdin is not None:
            await socket.send_bytes(b"\0" + stdin)
            if protocol.startswith("v5"):
                await socket.send_bytes(b"\xff\0")
        channels: dict[int, bytes] = {}
        async for message in socket:
            assert message.type is WSMsgType.BINARY
            channels[message.data[0]] = channels.get(message.data[0], b"") + message.data[1:]
        return channels.get(1, b""), channels.get(2, b""), json.loads(channels[3])


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_exec(client, make, protocol):
    await running_pod(client, make)
    out, _, status = await execute(client, "command=cat&command=-&stdin=true", protocol, b"hello")
    assert out == b"cat -|hello" and status["status"] == "Success"
    _, err, status = await execute(client, "command=exit&command=7", protocol)
    assert err == b"failed\n" and status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


async def test_exec_is_refused_before_it_starts(client, make):
    await client("POST", PODS, make.pod())
    code, status, _ = await client("POST", f"{PODS}/p/exec?command=x")
    assert code == 400 and status["message"] == "pod p does not have a host assigned"
    code, status, _ = await client("GET", f"{PODS}/p/portforward")
    assert code == 400 and "kubectl exec" in status["message"]


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
        "/apis/chaos-mesh.org/v1alpha1/networkchaos",
    ):
        assert (await client("GET", path))[0] == 200
        assert (await client("GET", path, **agent))[:2] == (404, "404 page not found\n")


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


async def test_metrics_of_pods_and_nodes(client, make, api):
    for kind in metrics_kinds():
        api.kinds.add(kind)
    await running_pod(client, make)
    _, pods, _ = await client("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods")
    assert pods["items"][0]["containers"] == [{"name": "c", "usage": {"cpu": "250000000n", "memory": "65536Ki"}}]
    _, nodes, _ = await client("GET", "/apis/metrics.k8s.io/v1beta1/nodes")
    assert len(nodes["items"]) == 3
