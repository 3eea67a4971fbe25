"""Clients that leave in the middle, and many at once: nothing stays behind, nobody waits long."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any

import pytest

from aiopslab.sim.server import spdy

MAPS = "/api/v1/namespaces/default/configmaps"
WATCHERS, WRITERS, WRITES = 50, 8, 10
PODS = "/api/v1/namespaces/default/pods"


async def test_fifty_watchers_and_eight_writers_miss_nothing(client, eventually):
    store = client.cluster.kernel.store
    listeners = len(store._listeners)
    version = store.revision

    async def watch() -> list[tuple[str, str]]:
        path = f"{MAPS}?watch=true&resourceVersion={version}&timeoutSeconds=30"
        seen = []
        async with client.http.get(path, headers=client.headers) as response:
            while len(seen) < WRITERS * WRITES:
                event = json.loads(await asyncio.wait_for(response.content.readline(), 20))
                seen.append((event["type"], event["object"]["metadata"]["name"]))
            response.close()
        return seen

    async def write(number: int) -> None:
        for turn in range(WRITES):
            code, _ = await client("POST", MAPS, {"metadata": {"name": f"w{number}-{turn}"}})
            assert code == 201

    watching = [asyncio.create_task(watch()) for _ in range(WATCHERS)]
    await eventually(lambda: len(store._listeners) == listeners + WATCHERS)
    await asyncio.gather(*(write(n) for n in range(WRITERS)))
    seen = await asyncio.gather(*watching)
    assert all(one == seen[0] for one in seen)
    assert sorted(seen[0]) == sorted(("ADDED", f"w{n}-{t}") for n in range(WRITERS) for t in range(WRITES))
    await eventually(lambda: len(store._listeners) == listeners)


async def test_parallel_updates_lose_nothing(client):
    await client("POST", MAPS, {"metadata": {"name": "count"}, "data": {"n": "0"}})

    async def add() -> None:
        for _ in range(WRITES):
            while True:
                _, obj = await client("GET", f"{MAPS}/count")
                obj["data"]["n"] = str(int(obj["data"]["n"]) + 1)
                code, _ = await client("PUT", f"{MAPS}/count", obj)
                if code == 200:
                    break
                assert code == 409

    await asyncio.wait_for(asyncio.gather(*(add() for _ in range(WRITERS))), 30)
    assert (await client("GET", f"{MAPS}/count"))[1]["data"]["n"] == str(WRITERS * WRITES)


async def running_pod(client: Any) -> None:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "nginx:1.25"}]}}
    assert (await client("POST", PODS, body))[0] == 201
    client.cluster.kernel.advance(client.cluster.kernel.now + 10)


@pytest.mark.parametrize("stream", ["exec?command=cat&stdin=true&stdout=true", "attach?stdout=true", "portforward"])
async def test_a_killed_stream_leaves_no_task(client, stream, eventually):
    await running_pod(client)
    protocols = (spdy_tunnel(),) if stream == "portforward" else ("v5.channel.k8s.io",)
    before = len(asyncio.all_tasks())
    socket = await client.http.ws_connect(f"{PODS}/p/{stream}", protocols=protocols, headers=client.headers)
    assert len(asyncio.all_tasks()) > before
    socket._response.connection.transport.abort()
    await eventually(lambda: len(asyncio.all_tasks()) <= before)


def spdy_tunnel() -> str:
    """The protocol of kubectl's port-forward."""
    return "SPDY/3.1+portforward.k8s.io"


@pytest.mark.parametrize(
    "message",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">HHI", 0x8003, spdy.SYN_STREAM, 14) + b"\0" * 14,
        struct.pack(">HHI", 0x8003, spdy.SYN_STREAM, 2) + b"\0" * 2,
        struct.pack(">HHI", 0x8002, spdy.PING, 4) + b"\0" * 4,
        struct.pack(">II", 0x80030001, 0xFFFFFF),
    ],
)
async def test_what_is_no_spdy_ends_the_tunnel(client, message):
    await running_pod(client)
    path = f"{PODS}/p/portforward"
    async with client.http.ws_connect(path, protocols=(spdy_tunnel(),), headers=client.headers) as socket:
        await socket.send_bytes(message)
        answer = await asyncio.wait_for(socket.receive(), 5)
        assert answer.data == 1002, answer
