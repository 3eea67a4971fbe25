"""The lab's side of the room's folders: writing into them safely, their size, their times.

What is in these folders belongs to the agent: symbolic links in them may point anywhere, so nothing here
follows one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def walk(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """All entries below ``folder`` that are not folders, links not followed."""
    pending = [folder]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:
            continue
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
                else:
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def usage(folders: tuple[Path, ...]) -> tuple[int, int]:
    """(bytes on disk, number of files) below the folders."""
    used = files = 0
    for folder in folders:
        for _, info in walk(folder):
            used += info.st_blocks * 512
            files += 1
    return used, files


def fresh(folders: tuple[Path, ...], since: float) -> list[tuple[Path, int]]:
    """Files that were written at or after ``since`` (machine time), with their bytes on disk, biggest first."""
    found = [
        (path, info.st_blocks * 512) for folder in folders for path, info in walk(folder) if info.st_mtime >= since
    ]
    return sorted(found, key=lambda item: (-item[1], str(item[0])))


def set_times(paths: list[Path], moment: float) -> None:
    """Give files (and the folders they are in) the time ``moment``."""
    for path in {*paths, *(path.parent for path in paths)}:
        with contextlib.suppress(OSError):
            os.utime(path, (moment, moment), follow_symlinks=False)


def place(root: Path, relative: str, data: bytes) -> Path:
    """Write ``data`` to ``relative`` below ``root``. Links in the way are replaced, never followed."""
    path = root
    for part in Path(relative).parts[:-1]:
        path = path / part
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            path.unlink()
        path.mkdir(exist_ok=True)
    path = path / Path(relative).name
    if path.is_symlink() or path.exists():
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path
