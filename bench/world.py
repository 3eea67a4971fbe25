"""How long ten minutes of the shop at 100 requests per second take, stage by stage.

    python bench/world.py [--json] [--repeat N]

Builds the cluster's objects by hand, scales the shop to carry the load, lets 400 users warm up for 30 s, then
simulates 600 s in scrape intervals of 15 s with all spans and logs kept. Times are CPU times of one core. Log lines
and spans are kept as columns and rendered when read; reading some of them is timed apart.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from aiopslab.sim.core.ports import LogQuery
from aiopslab.sim.world.engine import Engine
from aiopslab.sim.world.exporting import Exporter
from aiopslab.sim.world.loadgen import UserLoad
from aiopslab.sim.world.metering import Meter, SpanMetrics

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 600.0
USERS = 400
REPLICAS = {"frontend": 6, "currencyservice": 3, "recommendationservice": 3, "cartservice": 2, "adservice": 2}
STAGES: list[tuple[str, type, str]] = [
    ("plan users", UserLoad, "plan"),
    ("calls", Engine, "simulate"),
    ("place in time", UserLoad, "settle"),
    ("span metrics", SpanMetrics, "add"),
    ("container counters", Meter, "record"),
    ("snapshots", Exporter, "snapshot"),
]


class Stopwatch:
    """Adds up the time spent in chosen methods."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._restore: list[Callable[[], None]] = []

    def __enter__(self) -> Stopwatch:
        for name, owner, method in STAGES:
            plain = getattr(owner, method)
            setattr(owner, method, self._timed(name, plain))
            self._restore.append(lambda o=owner, m=method, p=plain: setattr(o, m, p))
        return self

    def __exit__(self, *_: object) -> None:
        for restore in self._restore:
            restore()

    def _timed(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            start = time.process_time()
            try:
                return plain(*args, **options)
            finally:
                self.spent[name] += time.process_time() - start

        return timed


def harness(folder: str) -> Any:
    """The tests' own module of hand-made clusters in a folder of ``tests/sim``, loaded by path."""
    spec = importlib.util.spec_from_file_location(f"{folder}_lab", ROOT / "tests/sim" / folder / "conftest.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lab() -> Any:
    """A cluster for the shop."""
    return harness("world").Lab()


def once() -> dict[str, float]:
    """One measurement: seconds by stage, counts, reading times."""
    cluster = lab()
    cluster.shop(1, **REPLICAS)
    cluster.users(USERS, USERS)
    cluster.advance(30)
    before = sum(b.count for blocks in cluster.world._pieces.all() for b in blocks)
    with Stopwatch() as watch:
        start = time.process_time()
        cluster.advance(SECONDS)
        total = time.process_time() - start
    found = {"total": total, **watch.spent}
    found["rest"] = total - sum(watch.spent.values())
    blocks = [b for piece in cluster.world._pieces.all() for b in piece]
    found["requests"] = sum(b.count for b in blocks) - before
    pages = [b.took[0] for b in blocks if b.route.name == "GET /"]
    found["start page p50 ms"] = float(np.median(np.concatenate(pages)))
    found["spans"] = cluster.world.spans.count()
    found["log lines"] = sum(cluster.world._logs.count(run) for run in cluster.world.runs.all)
    found["MB of columns"] = cluster.world._pieces.bytes() / 1e6
    found["peak RSS MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    start = time.process_time()
    cluster.world.logs(cluster.refs[cluster.pods("frontend")[0]], LogQuery(tail=1000))
    found["read 1000 log lines"] = time.process_time() - start
    start = time.process_time()
    cluster.world.spans.search("frontend", limit=200)
    found["read 200 traces"] = time.process_time() - start
    return found


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    rounds = [once() for _ in range(options.repeat)]
    median = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    if options.json:
        json.dump({"world": median}, sys.stdout)
        print()
        return
    print(f"{SECONDS:.0f} s of the shop, {median['requests'] / SECONDS:.0f} requests/s, median of {options.repeat}")
    print(f"  start page, median      {median.pop('start page p50 ms'):10.1f} ms simulated")
    counts = ("requests", "spans", "log lines", "MB of columns", "peak RSS MB")
    for name, value in median.items():
        print(f"  {name:22}" + (f"{value:12,.0f}" if name in counts else f"{value * 1e3:10.1f} ms"))


if __name__ == "__main__":
    main()
