"""What counts as an answer, and what is given back with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from aiopslab.actions.submissions import ActionRefused, Submitted, accept, accept_stage

ACCEPTED: list[tuple[str, Any, Any]] = [
    ("detection", "Yes", "Yes"),
    ("detection", " no. ", "No"),
    ("detection", "True", "Yes"),
    ("localization", ["cart", "redis"], ["cart", "redis"]),
    ("localization", "cart", ["cart"]),
    ("localization", "cart, redis", ["cart", "redis"]),
    ("localization", '["cart"]', ["cart"]),
    ("localization", [], []),
    ("localization", "None", []),
    ("localization", None, []),
    ("localization", ("cart",), ["cart"]),
    ("localization", ["cart cannot reach redis"], ["cart cannot reach redis"]),
    ("analysis", None, {}),
    ("analysis", {}, {}),
    (
        "analysis",
        {"system_level": "operating system", "fault_type": "network_storage_issue"},
        {"system_level": "Operating System", "fault_type": "Network/Storage Issue"},
    ),
    (
        "analysis",
        '{"system_level": "Application", "fault_type": "Misconfiguration"}',
        {"system_level": "Application", "fault_type": "Misconfiguration"},
    ),
    ("mitigation", None, None),
    ("mitigation", "restarted cart", "restarted cart"),
]


@pytest.mark.parametrize(("task", "given", "value"), ACCEPTED)
def test_accepted(task: str, given: Any, value: Any) -> None:
    assert accept(task, given) == Submitted(task, value, ends=True)


REFUSED: list[tuple[str, Any, str]] = [
    ("detection", "maybe", 'neither "Yes" nor "No"'),
    ("detection", None, "neither"),
    ("localization", {"a": 1}, "not a list of component names"),
    ("localization", [1, 2], "not a list"),
    ("analysis", {"system_level": "Application"}, "no fault_type"),
    ("analysis", {"system_level": "Application", "fault_type": "Port Mismatch"}, "Misconfiguration, Code Defect"),
    ("analysis", "broken port", "not a dictionary"),
]


@pytest.mark.parametrize(("task", "given", "reason"), REFUSED)
def test_refused_with_the_reason(task: str, given: Any, reason: str) -> None:
    with pytest.raises(ActionRefused, match=reason):
        accept(task, given)


def test_an_incident_is_submitted_in_stages() -> None:
    assert accept_stage("Detection", "yes") == Submitted("detection", "Yes", ends=False)
    assert accept_stage("localization", "cart") == Submitted("localization", ["cart"], ends=False)
    assert accept_stage("mitigation", None).ends


def test_an_incident_ends_when_nothing_is_wrong() -> None:
    assert accept_stage("detection", "No").ends


def test_an_unknown_stage_is_answered_with_the_stages() -> None:
    with pytest.raises(ActionRefused, match="detection, localization, analysis, mitigation"):
        accept_stage("Yes", None)
