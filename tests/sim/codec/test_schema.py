"""Schemas: decoding, the round trip through Go types, OpenAPI documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from aiopslab.sim.core import schema
from aiopslab.sim.core.schema import Gvk

Obj = dict[str, Any]
POD, SECRET, CONFIG = Gvk("", "v1", "Pod"), Gvk("", "v1", "Secret"), Gvk("", "v1", "ConfigMap")
DEPLOYMENT = Gvk("apps", "v1", "Deployment")


def test_merge_keys_and_list_types() -> None:
    pod = schema.node(*POD)
    assert pod is not None
    containers = pod.field("spec").field("containers")  # type: ignore[union-attr]
    assert containers is not None
    assert (containers.merge_key, containers.keys) == ("name", ("name",))
    ports = containers.elem.field("ports")
    assert ports is not None
    assert ports.keys == ("containerPort", "protocol")
    assert ports.item_key({"containerPort": 80}) == {"containerPort": 80, "protocol": "TCP"}
    args = containers.elem.field("args")
    assert args is not None
    assert args.atomic


def test_unknown_fields_in_document_order() -> None:
    pod = {
        "foo": 1,
        "metadata": {"labels": {"any": "thing"}, "lables": {}},
        "spec": {"containers": [{"name": "c"}, {"imag": "x"}], "replicas": 1},
    }
    assert schema.unknown_fields(pod, POD) == [
        'unknown field "foo"',
        'unknown field "metadata.lables"',
        'unknown field "spec.containers[1].imag"',
        'unknown field "spec.replicas"',
    ]
    assert schema.strict_error(['unknown field "a"', 'unknown field "b"']) == (
        'strict decoding error: unknown field "a", unknown field "b"'
    )


def test_duplicate_fields() -> None:
    text = '{"a":1,"data":{"a":"1","b":[{"x":1,"x":2}],"a":"2"},"a":2}'
    assert schema.duplicate_fields(text) == [
        'duplicate field "data.b[0].x"',
        'duplicate field "data.a"',
        'duplicate field "a"',
    ]


@pytest.mark.parametrize(
    ("obj", "kind", "error"),
    [
        (
            {"spec": {"replicas": "two"}},
            DEPLOYMENT,
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            {"data": {"a": 1}},
            CONFIG,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            {"metadata": {"labels": {"a": True}}},
            CONFIG,
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            {"spec": {"template": {"spec": {"containers": [{"env": [{"value": 1}]}]}}}},
            DEPLOYMENT,
            "json: cannot unmarshal number into Go struct field "
            "EnvVar.spec.template.spec.containers.env.value of type string",
        ),
        (
            {"spec": {"containers": {}}},
            POD,
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        ({"spec": "x"}, POD, "json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec"),
        (
            {"metadata": {"labels": ["a"]}},
            POD,
            "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels "
            "of type map[string]string",
        ),
        ({"data": {"a": "not base64!"}}, SECRET, "illegal base64 data at input byte 3"),
        (
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}},
            POD,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"metadata": {"creationTimestamp": "soon"}},
            POD,
            'parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"',
        ),
        ({"metadata": None, "spec": {"nodeName": None}, "nope": 1}, POD, None),
    ],
)
def test_type_errors(obj: Obj, kind: Gvk, error: str | None) -> None:
    assert schema.type_errors(obj, kind) == error


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"replicas": "x"}, "unrecognized type: int32"),
        ({"paused": "x"}, "unrecognized type: bool"),
        ({"replicas": 1.5}, "cannot convert float64 to int32"),
        ({"template": {"spec": {"nodeName": 1}}}, "cannot convert int64 to string"),
        ({"template": {"spec": {"containers": {}}}}, "cannot restore slice from map"),
        ({"selector": {"matchLabels": "x"}}, "cannot restore map from string"),
        ({"template": "x"}, "cannot restore struct from: string"),
        ({"replicas": 3}, None),
    ],
)
def test_conversion_errors_of_strategic_patches(spec: Obj, error: str | None) -> None:
    assert schema.conversion_error({"spec": spec}, DEPLOYMENT) == error


def test_typed_is_the_round_trip_through_go() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {}, "creationTimestamp": None, "annotations": {"a": None}},
        "spec": {
            "nodeName": "",
            "terminationGracePeriodSeconds": 0,
            "hostNetwork": False,
            "unknown": 1,
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [
                {"name": "c", "args": [], "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}}
            ],
        },
    }
    typed = schema.typed(pod, POD)
    assert typed == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"a": ""}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
        },
        "status": {},
    }
    assert schema.typed(typed, POD) == typed


def test_custom_resources_have_their_own_schema(widgets: Callable[[Obj], Any]) -> None:
    spec = {"type": "object", "properties": {"size": {"type": "integer"}}}
    kind = widgets({"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
    obj = {"kind": "Widget", "metadata": {"name": "a", "nope": 1}, "spec": {"size": 1, "colour": "red"}}
    assert schema.unknown_fields(obj, kind) == [
        'unknown field "metadata.nope"',
        'unknown field "spec.colour"',
    ]
    assert schema.typed(obj, kind) is obj
    assert schema.node_for(kind) is schema.node_for(kind)


def served(kind: str, plural: str, *subresources: str) -> Any:
    verbs = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    subs = tuple(SimpleNamespace(name=name, verbs=("get", "patch", "update")) for name in subresources)
    group = "apps" if kind == "Deployment" else "x.example.com"
    return SimpleNamespace(
        group=group, version="v1", kind=kind, plural=plural, namespaced=True, verbs=verbs, subresources=subs
    )


def test_documents_satisfy_the_probe_for_field_validation() -> None:
    document = schema.openapi_v3("apps/v1", [served("Deployment", "deployments", "status"), served("W", "ws")])
    path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    assert set(document["paths"]) == {
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/namespaces/{namespace}/deployments",
        path,
        f"{path}/status",
    }
    patch = document["paths"][path]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert patch["x-kubernetes-action"] == "patch"
    assert "fieldValidation" in [item["name"] for item in patch["parameters"]]


def test_every_reference_of_a_document_resolves() -> None:
    document = schema.openapi_v3("apps/v1", [served("Deployment", "deployments")])
    schemas = document["components"]["schemas"]
    text = json.dumps(document)
    wanted = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert wanted <= schemas.keys()
    assert "x-go-" not in text
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert schemas["io.k8s.api.apps.v1.DeploymentSpec"]["required"] == ["selector", "template"]


def test_documents_of_custom_resources() -> None:
    version = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": {"type": "object", "description": "D"}}}
    crd = {"spec": {"group": "x.example.com", "names": {"kind": "Widget"}, "versions": [version]}}
    document = schema.openapi_v3("x.example.com/v1", [served("Widget", "widgets")], [crd])
    found = document["components"]["schemas"]["com.example.x.v1.Widget"]
    assert found["description"] == "D"
    assert found["x-kubernetes-group-version-kind"] == [
        {"group": "x.example.com", "version": "v1", "kind": "Widget"}
    ]
    assert "com.example.x.v1.WidgetList" in document["components"]["schemas"]
    assert schema.openapi_v3("other/v1", [], [crd])["paths"] == {}


def test_document_hashes_follow_the_document() -> None:
    assert schema.document_hash({"a": 1}) != schema.document_hash({"a": 2})
    assert schema.document_hash(b"x") == schema.document_hash(b"x")
