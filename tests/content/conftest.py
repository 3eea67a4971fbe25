"""The catalogue and the tools, for tests that look at everything that ships."""

from __future__ import annotations

import pytest

from aiopslab.catalog import Catalog
from aiopslab.kube.tools import Tools


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """Everything in the built-in bundle."""
    return Catalog.load()


@pytest.fixture(scope="session")
def tools() -> Tools:
    """Real kubectl and Helm; fetched when this machine has none."""
    return Tools.fetch()
