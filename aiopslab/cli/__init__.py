"""The command line. ``main`` is the console script; each verb lives in its own file and is imported when used."""

from __future__ import annotations

import sys


def main() -> None:
    """Run ``aiopslab`` with the process's arguments and exit with its code."""
    from aiopslab.cli.app import execute

    sys.exit(execute(sys.argv[1:]))
