"""Watches, logs, exec, metrics."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import WSMsgType

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


async def test_followed_logs_begin_with_what_comes(client, make):
    await running_pod(client, make)
    response = await client.http.get(f"{PODS}/p/log?follow=true&tailLines=0", headers=HEADERS)
    await asyncio.sleep(0.1)
    client.cluster.kernel.advance(client.cluster.kernel.now + 1.5)
    assert await asyncio.wait_for(response.content.readline(), 2) == b"line 11\n"
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
    assert code == 400 and status["message"] == "pod p does not have a host assigned"
