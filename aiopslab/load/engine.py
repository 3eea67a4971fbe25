"""Starts and stops the traffic of ``workloads/``."""

from __future__ import annotations

from typing import Any

import yaml

from aiopslab.catalog.manifests import App, Workload
from aiopslab.catalog.templates import fill_text, resolve
from aiopslab.cluster.base import Cluster
from aiopslab.errors import DeployError, ManifestError
from aiopslab.kube.client import Kube, KubeError, Obj
from aiopslab.kube.workloads import ensure_namespace, is_ready, pod_troubles

POLL_S = 2.0
GONE_S_MAX = 120.0
_RESOURCES = {"Deployment": "apps/deployments", "Job": "batch/jobs"}


class Loader:
    """Runs one workload at a time on one cluster."""

    def __init__(self, cluster: Cluster, kube: Kube) -> None:
        self._cluster, self._kube = cluster, kube
        self._applied: list[Obj] = []

    async def start(self, workload: Workload, app: App, params: dict[str, Any] | None = None) -> None:
        """Apply the workload's manifests against ``app`` and wait until its generators run.

        DeployError when they do not; then nothing of the workload is left.
        """
        objects = render(workload, app, params or {})
        try:
            await ensure_namespace(self._kube, workload.namespace)
            await self._remove(objects)
            self._applied = objects
            async with self._cluster.instant():
                for obj in objects:
                    await self._kube.apply(obj)
            await self._wait_running(workload, objects)
        except BaseException as error:  # also cancellation: no load may run on
            await self._clear_away(error)
            if isinstance(error, KubeError):
                raise DeployError(f"workload {workload.id} cannot be started: {error}") from error
            raise

    async def stop(self) -> None:
        """Delete what ``start`` applied. Safe to call twice; does not wait for pods to end."""
        for obj in reversed(self._applied):
            await self._kube.delete_manifest(obj)
        self._applied = []

    async def _clear_away(self, cause: BaseException) -> None:
        try:
            await self.stop()
        except KubeError as second:
            cause.add_note(f"What had been started could not be stopped: {second}")

    async def _remove(self, objects: list[Obj]) -> None:
        """Delete left-overs of an earlier run and wait for them: a Job cannot be changed in place."""
        waiting = [obj for obj in objects if await self._kube.delete_manifest(obj)]
        end = await self._cluster.clock.now() + GONE_S_MAX
        for obj in waiting:
            while await self._live(obj) is not None:
                if await self._cluster.clock.sleep(POLL_S) > end:
                    name = f"{obj['kind']}/{obj['metadata']['name']}"
                    raise DeployError(f"{name} of an earlier run does not go away; delete it by hand")

    async def _live(self, obj: Obj) -> Obj | None:
        resource = _RESOURCES.get(obj["kind"])
        if resource is None:
            return None
        return await self._kube.find(resource, obj["metadata"]["namespace"], obj["metadata"]["name"])

    async def _wait_running(self, workload: Workload, objects: list[Obj]) -> None:
        end = await self._cluster.clock.now() + workload.ready_timeout_s
        while True:
            states = [(obj, await self._live(obj)) for obj in objects if obj["kind"] in _RESOURCES]
            lacking = [obj["metadata"]["name"] for obj, live in states if live is None or not _runs(live)]
            if not lacking:
                return
            if await self._cluster.clock.sleep(POLL_S) > end:
                troubles = await pod_troubles(self._kube, workload.namespace)
                raise DeployError(
                    f"workload {workload.id} does not run after {workload.ready_timeout_s:g} s: "
                    f"{', '.join(lacking)}. {'; '.join(troubles[:3]) or 'no pod reports a reason'}"
                )


def render(workload: Workload, app: App, params: dict[str, Any]) -> list[Obj]:
    """The workload's objects with its parameters and the app's entry filled in. ManifestError when they do not fit.

    Besides the parameters, manifests may name ``namespace`` (the workload's), ``app_namespace``,
    ``entry_service`` and ``entry_port``.
    """
    values = {
        **resolve(workload.params, params, str(workload.folder / "workload.toml")),
        "namespace": workload.namespace,
        "app_namespace": app.namespace,
        "entry_service": app.entry.service,
        "entry_port": app.entry.port,
    }
    objects: list[Obj] = []
    for name in workload.manifests:
        path = workload.folder / name
        text = fill_text(path.read_text(encoding="utf-8"), values, str(path))
        try:
            objects += [obj for obj in yaml.safe_load_all(text) if obj]
        except yaml.YAMLError as error:
            raise ManifestError(f"{path} is not YAML once its parameters are filled in: {error}") from error
    for obj in objects:
        if obj.get("metadata", {}).get("namespace") != workload.namespace:
            name = f"{obj.get('kind')}/{obj.get('metadata', {}).get('name')}"
            raise ManifestError(f"{workload.folder}: {name} must set metadata.namespace to {{{{namespace}}}}")
    return objects


def _runs(live: Obj) -> bool:
    if live["kind"] == "Job":
        status = live.get("status") or {}
        return bool(status.get("ready") or status.get("succeeded"))
    return is_ready(live)
