"""``aiopslab new problem|fault|app NAME``: a folder to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from aiopslab.catalog.scaffold import scaffold


def new(
    kind: Literal["problem", "fault", "app"],
    name: str,
    *,
    bundle: Annotated[Path, Parameter(help="The bundle that the folder goes into.")] = Path("."),
) -> int:
    """Start a problem, fault or app from a template.

    Parameters
    ----------
    kind
        What to start.
    name
        Its id: the name of the new folder.
    """
    folder = scaffold(kind, name, bundle)
    print(f"{folder}")
    for path in sorted(folder.iterdir()):
        print(f"  {path.name}")
    if kind == "problem":
        print(f"Edit problem.toml, then: aiopslab check {folder}")
    return 0
