"""JSON patch, JSON merge patch, strategic merge."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.sim.core.patch import (
    PatchError,
    clone,
    go_text,
    json_patch,
    merge_patch,
    patch_rejected,
    same,
    strategic_merge,
)
from aiopslab.sim.core.schema import Gvk

Obj = dict[str, Any]
POD, NODE, ACCOUNT = Gvk("", "v1", "Pod"), Gvk("", "v1", "Node"), Gvk("", "v1", "ServiceAccount")


def containers(obj: Obj) -> str:
    found = obj["spec"]["template"]["spec"]["containers"]
    return " ".join(f"{c['name']}={c['image']}({','.join(e['name'] for e in c.get('env', []))})" for c in found)


def template(spec: Obj) -> Obj:
    return {"spec": {"template": {"spec": spec}}}


# RFC 7386, appendix A, as far as targets are objects.
@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_follows_the_rfc(target: Obj, patch: Obj, result: Obj) -> None:
    before = clone(target)
    assert merge_patch(target, patch) == result
    assert target == before


def test_merge_patch_must_be_an_object() -> None:
    with pytest.raises(PatchError) as caught:
        merge_patch({}, [1])
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("ops", "result"),
    [
        ([{"op": "add", "path": "/a/x~1y", "value": 1}], {"a": {"l": [1, 2], "x/y": 1}}),
        ([{"op": "add", "path": "/a/l/-", "value": 3}], {"a": {"l": [1, 2, 3]}}),
        ([{"op": "add", "path": "/a/l/1", "value": 9}], {"a": {"l": [1, 9, 2]}}),
        ([{"op": "replace", "path": "/a/l/0", "value": 9}], {"a": {"l": [9, 2]}}),
        ([{"op": "remove", "path": "/a/l/0"}], {"a": {"l": [2]}}),
        ([{"op": "copy", "from": "/a/l/0", "path": "/b"}], {"a": {"l": [1, 2]}, "b": 1}),
        ([{"op": "move", "from": "/a/l", "path": "/b"}], {"a": {}, "b": [1, 2]}),
        ([{"op": "test", "path": "/a/l", "value": [1, 2]}], {"a": {"l": [1, 2]}}),
        ([{"op": "test", "path": "/nope", "value": None}], {"a": {"l": [1, 2]}}),
    ],
)
def test_json_patch_operations(ops: list[Obj], result: Obj) -> None:
    obj = {"a": {"l": [1, 2]}}
    assert json_patch(obj, ops) == result
    assert obj == {"a": {"l": [1, 2]}}


@pytest.mark.parametrize(
    "op",
    [
        {"op": "test", "path": "/a", "value": 77},
        {"op": "test", "path": "/one", "value": True},
        {"op": "remove", "path": "/nope"},
        {"op": "replace", "path": "/nope", "value": 1},
        {"op": "replace", "path": "/l/9", "value": 1},
        {"op": "add", "path": "/nope/x", "value": 1},
        {"op": "add", "path": "/a"},
        {"op": "add", "value": 1},
        {"op": "frob", "path": "/a", "value": 1},
        {"op": "move", "path": "/a"},
        {"op": "remove", "path": "a"},
        {"op": "add", "path": "/l/01", "value": 1},
        {"op": "replace", "path": "", "value": 3},
    ],
)
def test_json_patch_that_does_not_apply_is_invalid(op: Obj) -> None:
    with pytest.raises(PatchError) as caught:
        json_patch({"a": {}, "one": 1, "l": [1]}, [op])
    assert caught.value.code == 422
    assert caught.value.message == "the server rejected our request due to an error in our request"


def test_json_patch_must_be_a_list() -> None:
    with pytest.raises(PatchError, match="cannot unmarshal object into Go value of type"):
        json_patch({}, {"a": 1})


def test_items_merge_by_key_and_order_follows_the_directive(deployment: Obj, deployments: Gvk) -> None:
    order = [{"name": "n"}, {"name": "b"}, {"name": "a"}]
    patch = template({"$setElementOrder/containers": order, "containers": [{"name": "n", "image": "n:1"}]})
    assert containers(strategic_merge(deployment, patch, deployments)) == "n=n:1() b=b:1() a=a:1(X)"


@pytest.mark.parametrize(
    ("change", "result"),
    [
        ([{"name": "b", "image": "b:2"}], "a=a:1(X) b=b:2()"),
        ([{"name": "n", "image": "n:1"}], "n=n:1() a=a:1(X) b=b:1()"),
        ([{"name": "a", "$patch": "delete"}], "b=b:1()"),
        ([{"$patch": "replace"}, {"name": "o", "image": "o:1"}], "o=o:1()"),
        ([{"name": "a", "env": [{"name": "Y", "value": "2"}]}], "a=a:1(Y,X) b=b:1()"),
        ([{"name": "a", "env": [{"name": "X", "$patch": "delete"}]}], "a=a:1() b=b:1()"),
        ([{"name": "a", "env": None}], "a=a:1() b=b:1()"),
    ],
)
def test_list_directives(deployment: Obj, deployments: Gvk, change: list[Obj], result: str) -> None:
    before = clone(deployment)
    assert containers(strategic_merge(deployment, template({"containers": change}), deployments)) == result
    assert deployment == before


def test_an_item_without_its_key_is_an_error(deployment: Obj, deployments: Gvk) -> None:
    with pytest.raises(PatchError, match="does not contain declared merge key: name"):
        strategic_merge(deployment, template({"containers": [{"image": "x"}]}), deployments)


def test_retain_keys_drop_the_others(deployment: Obj, deployments: Gvk) -> None:
    deployment["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic_merge(deployment, patch, deployments)["spec"]["strategy"] == {"type": "Recreate"}
    bad = {"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}
    with pytest.raises(PatchError, match="retainKeys"):
        strategic_merge(deployment, bad, deployments)


@pytest.mark.parametrize(
    ("kind", "obj", "patch", "result"),
    [
        (POD, {"spec": {"a": 1, "nodeName": "n"}}, {"spec": {"$patch": "replace", "b": 2}}, {"spec": {"b": 2}}),
        (POD, {"spec": {"nodeName": "n"}}, {"spec": {"$patch": "delete"}}, {"spec": {}}),
        (
            POD,
            {"metadata": {"finalizers": ["a", "b", "c"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"], "finalizers": ["d"]}},
            {"metadata": {"finalizers": ["d", "a", "c"]}},
        ),
        (
            POD,
            {"metadata": {"finalizers": ["a"]}},
            {"metadata": {"$setElementOrder/finalizers": ["b", "a"], "finalizers": ["b"]}},
            {"metadata": {"finalizers": ["b", "a"]}},
        ),
        (
            NODE,  # tolerations and taints are atomic
            {"spec": {"taints": [{"key": "a"}]}},
            {"spec": {"taints": [{"key": "b"}]}},
            {"spec": {"taints": [{"key": "b"}]}},
        ),
        (
            NODE,
            {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "X"}]}},
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            {"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "X"}]}},
        ),
        (ACCOUNT, {}, {"secrets": [{"name": "s", "$patch": "delete"}]}, {"secrets": []}),
        (POD, {}, {"metadata": {"labels": {"a": "1", "b": None}}}, {"metadata": {"labels": {"a": "1"}}}),
    ],
)
def test_maps_scalars_and_new_values(kind: Gvk, obj: Obj, patch: Obj, result: Obj) -> None:
    assert strategic_merge(obj, patch, kind) == result


def test_custom_resources_refuse_strategic_merge() -> None:
    with pytest.raises(PatchError) as caught:
        strategic_merge({}, {}, Gvk("x.example.com", "v1", "Widget"))
    assert caught.value.code == 415


def test_rejected_patch_names_the_patch_as_the_field() -> None:
    error = patch_rejected(go_text({"spec": {"replicas": "x"}}), "unrecognized type: int32")
    text = 'Invalid value: "map[spec:map[replicas:x]]": unrecognized type: int32'
    assert error.message == f' "" is invalid: patch: {text}'
    assert error.causes == [{"reason": "FieldValueInvalid", "message": text, "field": "patch"}]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=12,
)
json_objects = st.dictionaries(st.sampled_from("abcd"), json_values, max_size=4)


def merge_difference(old: Any, new: Any) -> Any:
    """A merge patch from ``old`` to ``new``; both without nulls in maps."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    patch = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old or not same(old[key], value):
            patch[key] = merge_difference(old.get(key), value)
    return patch


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


@given(json_objects, json_objects)
def test_merge_patch_of_a_difference_is_the_new_object(old: Obj, new: Obj) -> None:
    old, new = without_nulls(old), without_nulls(new)
    assert same(merge_patch(old, merge_difference(old, new)), new)


@given(json_objects, json_objects)
def test_merge_patch_is_idempotent(obj: Obj, patch: Obj) -> None:
    once = merge_patch(obj, patch)
    assert same(merge_patch(once, patch), once)


names = st.lists(st.sampled_from("abcdef"), unique=True, max_size=5)


@given(names, names)
def test_strategic_difference_of_lists_gives_the_new_list(old: list[str], new: list[str]) -> None:
    """What kubectl sends for a changed list: changes, deletions and the wanted order."""
    had = {"spec": {"containers": [{"name": n, "image": "1"} for n in old]}}
    want = [{"name": n, "image": "2"} for n in new]
    change = [*want, *({"name": n, "$patch": "delete"} for n in old if n not in new)]
    order = [{"name": n} for n in new]
    patch = {"spec": {"$setElementOrder/containers": order, "containers": change}}
    assert strategic_merge(had, patch, POD)["spec"]["containers"] == want
