"""Writes a run's record while the run goes on, so that a crash at any moment leaves a readable folder."""

from __future__ import annotations

import datetime as dt
import re
import secrets
import time
from pathlib import Path
from typing import Any

import msgspec

from aiopslab.errors import UsageError
from aiopslab.record import RunRecord, SloSeries, Snapshot, Step, write_record


def new_folder(out: Path, problem: str) -> tuple[str, Path]:
    """A new, empty record folder below ``out`` and the run's id, which is the folder's name."""
    stamp = f"{dt.datetime.fromtimestamp(time.time(), dt.UTC):%Y%m%d-%H%M%S}"
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", problem)
    for _ in range(100):
        run_id = f"{stamp}-{name}-{secrets.token_hex(2)}"
        try:
            (out / run_id).mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(
                f"the record cannot be written below {out}: {error.strerror}; choose another --out"
            ) from error
        return run_id, out / run_id
    raise UsageError(f"no free name for a record below {out}; choose another --out")


class RecordWriter:
    """The record folder of one run. ``save`` after every change of ``record``; lines and files are written at
    once.
    """

    def __init__(self, folder: Path, record: RunRecord) -> None:
        self.folder, self.record = folder, record
        self.save()

    @property
    def journal(self) -> Path:
        """Where the injector notes what it changes."""
        return self.folder / "journal.json"

    def save(self) -> None:
        """Write ``record.json``."""
        write_record(self.folder, self.record)

    def step(self, step: Step) -> None:
        """Append one step to the trajectory."""
        self._append("trajectory.jsonl", step)

    def audit(self, entries: list[dict[str, Any]]) -> None:
        """Append API requests that were made with the agent's identity."""
        for entry in entries:
            self._append("audit.jsonl", entry)

    def snapshot(self, name: str, snapshot: Snapshot) -> None:
        """Write the objects at one moment."""
        self._whole(f"snapshots/{name}.json", snapshot)

    def slos(self, series: list[SloSeries]) -> None:
        """Write the objectives' values over the run."""
        self._whole("telemetry/slo.json", series)

    def note_trouble(self, text: str) -> None:
        """Keep the details of an error in the lab for whoever looks into it."""
        with (self.folder / "trouble.txt").open("a", encoding="utf-8") as file:
            file.write(text.rstrip("\n") + "\n")

    def _append(self, name: str, value: Any) -> None:
        with (self.folder / name).open("ab") as file:
            file.write(msgspec.json.encode(value) + b"\n")

    def _whole(self, name: str, value: Any) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        draft = path.with_suffix(".tmp")
        draft.write_bytes(msgspec.json.encode(value))
        draft.replace(path)
