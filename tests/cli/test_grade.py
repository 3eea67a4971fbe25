"""``grade`` and what it prints: the JSON contract and the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

KEYS = [
    "problem", "task", "app", "agent", "seed", "cluster", "verdict", "score", "checks", "submission", "expected",
    "times", "steps", "invalid_actions", "tokens", "record",
]  # fmt: skip


def test_json_is_the_contract(cli: Callable[..., Any], record_folder: Callable[..., Path]) -> None:
    folder = record_folder()
    found = cli("grade", str(folder), "--json").json
    assert set(KEYS) <= set(found)
    assert found["times"] == {
        "detect_s": 90.0,
        "localize_s": None,
        "analyze_s": None,
        "mitigate_s": None,
        "wall_s": 3.75,
        "setup_wall_s": 1.5,
    }
    assert found["submission"] == "Yes"
    assert found["checks"][0].keys() == {"name", "ok", "detail"}
    assert found["tokens"] == {"in": 120, "out": 40}
    assert found["results"]["Detection Accuracy"] == "Correct"
    assert found["record"] == str(folder)


@pytest.mark.parametrize(
    ("changes", "code"),
    [({}, 0), ({"answer": "No"}, 1), ({"outcome": "lab-failure"}, 3), ({"outcome": "interrupted"}, 3)],
)
def test_exit_codes(
    cli: Callable[..., Any], record_folder: Callable[..., Path], changes: dict[str, str], code: int
) -> None:
    assert cli("grade", str(record_folder(**changes))).code == code


def test_several_records(cli: Callable[..., Any], record_folder: Callable[..., Path]) -> None:
    folders = [str(record_folder("a")), str(record_folder("b", answer="No"))]
    ended = cli("grade", *folders, "--json")
    assert ended.code == 1
    assert [entry["verdict"] for entry in ended.json["records"]] == ["pass", "fail"]


def test_the_report_says_what_happened(cli: Callable[..., Any], record_folder: Callable[..., Path]) -> None:
    folder = record_folder()
    out = cli("grade", str(folder)).out
    for text in (
        "PASS", "score 1.00", "seed 7", "service-target-port (service=catalog)", "Service/shop/catalog",
        "users felt it after 30 s", "detection: Yes", "The agent reported an anomaly", "detection after 90 s",
        "4 steps (1 invalid)", str(folder),
    ):  # fmt: skip
        assert text in out, text
    failed = cli("grade", str(record_folder("l", outcome="lab-failure"))).out
    assert "UNKNOWN" in failed
    assert "the cluster went away" in failed
