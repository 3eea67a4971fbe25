"""Custom resources: schemas, defaults, rules, the kinds they make, and their end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.sim.core import cel, structural
from aiopslab.sim.core.api import ApiError, DeleteOptions

SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "x-kubernetes-validations": [
                {"rule": "self.size != 3", "message": "not three"},
                {"rule": "self.size >= oldSelf.size", "message": "only grows"},
            ],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "port": {"x-kubernetes-int-or-string": True},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}
CRD = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [
            {
                "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA},
                "subresources": {"status": {}},
            }
        ],
    },
}  # fmt: skip
CRDS, WIDGETS = "apiextensions.k8s.io/customresourcedefinitions", "example.com/widgets"


@pytest.fixture
def widgets(api, options):
    """A cluster with the CRD, and a creator of widgets."""
    api.create(CRDS, "", CRD, options)

    def create(**spec):
        body = {"metadata": {"name": "w"}, "spec": {"size": 1, **spec}}
        return api.create(WIDGETS, "default", body, options)

    return create


def test_a_definition_is_established_at_once(api, widgets):
    stored = api.get(CRDS, "", "widgets.example.com")
    assert {c["type"]: c["status"] for c in stored["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert stored["status"]["storedVersions"] == ["v1"]
    kind = api.kinds.by_gvk("example.com/v1", "Widget")
    assert kind.singular == "widget" and kind.list_name == "WidgetList" and kind.has_status


def test_defaults_and_pruning(widgets):
    assert widgets(bogus=1, free={"any": 1})["spec"] == {"size": 1, "color": "red", "free": {"any": 1}}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"size": "x"}, 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'),
        ({"size": 0}, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        ({"size": 11}, "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"),
        ({"color": "green"}, 'spec.color: Unsupported value: "green": supported values: "red", "blue"'),
        ({"name": "A"}, "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'"),
        ({"name": "abcdef"}, "spec.name: Too long: may not be more than 5 bytes"),
        ({"tags": ["a", "b", "c"]}, "spec.tags: Too many: 3: must have at most 2 items"),
        (
            {"port": []},
            'spec.port: Invalid value: "array": spec.port in body must be of type integer,string: "array"',
        ),
        ({"size": 3}, "spec: Invalid value: not three"),
    ],
)
def test_refused_widgets(widgets, spec, message):
    with pytest.raises(ApiError) as error:
        widgets(**spec)
    assert error.value.message == f'Widget.example.com "w" is invalid: {message}'


def test_rules_over_old_and_new(api, options, widgets):
    widgets(size=5)
    with pytest.raises(ApiError, match="only grows"):
        api.patch(WIDGETS, "default", "w", "merge", {"spec": {"size": 4}}, options)
    assert (
        api.patch(WIDGETS, "default", "w", "merge", {"spec": {"size": 6}}, options)["metadata"]["generation"] == 2
    )


def test_a_deleted_definition_takes_its_objects_along(cluster, api, widgets):
    widgets()
    api.delete(CRDS, "", "widgets.example.com", DeleteOptions())
    cluster.kernel.settle()
    assert not api.kinds.known(WIDGETS) and not api.store.list(WIDGETS) and not api.store.list(CRDS)


FIELDS = st.sampled_from(["a", "b", "size", "tags"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 12) | st.sampled_from(["red", "x", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["spec", "status", "extra"]), VALUES, max_size=3))
def test_pruning_and_defaulting_happen_once(obj):
    pruned, _ = structural.prune(SCHEMA, obj)
    assert structural.prune(SCHEMA, pruned) == (pruned, [])
    filled = structural.default(SCHEMA, pruned)
    assert structural.default(SCHEMA, filled) == filled
    structural.validate(SCHEMA, filled)  # never raises


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 == 7", True),
        ("!(self.a > 1) || has(self.b)", True),
        ("self.l.all(x, x > 0)", True),
        ("self.l.exists(x, x == 2) ? 'yes' : 'no'", "yes"),
        ("size(self.l) - 2", 0),
        ("self.s.startsWith('ab')", True),
        ("'b' in ['a', 'b']", True),
        ("self.l.map(x, x * 2)", [2, 4]),
        ("7 / 2", 3),
        ("self.s.matches('^a')", True),
        ("self.l[1]", 2),
    ],
)
def test_expressions(text, value):
    assert cel.evaluate(text, {"self": {"a": 1, "l": [1, 2], "s": "abc"}}) == value


@pytest.mark.parametrize("text", ["self.", "a ? b", "url(self)", "self.x.y("])
def test_unsupported_expressions_are_not_enforced(text):
    schema = {"x-kubernetes-validations": [{"rule": text}]}
    assert [e for e in cel.validate(schema, {"x": 1}, None) if "no such" not in e.message] == []
