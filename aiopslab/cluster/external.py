"""Any cluster that has a kubeconfig and the telemetry stack: kind, a laptop's, a cloud's.

The lab installs the application there, but neither creates nor deletes the cluster.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiopslab.cluster import ClusterOptions
from aiopslab.cluster.base import Clock, Cluster, ClusterInfo
from aiopslab.cluster.wallclock import WallClock
from aiopslab.errors import ClusterError, UsageError
from aiopslab.kube.client import Kube, KubeError


class ExternalCluster:
    """A cluster that somebody else brought up. Closing it changes nothing."""

    def __init__(self, info: ClusterInfo, seed: int) -> None:
        self.info = info
        self.clock: Clock = WallClock()
        self.seed = seed

    @asynccontextmanager
    async def instant(self) -> AsyncIterator[None]:
        """Nothing to hold back here."""
        yield

    async def activity(self) -> dict[str, Any]:
        """Unknown on a cluster that is not ours."""
        return {"in_flight": 0, "streams": 0, "serial": 0}

    async def audit(self, since: int = 0) -> list[dict[str, Any]]:
        """The audit log of such a cluster is not ours to read."""
        return []

    async def close(self) -> None:
        """Leaves the cluster as it is."""


class ExternalProvider:
    """``--cluster kubeconfig``: checks that all three addresses are given and that the API answers."""

    def __init__(self, options: ClusterOptions) -> None:
        missing = [
            flag
            for flag, value in (
                ("--kubeconfig", options.kubeconfig),
                ("--prometheus-url", options.prometheus_url),
                ("--jaeger-url", options.jaeger_url),
            )
            if not value
        ]
        if missing or options.kubeconfig is None:
            raise UsageError(f"--cluster kubeconfig also needs {', '.join(missing)}")
        if not options.kubeconfig.is_file():
            raise UsageError(f"--kubeconfig {options.kubeconfig}: no such file")
        self._options = options
        self._kubeconfig = options.kubeconfig

    async def up(self) -> Cluster:
        """The cluster as it is. Raises ClusterError when its API server does not answer."""
        try:
            async with Kube(self._kubeconfig) as kube:
                version = await kube.server_version()
        except (KubeError, OSError) as error:
            raise ClusterError(
                f"the cluster of {self._kubeconfig} does not answer: {error}. "
                "Is it running, and is the address right?"
            ) from error
        info = ClusterInfo(
            kind="kubeconfig",
            kubeconfig=self._kubeconfig,
            prometheus_url=self._options.prometheus_url.rstrip("/"),
            jaeger_url=self._options.jaeger_url.rstrip("/"),
            server_version=version,
        )
        return ExternalCluster(info, self._options.seed)
