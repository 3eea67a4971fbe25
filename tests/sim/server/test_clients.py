"""Real clients against the real listener: TLS, kubeconfig, kubectl, the Python client."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from kubernetes import client as k8s
from kubernetes import config, dynamic

from aiopslab.kube.tools import find_tool
from aiopslab.sim.server.app import build_app, serve
from aiopslab.sim.server.auth import ADMIN
from aiopslab.sim.server.kubeconfig import kubeconfig, write_private
from aiopslab.sim.server.tls import make_tls


@dataclass
class Served:
    """A cluster that listens. ``run`` starts kubectl without blocking the server."""

    kubeconfig: Path
    home: Path

    async def kubectl(self, *args: str, stdin: str = "") -> tuple[int, str, str]:
        """``(exit code, stdout, stderr)``."""
        program = find_tool("kubectl")
        if program is None:
            pytest.skip("no kubectl here")
        env = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home)}
        done = await asyncio.to_thread(
            subprocess.run, [str(program), *args], input=stdin, capture_output=True, text=True, env=env, timeout=30
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
async def served(cluster, tmp_path):
    """The cluster behind TLS on a free port, its clock running with the machine's."""
    tls = make_tls()
    app = build_app(cluster.api, cluster.world, {"token": ADMIN})
    runner, port = await serve(app, tls.context, 0)
    path = tmp_path / "config"
    write_private(path, kubeconfig(f"https://127.0.0.1:{port}", tls.ca_pem, "token"))
    assert path.stat().st_mode & 0o077 == 0

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.02)
            cluster.kernel.advance(cluster.kernel.now + 0.5)

    ticking = asyncio.ensure_future(tick())
    yield Served(path, tmp_path)
    ticking.cancel()
    for connection in list(runner.server.connections):  # a client that is still there would be waited for
        if connection.transport is not None:
            connection.transport.abort()
    await runner.cleanup()


async def test_kubectl(served, make):
    code, out, _ = await served.kubectl("create", "deployment", "web", "--image=nginx:1.25", "--replicas=2")
    assert (code, out) == (0, "deployment.apps/web created\n")
    code, out, _ = await served.kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    assert code == 0 and out.endswith('deployment "web" successfully rolled out\n')
    code, out, _ = await served.kubectl("get", "deploy,pods")
    assert code == 0 and "2/2" in out and out.count("Running") == 2
    code, out, err = await served.kubectl("exec", "deploy/web", "--", "exit", "7")
    assert code == 7 and "failed" in err
    code, out, _ = await served.kubectl("exec", "-i", "deploy/web", "--", "cat", stdin="hello")
    assert (code, out) == (0, "cat|hello")
    code, out, err = await served.kubectl("delete", "deployment", "web", "--timeout=20s")
    assert code == 0 and "deleted" in out
    code, _, err = await served.kubectl("get", "deployment", "web")
    assert (code, err) == (1, 'Error from server (NotFound): deployments.apps "web" not found\n')


async def test_kubectl_with_a_document_that_does_not_fit(served):
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\nnope: 1\n"
    code, _, err = await served.kubectl("apply", "-f", "-", stdin=text)
    assert code == 1 and 'strict decoding error: unknown field "nope"' in err


async def test_the_python_client(served):
    def use() -> None:
        with config.new_client_from_config(str(served.kubeconfig)) as http:
            core = k8s.CoreV1Api(http)
            body = {"metadata": {"name": "m"}, "data": {"a": "1"}}
            assert core.create_namespaced_config_map("default", body).metadata.uid
            assert core.patch_namespaced_config_map("m", "default", {"data": {"b": "2"}}).data == {
                "a": "1",
                "b": "2",
            }
            maps = dynamic.DynamicClient(http).resources.get(api_version="v1", kind="ConfigMap")
            applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}, "data": {"x": "y"}}
            made = maps.server_side_apply(applied, namespace="default", field_manager="tester")
            assert made.metadata.managedFields[0].operation == "Apply"
            assert [m.metadata.name for m in core.list_namespaced_config_map("default").items][-2:] == ["m", "n"]
            with pytest.raises(k8s.ApiException) as error:
                core.read_namespaced_config_map("nope", "default")
            assert error.value.status == 404
            http.rest_client.pool_manager.clear()

    await asyncio.to_thread(use)
