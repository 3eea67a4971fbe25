"""How submitted values are read: tables, and the law that nothing an agent sends breaks a grader."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiopslab.grading import TASKS, grade_record
from aiopslab.grading.answers import labels, names, yes_or_no

YES_NO = [
    (True, True),
    (False, False),
    ("Yes", True),
    ("yes.", True),
    (" NO ", False),
    ("No anomaly", False),
    (1, True),
    (0.0, False),
    (["Yes"], True),
    ({"has_anomaly": "yes"}, True),
    ({"hasAnomaly": False}, False),
    ("Yes, the frontend fails", True),
    ("No - all is well", False),
    ("Yes or no", True),
    ("maybe", None),
    (None, None),
    ("", None),
    (2, None),
    (["Yes", "No"], None),
    ({"x": "yes"}, None),
    (float("nan"), None),
    ("notable", None),
]

NAMES = [
    (["a", "b"], ["a", "b"]),
    ("a", ["a"]),
    ("a, b", ["a", "b"]),
    ("1. a\n2. b", ["a", "b"]),
    ("- a\n- b", ["a", "b"]),
    ('["a", "b"]', ["a", "b"]),
    ("['a']", ["a"]),
    ("a and b", ["a", "b"]),
    ({"faulty_components": ["a"]}, ["a"]),
    ([{"name": "a"}, {"service": "b"}], ["a", "b"]),
    ([["a"], ["b"]], ["a", "b"]),
    ([], []),
    (None, []),
    ("none", []),
    ({}, []),
    ("No anomaly", []),
    (5, None),
    (True, None),
    (["a", 5], None),
    ({"a": 1}, None),
    ("[broken", None),
]

LABELS = [
    ({"system_level": "Application", "fault_type": "Misconfiguration"}, "both"),
    ({"System Level": "Application", "fault-type": "Misconfiguration"}, "both"),
    ('{"system_level": "Application", "fault_type": "Misconfiguration"}', "both"),
    ({"analysis": {"system_level": "Application", "fault_type": "Misconfiguration"}}, "both"),
    ([{"system_level": ["Application"], "fault_type": "Misconfiguration"}], "both"),
    ({"system_level": ["Application", "Hardware"]}, {}),
    ({"system_level": 3}, {}),
    (None, {}),
    ({}, {}),
    ("no fault", {}),
    ("Application", None),
    (5, None),
]


@pytest.mark.parametrize(("value", "wanted"), YES_NO, ids=repr)
def test_yes_or_no(value: Any, wanted: bool | None) -> None:
    assert yes_or_no(value) is wanted


@pytest.mark.parametrize(("value", "wanted"), NAMES, ids=repr)
def test_names(value: Any, wanted: list[str] | None) -> None:
    assert names(value) == wanted


@pytest.mark.parametrize(("value", "wanted"), LABELS, ids=repr)
def test_labels(value: Any, wanted: Any) -> None:
    both = {"system_level": "Application", "fault_type": "Misconfiguration"}
    assert labels(value, ("system_level", "fault_type")) == (both if wanted == "both" else wanted)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
KEYED = st.dictionaries(
    st.sampled_from(["has_anomaly", "answer", "faulty_components", "system_level", "fault_type", "analysis"]),
    JSON,
)


@settings(max_examples=60, deadline=None)
@given(value=JSON | KEYED, task=st.sampled_from(sorted(TASKS)), anomaly=st.booleans(), data=st.data())
def test_no_submission_breaks_a_grader(
    new_run: Any, value: Any, task: str, anomaly: bool, data: st.DataObject
) -> None:
    run = new_run(task, anomaly=anomaly)
    for stage in data.draw(
        st.lists(st.sampled_from(["detection", "localization", "analysis", "mitigation"]))
    ):
        run.submit(stage, value)
    result = grade_record(**run.parts())
    assert not [check for check in result.checks if check.name == "grader"]
    assert 0.0 <= result.score <= 1.0
    assert result == grade_record(**run.parts())


def test_deep_nesting_and_great_length_are_read_as_no_answer(new_run: Any) -> None:
    deep: Any = "productcatalogservice"
    for _ in range(500):
        deep = [deep]
    for value in (
        deep,
        "x" * 1_000_000,
        ["productcatalogservice"] * 3 + [f"s{n}" for n in range(5000)],
        "[" * 50_000,
    ):
        run = new_run("localization")
        run.submit("localization", value)
        result = grade_record(**run.parts())
        assert result.verdict == "fail"
        assert all(len(check.detail) < 1000 for check in result.checks)
