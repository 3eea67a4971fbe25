"""The injection journal: what was there, on disk before it is changed, so that any later process can undo it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import msgspec

from aiopslab.errors import InjectionError

State = Literal["saved", "injected", "recovered"]


class Journal(msgspec.Struct, kw_only=True):
    """``journal.json`` of a record.

    ``fault`` is its id, ``folder`` and ``class_ref`` where its code is; ``saved`` is what its ``save`` returned.
    ``state``: ``saved`` (it may or may not have been injected), ``injected``, ``recovered``.
    """

    fault: str
    folder: str
    class_ref: str
    namespace: str
    params: dict[str, Any]
    object_name: str
    objects: list[str]
    saved: dict[str, Any]
    state: State
    injected_at: float | None = None


def read_journal(path: Path) -> Journal | None:
    """The journal at ``path``; None when nothing was ever about to be changed."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Journal)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise InjectionError(f"{path} is not a journal: {error}; recover by hand from the record") from error


def write_journal(path: Path, journal: Journal) -> None:
    """Write so that it is on disk, whole, when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    with draft.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(journal), indent=1))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
