"""Speed and memory of the lab, as a table and as JSON: ``make bench``.

Figures are medians over ``--runs`` runs in one process group on an otherwise idle machine; each is printed with
its spread and with the goal that DESIGN sets, where it sets one. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LAB = [sys.executable, "-m", "aiopslab"]
KUBECTL_CALLS = 10


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity. ``samples`` in ``unit``; ``goal`` is an upper bound, or None."""

    name: str
    unit: str
    samples: tuple[float, ...]
    goal: float | None = None

    @property
    def median(self) -> float:
        """The middle sample."""
        return statistics.median(self.samples)


def incident(problem: str, agent: str, folder: Path) -> dict[str, float]:
    """Wall seconds of one run: in all, and until the agent's first turn."""
    started = time.perf_counter()
    command = [*LAB, "run", problem, "--agent", agent, "--seed", "7", "--json", "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall_s = time.perf_counter() - started
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    result = json.loads(done.stdout)
    record = json.loads((Path(result["record"]) / "record.json").read_text())
    phases = {p["name"]: p["wall_s"] for p in record["phases"]}
    return {
        "wall_s": wall_s,
        "verdict_pass": float(result["verdict"] == "pass"),
        "up_and_deployed_s": phases["setup"] + phases["deploy"],
        "baseline_s": phases["baseline"],
    }


def kubectl_reads(environment: dict[str, str]) -> tuple[dict[str, list[float]], str]:
    """Wall milliseconds of kubectl commands against a background cluster with the app, and of kubectl alone."""
    tools = json.loads(subprocess.run([*LAB, "tools", "--json"], capture_output=True, check=True, text=True).stdout)
    up = [*LAB, "cluster", "up", "--app", "hipster-shop", "--json"]
    state = json.loads(subprocess.run(up, env=environment, capture_output=True, check=True, text=True).stdout)
    commands = {
        "kubectl version --client": ["version", "--client"],
        "kubectl get pods": ["get", "pods", "-n", "hipster-shop"],
        "kubectl describe pods": ["describe", "pods", "-n", "hipster-shop"],
        "kubectl logs (200 lines)": ["logs", "-n", "hipster-shop", "deploy/frontend", "--tail=200"],
    }
    times: dict[str, list[float]] = {}
    kubectl_environment = {**environment, "KUBECONFIG": state["kubeconfig"]}
    for name, arguments in commands.items():
        for _ in range(KUBECTL_CALLS):
            started = time.perf_counter()
            done = subprocess.run([tools["kubectl"], *arguments], env=kubectl_environment, capture_output=True)
            times.setdefault(name, []).append(1e3 * (time.perf_counter() - started))
            if done.returncode:
                raise SystemExit(f"{name}: {done.stderr.decode().strip()}")
    memory = Path(f"/proc/{state['pid']}/status").read_text()
    subprocess.run([*LAB, "cluster", "down"], env=environment, capture_output=True, check=True)
    return times, memory


def measured(name: str) -> Any:
    """What another script of this folder measures (its docstring says what), by figure."""
    command = [sys.executable, str(ROOT / "bench" / f"{name}.py"), "--json"]
    done = subprocess.run(command, capture_output=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])[name]


def named(figures: dict[str, float], prefix: str = "") -> list[Figure]:
    """Figures whose names end with their unit after a comma."""
    split = {name: name.rpartition(", ") for name in figures}
    return [Figure(prefix + (head or name), unit if head else "", (figures[name],))
            for name, (head, _, unit) in split.items()]  # fmt: skip


def samples(runs: int, measure: Callable[[], dict[str, float]]) -> dict[str, tuple[float, ...]]:
    """Run ``measure`` several times; columns of its answers."""
    rows = [measure() for _ in range(runs)]
    return {name: tuple(row[name] for row in rows) for name in rows[0]}


def main() -> int:
    """Measure, print, and say with the exit code whether every goal was met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        solved = samples(runs, lambda: incident("hipster-target-port-mitigation-1", "solution", folder))
        figures.append(Figure("cluster up and app deployed by Helm", "s", solved["up_and_deployed_s"], 3.0))
        figures.append(Figure("baseline: 10 minutes simulated", "s", solved["baseline_s"]))
        figures.append(Figure("whole incident, agent solution", "s", solved["wall_s"], 10.0))
        triaged = samples(runs, lambda: incident("hipster-target-port-incident-1", "triage", folder))
        figures.append(Figure("whole incident, agent triage", "s", triaged["wall_s"]))
        environment = {**os.environ, "AIOPSLAB_STATE_DIR": str(folder / "state")}
        times, memory = kubectl_reads(environment)
        figures += [Figure(name, "ms", tuple(values)) for name, values in times.items()]
    figures += named(measured("clients"), "Kubernetes API: ")
    figures += named(measured("scale"), "200 nodes, 5,000 pods: ")
    traffic = measured("world")
    figures.append(Figure("10 minutes at 100 requests/s", "s", (traffic["total"],), 0.5))
    events = measured("simpy_model")
    figures.append(Figure("the same requests in SimPy", "s", (events["simpy_s"],)))
    figures.append(Figure("  times as long as the world beside it", "", (events["ratio"],)))
    growth = measured("growth")
    figures += [Figure(f"growth of the cost with {name}: exponent", "", (growth[name]["slope"],)) for name in growth]
    peak_mib = next(int(line.split()[1]) / 1024 for line in memory.splitlines() if line.startswith("VmHWM"))
    figures.append(Figure("peak memory of the cluster's process", "MiB", (peak_mib,), 500.0))
    largest_child_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    figures.append(Figure("largest process of all", "MiB", (largest_child_mib,)))
    report(figures, traffic)
    return 0 if all(f.goal is None or f.median < f.goal for f in figures) else 1


def report(figures: list[Figure], traffic: dict[str, float]) -> None:
    """A table for people, then one JSON object."""
    width = max(len(f.name) for f in figures)
    print(f"{'':{width}}  {'median':>9}  {'min':>9}  {'max':>9}  goal")
    for f in figures:
        goal = f"< {f.goal:g} {f.unit}" if f.goal is not None else ""
        low, high = min(f.samples), max(f.samples)
        print(f"{f.name:{width}}  {f.median:9.3f}  {low:9.3f}  {high:9.3f}  {f.unit:4} {goal}")
    print("\n10 minutes at 100 requests/s, stage by stage (CPU seconds) and what it makes:")
    for name, value in traffic.items():
        print(f"  {name:{width}}{value:12,.3f}")
    rows = [
        {"name": f.name, "unit": f.unit, "median": f.median, "samples": f.samples, "goal": f.goal} for f in figures
    ]
    print(json.dumps({"figures": rows, "world": traffic}))


if __name__ == "__main__":
    sys.exit(main())
