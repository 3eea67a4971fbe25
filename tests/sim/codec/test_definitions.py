"""What the server refuses of a CustomResourceDefinition, and a few other kinds' rules."""

from __future__ import annotations

from typing import Any

import pytest

from aiopslab.sim.core.kinds import Kinds
from aiopslab.sim.core.validate import validate

GOOD = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
ROOT = "spec.versions[0].schema.openAPIV3Schema"


def crd(**spec: Any) -> dict[str, Any]:
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": GOOD}}
    base = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "widgets.example.com"}, "spec": {**base, **spec}}


def with_schema(schema: Any) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True}
    return crd(versions=[{**version, "schema": {"openAPIV3Schema": schema}} if schema else version])


def names(**more: Any) -> dict[str, Any]:
    return crd(names={"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", **more})


def found(obj: dict[str, Any], api_version: str, kind: str, old: Any = None) -> list[str]:
    served = Kinds().by_gvk(api_version, kind)
    assert served is not None
    return [str(error) for error in validate(obj, served, old)]


def refused(obj: dict[str, Any], old: Any = None) -> list[str]:
    return found(obj, "apiextensions.k8s.io/v1", "CustomResourceDefinition", old)


def test_a_right_one_passes() -> None:
    assert refused(crd()) == []
    assert refused(with_schema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})) == []


NAME = 'metadata.name: Invalid value: "widgets.example.com": must be spec.names.plural+"."+spec.group'
CASES = [
    (crd(group="other.org"), [NAME]),
    (crd(scope="Foo"), ['spec.scope: Unsupported value: "Foo": supported values: "Cluster", "Namespaced"']),
    (crd(scope=""), ["spec.scope: Required value"]),
    (with_schema(None), [f"{ROOT}: Required value: schemas are required"]),
    (with_schema({"type": "string"}), [f'{ROOT}.type: Invalid value: "string": must be object at the root']),
    (with_schema({"type": "object", "properties": {"spec": {}}}),
     [f"{ROOT}.properties[spec].type: Required value: must not be empty for specified object fields"]),
    (with_schema({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}),
     [f"{ROOT}.properties[a].items.type: Required value: must not be empty for specified array items"]),
    (names(kind="Widget", listKind="Widget"),
     ['spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same']),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "errors"), CASES)
def test_refusals(obj: dict[str, Any], errors: list[str]) -> None:
    assert refused(obj) == errors


def test_exactly_one_version_is_stored_and_names_are_unique() -> None:
    one = crd()["spec"]["versions"][0]
    for versions, why in (
        ([{**one, "storage": False}], "must have exactly one version marked as storage version"),
        ([one, {**one, "name": "v2"}], "must have exactly one version marked as storage version"),
        ([one, {**one, "storage": False}], "must contain unique version names"),
    ):
        (error,) = refused(crd(versions=versions))
        assert error.startswith("spec.versions: Invalid value: [{") and error.endswith(why)


def test_what_may_not_change() -> None:
    assert refused(crd(scope="Cluster"), crd()) == ['spec.scope: Invalid value: "Cluster": field is immutable']
    old = {**crd(), "status": {"storedVersions": ["v1alpha1"]}}
    assert refused(crd(), old) == ['status.storedVersions[0]: Invalid value: "v1alpha1": must appear in spec.versions']


def test_other_kinds() -> None:
    lease = {"metadata": {"name": "a"}, "spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}
    assert found(lease, "coordination.k8s.io/v1", "Lease") == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
    ]
    subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 80, "protocol": "TCP"}]}
    assert found({"metadata": {"name": "a"}, "subsets": [subset]}, "v1", "Endpoints") == [
        'subsets[0].addresses[0].ip: Invalid value: "127.0.0.1": '
        "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    ]
    empty = {"metadata": {"name": "a"}, "spec": {"strategy": {"type": "Recreate"}}}
    assert found(empty, "apps/v1", "Deployment")[:2] == [
        "spec.selector: Required value",
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
    ]
