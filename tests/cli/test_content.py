"""``list``, ``show`` and ``new`` over the shipped content and over a broken bundle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle with one broken problem in it."""
    folder = tmp_path / "mine" / "problems" / "half-done"
    folder.mkdir(parents=True)
    (folder / "problem.toml").write_text("title = ")
    return tmp_path / "mine"


@pytest.mark.parametrize("kind", ["problems", "apps", "faults", "workloads", "agents"])
def test_lists_are_sorted_and_the_same_in_both_forms(cli: Callable[..., Any], kind: str) -> None:
    rows = cli("list", kind, "--json").json[kind]
    names = [row["id"] for row in rows]
    assert names == sorted(names)
    assert names
    assert not [row["error"] for row in rows if row["error"]]
    table = cli("list", kind).out
    assert all(name in table for name in names)


def test_problems_are_the_default_and_name_their_tasks(cli: Callable[..., Any]) -> None:
    rows = cli("list", "--json").json["problems"]
    ids = [task for row in rows for task in row["ids"]]
    assert "hipster-target-port-mitigation-1" in ids
    assert all(task in cli("list").out for task in ids)


def test_a_broken_folder_is_a_row(cli: Callable[..., Any], bundle: Path) -> None:
    ended = cli("list", "--bundle", str(bundle), "--json")
    assert ended.code == 0
    row = next(row for row in ended.json["problems"] if row["id"] == "half-done")
    assert row["error"].startswith("broken: ")
    assert "half-done" in cli("list", "--bundle", str(bundle)).out
    shown = cli("show", "half-done", "--bundle", str(bundle))
    assert shown.code == 2
    assert "problem.toml" in shown.err


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("hipster-target-port", "problem"),
        ("hipster-target-port-incident-1", "task"),
        ("hipster-shop", "app"),
        ("service-target-port", "fault"),
        ("locust-users", "workload"),
    ],
)
def test_show(cli: Callable[..., Any], name: str, kind: str) -> None:
    shown = cli("show", name, "--json").json
    assert (shown["kind"], shown["id"]) == (kind, name)
    assert shown["title"] in cli("show", name).out


def test_show_suggests_a_near_name(cli: Callable[..., Any]) -> None:
    assert "hipster-target-port" in cli("show", "hipster-target-prot").err


@pytest.mark.parametrize("kind", ["problem", "fault", "app"])
def test_new_makes_a_folder_that_list_finds(cli: Callable[..., Any], kind: str, tmp_path: Path) -> None:
    ended = cli("new", kind, "my-own", "--bundle", str(tmp_path))
    assert ended.code == 0, ended.err
    assert (tmp_path / f"{kind}s" / "my-own").is_dir()
    rows = cli("list", f"{kind}s", "--bundle", str(tmp_path), "--json").json[f"{kind}s"]
    assert "my-own" in [row["id"] for row in rows]
    again = cli("new", kind, "my-own", "--bundle", str(tmp_path))
    assert again.code == 2


def test_tools_are_named(cli: Callable[..., Any]) -> None:
    found = cli("tools", "--json").json
    assert set(found) == {"kubectl", "helm", "bwrap"}
    assert Path(found["kubectl"]).is_file()
    assert found["helm"] in cli("tools").out
