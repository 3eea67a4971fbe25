"""What an action is to a reader of replies: its name, parameters and documentation, taken from a Python
function.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter. ``kind`` is text, seconds, minutes or any; ``default`` is ``REQUIRED`` when it must be
    given.
    """

    name: str
    kind: str
    default: Any = REQUIRED

    @property
    def required(self) -> bool:
        """Whether a call without it is incomplete."""
        return self.default is REQUIRED


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """One action as agents see it. ``example`` is a complete call made of the task's own names."""

    name: str
    params: tuple[Param, ...]
    doc: str
    example: str
    extra_ignored: bool = False  # surplus arguments do no harm (a mitigation submit with a text)

    @property
    def signature(self) -> str:
        """The call form, e.g. ``exec_shell(command, timeout=30)``."""
        parts = [p.name if p.required else f"{p.name}={p.default!r}" for p in self.params]
        return f"{self.name}({', '.join(parts)})"


def spec_of(function: Callable[..., Any], example: str, *, extra_ignored: bool = False) -> ActionSpec:
    """Read an action from a function: parameters from its signature, documentation from its docstring.

    A parameter annotated ``int`` or ``float`` and named ``duration`` is minutes, any other number seconds;
    ``str`` is text.
    """
    signature = inspect.signature(function)
    params = tuple(Param(p.name, _kind(p), p.default) for p in signature.parameters.values() if p.name != "self")
    name = function.__name__
    shown = signature.replace(parameters=[p for p in signature.parameters.values() if p.name != "self"])
    head = re.sub(r"(: |-> )'([^']*)'", r"\1\2", f"{name}{shown}")  # annotations are strings here; defaults keep quotes
    doc = f"{head}\n\n{inspect.cleandoc(function.__doc__ or '')}\n\nExample: {example}"
    return ActionSpec(name, params, doc, example, extra_ignored)


def _kind(parameter: inspect.Parameter) -> str:
    annotation = str(parameter.annotation).replace("<class '", "").rstrip("'>")
    if annotation in ("int", "float", "int | float"):
        return "minutes" if parameter.name == "duration" else "seconds"
    return "text" if annotation == "str" else "any"
