"""Autoscalers in their older version: the same objects, seen and changed through autoscaling/v1."""

from __future__ import annotations

import json
from typing import Any

import pytest

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}
MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "30"}},
}


def old(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": {"maxReplicas": 5, "scaleTargetRef": TARGET, **spec}}


async def test_a_v1_object_is_a_v2_object(client):
    code, made, _ = await client("POST", V1, old(minReplicas=2, targetCPUUtilizationPercentage=70))
    assert code == 201 and made["apiVersion"] == "autoscaling/v1"
    assert made["spec"]["targetCPUUtilizationPercentage"] == 70 and "metrics" not in made["spec"]
    _, stored, _ = await client("GET", f"{V2}/web")
    assert stored["spec"]["metrics"] == [CPU]
    _, listed, _ = await client("GET", V1)
    assert listed["apiVersion"] == "autoscaling/v1" and listed["items"][0]["spec"]["minReplicas"] == 2


@pytest.mark.parametrize("kind", ["merge-patch", "strategic-merge-patch", "json-patch"])
async def test_patches_are_of_the_older_form(client, kind):
    await client("POST", V1, old(targetCPUUtilizationPercentage=70))
    body: Any = {"spec": {"targetCPUUtilizationPercentage": 50}}
    if kind == "json-patch":
        body = [{"op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 50}]
    code, patched, _ = await client("PATCH", f"{V1}/web", body, Content_Type=f"application/{kind}+json")
    assert (code, patched["spec"]["targetCPUUtilizationPercentage"]) == (200, 50)
    _, stored, _ = await client("GET", f"{V2}/web")
    assert stored["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 50


async def test_what_v1_has_no_field_for_comes_back_unharmed(client):
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    spec = {"maxReplicas": 5, "scaleTargetRef": TARGET, "metrics": [CPU, MEMORY, QUEUE], "behavior": behavior}
    await client("POST", V2, {"metadata": {"name": "web"}, "spec": spec})
    _, shown, _ = await client("GET", f"{V1}/web")
    notes = shown["metadata"]["annotations"]
    assert json.loads(notes["autoscaling.alpha.kubernetes.io/metrics"]) == [
        {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}},
        {"type": "External", "external": {"metricName": "queue", "targetValue": "30"}},
    ]
    _, before, _ = await client("GET", f"{V2}/web")
    shown["spec"]["maxReplicas"] = 7
    assert (await client("PUT", f"{V1}/web", shown))[0] == 200
    _, after, _ = await client("GET", f"{V2}/web")
    assert after["spec"] == {**before["spec"], "maxReplicas": 7}
    assert not after["metadata"].get("annotations")


async def test_refusals_name_the_fields(client):
    code, status, _ = await client("POST", V1, old(maxReplicas=0))
    assert code == 422 and "spec.maxReplicas" in status["message"]
