"""What clients get from the Kubernetes API of a bare embedded cluster with 100 pods, as a table or JSON.

Beside each figure stands what a Kubernetes 1.36 control plane (API server, etcd, controllers in four processes)
gave on two cores of another machine of this kind: it is not measured in the same run, because none is
shipped. The Python client shares the cores with the cluster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubernetes import client, config, watch

from aiopslab.kube.tools import Tools

PODS = 100
CALLS = 300
LISTS = 20
EVENTS = 50
COMMANDS = 10
NAMESPACE = "default"
# The same measurements of Kubernetes 1.36.2.
REAL = {
    "GET pod, per s": 874.0,
    "GET pod without models, per s": 655.0,
    "LIST 100 pods, per s": 58.0,
    "LIST 100 pods without models, per s": 155.0,
    "PATCH label, per s": 276.0,
    "create and delete ConfigMap, pairs per s": 305.0,
    "create to watch event, ms": 4.8,
    "kubectl get pods, ms": 63.0,
    "kubectl apply of an unchanged Deployment, ms": 100.0,
}


def manifest() -> dict[str, Any]:
    """A Deployment of as many pods as are listed."""
    labels = {"app": "bench"}
    spec = {"containers": [{"name": "c", "image": "nginx:1.25"}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"replicas": PODS, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "bench"}, "spec": body}


def per_second(call: Callable[[], Any], times: int) -> float:
    """Calls per second."""
    call()
    started = time.perf_counter()
    for _ in range(times):
        call()
    return times / (time.perf_counter() - started)


def python_client(kubeconfig: Path) -> dict[str, float]:
    """Figures of the official client, synchronous, one connection."""
    with config.new_client_from_config(str(kubeconfig)) as http:
        core = client.CoreV1Api(http)
        client.AppsV1Api(http).create_namespaced_deployment(NAMESPACE, manifest())
        while sum(p.status.phase == "Running" for p in core.list_namespaced_pod(NAMESPACE).items) < PODS:
            time.sleep(0.5)
        name = core.list_namespaced_pod(NAMESPACE, limit=1).items[0].metadata.name
        turn = iter(range(10**6))

        def pair() -> None:
            one = f"m{next(turn)}"
            core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": one}})
            core.delete_namespaced_config_map(one, NAMESPACE)

        def patch() -> None:
            body = {"metadata": {"labels": {"turn": str(next(turn))}}}
            core.patch_namespaced_pod(name, NAMESPACE, body)

        return {
            "GET pod, per s": per_second(lambda: core.read_namespaced_pod(name, NAMESPACE), CALLS),
            "GET pod without models, per s": per_second(
                lambda: core.read_namespaced_pod(name, NAMESPACE, _preload_content=False).data, CALLS
            ),
            "LIST 100 pods, per s": per_second(lambda: core.list_namespaced_pod(NAMESPACE), LISTS),
            "LIST 100 pods without models, per s": per_second(
                lambda: core.list_namespaced_pod(NAMESPACE, _preload_content=False).data, LISTS
            ),
            "PATCH label, per s": per_second(patch, CALLS),
            "create and delete ConfigMap, pairs per s": per_second(pair, CALLS),
            "create to watch event, ms": watched(core),
        }


def watched(core: Any) -> float:
    """Median milliseconds from a create to its event in another thread's watch."""
    version = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    seen: dict[str, float] = {}

    def follow() -> None:
        watching = watch.Watch()
        source = watching.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=version)
        for event in source:
            seen[event["object"].metadata.name] = time.perf_counter()
            if len(seen) == EVENTS:
                watching.stop()

    follower = threading.Thread(target=follow)
    follower.start()
    time.sleep(0.3)
    sent = {}
    for number in range(EVENTS):
        sent[f"w{number}"] = time.perf_counter()
        core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": f"w{number}"}})
        time.sleep(0.01)
    follower.join(30)
    return 1e3 * statistics.median(seen[name] - at for name, at in sent.items())


def kubectl(kubeconfig: Path, home: Path) -> dict[str, float]:
    """Median milliseconds of commands."""
    file = home / "deployment.json"
    file.write_text(json.dumps(manifest()))
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(home)}
    program = str(Tools.find().kubectl)
    commands = {
        "kubectl get pods, ms": ["get", "pods"],
        "kubectl apply of an unchanged Deployment, ms": ["apply", "-f", str(file)],
        "kubectl describe deployment, ms": ["describe", "deployment", "bench"],
        "kubectl version --client, ms": ["version", "--client"],
    }
    figures = {}
    for name, words in commands.items():
        took = []
        for _ in range(COMMANDS):
            started = time.perf_counter()
            subprocess.run([program, *words], env=environment, capture_output=True, check=True)
            took.append(1e3 * (time.perf_counter() - started))
        figures[name] = statistics.median(took)
    return figures


def measure() -> dict[str, float]:
    """All figures, on a cluster of its own."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        command = [
            sys.executable,
            "-m",
            "aiopslab.sim",
            "--dir",
            folder,
            "--seed",
            "7",
            "--clock",
            "wall",
            "--bare",
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stdout is not None
            state = json.loads(process.stdout.readline())
            try:
                path = Path(state["kubeconfig"])
                return python_client(path) | kubectl(path, home)
            finally:
                process.stdin.close()
                process.wait(10)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    figures = measure()
    if as_json:
        print(json.dumps({"clients": figures, "real": REAL}))
        return 0
    print(f"{'':46}{'here':>10}{'1.36.2':>10}")
    for name, value in figures.items():
        real = f"{REAL[name]:10.1f}" if name in REAL else ""
        print(f"{name:46}{value:10.1f}{real}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
