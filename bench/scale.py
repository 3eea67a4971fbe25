"""A large cluster: what it costs to fill, list, watch and roll, as a table or as JSON (``--json``).

Virtual kubelets serve all nodes; the server and its clients share one process and one machine, so client times
include the server's. Figures are wall time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from aiopslab.kube.tools import Tools
from aiopslab.sim.assemble import Assembly, assemble
from aiopslab.sim.core.bootstrap import NodePlan, create_node
from aiopslab.sim.core.options import WriteOptions
from aiopslab.sim.core.store import Key
from aiopslab.sim.server.app import build_app, serve
from aiopslab.sim.server.auth import ADMIN
from aiopslab.sim.server.kubeconfig import kubeconfig, write_private
from aiopslab.sim.server.tls import make_tls

START = 1_748_854_800.0
BARE_NODES = 3
REPLICAS = 50
WATCHERS = 50
CLIENTS = 8
CALLS = 25
PODS_PATH = "/api/v1/namespaces/default/pods"
OPTIONS = WriteOptions("bench")


def deployment(name: str) -> dict[str, Any]:
    """A Deployment of small pods."""
    labels = {"app": name}
    container = {"name": "c", "image": "nginx:1.25", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def large_cluster(nodes: int) -> Assembly:
    """A bare cluster with more nodes."""
    cluster = assemble(7, START, bare=True)
    for number in range(BARE_NODES + 1, nodes + 1):
        create_node(cluster.api, NodePlan(f"node-{number}", number, {}, detailed=False))
    cluster.kernel.settle()
    return cluster


def fill(cluster: Assembly, pods: int) -> float:
    """Start pods; seconds until all are ready."""
    started = time.perf_counter()
    for number in range(pods // REPLICAS):
        cluster.api.create("apps/deployments", "default", deployment(f"d{number:03d}"), OPTIONS)
        cluster.kernel.settle()
    cluster.kernel.advance(cluster.kernel.now + 20)
    took_s = time.perf_counter() - started
    listed = cluster.api.list("apps/deployments", "default")
    ready = sum((d.get("status") or {}).get("readyReplicas", 0) for d in listed)
    if ready != pods // REPLICAS * REPLICAS:
        raise SystemExit(f"only {ready} of {pods} pods are ready")
    return took_s


def roll(cluster: Assembly) -> float:
    """Replace the pods of one Deployment; seconds."""
    key = Key("apps/deployments", "default", "d000")
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:1.27"}]
    started = time.perf_counter()
    cluster.api.patch(key.resource, key.namespace, key.name, "json", image, OPTIONS)
    cluster.kernel.advance(cluster.kernel.now + 120)
    status = cluster.api.get(*key)["status"]
    if status.get("updatedReplicas") != REPLICAS or status.get("readyReplicas") != REPLICAS:
        raise SystemExit(f"the rollout did not finish: {status}")
    return time.perf_counter() - started


async def over_http(cluster: Assembly, folder: Path) -> dict[str, float]:
    """Figures of clients."""
    tls = make_tls()
    runner, port = await serve(build_app(cluster.api, cluster.world, {"token": ADMIN}), tls.context, 0)
    url = f"https://127.0.0.1:{port}"
    write_private(folder / "config", kubeconfig(url, tls.ca_pem, "token"))
    headers = {"Authorization": "Bearer token"}
    connector = aiohttp.TCPConnector(ssl=False, limit=0)
    try:
        async with aiohttp.ClientSession(url, headers=headers, connector=connector) as http:
            figures = await lists(http)
            figures |= await watches(http)
            figures |= await parallel(http)
        figures |= await kubectl(folder)
    finally:
        await runner.cleanup()
    return figures


async def lists(http: aiohttp.ClientSession) -> dict[str, float]:
    """Whole list, first page, one pod, selected by label."""
    paths = {
        "list of all pods, s": PODS_PATH,
        "page of 500 pods, s": f"{PODS_PATH}?limit=500",
        "pods of one Deployment by label, s": f"{PODS_PATH}?labelSelector=app%3Dd001",
        "pods of one node by field, s": f"{PODS_PATH}?fieldSelector=spec.nodeName%3Dnode-1",
    }
    return {name: await get(http, path) for name, path in paths.items()}


async def get(http: aiohttp.ClientSession, path: str) -> float:
    """Seconds of the second of two GETs."""
    took_s = 0.0
    for _ in range(2):
        started = time.perf_counter()
        async with http.get(path) as response:
            await response.read()
        took_s = time.perf_counter() - started
    return took_s


async def watches(http: aiohttp.ClientSession) -> dict[str, float]:
    """How long a change takes to reach the last of many watchers of all pods."""
    async with http.get(f"{PODS_PATH}?limit=1") as response:
        listed = await response.json()
    version, name = listed["metadata"]["resourceVersion"], listed["items"][0]["metadata"]["name"]
    opened = [await http.get(f"{PODS_PATH}?watch=true&resourceVersion={version}") for _ in range(WATCHERS)]
    started = time.perf_counter()
    patch = {"metadata": {"annotations": {"seen": "1"}}}
    merge = {"Content-Type": "application/merge-patch+json"}
    async with http.patch(f"{PODS_PATH}/{name}", json=patch, headers=merge) as response:
        await response.read()
    await asyncio.gather(*(one.content.readline() for one in opened))
    took_s = time.perf_counter() - started
    for one in opened:
        one.close()
    return {f"change reaches {WATCHERS} watchers, s": took_s}


async def parallel(http: aiohttp.ClientSession) -> dict[str, float]:
    """Several clients that create, change and delete."""

    async def use(number: int) -> None:
        for turn in range(CALLS):
            name = f"c{number}-{turn}"
            path = "/api/v1/namespaces/default/configmaps"
            for method, at in (("POST", path), ("PUT", f"{path}/{name}"), ("DELETE", f"{path}/{name}")):
                async with http.request(method, at, json={"metadata": {"name": name}}) as response:
                    await response.read()

    started = time.perf_counter()
    await asyncio.gather(*(use(n) for n in range(CLIENTS)))
    return {f"writes of {CLIENTS} clients, per s": CLIENTS * CALLS * 3 / (time.perf_counter() - started)}


async def kubectl(folder: Path) -> dict[str, float]:
    """kubectl on the whole."""
    environment = {**os.environ, "KUBECONFIG": str(folder / "config"), "HOME": str(folder)}
    commands = {"kubectl get pods, s": ["get", "pods"], "kubectl get nodes, s": ["get", "nodes"]}
    figures = {}
    for name, words in commands.items():
        run = [str(Tools.find().kubectl), *words]
        for _ in range(2):
            started = time.perf_counter()
            await asyncio.to_thread(subprocess.run, run, env=environment, capture_output=True, check=True)
            figures[name] = time.perf_counter() - started
    return figures


def measure(nodes: int, pods: int) -> dict[str, float]:
    """All figures."""
    cluster = large_cluster(nodes)
    filling_s = fill(cluster, pods)
    figures = {"start of all pods, s": filling_s, "per pod until Ready, ms": 1e3 * filling_s / pods}
    with tempfile.TemporaryDirectory() as folder:
        figures |= asyncio.run(over_http(cluster, Path(folder)))
    figures[f"rollout of {REPLICAS} pods, s"] = roll(cluster)
    started = time.perf_counter()
    cluster.kernel.advance(cluster.kernel.now + 60)
    figures["an idle minute, s"] = time.perf_counter() - started
    figures["peak memory, MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = measure(arguments.nodes, arguments.pods)
    if arguments.json:
        print(json.dumps({"scale": figures}))
        return 0
    print(f"{arguments.nodes} nodes, {arguments.pods} pods")
    for name, value in figures.items():
        print(f"  {name:42}{value:10.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
