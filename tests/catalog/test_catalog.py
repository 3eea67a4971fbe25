"""What the catalogue makes of folders: tasks, broken rows, and errors that say what to do."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

from aiopslab.catalog import Catalog, bundles, load_object
from aiopslab.errors import ManifestError, UnknownIdError, UsageError


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_variant_is_filled_in(bundle: Path) -> None:
    task = Catalog.load([bundle]).problem("dark-mitigation-2")
    assert (task.task, task.variant, task.app.id, task.workload.id) == ("mitigation", 2, "toy", "drip")
    assert task.fault is not None
    assert task.params == {"service": "db", "seconds": 9}
    assert task.expected.components == ["db", "db-2"]
    assert task.expected.blast_radius == ["db", "web"]
    assert task.expected.fault_types == ["Power", "No Power"]
    assert task.expected.cause_gone[0]["name"] == "db"
    assert task.expected.cause_gone[0]["value"] == 9  # keeps its type
    assert task.symptom is not None
    assert task.symptom.expr == 'absent(up{service="db"})'


def test_answers_follow_from_the_target_when_not_given(bundle: Path) -> None:
    task = Catalog.load([bundle]).problem("dark-detection-1")
    assert task.expected.components == task.expected.blast_radius == ["web"]
    assert task.answer == {"detection": "Yes"}
    assert task.solution == []


def test_the_solution_is_its_paragraphs_with_parameters_exported(bundle: Path) -> None:
    solution = Catalog.load([bundle]).problem("dark-mitigation-1").solution
    exports = "export NAMESPACE=toy-ns SECONDS=5 SERVICE=web\n"
    assert solution == [f"{exports}plug --in $SERVICE", f"{exports}check \\\n  all"]


def test_an_alias_is_the_task_it_names(bundle: Path) -> None:
    task = Catalog.load([bundle]).problem("old_dark-det-1")
    assert (task.id, task.task, task.variant) == ("old_dark-det-1", "detection", 1)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("dark-detektion-1", "Did you mean dark-detection-1"),
        ("dark-detection-3", "Did you mean dark-detection-"),
        ("dark-analysis-1", "unknown problem 'dark-analysis-1'"),
        ("dark-detection-01", "unknown problem"),
        ("dark", "is a problem, not one task of it. Choose dark-detection-1"),
        ("", "unknown problem ''"),
        ("zzz", "`aiopslab list problems` names them all"),
    ],
)
def test_an_unknown_id_suggests_near_ones(bundle: Path, wanted: str, says: str) -> None:
    with pytest.raises(UnknownIdError, match=re.escape(says)):
        Catalog.load([bundle]).problem(wanted)


@pytest.mark.parametrize(
    ("file", "old", "new", "broken", "says"),
    [
        ("apps/toy/app.toml", 'chart = "toy"', 'chart = "joy"', "toy", "no bundle has the chart helm/joy"),
        ("apps/toy/app.toml", 'release = "toy"', "release = 3", "toy", "got `int` - at `$.release`"),
        ("apps/toy/app.toml", 'release = "toy"', 'relase = "toy"', "toy", "contains unknown field `relase`"),
        ("apps/toy/app.toml", 'title = "Toy"', "title = ", "toy", "cannot be read"),
        ("apps/toy/app.toml", 'title = "Toy"', 'title = "Toy"\nid = "x"', "toy", "'id' cannot be set"),
        ("workloads/drip/workload.toml", "job.yaml", "jobs.yaml", "drip", "jobs.yaml does not exist"),
        ("problems/dark/problem.toml", 'app = "toy"', 'app = "tay"', "dark", "'tay'. Did you mean toy?"),
        ("problems/dark/problem.toml", 'fault = "unplug"', 'fault = "u"', "dark", "unknown fault 'u'"),
        ("problems/dark/problem.toml", "seconds = 9", "secs = 9", "dark", "did you mean 'seconds'?"),
        ("problems/dark/problem.toml", "seconds = 9", "seconds = 0", "dark", "the least is 1"),
        ("problems/dark/problem.toml", "seconds = 9", 'seconds = "9"', "dark", "must be of type integer"),
        ("problems/dark/problem.toml", "{{service}}", "{{servise}}", "dark", "{{servise}} is not a parameter"),
        ("problems/dark/problem.toml", '"mitigation"]', '"healing"]', "dark", "Invalid enum value 'healing'"),
        ("problems/dark/problem.toml", '"detection-1"', '"detection-9"', "dark", "alias target 'detection-9'"),
        ("problems/dark/problem.toml", 'fault = "unplug"', "", "dark", "without a fault the task 'mitigation'"),
    ],
)
def test_a_broken_folder_is_a_broken_row(
    bundle: Path, file: str, old: str, new: str, broken: str, says: str
) -> None:
    edit(bundle / file, old, new)
    catalog = Catalog.load([bundle])
    errors = {row.id: row.error for row in catalog.broken}
    assert says in errors[broken]
    assert file.rpartition("/")[0] in errors[broken]
    with pytest.raises(ManifestError):
        catalog.problem("dark-mitigation-1")


def test_a_folder_without_manifest_is_a_broken_row(bundle: Path) -> None:
    (bundle / "faults" / "empty").mkdir()
    (row,) = Catalog.load([bundle]).broken
    assert (row.kind, row.id) == ("fault", "empty")
    assert "has no fault.toml" in row.error


def test_a_repair_needs_its_recorded_solution(bundle: Path) -> None:
    (bundle / "problems/dark/solution.sh").unlink()
    (row,) = Catalog.load([bundle]).broken
    assert "solution.sh is missing" in row.error


def test_listing_runs_no_content(bundle: Path) -> None:
    (bundle / "faults/unplug/fault.py").write_text("raise SystemExit('content ran')\n")
    catalog = Catalog.load([bundle])
    assert catalog.problem("dark-detection-1").fault is catalog.faults["unplug"]


def test_a_taken_id_names_both_folders(bundle: Path, tmp_path: Path) -> None:
    twin = tmp_path / "twin" / "faults" / "unplug"
    twin.mkdir(parents=True)
    (twin / "fault.toml").write_text((bundle / "faults/unplug/fault.toml").read_text())
    catalog = Catalog.load([bundle, tmp_path / "twin"])
    (row,) = catalog.broken
    assert str(twin) in row.error
    assert str(bundle / "faults/unplug") in row.error
    assert catalog.faults["unplug"].folder == bundle / "faults/unplug"


def test_the_same_bundle_twice_is_one(bundle: Path) -> None:
    catalog = Catalog.load([bundle, bundle / "apps" / ".."])
    assert catalog.broken == []
    assert catalog.roots.count(bundle) == 1


def test_an_installed_package_is_a_bundle(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bundle / "__init__.py").write_text("raise SystemExit('content ran')\n")
    points = [
        metadata.EntryPoint("acme", "acme", bundles.ENTRY_POINT_GROUP),
        metadata.EntryPoint("gone", "no_such_package.at_all", bundles.ENTRY_POINT_GROUP),
    ]
    monkeypatch.syspath_prepend(str(bundle.parent))
    monkeypatch.setattr(bundles.metadata, "entry_points", lambda group: points)
    catalog = Catalog.load()
    assert catalog.roots[1:] == [bundle]
    assert catalog.problem("dark-detection-1").app.id == "toy"


def test_a_folder_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a bundle: it holds none of apps/"):
        Catalog.load([tmp_path])


def test_a_problem_is_found_by_its_folder(bundle: Path, tmp_path: Path) -> None:
    catalog = Catalog.load([bundle])
    assert catalog.at(bundle / "problems" / "dark").id == "dark"
    with pytest.raises(UsageError, match=r"holds no problem\.toml"):
        catalog.at(bundle / "problems" / "other")
    with pytest.raises(UsageError, match="is not in a bundle"):
        catalog.at(tmp_path)


def test_code_is_loaded_by_path_with_relative_imports(bundle: Path) -> None:
    assert load_object(bundle / "faults/unplug", "fault.py:Unplug").name == "plug"


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("fault.py", "must have the form file.py:Name"),
        ("nix.py:X", "does not exist"),
        ("fault.py:Plug", "has no 'Plug'"),
        ("bad.py:X", "cannot be loaded: ZeroDivisionError"),
    ],
)
def test_unusable_code_names_the_file(bundle: Path, reference: str, says: str) -> None:
    (bundle / "faults/unplug/bad.py").write_text("1 / 0\n")
    with pytest.raises(ManifestError, match=re.escape(says)):
        load_object(bundle / "faults/unplug", reference)
