"""How the cost of simulated traffic grows: with requests, with minutes, with services.

    python bench/growth.py [--json]

Each row is one run of its own. Requests: the shop, users and replicas multiplied together. Minutes: the shop with 400
users. Services: random applications of ``aiopslab.testing.topologies`` with 40 users; as their requests differ in the
number of calls, the cost is given per call. Times are CPU times of one core, all spans, log lines and counters kept.
The last column is the slope between first and last row in logarithms: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import world

from aiopslab.testing.topologies import synthetic

MINUTES = (2, 5, 10, 20)
FACTORS = (1, 2, 4, 8)
SERVICES = (10, 50, 100, 200)
BASE_USERS = 100
TOWN_USERS, TOWN_S = 40, 300.0
Row = dict[str, float]


def shop(users: int, factor: float, seconds: float) -> Row:
    """The shop for ``seconds`` after a warm-up of 30 s."""
    cluster = world.lab()
    replicas = {name: max(1, math.ceil(n * factor)) for name, n in world.REPLICAS.items()}
    cluster.shop(max(1, math.ceil(factor)), **replicas)
    cluster.users(users, users)
    cluster.advance(30)
    return timed(cluster, seconds)


def town(services: int) -> Row:
    """A random application of ``services`` programs."""
    with tempfile.TemporaryDirectory() as folder:
        found = world.harness("signals").Town(synthetic(services, 1), Path(folder), users=TOWN_USERS)
        found.advance(30)
        return timed(found, TOWN_S)


def timed(cluster: Any, seconds: float) -> Row:
    """CPU seconds of letting a cluster run, and what it did meanwhile."""
    requests, calls = _work(cluster)
    start = time.process_time()
    cluster.advance(seconds)
    spent = time.process_time() - start
    more, most = _work(cluster)
    return {
        "requests": more - requests,
        "calls": most - calls,
        "cpu_s": spent,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def sweep(values: tuple[int, ...], run: Callable[[int], Row], per: str) -> dict[str, Any]:
    """Rows by value; ``per`` is what the cost is given for. ``slope``: growth exponent of the time over the values."""
    rows = {value: run(value) for value in values}
    ratio = rows[values[-1]]["cpu_s"] / rows[values[0]]["cpu_s"]
    slope = math.log(ratio) / math.log(values[-1] / values[0])
    return {"rows": rows, "per": per, "slope": slope}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {
        "requests": sweep(FACTORS, lambda f: shop(BASE_USERS * f, f / 4, 300.0), "requests"),
        "minutes": sweep(MINUTES, lambda m: shop(4 * BASE_USERS, 1.0, 60.0 * m), "requests"),
        "services": sweep(SERVICES, town, "calls"),
    }
    if options.json:
        json.dump({"growth": found}, sys.stdout)
        print()
        return
    for name, table in found.items():
        per = f"µs per {table['per'][:-1]}"
        print(f"\n{name:10} {'requests':>10} {'calls':>12} {'CPU s':>8} {per:>16} {'peak MB':>8}")
        for value, row in table["rows"].items():
            cost, peak = 1e6 * row["cpu_s"] / row[table["per"]], row["peak_mb"]
            print(f"{value:10} {row['requests']:10,.0f} {row['calls']:12,.0f}", end="")
            print(f" {row['cpu_s']:8.3f} {cost:16.2f} {peak:8.0f}")
        print(f"slope {table['slope']:.2f}")


def _work(cluster: Any) -> tuple[int, int]:
    blocks = [b for piece in cluster.world._pieces.all() for b in piece]
    calls = sum(int(b.made.sum()) if b.made is not None else b.run.size for b in blocks)
    return sum(b.count for b in blocks), calls


if __name__ == "__main__":
    main()
