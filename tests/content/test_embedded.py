"""Content on the embedded cluster: healthy under load, every fault bites as its problem says, and recovers."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from aiopslab.catalog import Catalog, ProblemTask
from aiopslab.catalog.manifests import App
from aiopslab.cluster import ClusterOptions, open_cluster
from aiopslab.cluster.base import Cluster
from aiopslab.deploy.engine import Deployer
from aiopslab.inject.engine import Injector
from aiopslab.kube.client import Kube
from aiopslab.kube.helm import Helm
from aiopslab.kube.tools import Tools
from aiopslab.kube.workloads import not_ready
from aiopslab.load.engine import Loader
from aiopslab.telemetry.prometheus import Prometheus
from aiopslab.telemetry.slo import compare, violations

POLL_S = 15.0
HEALTHY_S_MAX = 420.0  # roll-outs, redialling with back-off and the objectives' own windows


@dataclass
class Bench:
    """An embedded cluster with the app and its users on it."""

    cluster: Cluster
    kube: Kube
    metrics: Prometheus
    app: App
    deployer: Deployer
    loader: Loader

    async def until_healthy(self) -> list[str]:
        """What is still wrong when the time is up; empty as soon as the app is well."""
        end = await self.cluster.clock.now() + HEALTHY_S_MAX
        while True:
            now = await self.cluster.clock.sleep(POLL_S)
            wrong = await not_ready(self.kube, self.app.namespace)
            wrong += await violations(self.metrics, self.app.slos, now)
            if not wrong or now > end:
                return wrong

    async def until_it_bites(self, task: ProblemTask, since: float) -> bool:
        """Whether the problem's symptom shows within its budget."""
        assert task.symptom is not None
        while True:
            now = await self.cluster.clock.sleep(POLL_S)
            value = await self.metrics.value(task.symptom.expr, now)
            if value is not None and compare(value, task.symptom.op, task.symptom.threshold):
                return True
            if now - since > task.symptom.budget_s:
                return False


@asynccontextmanager
async def bench(catalog: Catalog, app: App, tools: Tools) -> AsyncIterator[Bench]:
    cluster = await open_cluster("embedded", ClusterOptions(seed=11, bundles=catalog.roots)).up()
    metrics = Prometheus(cluster.info.prometheus_url)
    try:
        async with Kube(cluster.info.kubeconfig) as kube:
            deployer = Deployer(cluster, kube, Helm(tools, cluster.info.kubeconfig))
            await deployer.deploy(app)
            yield Bench(cluster, kube, metrics, app, deployer, Loader(cluster, kube))
    finally:
        metrics.close()
        await cluster.close()


def variants(catalog: Catalog, problem: str) -> list[ProblemTask]:
    manifest = catalog.problems[problem]
    first = manifest.tasks[0]
    return [catalog.problem(f"{problem}-{first}-{n}") for n in range(1, len(manifest.variants) + 1)]


# One problem of each pair of app and fault; AIOPSLAB_E2E=all tries every problem.
EVERYTHING = os.environ.get("AIOPSLAB_E2E") == "all"
PROBLEMS = {name: problem for name, problem in sorted(Catalog.load().problems.items()) if problem.fault}
PAIRS = {(problem.app, problem.fault): name for name, problem in PROBLEMS.items()}
BROKEN = sorted(PROBLEMS if EVERYTHING else PAIRS.values())


@pytest.mark.slow
@pytest.mark.parametrize("problem", BROKEN)
async def test_a_fault_bites_and_recovers(problem: str, catalog: Catalog, tools: Tools, tmp_path: Path) -> None:
    tasks = variants(catalog, problem)
    async with bench(catalog, tasks[0].app, tools) as at:
        await at.loader.start(tasks[0].workload, at.app, tasks[0].problem.workload_params)
        assert await at.until_healthy() == []
        injector = Injector(at.cluster, at.kube)
        for task in tasks:
            assert task.fault is not None
            journal = tmp_path / f"{task.id}.json"
            done = await injector.inject(task.fault, task.params, journal, at.app.namespace)
            assert await at.until_it_bites(task, done.injected_at), task.id
            await injector.recover(journal)
            assert await at.until_healthy() == [], task.id


@pytest.mark.slow
async def test_both_workloads_send_requests_and_everything_goes_away(catalog: Catalog, tools: Tools) -> None:
    app = catalog.app("hipster-shop")
    rate = app.slos[-1].expr
    async with bench(catalog, app, tools) as at:
        for name in ("locust-users", "wrk2"):
            await at.loader.start(catalog.workload(name), app)
            now = await at.cluster.clock.sleep(150)
            assert (await at.metrics.value(rate, now) or 0) > 1.0, name
            await at.loader.stop()
            await at.cluster.clock.sleep(120)
        await at.deployer.undeploy(app)
        assert await at.kube.find("namespaces", "", app.namespace) is None
