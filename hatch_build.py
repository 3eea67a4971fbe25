"""Put the repository's content folders into the wheel as ``aiopslab/_bundle``.

An editable install finds the folders beside the package, so there the hook adds nothing.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CONTENT = ("apps", "faults", "workloads", "problems", "helm", "kind-cluster.yaml")


class BundleHook(BuildHookInterface):
    """Maps each content folder of the repository to ``aiopslab/_bundle/<folder>``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        for name in CONTENT:
            source = Path(self.root, name)
            if source.exists():
                build_data["force_include"][str(source)] = f"aiopslab/_bundle/{name}"
