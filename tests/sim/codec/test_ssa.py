"""Server-side apply and managedFields."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.sim.core import fieldsets, schema
from aiopslab.sim.core.defaults import default
from aiopslab.sim.core.patch import clone
from aiopslab.sim.core.schema import Gvk
from aiopslab.sim.core.ssa import LAST_APPLIED, ApplyConflict, apply, track_update

Obj = dict[str, Any]
T0, T1, T2 = "2025-06-02T09:00:00Z", "2025-06-02T09:00:01Z", "2025-06-02T09:00:02Z"


def config_map(data: Obj, **metadata: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", **metadata}, "data": data}


def owners(obj: Obj) -> dict[str, Obj]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])}


def test_create_and_unchanged_apply() -> None:
    first = apply(None, config_map({"a": "1", "b": "2"}), "one", "v1", T0)
    assert first["metadata"]["managedFields"] == [
        {
            "manager": "one",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": T0,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}},
        }
    ]
    again = apply(first, config_map({"a": "1", "b": "2"}), "one", "v1", T0)
    assert again == first


def test_conflict_force_and_release() -> None:
    obj = apply(None, config_map({"a": "1", "b": "2"}), "one", "v1", T0)
    with pytest.raises(ApplyConflict) as caught:
        apply(obj, config_map({"a": "9"}), "two", "v1", T1)
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert caught.value.causes == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}
    ]
    obj = apply(obj, config_map({"a": "9"}), "two", "v1", T1, force=True)
    assert obj["data"] == {"a": "9", "b": "2"}
    assert owners(obj) == {"one": {"f:data": {"f:b": {}}}, "two": {"f:data": {"f:a": {}}}}
    obj = apply(obj, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}, "one", "v1", T2)
    assert obj["data"] == {"a": "9"}
    assert set(owners(obj)) == {"two"}


def test_equal_values_are_owned_together_and_stay_until_the_last_owner_leaves() -> None:
    obj = apply(None, config_map({"a": "1"}), "one", "v1", T0)
    obj = apply(obj, config_map({"a": "1"}), "two", "v1", T1)
    assert owners(obj) == {"one": {"f:data": {"f:a": {}}}, "two": {"f:data": {"f:a": {}}}}
    bare = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
    obj = apply(obj, bare, "one", "v1", T2)
    assert obj["data"] == {"a": "1"}
    obj = apply(obj, bare, "two", "v1", T2)
    assert "data" not in obj
    assert "managedFields" not in obj["metadata"]


def test_plain_create_owns_what_is_there_after_defaulting(deployment: Obj, deployments: Gvk) -> None:
    deployment["spec"]["template"]["spec"]["containers"].pop()
    made = track_update(None, default(deployment, deployments), "maker", "apps/v1", T0)
    (entry,) = made["metadata"]["managedFields"]
    assert entry["operation"] == "Update"
    container = {".": {}, "f:env": {".": {}, 'k:{"name":"X"}': {".": {}, "f:name": {}, "f:value": {}}}}
    for name in ("image", "imagePullPolicy", "name", "resources"):
        container[f"f:{name}"] = {}
    container |= {"f:terminationMessagePath": {}, "f:terminationMessagePolicy": {}}
    pod = {"f:containers": {'k:{"name":"a"}': container}}
    for name in ("dnsPolicy", "restartPolicy", "schedulerName", "securityContext", "terminationGracePeriodSeconds"):
        pod[f"f:{name}"] = {}
    labels = {"f:labels": {".": {}, "f:app": {}}}
    assert entry["fieldsV1"] == {
        "f:metadata": labels,
        "f:spec": {
            "f:progressDeadlineSeconds": {},
            "f:replicas": {},
            "f:revisionHistoryLimit": {},
            "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}},
            "f:template": {"f:metadata": labels, "f:spec": pod},
        },
    }


def test_updates_take_only_what_they_change(deployment: Obj) -> None:
    old = track_update(None, deployment, "maker", "apps/v1", T0)
    new = clone(old)
    new["metadata"]["labels"]["x"] = "y"
    new["spec"]["replicas"] = 5
    new = track_update(old, new, "changer", "apps/v1", T1)
    assert owners(new)["changer"] == {"f:metadata": {"f:labels": {"f:x": {}}}, "f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in owners(new)["maker"]["f:spec"]
    assert [e["time"] for e in new["metadata"]["managedFields"]] == [T0, T1]
    assert track_update(new, new, "third", "apps/v1", T2) is new


def test_removed_fields_belong_to_nobody(deployment: Obj) -> None:
    old = track_update(None, deployment, "maker", "apps/v1", T0)
    new = clone(old)
    del new["spec"]["template"]["spec"]["containers"][1]
    new = track_update(old, new, "changer", "apps/v1", T1)
    containers = owners(new)["maker"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert list(containers) == ['k:{"name":"a"}']
    assert "changer" not in owners(new)


def test_subresources_are_other_owners_and_messages_say_so(deployment: Obj) -> None:
    old = track_update(None, deployment, "maker", "apps/v1", T0)
    scaled = clone(old)
    scaled["spec"]["replicas"] = 4
    scaled = track_update(old, scaled, "unknown", "apps/v1", T1, "scale")
    assert scaled["metadata"]["managedFields"][-1]["subresource"] == "scale"
    applied = clone(deployment)
    applied["spec"]["replicas"] = 7
    applied["spec"]["template"]["spec"]["containers"][0]["image"] = "x:2"
    with pytest.raises(ApplyConflict) as caught:
        apply(scaled, applied, "two", "apps/v1", T2)
    assert caught.value.message == (
        "Apply failed with 2 conflicts: "
        'conflicts with "maker" using apps/v1:\n- .spec.template.spec.containers[name="a"].image\n'
        'conflicts with "unknown" with subresource "scale" using apps/v1:\n- .spec.replicas'
    )


def test_status_is_not_owned_by_appliers_of_the_object(deployment: Obj) -> None:
    made = apply(None, {**deployment, "status": {"replicas": 3}}, "one", "apps/v1", T0)
    assert "f:status" not in owners(made)["one"]
    made = apply(made, {**deployment, "status": {"replicas": 3}}, "one", "apps/v1", T0, subresource="status")
    entries = {entry.get("subresource", ""): entry["fieldsV1"] for entry in made["metadata"]["managedFields"]}
    assert entries["status"]["f:status"] == {"f:replicas": {}}
    assert "f:spec" not in entries["status"]


def test_clients_may_edit_managed_fields() -> None:
    old = apply(None, config_map({"a": "1"}), "one", "v1", T0)
    new = clone(old)
    new["metadata"]["managedFields"][0]["manager"] = "renamed"
    assert list(owners(track_update(old, new, "editor", "v1", T1))) == ["renamed"]
    new["metadata"]["managedFields"] = [{}]
    assert "managedFields" not in track_update(old, new, "editor", "v1", T1)["metadata"]


def test_the_last_writer_of_a_second_comes_last() -> None:
    obj = apply(None, config_map({"a": "1"}), "one", "v1", T0)
    obj = apply(obj, config_map({"b": "1"}), "two", "v1", T0)
    obj = apply(obj, config_map({"a": "2"}), "one", "v1", T0)
    assert list(owners(obj)) == ["two", "one"]
    assert apply(obj, config_map({"b": "1"}), "two", "v1", T2) == obj


def test_kubectl_takes_over_what_client_side_apply_owned() -> None:
    text = json.dumps(config_map({"a": "1", "b": "2"}))
    live = config_map({"a": "1", "b": "2"}, annotations={LAST_APPLIED: text})
    live = track_update(None, live, "kubectl-client-side-apply", "v1", T0)
    with pytest.raises(ApplyConflict):
        apply(live, config_map({"a": "2"}), "other", "v1", T1)
    obj = apply(live, config_map({"a": "2"}), "kubectl", "v1", T1)
    assert obj["data"]["a"] == "2"
    assert json.loads(obj["metadata"]["annotations"][LAST_APPLIED])["data"] == {"a": "2"}


def test_objects_from_before_managed_fields_get_an_owner() -> None:
    live = config_map({"a": "1"}, creationTimestamp=T0)
    with pytest.raises(ApplyConflict, match="before-first-apply"):
        apply(live, config_map({"a": "2"}), "one", "v1", T1)


CRD = {
    "schema": {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "size": {"type": "integer"},
                        "whole": {"type": "array", "items": {"type": "string"}},
                        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                        "items": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["id"],
                            "items": {
                                "type": "object",
                                "properties": {"id": {"type": "string"}, "v": {"type": "integer"}},
                            },
                        },
                    },
                }
            },
        }
    }
}


def widget(spec: Obj) -> Obj:
    return {"apiVersion": "x.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}


def test_custom_resources_merge_by_their_schema(widgets: Callable[[Obj], Any]) -> None:
    kind, version = widgets(CRD), "x.example.com/v1"
    obj = apply(None, widget({"size": 1, "items": [{"id": "x", "v": 1}], "tags": ["a"], "whole": ["p"]}),
                "one", version, T0, kind=kind)  # fmt: skip
    more = widget({"size": 1, "items": [{"id": "y", "v": 2}], "tags": ["b"]})
    obj = apply(obj, more, "two", version, T0, kind=kind)
    assert obj["spec"]["items"] == [{"id": "x", "v": 1}, {"id": "y", "v": 2}]
    assert obj["spec"]["tags"] == ["a", "b"]
    assert owners(obj)["two"]["f:spec"]["f:tags"] == {'v:"b"': {}}
    changed = widget({"size": 2, "items": [{"id": "x", "v": 9}], "whole": ["q"]})
    with pytest.raises(ApplyConflict) as caught:
        apply(obj, changed, "two", version, T1, kind=kind)
    fields = [conflict.field for conflict in caught.value.conflicts]
    assert fields == [".spec.size", ".spec.whole", '.spec.items[id="x"].v']
    obj = apply(obj, widget({"size": 1}), "two", version, T1, kind=kind)
    assert obj["spec"]["items"] == [{"id": "x", "v": 1}]
    assert owners(obj)["two"] == {"f:spec": {"f:size": {}}}


def test_resources_without_schema_merge_maps_and_replace_lists() -> None:
    obj = apply(None, widget({"m": {"a": 1}, "l": [1]}), "one", "x.example.com/v1", T0)
    obj = apply(obj, widget({"m": {"b": 2}}), "two", "x.example.com/v1", T0)
    assert obj["spec"] == {"m": {"a": 1, "b": 2}, "l": [1]}
    with pytest.raises(ApplyConflict, match=r"\.spec\.l"):
        apply(obj, widget({"l": [1, 2]}), "two", "x.example.com/v1", T0)


@pytest.mark.parametrize(
    ("live", "applied", "result"),
    [
        ("ab", "c", "abc"),
        ("ab", "ba", "ba"),
        ("abc", "xb", "axbc"),
        ("abcd", "da", "bcda"),
        ("", "ab", "ab"),
    ],
)
def test_order_of_merged_lists(live: str, applied: str, result: str) -> None:
    node = schema.node("", "v1", "Pod")
    assert node is not None
    old, new = ({"spec": {"containers": [{"name": n} for n in names]}} for names in (live, applied))
    merged = fieldsets.merge(old, new, node)
    assert "".join(item["name"] for item in merged["spec"]["containers"]) == result


data = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("123"), max_size=4)


@given(data, data, data)
def test_applying_twice_is_applying_once(first: Obj, second: Obj, third: Obj) -> None:
    obj = apply(None, config_map(first), "one", "v1", T0)
    obj = apply(obj, config_map(second), "two", "v1", T0, force=True)
    once = apply(obj, config_map(third), "one", "v1", T0, force=True)
    assert apply(once, config_map(third), "one", "v1", T0, force=True) == once
    assert third.items() <= once.get("data", {}).items()


@given(data, data)
def test_an_applied_object_is_exactly_what_its_only_manager_applied(first: Obj, second: Obj) -> None:
    obj = apply(None, config_map(first), "one", "v1", T0)
    obj = apply(obj, config_map(second), "one", "v1", T1)
    assert obj.get("data", {}) == second


elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"c"}', 'v:"x"'])
paths = st.lists(elements, min_size=1, max_size=4).map(tuple)


@given(st.frozensets(paths))
def test_field_sets_survive_encoding(found: frozenset[tuple[str, ...]]) -> None:
    assert fieldsets.decode(fieldsets.encode(found)) == found
