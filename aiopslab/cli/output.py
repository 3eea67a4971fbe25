"""Where text goes: results to stdout, progress and complaints to stderr, JSON alone on stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from rich.console import Console


PIPED_WIDTH = 200  # columns, where no terminal says how wide it is


def console(*, stderr: bool = False) -> Console:
    """A terminal to print on; in a pipe or file, a wide one."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PIPED_WIDTH
    return Console(file=stream, highlight=False, width=width)


def print_json(value: Any) -> None:
    """One JSON object and nothing else."""
    plain = msgspec.to_builtins(value, enc_hook=str)
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as their longest cell; no frame, so that it can be piped."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    rows = list(rows)
    for index, column in enumerate(columns):
        # Ids are copied from here: only the last column, which is prose, may be broken.
        longest = max((len(line) for row in rows for line in row[index].splitlines()), default=0)
        prose = index == len(columns) - 1
        table.add_column(column, no_wrap=not prose, min_width=None if prose else longest, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """``name  value`` lines with the names in one column; empty values are left out."""
    shown = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        first, *rest = value.splitlines()
        print(f"{name:<{width}}  {first}")
        for line in rest:
            print(f"{'':<{width}}  {line}")
