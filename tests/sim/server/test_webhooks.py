"""Webhooks that must be asked and cannot be."""

from __future__ import annotations

from typing import Any

import pytest

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MAPS = "/api/v1/namespaces/default/configmaps"
URL = 'Post "https://guard.default.svc:443/check?timeout=10s"'


def configuration(**changes: Any) -> dict[str, Any]:
    """A webhook on ConfigMaps."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    client = {"service": {"name": "guard", "namespace": "default", "path": "/check"}}
    hook = {
        "name": "guard.example.org", "clientConfig": client, "rules": [rule], "sideEffects": "None",
        "admissionReviewVersions": ["v1"], **changes,
    }  # fmt: skip
    return {"metadata": {"name": "guard"}, "webhooks": [hook]}


async def test_a_missing_service_refuses(client, make):
    assert (await client("POST", HOOKS, configuration()))[0] == 201
    code, status, _ = await client("POST", MAPS, make.config_map("a"))
    why = f'Internal error occurred: failed calling webhook "guard.example.org": failed to call webhook: {URL}: '
    assert (code, status["message"]) == (500, why + 'service "guard" not found')
    ports = {"spec": {"ports": [{"port": 443}], "selector": {"app": "guard"}}, "metadata": {"name": "guard"}}
    assert (await client("POST", "/api/v1/namespaces/default/services", ports))[0] == 201
    code, status, _ = await client("POST", MAPS, make.config_map("a"))
    assert (code, status["message"]) == (500, why + 'no endpoints available for service "guard"')
    assert (await client("DELETE", f"{HOOKS}/guard"))[0] == 200
    assert (await client("POST", MAPS, make.config_map("a")))[0] == 201


@pytest.mark.parametrize(
    "changes",
    [
        {"failurePolicy": "Ignore"},
        {"objectSelector": {"matchLabels": {"guarded": "yes"}}},
        {"namespaceSelector": {"matchLabels": {"guarded": "yes"}}},
        {"matchConditions": [{"name": "others", "expression": "!('system:masters' in request.userInfo.groups)"}]},
        {"matchConditions": [{"name": "secrets", "expression": "request.resource.resource == 'secrets'"}]},
    ],
)
async def test_what_it_does_not_concern_passes(client, make, changes):
    await client("POST", HOOKS, configuration(**changes))
    assert (await client("POST", MAPS, make.config_map("a")))[0] == 201
