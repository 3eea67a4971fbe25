"""What a cluster is to the lab: a kubeconfig, two telemetry URLs and a clock.

Sessions and engines see only this. The embedded cluster, kind and any kubeconfig provide it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """Where a cluster is. ``kubeconfig`` belongs to the lab (administrator)."""

    kind: Literal["embedded", "kind", "kubeconfig"]
    kubeconfig: Path
    prometheus_url: str
    jaeger_url: str
    server_version: str = ""


class Clock(Protocol):
    """Cluster time. On the embedded cluster it is virtual; elsewhere it is the wall clock."""

    mode: Literal["stepped", "wall"]

    async def now(self) -> float:
        """Cluster time in Unix seconds."""

    async def sleep(self, seconds: float) -> float:
        """Let ``seconds`` of cluster time pass. Returns the new time. At once on a stepped clock."""


class Cluster(Protocol):
    """A running cluster. Obtained from a provider, closed exactly once."""

    info: ClusterInfo
    clock: Clock
    seed: int

    def instant(self) -> AbstractAsyncContextManager[None]:
        """While open, the cluster stores changes without acting on them (embedded, stepped clock), so
        that a whole Helm release appears at one instant; elsewhere it does nothing."""

    async def activity(self) -> dict[str, Any]:
        """``{"in_flight": int, "streams": int, "serial": int}`` of requests made with agent identities.

        ``streams`` counts open watches and followed logs. All zero where the cluster cannot tell.
        """

    async def audit(self, since: int = 0) -> list[dict[str, Any]]:
        """Requests made with agent identities: ``{n, at, user, verb, path, code, user_agent}``."""

    async def close(self) -> None:
        """Take down what was brought up; safe to call twice."""


class Provider(Protocol):
    """Brings a cluster up."""

    async def up(self) -> Cluster:
        """A running cluster, or ClusterError."""


Watch = AsyncIterator[dict[str, Any]]
