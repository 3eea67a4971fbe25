"""Clusters: what the lab runs on. ``open_cluster`` gives the provider for a ``--cluster`` value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from aiopslab.cluster.base import Clock, Cluster, ClusterInfo, Provider
from aiopslab.errors import UsageError

KINDS = ("embedded", "kind", "kubeconfig")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Everything a provider may need; each takes what concerns it."""

    seed: int = 0
    clock: Literal["stepped", "wall"] = "stepped"
    bundles: Sequence[Path] = ()
    bare: bool = False
    nodes: int = 3  # embedded: workers, or plain nodes of a bare cluster
    kubeconfig: Path | None = None
    prometheus_url: str = ""
    jaeger_url: str = ""
    noise: Literal["off", "light", "full"] = "off"  # embedded: what a healthy cluster does by itself


def open_cluster(kind: str, options: ClusterOptions) -> Provider:
    """The provider for ``kind``; ``await provider.up()`` brings the cluster up.

    Raises UsageError for an unknown kind or for options that do not fit it.
    """
    if kind == "embedded":
        from aiopslab.cluster.embedded import EmbeddedProvider

        return EmbeddedProvider(options)
    if kind == "kubeconfig":
        from aiopslab.cluster.external import ExternalProvider

        return ExternalProvider(options)
    if kind == "kind":
        raise UsageError(
            "--cluster kind does not create clusters yet. Run `kind create cluster --config kind-cluster.yaml`, "
            "install the telemetry stack, then use "
            "--cluster kubeconfig --kubeconfig F --prometheus-url U --jaeger-url U"
        )
    raise UsageError(f"unknown cluster {kind!r}: use one of {', '.join(KINDS)}")


__all__ = ["KINDS", "Clock", "Cluster", "ClusterInfo", "ClusterOptions", "Provider", "open_cluster"]
