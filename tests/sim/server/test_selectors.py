"""Label and field selectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.kinds import Kinds
from aiopslab.sim.core.selectors import from_label_selector, parse_fields, parse_labels, selector_text

LABELS = {"app": "web", "tier": "3", "env": ""}
KINDS = Kinds()


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app!=web", False),
        ("app in (web, x)", True),
        ("app notin (web)", False),
        ("nope notin (web)", True),
        ("app", True),
        ("!app", False),
        ("!nope", True),
        ("tier>2", True),
        ("tier<3", False),
        ("app>2", False),
        ("env=", True),
        ("app=web,tier=3", True),
        ("app=web,tier=4", False),
        ("x in (),!y", False),
    ],
)
def test_label_selectors(text, selected):
    assert parse_labels(text).matches(LABELS) is selected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b', expected: '('"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("a>x", "the value must be an integer"),
        ("a=-x", "a valid label must be an empty string"),
        ("/=x", "name part must consist of"),
    ],
)
def test_bad_label_selectors(text, message):
    with pytest.raises(ApiError) as error:
        parse_labels(text)
    assert error.value.code == 400 and message in error.value.message


def test_object_selectors():
    selector = {
        "matchLabels": {"b": "1"},
        "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}],
    }
    parsed = from_label_selector(selector)
    assert parsed is not None and parsed.matches({"a": "x", "b": "1"}) and not parsed.matches({"a": "x"})
    assert selector_text(selector) == "a in (x,y),b=1"
    assert from_label_selector(None) is None and from_label_selector({}).matches({})  # type: ignore[union-attr]


@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2", ""])), st.sampled_from("abc"))
def test_a_requirement_and_its_negation_never_agree(labels, key):
    for positive, negative in (
        (f"{key}=1", f"{key}!=1"),
        (key, f"!{key}"),
        (f"{key} in (1,2)", f"{key} notin (1,2)"),
    ):
        assert parse_labels(positive).matches(labels) != parse_labels(negative).matches(labels)


@pytest.mark.parametrize(
    ("resource", "text", "selected"),
    [
        ("pods", "metadata.name=p", True),
        ("pods", "metadata.name==p,status.phase!=Failed", True),
        ("pods", "spec.nodeName=", True),
        ("pods", "spec.hostNetwork=false", True),
        ("pods", "status.phase=Failed", False),
        ("nodes", "spec.unschedulable=false", True),
        ("batch/jobs", "status.successful=0", True),
    ],
)
def test_field_selectors(resource, text, selected):
    obj = {"metadata": {"name": "p", "namespace": "n"}, "spec": {}, "status": {"phase": "Running"}}
    assert parse_fields(text, KINDS.by_resource(resource)).matches(obj) is selected


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        ("pods", "field label not supported: spec.x"),
        ("apps/replicasets", 'field label "spec.x" not supported for ReplicaSet'),
        ("configmaps", '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ],
)
def test_unsupported_fields(resource, message):
    with pytest.raises(ApiError) as error:
        parse_fields("spec.x=1", KINDS.by_resource(resource))
    assert error.value.message == message
