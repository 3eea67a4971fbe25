"""Finds an agent by what ``--agent`` says: a built-in name, ``file.py:Class`` or ``module:Class``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from aiopslab.agents.noop import NoopAgent
from aiopslab.agents.protocol import Agent
from aiopslab.agents.solution import SolutionAgent
from aiopslab.agents.triage import TriageAgent
from aiopslab.errors import UsageError, did_you_mean

_CLASSES: dict[str, Callable[[], Agent]] = {"noop": NoopAgent, "solution": SolutionAgent, "triage": TriageAgent}
BUILTIN = {
    "noop": "submits that nothing is wrong",
    "solution": "plays the recorded repair and the right answers",
    "triage": "investigates by rules, without a model",
}


def load_agent(name: str) -> Agent:
    """A new agent. Raises UsageError that names what is missing or wrong."""
    if name in _CLASSES:
        return _CLASSES[name]()
    place, separator, attribute = name.rpartition(":")
    if not separator or not place or not attribute:
        near = did_you_mean(name, _CLASSES)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"unknown agent {name!r}: {hint}use one of {', '.join(_CLASSES)}, or file.py:Class, or module:Class"
        )
    module = _from_file(Path(place)) if place.endswith(".py") else _from_module(place)
    return _instance(module, attribute, name)


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"agent file {path} does not exist")
    module_name = f"_agent_{path.stem}_{abs(hash(path.resolve()))}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"agent file {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module_name]
        raise UsageError(f"agent file {path} cannot be loaded: {_what(error)}") from error
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
    return module


def _from_module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise UsageError(f"agent module {name!r} cannot be loaded: {_what(error)}") from error
    finally:
        sys.path.remove(str(Path.cwd()))


def _instance(module: ModuleType, attribute: str, shown: str) -> Agent:
    found = getattr(module, attribute, None)
    if found is None:
        classes = [
            name for name, value in vars(module).items() if inspect.isclass(value) and hasattr(value, "get_action")
        ]
        near = did_you_mean(attribute, classes) or classes
        hint = f"; it has {', '.join(near)}" if near else "; it has no class with get_action"
        raise UsageError(f"agent {shown!r}: there is no {attribute!r}{hint}")
    try:
        agent: Agent = found() if callable(found) else found
    except Exception as error:
        raise UsageError(f"agent {shown!r} cannot be created without arguments: {_what(error)}") from error
    check_agent(agent, shown)
    return agent


def check_agent(agent: Any, shown: str) -> None:
    """Raise UsageError unless ``agent`` has a coroutine method ``get_action``."""
    method = getattr(agent, "get_action", None)
    if not callable(method):
        raise UsageError(
            f"agent {shown!r} has no get_action; it needs `async def get_action(self, state: str) -> str`"
        )


def _what(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
