"""Helm 4 and Helm 3: the life of a release, hooks, failures, ownership, definitions, lookup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-web}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: "{{ .Values.image }}", command: [sleep, "3600"]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-seen}
data:
  existing: {{ (lookup "v1" "ConfigMap" .Release.Namespace "outside").data | toJson | quote }}
  batch: {{ .Capabilities.APIVersions.Has "batch/v1" | quote }}
"""
HOOK = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-migrate
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-delete-policy: before-hook-creation
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: busybox, command: [sh, -c, {{ .Values.hook | quote }}]}]
"""
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: %s, singular: thing, kind: %s}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
VALUES = "replicas: 2\nimage: busybox:1.36\nhook: exit 0\n"


@pytest.fixture
def chart(tmp_path: Path, helm: str) -> Path:
    """A chart with a workload, a hook and a definition of its own for each Helm version."""
    folder = tmp_path / "chart"
    (folder / "templates").mkdir(parents=True)
    (folder / "crds").mkdir()
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: chart\nversion: 0.1.0\n")
    (folder / "values.yaml").write_text(VALUES)
    (folder / "templates" / "all.yaml").write_text(WORKLOAD)
    (folder / "templates" / "hook.yaml").write_text(HOOK)
    plural = f"{helm}things"
    (folder / "crds" / "thing.yaml").write_text(DEFINITION % (f"{plural}.example.org", plural, plural.title()))
    return folder


def as_json(done: Any) -> Any:
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_life_of_a_release(lab, namespace, chart, helm):
    here = ("--namespace", namespace)
    lab.kubectl("create", "configmap", "outside", "--from-literal=a=1", *here)
    done = lab.run(helm, "install", "rel", str(chart), *here, "--wait", "--timeout", "40s")
    assert done.code == 0, done.err
    assert as_json(lab.run(helm, "list", *here, "-o", "json"))[0]["status"] == "deployed"
    assert lab.kubectl("get", "job", "rel-migrate", *here, "-o", "jsonpath={.status.succeeded}").out == "1"
    seen = json.loads(lab.kubectl("get", "configmap", "rel-seen", *here, "-o", "json").out)["data"]
    assert seen == {"existing": '{"a":"1"}', "batch": "true"}
    assert f"{helm}things" in lab.kubectl("get", "crd", "-o", "name").out

    waiting = ("--wait", "--timeout", "40s")
    upgraded = lab.run(helm, "upgrade", "rel", str(chart), *here, "--set", "replicas=3", *waiting)
    assert upgraded.code == 0, upgraded.err
    assert lab.kubectl("get", "deploy", "rel-web", *here, "-o", "jsonpath={.status.readyReplicas}").out == "3"
    assert lab.run(helm, "rollback", "rel", "1", *here, "--wait", "--timeout", "40s").code == 0
    assert lab.kubectl("get", "deploy", "rel-web", *here, "-o", "jsonpath={.spec.replicas}").out == "2"
    history = as_json(lab.run(helm, "history", "rel", *here, "-o", "json"))
    assert [h["status"] for h in history] == ["superseded", "superseded", "deployed"]
    assert as_json(lab.run(helm, "status", "rel", *here, "-o", "json"))["info"]["status"] == "deployed"
    assert "kind: Deployment" in lab.run(helm, "get", "manifest", "rel", *here).out
    assert as_json(lab.run(helm, "get", "values", "rel", *here, "--revision", "2", "-o", "json")) == {"replicas": 3}

    assert lab.run(helm, "uninstall", "rel", *here, "--wait", "--timeout", "40s").code == 0
    assert lab.kubectl("get", "deploy,rs,configmap/rel-seen", *here, "--ignore-not-found").out == ""
    assert as_json(lab.run(helm, "list", *here, "-o", "json")) == []


def test_a_failed_hook_fails_the_release(lab, namespace, chart, helm):
    here = ("--namespace", namespace)
    done = lab.run(helm, "install", "rel", str(chart), *here, "--set", "hook=exit 3", "--timeout", "30s")
    assert done.code == 1 and "pre-install" in done.err
    assert as_json(lab.run(helm, "status", "rel", *here, "-o", "json"))["info"]["status"] == "failed"
    options = ("--install", "--reset-values", "--wait", "--timeout", "40s")
    again = lab.run(helm, "upgrade", "rel", str(chart), *here, *options)
    assert again.code == 0, again.err


def test_a_workload_that_never_gets_ready_fails_the_release(lab, namespace, chart, helm):
    here = ("--namespace", namespace)
    values = ("--set", "image=invalid.example/no:1")
    done = lab.run(helm, "install", "rel", str(chart), *here, *values, "--wait", "--timeout", "3s")
    assert done.code == 1
    assert as_json(lab.run(helm, "status", "rel", *here, "-o", "json"))["info"]["status"] == "failed"


def test_an_object_of_somebody_else_is_not_taken_over(lab, namespace, chart, helm):
    here = ("--namespace", namespace)
    lab.kubectl("create", "configmap", "rel-seen", *here)
    done = lab.run(helm, "install", "rel", str(chart), *here, "--timeout", "30s")
    assert done.code == 1
    assert 'ConfigMap "rel-seen"' in done.err and "invalid ownership metadata" in done.err
