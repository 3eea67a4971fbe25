"""What is known about scraped addresses and metric families besides their samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One scraped address, for ``/api/v1/targets``. Times in seconds."""

    labels: Mapping[str, str]  # with job and instance
    pool: str
    url: str
    last_scrape: float
    duration_s: float
    interval_s: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class MetricMetadata:
    """What ``# TYPE`` and ``# HELP`` say about a metric family."""

    type: str
    help: str
    unit: str = ""
