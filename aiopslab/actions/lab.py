"""What actions work with: the cluster, the agent's identity, its shell, the telemetry, and the task's own names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from aiopslab.actions.shell import Shell
from aiopslab.cluster.base import Cluster
from aiopslab.telemetry.jaeger import Span
from aiopslab.telemetry.prometheus import Series


class KubeReads(Protocol):
    """Reads with the agent's identity; ``kube.client.Kube`` is one. Errors are ``KubeError``."""

    async def list(
        self, resource: str, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> list[dict[str, Any]]:
        """Objects of a namespace."""

    async def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        since_s: int | None = None,
        tail: int | None = None,
        previous: bool = False,
    ) -> str:
        """Log text of one container."""


class Metrics(Protocol):
    """PromQL; ``telemetry.prometheus.Prometheus`` is one."""

    async def query_range(self, expr: str, start: float, end: float, step_s: float) -> list[Series]:
        """Values over time (Unix seconds)."""


class Traces(Protocol):
    """Stored traces; ``telemetry.jaeger.Jaeger`` is one."""

    async def services(self) -> list[str]:
        """Services that have spans."""

    async def traces(
        self, service: str, start: float, end: float, *, operation: str = "", limit: int = 100
    ) -> list[list[Span]]:
        """Traces that a service took part in."""


@dataclass(frozen=True, slots=True)
class Lab:
    """One run's tools, with the agent's rights. ``services`` are the app's workload names."""

    cluster: Cluster
    kube: KubeReads
    shell: Shell
    metrics: Metrics
    traces: Traces
    namespace: str
    services: Sequence[str]
