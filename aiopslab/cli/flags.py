"""Flags that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Bundles = Annotated[
    list[Path] | None,
    Parameter(name="--bundle", help="Another folder of content; may be repeated.", negative=""),
]
Json = Annotated[bool, Parameter(name="--json", help="Print one JSON object and nothing else.", negative="")]
Seed = Annotated[
    int | None, Parameter(name="--seed", help="Seed of everything random; drawn and printed when not given.")
]

SEED_BITS = 31


def draw_seed(given: int | None) -> int:
    """The seed to use: the given one, or a fresh one for the caller to print."""
    if given is not None:
        return given
    import secrets

    return secrets.randbits(SEED_BITS)
