"""What the processes below one process are doing: states, CPU use, memory. Linux ``/proc``."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_WAITING = frozenset("SITtXZ")


@dataclass(frozen=True, slots=True)
class Sample:
    """One look. ``asleep``: no thread runs or waits for a disk. ``ticks``: CPU time used so far, in clock ticks."""

    pids: tuple[int, ...]
    asleep: bool
    ticks: int
    rss_bytes: int


class ProcessTree:
    """All descendants of ``root`` (a process id of this host), looked at again and again."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._everyone: frozenset[str] = frozenset()
        self._members: tuple[int, ...] = ()

    def sample(self) -> Sample:
        """Look now. Processes that vanish meanwhile are left out."""
        everyone = frozenset(name for name in os.listdir("/proc") if name.isdigit())
        if everyone != self._everyone:
            self._everyone = everyone
            self._members = self._descendants(everyone)
        ticks, rss, asleep = 0, 0, True
        for pid in self._members:
            for state, used, pages in _threads(pid):
                asleep = asleep and state in _WAITING
                ticks += used
                rss = rss + pages if pages else rss
        return Sample(self._members, asleep, ticks, rss * _PAGE_BYTES)

    def children(self) -> list[int]:
        """Process ids of the direct children of the root, now."""
        found = []
        for name in os.listdir("/proc"):
            fields = _stat(f"/proc/{name}/stat") if name.isdigit() else None
            if fields is not None and int(fields[1]) == self._root:
                found.append(int(name))
        return sorted(found)

    def _descendants(self, everyone: frozenset[str]) -> tuple[int, ...]:
        children: dict[int, list[int]] = {}
        for name in everyone:
            fields = _stat(f"/proc/{name}/stat")
            if fields is not None:
                children.setdefault(int(fields[1]), []).append(int(name))
        found: list[int] = []
        queue = deque([self._root])
        while queue:
            for child in children.get(queue.popleft(), ()):
                found.append(child)
                queue.append(child)
        return tuple(sorted(found))


def _threads(pid: int) -> list[tuple[str, int, int]]:
    """(state, CPU ticks, resident pages) per thread; pages are counted on the first thread only."""
    try:
        names = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found = []
    for index, name in enumerate(names):
        fields = _stat(f"/proc/{pid}/task/{name}/stat")
        if fields is not None:
            found.append((fields[0], int(fields[11]) + int(fields[12]), int(fields[21]) if index == 0 else 0))
    return found


def _stat(path: str) -> list[str] | None:
    """The fields after the command name: state, parent, ..."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError:
        return None
    return text[text.rindex(b")") + 2 :].decode("ascii", "replace").split()
