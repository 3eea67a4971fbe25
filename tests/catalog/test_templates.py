"""Replacement of ``{{name}}`` and the checks of parameters."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.catalog import Param, fill, fill_text, resolve
from aiopslab.errors import ManifestError

scalars = st.none() | st.booleans() | st.integers() | st.text(alphabet="abc{ \n")
trees = st.recursive(scalars, lambda t: st.lists(t, max_size=3) | st.dictionaries(st.text("ab"), t, max_size=3))


@pytest.mark.parametrize(
    ("tree", "filled"),
    [
        ("{{n}}", 3),
        (" {{ n }} ", 3),
        ("n={{n}}", "n=3"),
        ("{{t}}-{{n}}", "web-3"),
        ("{{on}}", True),
        ("is {{on}}", "is true"),
        ("{{before:spec.replicas}}", "{{before:spec.replicas}}"),
        ({"a": ["{{t}}", {"b": "{{n}}"}], "c": 1.5}, {"a": ["web", {"b": 3}], "c": 1.5}),
        ("{ {n} }", "{ {n} }"),
    ],
)
def test_fill(tree: Any, filled: Any) -> None:
    assert fill(tree, {"n": 3, "t": "web", "on": True}, "here") == filled


@given(trees)
def test_a_tree_without_placeholders_stays_as_it_is(tree: Any) -> None:
    assert fill(tree, {}, "here") == tree


def test_an_unknown_name_says_what_is_known() -> None:
    with pytest.raises(ManifestError, match=r"here: \{\{x\}\} is not a parameter here; known: a, b"):
        fill_text("{{x}}", {"b": 1, "a": 2}, "here")


def test_defaults_are_filled_in() -> None:
    schema = {"a": Param(default="x"), "b": Param(type="integer")}
    assert resolve(schema, {"b": 2}, "here") == {"a": "x", "b": 2}


@pytest.mark.parametrize(
    ("param", "given", "says"),
    [
        (Param(help="which one"), {}, "'p' is missing (which one)"),
        (Param(), {"p": 1}, "must be of type string, not 1"),
        (Param(type="integer"), {"p": True}, "must be of type integer, not True"),
        (Param(type="integer"), {"p": 1.5}, "must be of type integer"),
        (Param(type="boolean"), {"p": 1}, "must be of type boolean"),
        (Param(type="number", maximum=2), {"p": 3}, "the most is 2"),
        (Param(choices=["a", "b"]), {"p": "c"}, "choose a, b"),
        (Param(), {"p": "x", "q": 1}, "unknown parameter 'q'"),
    ],
)
def test_wrong_parameters_are_named(param: Param, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ManifestError, match=re.escape(says)):
        resolve({"p": param}, given, "here")
