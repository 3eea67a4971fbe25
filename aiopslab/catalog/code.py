"""Python that lives in content folders: loaded by path, on first use, under a name of its own.

``sys.path`` is never touched. Each folder becomes a synthetic package
``aiopslab_content.<bundle>.<kind>.<folder>``, so relative imports inside the folder work and two bundles
with equal folder names do not meet.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from aiopslab.errors import ManifestError

ROOT_PACKAGE = "aiopslab_content"


def load_object(folder: Path, reference: str) -> Any:
    """What ``file.py:Name`` of a content folder is. Raises ManifestError naming the file and the cause."""
    file_name, _, name = reference.partition(":")
    path = folder / file_name
    if not name or path.suffix != ".py":
        raise ManifestError(f"{folder}: {reference!r} must have the form file.py:Name")
    if not path.is_file():
        raise ManifestError(f"{path} does not exist; the manifest names it")
    module = _load(folder.resolve(), path.stem)
    try:
        return getattr(module, name)
    except AttributeError:
        raise ManifestError(f"{path} has no {name!r}; the manifest names it") from None


def _load(folder: Path, stem: str) -> ModuleType:
    package = _package(folder)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(f"{package}.{stem}")
    except Exception as error:
        raise ManifestError(f"{folder / stem}.py cannot be loaded: {type(error).__name__}: {error}") from error


def _package(folder: Path) -> str:
    bundle = folder.parent.parent
    digest = hashlib.sha1(str(bundle).encode(), usedforsecurity=False).hexdigest()[:8]
    parts = [f"{bundle.name}_{digest}", folder.parent.name, folder.name]
    name = ROOT_PACKAGE
    _ensure(name, [])
    for depth, part in enumerate(parts):
        name = f"{name}.{re.sub(r'[^0-9A-Za-z_]', '_', part)}"
        _ensure(name, [str(folder)] if depth == len(parts) - 1 else [])
    return name


def _ensure(name: str, search: list[str]) -> None:
    if name not in sys.modules:
        module = ModuleType(name)
        module.__path__ = search
        sys.modules[name] = module
