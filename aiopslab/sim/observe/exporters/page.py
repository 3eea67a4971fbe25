"""What one scrape of one exporter yields, and where it comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from aiopslab.sim.observe.matchers import NAME, make_labels
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.observe.targets import MetricMetadata
from aiopslab.sim.world.counters import CounterSnapshot

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Pairs = tuple[tuple[str, str], ...]


class Endpoint(NamedTuple):
    """A scraped address: ``job`` and ``instance``, and the node it runs on when there is one per node."""

    job: str
    instance: str
    node: str = ""

    def pairs(self) -> Pairs:
        """Its labels, which every series from it has."""
        return (("job", self.job), ("instance", self.instance), ("node", self.node))


@dataclass(frozen=True, slots=True)
class Page:
    """Ids and values of all samples, and how many of them each endpoint gave. ``ids`` is the same object as
    long as the same series are exposed."""

    ids: Ints
    values: Floats
    counts: Mapping[Endpoint, int]


@dataclass(frozen=True, slots=True)
class Cluster:
    """What exporters may look at besides the counters: addresses of nodes and those that do not answer."""

    addresses: Mapping[str, str]  # node name -> internal IP
    silent: frozenset[str]  # nodes whose kubelet and exporters cannot be reached
    hidden: frozenset[str] = frozenset()  # namespaces of which nothing is exposed


class Exporter(Protocol):
    """A kind of endpoint. ``collect`` must be cheap when nothing has come or gone."""

    @property
    def metadata(self) -> Mapping[str, MetricMetadata]:
        """Type and help of its metric families."""

    def collect(self, snapshot: CounterSnapshot, cluster: Cluster) -> Page:
        """Everything exposed at ``snapshot.now``."""


@dataclass(slots=True)
class Layout:
    """Collects series ids column by column: which series there are, and which rows their values come from."""

    series: SeriesStore
    ids: list[int] = field(default_factory=list)
    counts: Counter[Endpoint] = field(default_factory=Counter)

    def add(self, metric: str, endpoint: Endpoint, *labels: Pairs) -> None:
        """One more series."""
        pairs = chain(((NAME, metric),), endpoint.pairs(), *labels)
        self.reuse(self.series.series(make_labels(pairs)), endpoint)

    def reuse(self, known: int, endpoint: Endpoint) -> None:
        """One more series, whose id is known already."""
        self.ids.append(known)
        self.counts[endpoint] += 1

    def array(self) -> Ints:
        """The ids in order of addition."""
        return np.array(self.ids, np.int64)


def describe(rows: Iterable[tuple[str, str, str]]) -> dict[str, MetricMetadata]:
    """``(name, type, help)`` rows as metadata."""
    return {name: MetricMetadata(kind, text) for name, kind, text in rows}
