"""Options of API calls, as the query string and the bodies of DELETE give them."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.ports import Principal


@dataclass(slots=True)
class WriteOptions:
    """How to write. ``user`` None is the cluster itself (controllers). ``warnings`` collects texts for the
    ``Warning`` response header. ``field_validation`` is ``""`` (as Warn), Ignore, Warn or Strict.
    ``repeated`` are findings about keys that the body's text gives twice.
    ``served`` is the kind that the client used where it is not the stored one (events of events.k8s.io)."""

    manager: str = "unknown"
    dry_run: bool = False
    field_validation: str = ""
    force: bool = False
    user: Principal | None = None
    warnings: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    served: Kind | None = None


@dataclass(slots=True)
class DeleteOptions:
    """How to delete. ``grace_s`` None is the object's own; ``propagation`` Background, Foreground or Orphan;
    ``uid`` and ``resource_version`` are preconditions."""

    manager: str = "unknown"
    grace_s: int | None = None
    propagation: str = ""
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False
    user: Principal | None = None
