"""Flags as flagd evaluates them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.sim.world.flags import Flags

ON_OFF = {"on": True, "off": False}


def file(**flag: Any) -> str:
    return json.dumps({"flags": {"f": {"state": "ENABLED", "variants": ON_OFF, "defaultVariant": "off", **flag}}})


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ({}, 0.0),
        ({"defaultVariant": "on"}, 1.0),
        ({"defaultVariant": "on", "state": "DISABLED"}, 0.25),
        ({"variants": {"half": 0.5}, "defaultVariant": "half"}, 0.5),
        ({"targeting": {"if": [{"==": [{"var": "id"}, "a"]}, "on", "off"]}}, 1.0),
        ({"targeting": {"if": [{"!=": [{"var": "id"}, "a"]}, "on"]}, "defaultVariant": "off"}, 0.0),
        ({"targeting": {"if": [{"in": [{"var": "id"}, ["a", "b"]]}, "on", "off"]}}, 1.0),
        ({"targeting": {"if": [{"and": [{"var": "id"}, {"!": {"var": "nix"}}]}, "on", "off"]}}, 1.0),
        ({"targeting": {"unheard": [1]}, "defaultVariant": "on"}, 1.0),
    ],
)
def test_a_value(flag: dict[str, Any], value: float) -> None:
    assert Flags(file(**flag)).value("f", {"id": "a"}, 0.25) == value


@given(st.text(max_size=40))
def test_a_file_that_cannot_be_read_has_no_flags(text: str) -> None:
    assert Flags(text).value("f", {}, 7.0) == 7.0
