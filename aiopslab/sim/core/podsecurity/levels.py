"""Levels and versions that the ``pod-security.kubernetes.io`` labels of a namespace set."""

from __future__ import annotations

import re
from typing import NamedTuple

PREFIX = "pod-security.kubernetes.io/"
PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
LEVELS = (PRIVILEGED, BASELINE, RESTRICTED)
LATEST = 10_000
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")


class Level(NamedTuple):
    """A standard at a version: ``minor`` of v1.x, LATEST for the newest."""

    name: str
    minor: int

    def __str__(self) -> str:
        return f"{self.name}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    def is_relaxed_from(self, other: Level) -> bool:
        """Whether this asks no more than another level of the same version."""
        return self.minor == other.minor and LEVELS.index(self.name) <= LEVELS.index(other.name)


class Policy(NamedTuple):
    """What a namespace refuses, warns of, and what is wrong with its labels as ``(label, value, message)``.

    Audit labels are read for their errors only: there is no audit log."""

    enforce: Level
    warn: Level
    errors: tuple[tuple[str, str, str], ...]


def policy_of(labels: dict[str, str]) -> Policy:
    """The policy of a namespace with these labels. A label that cannot be read enforces the strictest level, and warns
    of nothing."""
    errors: list[tuple[str, str, str]] = []
    found: dict[str, Level] = {}
    for mode in ("enforce", "audit", "warn"):
        name, minor = PRIVILEGED, LATEST
        label = PREFIX + mode
        if label in labels:
            name = labels[label]
            if name not in LEVELS:
                errors.append((label, name, f"must be one of {', '.join(LEVELS)}"))
                name = RESTRICTED if mode == "enforce" else PRIVILEGED
        label += "-version"
        version = labels.get(label, "latest")
        if version != "latest":
            match = _VERSION.fullmatch(version)
            if match is None:
                errors.append((label, version, 'must be "latest" or "v1.x"'))
            else:
                minor = int(match[1])
        found[mode] = Level(name, minor)
    return Policy(found["enforce"], found["warn"], tuple(errors))
