"""Objects and helpers shared by the codec tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from aiopslab.sim.core.schema import Gvk

Obj = dict[str, Any]
GOLDEN = Path(__file__).parent / "golden"

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: a, image: "a:1", env: [{name: X, value: "1"}]}
      - {name: b, image: "b:1"}
"""


@pytest.fixture
def deployment() -> Obj:
    """A Deployment with two containers, not defaulted."""
    made: Obj = yaml.safe_load(DEPLOYMENT)
    return made


@pytest.fixture
def deployments() -> Gvk:
    """The kind of ``deployment``."""
    return Gvk("apps", "v1", "Deployment")


@pytest.fixture
def widgets() -> Callable[[Obj], Any]:
    """Makes the kind of a custom resource from a ``spec.versions[]`` entry."""

    def make(version: Obj) -> Any:
        return SimpleNamespace(group="x.example.com", version="v1", kind="Widget", crd=version)

    return make
