"""Protobuf bodies: what a real kubectl sent, and what damage does."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.sim.core import schema
from aiopslab.sim.server.protobuf import MAGIC, ProtobufError, decode, message_name

BODIES = json.loads((Path(__file__).parent / "golden" / "protobuf.json").read_text())


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body["command"])
def test_bodies_of_kubectl_decode(body: dict[str, Any]) -> None:
    obj = decode(base64.b64decode(body["body"]))
    assert obj == body["object"]
    kind = schema.gvk_of(obj)
    assert schema.type_errors(obj, kind) is None
    assert schema.unknown_fields(obj, kind) == []


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    return varint(number << 3 | 2) + varint(len(value)) + value


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    meta = field(1, api_version.encode()) + field(2, kind.encode())
    return MAGIC + field(1, meta) + field(2, raw) + field(3, b"") + field(4, b"")


def metadata(name: str, **more: bytes) -> bytes:
    return field(1, field(1, name.encode()) + b"".join(more.values()))


def test_special_encodings() -> None:
    created = field(8, field(1, 1748854800))
    labels = b"".join(field(11, field(1, k) + field(2, v)) for k, v in ((b"a", b"1"), (b"b", b"")))
    event = metadata("e", created=created, labels=labels) + field(10, field(1, 1748854800) + field(2, 1500))
    obj = decode(body("v1", "Event", event + field(8, 3)))
    assert obj["metadata"] == {
        "name": "e",
        "creationTimestamp": "2025-06-02T09:00:00Z",
        "labels": {"a": "1", "b": ""},
    }
    assert obj["eventTime"] == "2025-06-02T09:00:00.000001Z"
    assert obj["count"] == 3


def test_embedded_structs_stand_in_their_parent() -> None:
    volume = field(1, b"v") + field(2, field(6, field(1, b"s")))
    probe = field(1, field(3, field(1, field(1, 0) + field(2, 80) + field(3, b"")))) + field(2, 0)
    container = field(1, b"c") + field(11, probe) + field(16, 0)
    pod = decode(body("v1", "Pod", metadata("p") + field(2, field(1, volume) + field(2, container))))
    assert pod["spec"] == {
        "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
        "containers": [{"name": "c", "readinessProbe": {"tcpSocket": {"port": 80}}}],
    }


def test_zero_pointers_stay_and_zero_values_go() -> None:
    pod = decode(body("v1", "Pod", metadata("p") + field(2, field(4, 0) + field(11, 0) + field(21, 0))))
    assert pod["spec"] == {"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}


def test_delete_options_come_with_the_version_of_their_request() -> None:
    raw = field(1, 0) + field(4, b"Background")
    assert decode(body("apps/v1", "DeleteOptions", raw)) == {
        "apiVersion": "apps/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


def test_json_schemas_of_a_crd() -> None:
    double = varint(11 << 3 | 1) + struct.pack("<d", 1.0)
    prop = field(1, b"size") + field(2, field(5, b"integer") + double + field(8, field(1, b"3")))
    validation = field(4, field(1, field(5, b"object") + field(29, prop)))
    version = field(1, b"v1") + field(2, 1) + field(3, 1) + validation
    crd = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", metadata("x") + field(2, field(7, version)))
    found = decode(crd)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert found == {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1, "default": 3}}}


@pytest.mark.parametrize(
    ("api_version", "kind", "name"),
    [
        ("v1", "Secret", "core.v1.Secret"),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "autoscaling.v2.HorizontalPodAutoscaler"),
        ("rbac.authorization.k8s.io/v1", "Role", "rbac.v1.Role"),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview", "authorization.v1.SelfSubjectAccessReview"),
    ],
)
def test_message_names(api_version: str, kind: str, name: str) -> None:
    assert message_name(api_version, kind) == name


def test_unknown_kinds_and_foreign_bodies_are_errors() -> None:
    with pytest.raises(ProtobufError, match="no protobuf message for kind 'Widget'"):
        decode(body("x.example.com/v1", "Widget", b""))
    with pytest.raises(ProtobufError, match="does not start with the protobuf magic"):
        decode(b"{}")


@given(st.binary(max_size=60))
def test_damaged_bodies_raise_only_protobuf_errors(noise: bytes) -> None:
    whole = base64.b64decode(BODIES[3]["body"])
    for damaged in (MAGIC + noise, whole[: len(noise) + 4], whole[:40] + noise + whole[40:]):
        try:
            decode(damaged)
        except ProtobufError:
            continue
