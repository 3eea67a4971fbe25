"""The command line run in this process, and a record to show."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiopslab.cli.app import execute
from aiopslab.record import Expected, Injection, Phase, RunRecord, Submission, write_record


@dataclass
class Ended:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Ended]]:
    """Run ``aiopslab`` with the given words."""
    before = signal.getsignal(signal.SIGTERM)

    def run(*words: str) -> Ended:
        capsys.readouterr()
        code = execute(words)
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    yield run
    signal.signal(signal.SIGTERM, before)


def a_record(answer: str = "Yes", outcome: str = "submitted") -> RunRecord:
    return RunRecord(
        run_id="r1",
        problem="shop-port-detection-1",
        task="detection",
        app="shop",
        namespace="shop",
        agent="someone",
        seed=7,
        cluster="embedded",
        versions={},
        config={},
        started_at=0.0,
        wall_started_at=0.0,
        phases=[
            Phase(name="setup", start_s=-700.0, end_s=-600.0, wall_s=1.5),
            Phase(name="agent", start_s=60.0, end_s=95.0, wall_s=2.25),
        ],
        injection=Injection(
            fault="service-target-port",
            params={"service": "catalog"},
            targets=["catalog"],
            objects=["Service/shop/catalog"],
            injected_at=1000.0,
            symptom_after_s=30.0,
        ),
        expected=Expected(
            anomaly=True,
            components=["catalog"],
            system_levels=["Virtualization"],
            fault_types=["Misconfiguration"],
            blast_radius=["catalog"],
            cause_gone=[],
        ),
        submissions=[Submission(stage="detection", value=answer, at_s=90.0, step=4)],
        steps=4,
        invalid_actions=1,
        tokens={"in": 120, "out": 40},
        outcome=outcome,
        failure="the cluster went away" if outcome == "lab-failure" else "",
    )


@pytest.fixture
def record_folder(tmp_path: Path) -> Callable[..., Path]:
    """Write a record and return its folder."""

    def write(name: str = "r", **changes: str) -> Path:
        folder = tmp_path / name
        write_record(folder, a_record(**changes))
        return folder

    return write


@pytest.fixture
def new_record() -> Callable[..., RunRecord]:
    """Builds a record that nothing else holds."""
    return a_record
