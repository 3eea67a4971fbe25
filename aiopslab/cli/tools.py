"""``aiopslab tools``: which programs the lab uses, fetching what is missing."""

from __future__ import annotations

import sys

from aiopslab.cli.flags import Json
from aiopslab.cli.output import console, print_json, print_pairs
from aiopslab.kube.fetch import Progress
from aiopslab.kube.tools import Tools


def tools(*, json: Json = False) -> int:
    """Which kubectl, helm and bwrap are used; fetches what is missing."""
    if sys.stderr.isatty():
        with console(stderr=True).status("looking for kubectl and helm") as status:
            found = Tools.fetch(lambda text, share: status.update(f"{text} ({share:.0%})"))
    else:
        found = Tools.fetch(_plain_progress)
    paths = found.as_json()
    if json:
        print_json(paths)
    else:
        print_pairs(
            [(name, path or "none (the agent's shell needs --unsafe-shell)") for name, path in paths.items()]
        )
    return 0


def _print_progress(text: str, share: float) -> None:
    print(f"aiopslab: {text}", file=sys.stderr)


_plain_progress: Progress = _print_progress
