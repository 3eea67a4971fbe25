"""The measuring scripts of ``bench/``, importable, and a reference of a made-up day."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(scope="session")
def bench() -> dict[str, ModuleType]:
    """Modules of ``bench/`` by name."""
    sys.path.insert(0, str(BENCH))
    try:
        return {name: importlib.import_module(name) for name in ("figures", "shop", "stock", "shapes", "realism")}
    finally:
        sys.path.remove(str(BENCH))


@pytest.fixture(scope="session")
def health() -> dict[str, Any]:
    """Request rates of pages in the ratio 2 home, 3 product, 2 cart, 1 add, 1 checkout, 1 no-rpc."""
    rates = {
        "frontend": 10.0, "adservice": 5.0, "recommendationservice": 6.0, "shippingservice": 4.0,
        "checkoutservice": 1.0, "cartservice": 10.0, "currencyservice": 40.0, "productcatalogservice": 45.0,
        "paymentservice": 1.0, "emailservice": 1.0, "redis-cart": 0.0,
    }  # fmt: skip
    found: dict[str, Any] = {name: {"rps": {"p50": rate}} for name, rate in rates.items()}
    found["frontend"]["p50latency"] = {"p50": 16.0}
    return found | {"worker-01": {"cpu": {"p50": 6.0}}}
