"""Objects as another version or group shows them: events of events.k8s.io, older autoscalers, versions of custom
resources."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core.autoscaling import from_v1, to_v1
from aiopslab.sim.core.kinds import Kind

Obj = dict[str, Any]

# core/v1 field -> events.k8s.io/v1 field
_EVENT_FIELDS = {
    "involvedObject": "regarding", "message": "note", "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp", "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount", "reportingComponent": "reportingController",
}  # fmt: skip


def outward(obj: Obj, kind: Kind) -> Obj:
    """A stored object as ``kind`` presents it."""
    if kind.group == "events.k8s.io":
        shown = {_EVENT_FIELDS.get(k, k): v for k, v in obj.items()}
        return {**shown, "apiVersion": kind.api_version, "eventTime": _event_time(obj)}
    if is_old_autoscaler(kind):
        return to_v1(obj)
    if kind.crd is not None and obj.get("apiVersion") != kind.api_version:
        return {**obj, "apiVersion": kind.api_version}
    return obj


def _event_time(event: Obj) -> str | None:
    """``eventTime`` is required in this group, and clients with typed models refuse an event without it: one that
    was written in the old form shows when it was first seen."""
    first = event.get("firstTimestamp")
    return event.get("eventTime") or (f"{first.removesuffix('Z')}.000000Z" if first else None)


def inward(obj: Obj, kind: Kind) -> Obj:
    """A client's object of ``kind`` as it is stored."""
    if kind.group == "events.k8s.io":
        back = {v: k for k, v in _EVENT_FIELDS.items()}
        return {**{back.get(k, k): v for k, v in obj.items()}, "apiVersion": "v1"}
    return from_v1(obj) if is_old_autoscaler(kind) else obj


def is_old_autoscaler(kind: Kind) -> bool:
    """Whether a kind shows stored autoscalers in their older version, in which clients also patch them."""
    return (kind.group, kind.version) == ("autoscaling", "v1")
