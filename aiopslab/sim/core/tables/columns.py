"""What a table is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]
Cells = list[Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``priority`` 1 shows with ``-o wide`` only."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> Obj:
        """The column as a TableColumnDefinition."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of a kind and the function ``(object, now) -> cells``."""

    columns: tuple[Column, ...]
    cells: Callable[[Obj, float], Cells]


NAME = Column(
    "Name",
    format="name",
    description="Name within the namespace. Required when creating resources, cannot be updated.",
)
AGE = Column("Age", description="Time since the object was created, at the server.")
CREATED_AT = Column("Created At", type="date", description=AGE.description)


def layout(columns: str, cells: Callable[[Obj, float], Cells]) -> Layout:
    """A layout from a list such as ``Ready, Desired:integer, Images*``: type after a colon, wide with a star.

    Name comes first by itself; Age is recognised.
    """
    made = [NAME]
    for item in columns.split(","):
        text = item.strip()
        priority = 1 if text.endswith("*") else 0
        name, _, kind = text.rstrip("*").partition(":")
        made.append(AGE if name == "Age" else Column(name, kind or "string", priority=priority))
    return Layout(tuple(made), cells)
