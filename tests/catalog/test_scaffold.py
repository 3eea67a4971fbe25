"""``aiopslab new``: what it writes loads as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiopslab.catalog import Catalog, load_object
from aiopslab.catalog.scaffold import SCAFFOLDED, scaffold
from aiopslab.errors import UsageError


def test_everything_new_loads(tmp_path: Path) -> None:
    for kind in SCAFFOLDED:
        assert scaffold(kind, "slow-cart", tmp_path).name == "slow-cart"
    catalog = Catalog.load([tmp_path])
    assert catalog.broken == []
    task = catalog.problem("slow-cart-incident-1")
    assert task.fault is not None
    assert task.solution
    fault = catalog.fault("slow-cart")
    assert load_object(fault.folder, fault.class_ref).__name__ == "SlowCart"


@pytest.mark.parametrize("name", ["", "Slow", "slow cart", "-slow", "../x", "x" * 60])
def test_an_unusable_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is not a usable name"):
        scaffold("fault", name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    scaffold("fault", "twice", tmp_path)
    with pytest.raises(UsageError, match="exists already"):
        scaffold("fault", "twice", tmp_path)
    with pytest.raises(UsageError, match="choose problem, fault, app"):
        scaffold("agent", "x", tmp_path)
