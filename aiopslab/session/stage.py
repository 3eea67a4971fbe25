"""Everything a run needs that must be taken down again: cluster, clients, the agent's identity and shell.

``open_stage`` opens them in order and closes them in reverse, whatever happens in between.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiopslab.actions.lab import Lab
from aiopslab.actions.sandbox.room import RoomTools
from aiopslab.actions.shell import Shell
from aiopslab.catalog.bundles import bundle_roots
from aiopslab.catalog.manifests import App
from aiopslab.cluster import ClusterOptions, open_cluster
from aiopslab.cluster.base import Cluster
from aiopslab.cluster.identity import agent_kubeconfig, remove_identity
from aiopslab.deploy.engine import Deployer
from aiopslab.inject.engine import Injector
from aiopslab.kube.client import Kube
from aiopslab.kube.helm import Helm
from aiopslab.kube.tools import Tools
from aiopslab.load.engine import Loader
from aiopslab.session.options import RunOptions
from aiopslab.telemetry.jaeger import Jaeger
from aiopslab.telemetry.prometheus import Prometheus


@dataclass(frozen=True, slots=True)
class Stage:
    """An open cluster with the lab's clients and engines (administrator's rights)."""

    cluster: Cluster
    kube: Kube
    tools: Tools
    metrics: Prometheus
    traces: Jaeger
    deployer: Deployer
    loader: Loader
    injector: Injector
    folder: Path  # private files of the run, deleted at its end
    began: tuple[float, float]  # machine time and cluster time when the cluster was up, Unix seconds

    @property
    def shared(self) -> bool:
        """Whether the cluster outlives the run, so that what the run put there must be taken away."""
        return self.cluster.info.kind != "embedded"


@asynccontextmanager
async def open_stage(options: RunOptions) -> AsyncIterator[Stage]:
    """Bring a cluster up and connect to it. Raises LabFailure or UsageError; closes everything on the way out."""
    async with AsyncExitStack() as stack:
        tools = await asyncio.to_thread(Tools.fetch)
        folder = Path(tempfile.mkdtemp(prefix="oncall-run-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        provider = open_cluster(options.cluster, cluster_options(options))
        cluster = await provider.up()
        stack.push_async_callback(cluster.close)
        kube = await stack.enter_async_context(Kube(cluster.info.kubeconfig))
        metrics, traces = Prometheus(cluster.info.prometheus_url), Jaeger(cluster.info.jaeger_url)
        stack.callback(metrics.close)
        stack.callback(traces.close)
        yield Stage(
            cluster=cluster,
            kube=kube,
            tools=tools,
            metrics=metrics,
            traces=traces,
            deployer=Deployer(cluster, kube, Helm(tools, cluster.info.kubeconfig)),
            loader=Loader(cluster, kube),
            injector=Injector(cluster, kube),
            folder=folder,
            began=(time.time(), await cluster.clock.now()),
        )


@asynccontextmanager
async def open_agent_side(stage: Stage, app: App, hidden: list[Path], unsafe_shell: bool) -> AsyncIterator[Lab]:
    """The agent's identity, client and shell. ``hidden`` are host folders with answers."""
    async with AsyncExitStack() as stack:
        kubeconfig = await agent_kubeconfig(stage.kube, app.namespace, stage.folder / "agent-kubeconfig")
        if stage.shared:
            stack.push_async_callback(remove_identity, stage.kube, app.namespace)
        kube = await stack.enter_async_context(Kube(kubeconfig))
        tools = RoomTools(stage.tools.kubectl, stage.tools.helm, stage.tools.bwrap, unsafe_shell)
        make: Callable[[], Shell] = lambda: Shell(  # noqa: E731
            stage.cluster, kubeconfig, tools, hidden=hidden, began=stage.began
        )
        shell = await stack.enter_async_context(await asyncio.to_thread(make))
        yield Lab(
            cluster=stage.cluster,
            kube=kube,
            shell=shell,
            metrics=stage.metrics,
            traces=stage.traces,
            namespace=app.namespace,
            services=tuple(app.services),
        )


def cluster_options(options: RunOptions) -> ClusterOptions:
    """The cluster's part of a run's options."""
    return ClusterOptions(
        seed=options.seed,
        clock=options.clock,
        bundles=bundle_roots(list(options.bundles)),
        kubeconfig=options.kubeconfig,
        prometheus_url=options.prometheus_url,
        jaeger_url=options.jaeger_url,
        noise=options.noise,
    )
