"""Grading a record folder: from disk, again, and when it is not one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiopslab.errors import UsageError
from aiopslab.grading import grade, grade_record
from aiopslab.record import write_record


def save(run: Any, folder: Path) -> Path:
    parts = run.parts()
    write_record(folder, parts["record"])
    for name, snapshot in parts["snapshots"].items():
        path = folder / "snapshots" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(msgspec.json.encode(snapshot))
    (folder / "telemetry").mkdir()
    (folder / "telemetry" / "slo.json").write_bytes(msgspec.json.encode(parts["slos"]))
    (folder / "audit.jsonl").write_text('{"verb": "get", "path": "/api/v1/pods", "code": 200}\n\n')
    return folder


def test_a_folder_is_judged_as_its_parts_are_and_left_as_it_was(new_run: Any, tmp_path: Path) -> None:
    run = new_run("mitigation")
    run.repair()
    folder = save(run, tmp_path / "r")
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    result = grade(folder)
    assert result.verdict == "pass"
    assert result == grade(folder) == grade_record(**run.parts())
    assert files == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_not_a_record_is_said_so(new_run: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no record\.json"):
        grade(tmp_path)
    (tmp_path / "record.json").write_text('{"version": 1')
    with pytest.raises(UsageError, match="cannot be read"):
        grade(tmp_path)
    run = new_run("detection")
    run.record.version = 99
    write_record(tmp_path, run.record)
    with pytest.raises(UsageError, match="record format 99"):
        grade(tmp_path)


def test_a_run_that_never_got_anywhere_is_unknown(new_run: Any, tmp_path: Path) -> None:
    run = new_run("mitigation")
    run.record.expected = None
    write_record(tmp_path, run.record)
    assert grade(tmp_path).verdict == "unknown"
