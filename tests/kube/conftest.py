"""A tiny API server: enough of the protocol to see what the client sends and what it makes of answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

Obj = dict[str, Any]
RESOURCES = {
    "/api/v1": [
        ("pods", "Pod", True),
        ("pods/log", "Pod", True),
        ("secrets", "Secret", True),
        ("nodes", "Node", False),
    ],
    "/apis/apps/v1": [("deployments", "Deployment", True)],
    "/apis/example.com/v1beta2": [("widgets", "Widget", True)],
}


class FakeApi:
    """Answers by (method, path); everything else is a Status. ``seen`` are the requests after discovery."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], Any] = {}
        self.seen: list[Obj] = []

    async def handle(self, request: web.Request) -> web.Response:
        if request.path in RESOURCES:
            rows = [{"name": n, "kind": k, "namespaced": ns} for n, k, ns in RESOURCES[request.path]]
            return web.json_response({"kind": "APIResourceList", "resources": rows})
        if request.path in ("/apis/apps", "/apis/example.com"):
            versions = [path.rpartition("/")[2] for path in RESOURCES if path.startswith(request.path + "/")]
            return web.json_response({"kind": "APIGroup", "preferredVersion": {"version": versions[0]}})
        text = await request.text()
        seen = {
            "method": request.method,
            "path": request.path,
            "query": dict(request.query),
            "body": json.loads(text) if text else None,
            "type": request.content_type,
            "token": request.headers.get("Authorization"),
        }
        self.seen.append(seen)
        answer = self.answers.get((request.method, request.path))
        if callable(answer):
            answer = answer(seen)
        if isinstance(answer, web.Response):
            return answer
        if answer is None:
            return status(404, "NotFound", f"nothing at {request.path}")
        return web.json_response(answer)


def status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}
    return web.json_response(body, status=code)


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    """A running FakeApi; ``api.url`` is its address."""
    fake = FakeApi()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"  # type: ignore[attr-defined]
    yield fake
    await runner.cleanup()


@pytest.fixture
def kubeconfig(api: FakeApi, tmp_path: Path) -> Path:
    """A kubeconfig for it."""
    return write_kubeconfig(tmp_path / "kubeconfig", api.url)  # type: ignore[attr-defined]


def write_kubeconfig(path: Path, url: str) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "sesame"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(yaml.safe_dump(config))
    return path
