"""Installs applications from ``apps/`` and takes them away again."""

from __future__ import annotations

from collections.abc import Callable

from aiopslab.catalog.manifests import App
from aiopslab.cluster.base import Cluster
from aiopslab.errors import ClusterError, DeployError, LabFailure
from aiopslab.kube.client import Kube
from aiopslab.kube.helm import Helm
from aiopslab.kube.workloads import WORKLOAD_RESOURCES, ensure_namespace, not_ready, pod_troubles

POLL_S = 2.0
NAMESPACE_GONE_S_MAX = 180.0
TROUBLES_SHOWN = 5
# (workloads that are ready, all workloads)
Progress = Callable[[int, int], None]


def quiet(ready: int, total: int) -> None:
    """A Progress that shows nothing."""


class Deployer:
    """Deploys and undeploys apps on one cluster.

    A release that is already there and deployed is used as it is, and left alone by ``undeploy``: it belongs
    to whoever installed it.
    """

    def __init__(self, cluster: Cluster, kube: Kube, helm: Helm) -> None:
        self._cluster, self._kube, self._helm = cluster, kube, helm
        self._found: set[str] = set()

    async def deploy(self, app: App, progress: Progress = quiet) -> None:
        """Install ``app`` and wait until every workload is ready. DeployError otherwise, with nothing left behind.

        On a stepped clock all objects appear at one instant, whatever order the requests arrive in.
        """
        try:
            if await self._is_there(app):
                self._found.add(app.id)
                await self._wait_ready(app, progress)
                return
            try:
                await self._make_namespace(app.namespace)
                async with self._cluster.instant():
                    await self._helm.install(app.release, app.chart_path, app.namespace, app.values)
                await self._wait_ready(app, progress)
            except BaseException as error:  # also cancellation: nothing half-deployed may stay
                await self._clear_away(app, error)
                raise
        except ClusterError as error:
            raise DeployError(f"app {app.id} cannot be installed: {error}") from error

    async def undeploy(self, app: App) -> None:
        """Uninstall and delete the namespace, and wait until it is gone. Safe to call twice."""
        if app.id in self._found:
            self._found.discard(app.id)
            return
        await self._helm.uninstall(app.release, app.namespace)
        await self._kube.delete("namespaces", "", app.namespace)
        await self._wait_gone(app.namespace)

    async def _wait_gone(self, namespace: str) -> None:
        end = await self._cluster.clock.now() + NAMESPACE_GONE_S_MAX
        while await self._kube.find("namespaces", "", namespace) is not None:
            if await self._cluster.clock.sleep(POLL_S) > end:
                raise DeployError(
                    f"namespace {namespace} is still there after {NAMESPACE_GONE_S_MAX:g} s; "
                    f"see `kubectl get namespace {namespace} -o yaml` for what holds it"
                )

    async def _make_namespace(self, name: str) -> None:
        found = await self._kube.find("namespaces", "", name)
        if found and found["metadata"].get("deletionTimestamp"):
            await self._wait_gone(name)
        await ensure_namespace(self._kube, name)

    async def _clear_away(self, app: App, cause: BaseException) -> None:
        try:
            await self.undeploy(app)
        except LabFailure as second:
            cause.add_note(f"What had been installed could not be taken away: {second}")

    async def _is_there(self, app: App) -> bool:
        for row in await self._helm.releases(app.namespace):
            if row["name"] == app.release:
                if row["status"] == "deployed":
                    return True
                raise DeployError(
                    f"app {app.id}: release {app.release} in namespace {app.namespace} is {row['status']}; "
                    f"remove it with `helm uninstall {app.release} -n {app.namespace}`"
                )
        return False

    async def _wait_ready(self, app: App, progress: Progress) -> None:
        total = await self._count_workloads(app.namespace)
        end = await self._cluster.clock.now() + app.ready_timeout_s
        while True:
            lacking = await not_ready(self._kube, app.namespace)
            progress(total - len(lacking), total)
            if not lacking:
                return
            if await self._cluster.clock.sleep(POLL_S) > end:
                troubles = (await pod_troubles(self._kube, app.namespace))[:TROUBLES_SHOWN]
                raise DeployError(
                    f"app {app.id} is not ready after {app.ready_timeout_s:g} s: {', '.join(lacking)}. "
                    f"{'; '.join(troubles) or 'no pod reports a reason'}"
                )

    async def _count_workloads(self, namespace: str) -> int:
        return sum([len(await self._kube.list(resource, namespace)) for resource in WORKLOAD_RESOURCES])
