"""Parameters: their checks, and the replacement of ``{{name}}`` in texts and trees.

``{{before:path}}`` stays as it is: graders look it up in the snapshot from before the injection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aiopslab.catalog.manifests import Param
from aiopslab.errors import ManifestError, did_you_mean

_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][\w-]*)\s*\}\}")


def fill_text(text: str, values: Mapping[str, Any], where: str) -> str:
    """``text`` with each ``{{name}}`` replaced by the written form of its value.

    Raises ManifestError naming ``where`` and the unknown name.
    """
    return _PLACEHOLDER.sub(lambda match: _written(_lookup(match[1], values, where)), text)


def fill(tree: Any, values: Mapping[str, Any], where: str) -> Any:
    """A copy of a tree of dicts, lists and scalars with its strings filled in.

    A string that is one placeholder and nothing else becomes the value itself and keeps its type.
    """
    if isinstance(tree, Mapping):
        return {key: fill(value, values, where) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [fill(value, values, where) for value in tree]
    if not isinstance(tree, str):
        return tree
    whole = _PLACEHOLDER.fullmatch(tree.strip())
    return _lookup(whole[1], values, where) if whole else fill_text(tree, values, where)


def resolve(schema: Mapping[str, Param], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Parameters with defaults, checked. Raises ManifestError for unknown, missing or wrong ones."""
    for name in given:
        if name not in schema:
            near = did_you_mean(name, schema)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(sorted(schema)) or 'none'}"
            raise ManifestError(f"{where}: unknown parameter {name!r}; {hint}")
    return {name: _value(name, param, given, where) for name, param in sorted(schema.items())}


def _value(name: str, param: Param, given: Mapping[str, Any], where: str) -> Any:
    value = given.get(name, param.default)
    if value is None:
        raise ManifestError(f"{where}: parameter {name!r} is missing ({param.help or param.type}); give it")
    if not _has_type(value, param.type):
        raise ManifestError(f"{where}: parameter {name!r} must be of type {param.type}, not {value!r}")
    if param.choices and value not in param.choices:
        raise ManifestError(f"{where}: parameter {name!r} is {value!r}; choose {', '.join(param.choices)}")
    if param.minimum is not None and value < param.minimum:
        raise ManifestError(f"{where}: parameter {name!r} is {value!r}; the least is {param.minimum:g}")
    if param.maximum is not None and value > param.maximum:
        raise ManifestError(f"{where}: parameter {name!r} is {value!r}; the most is {param.maximum:g}")
    return value


def _has_type(value: Any, wanted: str) -> bool:
    if wanted == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    kinds: dict[str, Any] = {"string": str, "integer": int, "number": (int, float)}
    return isinstance(value, kinds[wanted])


def _lookup(name: str, values: Mapping[str, Any], where: str) -> Any:
    if name in values:
        return values[name]
    known = ", ".join(sorted(values)) or "nothing"
    raise ManifestError(f"{where}: {{{{{name}}}}} is not a parameter here; known: {known}")


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
