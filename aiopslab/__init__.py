"""A Kubernetes chaos lab that puts AI agents on call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiopslab.session.orchestrator import Orchestrator

__all__ = ["Orchestrator"]


def __getattr__(name: str) -> Any:
    """Import on first use, so that ``import aiopslab`` costs nothing."""
    if name == "Orchestrator":
        from aiopslab.session.orchestrator import Orchestrator

        return Orchestrator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
