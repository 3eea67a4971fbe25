"""Rectangular exporters: the same metrics from each of several endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from aiopslab.sim.observe.exporters.page import Endpoint, Layout, Page, Pairs
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.observe.targets import MetricMetadata


class Column(NamedTuple):
    """One series per row: metric, type, help and the labels that are the same in every row."""

    metric: str
    kind: str
    help: str
    extra: Pairs = ()


class Row(NamedTuple):
    """One endpoint and the labels that tell its rows apart."""

    endpoint: Endpoint
    labels: Pairs = ()


class Sheet:
    """Lays out columns by rows; ids are kept while the rows stay the same."""

    def __init__(self, series: SeriesStore, columns: Sequence[Column]) -> None:
        self._series, self._columns = series, tuple(columns)
        self._rows: list[Row] | None = None
        self._page = Page(np.empty(0, np.int64), np.empty(0), {})
        self.metadata = {column.metric: MetricMetadata(column.kind, column.help) for column in columns}

    def page(self, rows: list[Row], values: Sequence[np.ndarray]) -> Page:
        """``values`` has one array per column with one number per row."""
        if rows != self._rows:
            layout = Layout(self._series)
            for column in self._columns:
                for row in rows:
                    layout.add(column.metric, row.endpoint, row.labels, column.extra)
            self._rows, self._page = list(rows), Page(layout.array(), np.empty(0), dict(layout.counts))
        flat = np.concatenate([np.asarray(found, float) for found in values]) if rows else np.empty(0)
        return Page(self._page.ids, flat, self._page.counts)
