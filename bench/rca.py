"""Published root-cause algorithms on our exports: ``generate`` makes failure cases, ``score`` runs the algorithms.

    python bench/rca.py generate FOLDER [--seeds 3] [--users 30] [--full]
    python bench/rca.py score FOLDER [--methods nsigma,baro,circa] [--json]

``generate`` brings up the embedded cluster with the lab for each case, deploys the shop, lets it run, injects a
fault into one service and exports the stretch as an RCAEval case. ``score`` needs only the RCAEval package (extra
``rca``) and prints how often the right service is among the first k: each algorithm is called as its package offers
it.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import json
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NORMAL_S = ANOMALOUS_S = 600.0
WARM_UP_S = 120.0
SERVICES = ("adservice", "cartservice", "checkoutservice", "currencyservice", "productcatalogservice")
# Fault -> chaos kind and its spec: those of the published cases that the cluster carries out, with what the
# published ones are said to do (a hog beside the process, netem on its interface).
FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "cpu": ("StressChaos", {"stressors": {"cpu": {"workers": 1, "load": 100}}}),
    "mem": ("StressChaos", {"stressors": {"memory": {"workers": 1, "size": "80MiB"}}}),
    "delay": ("NetworkChaos", {"action": "delay", "direction": "to", "delay": {"latency": "200ms"}}),
    "loss": ("NetworkChaos", {"action": "loss", "direction": "to", "loss": {"loss": "20"}}),
}
METHODS = {"nsigma": "RCAEval.e2e", "baro": "RCAEval.e2e.baro", "circa": "RCAEval.e2e.circa",
           "pc_pagerank": "RCAEval.e2e.pc_pagerank"}  # fmt: skip
DEFAULT_METHODS = "nsigma,baro,circa"


async def generate_case(folder: Path, case: tuple[str, str, int], users: int, full: bool) -> None:
    """One case ``(service, fault, seed)``: healthy, then broken, exported; ``full`` with logs and traces."""
    from aiopslab.catalog.catalog import Catalog
    from aiopslab.session.options import RunOptions
    from aiopslab.session.stage import open_stage
    from aiopslab.telemetry.export import Sources, Stretch, export_rcaeval

    service, fault, seed = case
    catalog = Catalog.load([ROOT])
    app, workload = catalog.app("hipster-shop"), catalog.workloads["locust-users"]
    async with open_stage(RunOptions(seed=seed)) as stage:
        await stage.deployer.deploy(app)
        await stage.loader.start(workload, app, {"users": users, "spawn_rate": users})
        await stage.cluster.clock.sleep(WARM_UP_S)
        start = await stage.cluster.clock.now()
        inject_at = await stage.cluster.clock.sleep(NORMAL_S)
        await stage.kube.apply(chaos(fault, service, app.namespace))
        end = await stage.cluster.clock.sleep(ANOMALOUS_S)
        sources = Sources(stage.metrics)
        if full:
            pods = [pod["metadata"]["name"] for pod in await stage.kube.list("pods", app.namespace)]
            logs = {pod: await stage.kube.logs(app.namespace, pod) for pod in pods}
            sources = Sources(stage.metrics, stage.traces, logs)
        await export_rcaeval(sources, folder, Stretch(app.namespace, start, end), inject_at)


def chaos(fault: str, service: str, namespace: str) -> dict[str, Any]:
    """The chaos object of a fault."""
    kind, spec = FAULTS[fault]
    selector = {"namespaces": [namespace], "labelSelectors": {"app": service}}
    return {
        "apiVersion": "chaos-mesh.org/v1alpha1",
        "kind": kind,
        "metadata": {"name": f"{fault}-{service}", "namespace": namespace},
        "spec": {"mode": "all", "selector": selector, **spec},
    }


def generate(folder: Path, seeds: int, users: int, full: bool) -> None:
    """All cases: faults x services x seeds. Cases that are there already are kept."""
    wanted = [(s, f, n) for n in range(1, seeds + 1) for f in FAULTS for s in SERVICES]
    for number, (service, fault, seed) in enumerate(wanted, 1):
        case = folder / f"ob_{service}_{fault}_{seed}"
        if not (case / "inject_time.txt").exists():
            began = time.perf_counter()
            asyncio.run(generate_case(case, (service, fault, seed), users, full))
            print(f"{number}/{len(wanted)} {case.name} {time.perf_counter() - began:.1f} s", flush=True)


def score(folder: Path, methods: list[str]) -> dict[str, dict[str, dict[str, float]]]:
    """method -> fault (and ``all``) -> accuracy at 1, 3 and 5, their mean over 1 to 5, seconds per case."""
    import pandas as pd

    warnings.filterwarnings("ignore")
    found: dict[str, dict[str, dict[str, float]]] = {}
    for method in methods:
        run = getattr(importlib.import_module(METHODS[method]), method)
        hits: dict[str, list[list[bool]]] = defaultdict(list)
        took = []
        for case in sorted(path.parent for path in folder.glob("*/inject_time.txt")):
            _, service, fault, _ = case.name.split("_")
            data = prepared(pd.read_csv(case / "metrics.csv"))
            inject_at = int((case / "inject_time.txt").read_text())
            began = time.perf_counter()
            answer = run(data, inject_at, dataset="online-boutique", sli="frontend_latency-90")
            took.append(time.perf_counter() - began)
            first = list(dict.fromkeys(str(name).split("_")[0] for name in answer["ranks"]))
            hits[fault].append([service in first[:k] for k in range(1, 6)])
        found[method] = {fault: accuracy(rows) for fault, rows in hits.items()}
        found[method]["all"] = accuracy([row for rows in hits.values() for row in rows])
        found[method]["all"]["s per case"] = sum(took) / len(took)
    return found


def prepared(data: Any) -> Any:
    """The columns as the benchmark's own script chooses them: the 90th percentile stands for latency."""
    return data.loc[:, ~data.columns.str.endswith("_latency-50")].copy()


def accuracy(rows: list[list[bool]]) -> dict[str, float]:
    """Accuracy at 1, 3 and 5, mean over 1 to 5; ``rows`` say per case whether the first k hold the answer."""
    at = [sum(row[k] for row in rows) / len(rows) for k in range(5)]
    return {"AC@1": at[0], "AC@3": at[2], "AC@5": at[4], "Avg@5": sum(at) / 5, "cases": float(len(rows))}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["generate", "score"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--users", type=int, default=30)
    parser.add_argument("--full", action="store_true", help="export logs and traces too")
    parser.add_argument("--methods", default=DEFAULT_METHODS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.verb == "generate":
        generate(options.folder, options.seeds, options.users, options.full)
        return
    if importlib.util.find_spec("RCAEval") is None:
        raise SystemExit("the RCAEval package is missing; install the extra: pip install -e '.[rca]'")
    found = score(options.folder, options.methods.split(","))
    if options.json:
        json.dump(found, sys.stdout, indent=1)
        print()
        return
    for method, rows in found.items():
        for fault, row in rows.items():
            figures = "  ".join(f"{name} {value:.2f}" for name, value in row.items())
            print(f"{method:14}{fault:8}{figures}")


if __name__ == "__main__":
    main()
