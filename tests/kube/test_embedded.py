"""The client and real Helm against the embedded API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aiopslab.cluster import ClusterOptions, open_cluster
from aiopslab.errors import ClusterError
from aiopslab.kube.client import Kube, KubeError
from aiopslab.kube.helm import Helm
from aiopslab.kube.tools import Tools

TEMPLATE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: {{ .Release.Namespace }}, labels: {app: web}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: server, image: "redis:alpine"}]}
"""


@pytest.fixture
async def kube() -> AsyncIterator[Kube]:
    """A client of a fresh cluster with a namespace ``shop``."""
    cluster = await open_cluster("embedded", ClusterOptions(seed=5, bare=True)).up()
    try:
        async with Kube(cluster.info.kubeconfig) as client:
            await client.create("namespaces", "", {"metadata": {"name": "shop"}})
            yield client
    finally:
        await cluster.close()


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A chart with one Deployment."""
    folder = tmp_path / "toy"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: toy\nversion: 0.1.0\n")
    (folder / "values.yaml").write_text("replicas: 1\n")
    (folder / "templates" / "web.yaml").write_text(TEMPLATE)
    return folder


@pytest.mark.slow
async def test_objects(kube: Kube) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "shop"},
        "data": {"a": "1"},
    }
    assert (await kube.apply(manifest))["data"] == {"a": "1"}
    assert (await kube.apply({**manifest, "data": {"b": "2"}}))["data"] == {"b": "2"}
    await kube.patch("configmaps", "shop", "settings", {"data": {"c": "3"}})
    patch = [{"op": "remove", "path": "/data/b"}]
    assert (await kube.patch("configmaps", "shop", "settings", patch, type="json"))["data"] == {"c": "3"}
    current = await kube.get("configmaps", "shop", "settings")
    await kube.replace("configmaps", "shop", "settings", {**current, "data": {}})
    with pytest.raises(KubeError) as caught:
        await kube.replace("configmaps", "shop", "settings", current)
    assert caught.value.reason == "Conflict"
    snapshot = await kube.list_all("shop")
    assert "settings" in [obj["metadata"]["name"] for obj in snapshot.objects["configmaps"]]
    assert await kube.delete_manifest(manifest)
    assert not await kube.delete_manifest(manifest)
    await kube.create("serviceaccounts", "shop", {"metadata": {"name": "somebody"}})
    assert (await kube.token("shop", "somebody", 3600)).count(".") == 2
    assert await kube.serves("apps/v1")
    assert not await kube.serves("nix.io/v1")


@pytest.mark.slow
async def test_releases(kube: Kube, chart: Path) -> None:
    helm = Helm(Tools.fetch(), kube.kubeconfig)
    assert await helm.releases("shop") == []
    await helm.install("toy", chart, "shop", {"replicas": 2})
    assert (await kube.get("apps/deployments", "shop", "web"))["spec"]["replicas"] == 2
    with pytest.raises(ClusterError, match=r"`helm install toy .*` failed \(1\): .*name that is still in use"):
        await helm.install("toy", chart, "shop", {})
    await helm.upgrade("toy", chart, "shop", {})
    assert (await kube.get("apps/deployments", "shop", "web"))["spec"]["replicas"] == 1
    (release,) = await helm.releases("shop")
    assert (release["name"], release["revision"], release["status"]) == ("toy", "2", "deployed")
    assert await helm.uninstall("toy", "shop")
    assert not await helm.uninstall("toy", "shop")
    assert await kube.find("apps/deployments", "shop", "web") is None
