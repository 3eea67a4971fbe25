"""What holds for every test: the order in which they start."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the tests that wait for the wall clock first, so that the others fill the cores meanwhile."""
    items.sort(key=lambda item: item.get_closest_marker("waits") is None)
