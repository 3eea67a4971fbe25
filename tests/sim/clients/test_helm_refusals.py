"""Helm 4 and Helm 3 against what the cluster refuses: the text that a user reads comes from the API server."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: {{ .Values.app | quote }}}}
  template:
    metadata: {labels: {app: {{ .Values.app | quote }}}}
    spec: {containers: [{name: c, image: busybox, command: [sleep, "3600"]}]}
"""
PORTS = "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: 80}, {port: 81}]}\n"
# (template, what both versions print of it)
REFUSED = {
    "unknown kind": (
        "apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: x}\n",
        'resource mapping not found for name: "x" namespace: "" from "": no matches for kind "Foo" in version'
        ' "example.com/v1"\nensure CRDs are installed first',
    ),
    "unknown namespace": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: nowhere}\n",
        'namespaces "nowhere" not found',
    ),
    "invalid object": (
        PORTS,
        'Service "x" is invalid: [spec.ports[0].name: Required value, spec.ports[1].name: Required value]',
    ),
}
# What decoding says depends on how the version writes: Helm 4 applies on the server, Helm 3 creates.
WRONG_TYPE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: 1}\n"
WRONG_TYPE_SAID = {
    "helm": ".data.a: expected string, got &value.valueUnstructured{Value:1}",
    "helm3": "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go"
    " struct field ConfigMap.data of type string",
}  # fmt: skip


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A chart without templates."""
    folder = tmp_path / "chart"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: chart\nversion: 0.1.0\n")
    (folder / "values.yaml").write_text("app: web\n")
    return folder


def write(chart: Path, template: str) -> str:
    """Make ``template`` the chart's only one; returns the chart's path."""
    (chart / "templates" / "all.yaml").write_text(template)
    return str(chart)


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_installed(lab, namespace, chart, helm, case):
    template, said = REFUSED[case]
    done = lab.run(helm, "install", "rel", write(chart, template), "-n", namespace)
    assert done.code == 1
    assert done.err.startswith("Error: INSTALLATION FAILED: ") and said in done.err


def test_a_value_of_the_wrong_type(lab, namespace, chart, helm):
    done = lab.run(helm, "install", "rel", write(chart, WRONG_TYPE), "-n", namespace)
    assert done.code == 1 and WRONG_TYPE_SAID[helm] in done.err


def test_a_namespace_that_is_missing(lab, chart, helm):
    done = lab.run(helm, "install", "rel", write(chart, WORKLOAD), "-n", "not-there")
    assert done.err == 'Error: INSTALLATION FAILED: create: failed to create: namespaces "not-there" not found\n'


def test_a_selector_stays_and_the_release_can_go_on(lab, namespace, chart, helm):
    path = write(chart, WORKLOAD)
    assert lab.run(helm, "install", "rel", path, "-n", namespace).code == 0
    done = lab.run(helm, "upgrade", "rel", path, "-n", namespace, "--set", "app=other")
    said = 'Deployment.apps "web" is invalid: spec.selector: Invalid value: {"matchLabels":{"app":"other"}}'
    assert done.code == 1 and f"{said}: field is immutable" in done.err
    assert lab.run(helm, "upgrade", "rel", path, "-n", namespace).code == 0
    history = json.loads(lab.run(helm, "history", "rel", "-n", namespace, "-o", "json").out)
    assert [h["status"] for h in history] == ["superseded", "failed", "deployed"]


def test_a_release_that_was_left_pending_is_locked(lab, namespace, chart, helm):
    path = write(chart, WORKLOAD)
    assert lab.run(helm, "install", "rel", path, "-n", namespace).code == 0
    secret = json.loads(lab.kubectl("get", "secret", "sh.helm.release.v1.rel.v1", "-n", namespace, "-o", "json").out)
    assert lab.kubectl("replace", "-f", "-", stdin=json.dumps(pending(secret))).code == 0
    done = lab.run(helm, "upgrade", "rel", path, "-n", namespace)
    assert done.err == "Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress\n"
    assert lab.run(helm, "rollback", "rel", "1", "-n", namespace).code == 0


def pending(secret: Any) -> Any:
    """A release's Secret as a Helm that was killed in an upgrade leaves it."""
    packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
    release = json.loads(gzip.decompress(packed))
    release["info"]["status"] = "pending-upgrade"
    packed = base64.b64encode(gzip.compress(json.dumps(release).encode()))
    secret["data"]["release"] = base64.b64encode(packed).decode()
    secret["metadata"]["labels"]["status"] = "pending-upgrade"
    return secret


def test_a_change_by_hand_between_two_upgrades(lab, namespace, chart, helm):
    """Helm 4 applies on the server and meets the scaling as a conflict; Helm 3 writes over it."""
    path = write(chart, WORKLOAD)
    assert lab.run(helm, "install", "rel", path, "-n", namespace).code == 0
    assert lab.kubectl("scale", "deployment/web", "--replicas=3", "-n", namespace).code == 0
    done = lab.run(helm, "upgrade", "rel", path, "-n", namespace)
    if helm == "helm":
        conflict = 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas'
        assert done.code == 1 and f"Apply failed with 1 conflict: {conflict}" in done.err
        done = lab.run(helm, "upgrade", "rel", path, "-n", namespace, "--force-conflicts")
    assert done.code == 0, done.err
    assert lab.kubectl("get", "deployment/web", "-n", namespace, "-o", "jsonpath={.spec.replicas}").out == "1"


def test_a_user_without_rights(lab, namespace, chart, helm):
    user = f"system:serviceaccount:{namespace}:default"
    done = lab.run(helm, "list", "-n", namespace, "--kube-as-user", user)
    said = f'cannot list resource "secrets" in API group "" in the namespace "{namespace}"'
    assert done.code == 1
    assert done.err == f'Error: list: failed to list: secrets is forbidden: User "{user}" {said}\n'
