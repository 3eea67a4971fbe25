"""What the client sends, and what it makes of answers and of errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aiopslab.errors import LabFailure
from aiopslab.kube.client import Kube, KubeError

DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"


def status(code: int, reason: str, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "reason": reason, "message": message}, status=code)


async def test_objects_come_back_as_the_server_sent_them(api: Any, kubeconfig: Path) -> None:
    sent = {"metadata": {"name": "web"}, "spec": {"fieldOfTheFuture": 1}}
    api.answers["GET", f"{DEPLOYMENTS}/web"] = sent
    async with Kube(kubeconfig) as kube:
        assert await kube.get("apps/deployments", "shop", "web") == sent
        assert await kube.find("apps/deployments", "shop", "nix") is None
    assert {seen["token"] for seen in api.seen} == {"Bearer sesame"}


async def test_lists_are_read_to_the_last_page(api: Any, kubeconfig: Path) -> None:
    def page(seen: dict[str, Any]) -> dict[str, Any]:
        start = int(seen["query"].get("continue", 0))
        more = {"continue": str(start + 2)} if start < 4 else {}
        items = [{"metadata": {"name": f"p{start + i}"}} for i in range(2)]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": more, "items": items}

    api.answers["GET", "/api/v1/namespaces/shop/pods"] = page
    async with Kube(kubeconfig) as kube:
        pods = await kube.list("pods", "shop", labels="app=web", fields="status.phase=Running")
    assert [pod["metadata"]["name"] for pod in pods] == [f"p{i}" for i in range(6)]
    assert {(pod["apiVersion"], pod["kind"]) for pod in pods} == {("v1", "Pod")}
    assert {seen["query"]["labelSelector"] for seen in api.seen} == {"app=web"}


@pytest.mark.parametrize(
    ("type_", "patch", "content"),
    [
        ("merge", {"spec": {"replicas": 0}}, "application/merge-patch+json"),
        ("strategic", {"spec": {"replicas": 0}}, "application/strategic-merge-patch+json"),
        ("json", [{"op": "remove", "path": "/spec"}], "application/json-patch+json"),
    ],
)
async def test_patches_have_their_type(api: Any, kubeconfig: Path, type_: Any, patch: Any, content: str) -> None:
    api.answers["PATCH", f"{DEPLOYMENTS}/web"] = {}
    async with Kube(kubeconfig) as kube:
        await kube.patch("apps/deployments", "shop", "web", patch, type=type_)
    (seen,) = api.seen
    assert (seen["type"], seen["body"]) == (content, patch)
    # The manager of changed fields is something that an agent sees.
    assert seen["query"] == {"fieldManager": "kubectl"}


async def test_apply_finds_the_resource_of_a_kind(api: Any, kubeconfig: Path) -> None:
    path = "/apis/example.com/v1beta2/namespaces/shop/widgets/w"
    api.answers["PATCH", path] = {"done": True}
    manifest = {
        "apiVersion": "example.com/v1beta2",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "shop"},
    }
    async with Kube(kubeconfig) as kube:
        assert await kube.apply(manifest) == {"done": True}
        with pytest.raises(KubeError, match="no matches for kind 'Gadget'"):
            await kube.apply({**manifest, "kind": "Gadget"})
    assert api.seen[0]["type"] == "application/apply-patch+yaml"
    assert api.seen[0]["query"] == {"fieldManager": "kubectl", "force": "true"}


async def test_deleting_what_is_gone_is_fine(api: Any, kubeconfig: Path) -> None:
    api.answers["DELETE", "/api/v1/namespaces/shop/pods/p"] = {"kind": "Status", "status": "Success"}
    async with Kube(kubeconfig) as kube:
        assert await kube.delete("pods", "shop", "p", grace_s=0)
        assert not await kube.delete("pods", "shop", "q")
        assert not await kube.delete_manifest({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})
        gone = {"apiVersion": "nix.io/v1", "kind": "Nix", "metadata": {"name": "n"}}
        assert not await kube.delete_manifest(gone)
    assert api.seen[0]["body"]["gracePeriodSeconds"] == 0


async def test_a_snapshot_hides_secrets_and_managers(api: Any, kubeconfig: Path) -> None:
    pod = {"metadata": {"name": "p", "managedFields": [{}]}, "spec": {}}
    secret = {"metadata": {"name": "s"}, "data": {"password": "aHVudGVyMg=="}, "type": "Opaque"}
    api.answers["GET", "/api/v1/namespaces/shop/pods"] = {"apiVersion": "v1", "items": [pod]}
    api.answers["GET", "/api/v1/namespaces/shop/secrets"] = {"apiVersion": "v1", "items": [secret]}
    async with Kube(kubeconfig) as kube:
        snapshot = await kube.list_all("shop", at_s=12.5)
    assert snapshot.at_s == 12.5
    assert sorted(snapshot.objects) == ["pods", "secrets"]  # the rest is not served
    assert snapshot.objects["pods"][0]["metadata"] == {"name": "p"}
    value = snapshot.objects["secrets"][0]["data"]["password"]
    assert value.startswith("sha256:")
    assert "aHVudGVyMg" not in value


async def test_logs_are_text(api: Any, kubeconfig: Path) -> None:
    text = web.Response(text="2025-06-02T09:00:00Z {not: json}\n")
    api.answers["GET", "/api/v1/namespaces/shop/pods/p/log"] = text
    async with Kube(kubeconfig) as kube:
        assert (await kube.logs("shop", "p", container="c", tail=0, previous=True)).endswith("{not: json}\n")
    assert api.seen[0]["query"] == {"container": "c", "tailLines": "0", "previous": "true", "timestamps": "true"}


async def test_what_is_served(api: Any, kubeconfig: Path) -> None:
    api.answers["GET", "/version"] = {"gitVersion": "v1.32.0"}
    async with Kube(kubeconfig) as kube:
        assert await kube.serves("example.com/v1beta2")
        assert not await kube.serves("chaos-mesh.org/v1alpha1")
        assert await kube.server_version() == "v1.32.0"


@pytest.mark.parametrize(
    ("answer", "code", "reason", "message"),
    [
        (lambda _: status(403, "Forbidden", "no entry"), 403, "Forbidden", "no entry"),
        (lambda _: web.Response(status=502, text="<html>bad gateway"), 502, "", "bad gateway"),
        (lambda _: web.Response(status=500), 500, "", "HTTP 500"),
        (lambda _: web.Response(text="<html>hello"), 0, "BadAnswer", "not JSON"),
    ],
)
async def test_errors_keep_the_servers_words(
    api: Any, kubeconfig: Path, answer: Any, code: int, reason: str, message: str
) -> None:
    api.answers["GET", "/api/v1/nodes/n"] = answer
    async with Kube(kubeconfig) as kube:
        with pytest.raises(KubeError, match=message) as caught:
            await kube.get("nodes", "", "n")
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert "GET /api/v1/nodes/n" in str(caught.value)
    assert isinstance(caught.value, LabFailure)


async def test_an_unknown_resource_is_named(api: Any, kubeconfig: Path) -> None:
    async with Kube(kubeconfig) as kube:
        with pytest.raises(KubeError, match="does not have the resource 'apps/gizmos'"):
            await kube.get("apps/gizmos", "shop", "g")


async def test_a_dead_server_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, users: [{name: u, user: {}}],"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}],"
        "contexts: [{name: c, context: {cluster: c, user: u}}]}"
    )
    async with Kube(path) as kube:
        with pytest.raises(KubeError, match="does not answer") as caught:
            await kube.server_version()
    assert caught.value.reason == "Unreachable"


@pytest.mark.parametrize("text", [None, "not: [a kubeconfig", "{}", "apiVersion: v1\nkind: Config\n"])
async def test_an_unusable_kubeconfig_is_named(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with pytest.raises(KubeError, match="cannot be used"):
        async with Kube(path):
            pass
