"""Events of both groups. Fields are named as the server's own type names them, whichever group was used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_same

Obj = dict[str, Any]
EVENT_TYPES = ("Normal", "Warning")
SHORT_MAX, NOTE_MAX = 128, 1024
# What a change through events.k8s.io must leave as it is: the server's name, the group's own.
_FROZEN = (
    ("involvedObject", "regarding"), ("reason", "reason"), ("message", "note"), ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"), ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"), ("type", "type"), ("eventTime", "eventTime"), ("action", "action"),
    ("related", "related"), ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)  # fmt: skip
_UNSET = _FROZEN[4:7]


def _event(errors: Errors, obj: Obj, old: Obj | None) -> None:
    """What both groups ask: the event lives where its object lives, and a new-style one says who reports what."""
    involved = obj.get("involvedObject") or obj.get("regarding") or {}
    here, there, modern = obj["metadata"].get("namespace", ""), involved.get("namespace", ""), obj.get("eventTime")
    if modern:
        fine = bool(there) or here in ("default", "kube-system")
    else:
        fine = here in ("", "default") if not there else here == there
    if not fine:
        errors.invalid("involvedObject.namespace", there, "does not match event.namespace")
    if modern:
        _report(errors, obj)


def _report(errors: Errors, obj: Obj) -> None:
    field = "reportingController" if "reportingController" in obj or "regarding" in obj else "reportingComponent"
    reporter = obj.get(field, "")
    if not reporter:
        errors.required(field)
    errors.invalid_each(field, reporter, values.qualified_name(reporter))
    for field in ("reportingInstance", "action", "reason"):
        if not obj.get(field):
            errors.required(field)
        elif len(obj[field].encode()) > SHORT_MAX:
            errors.invalid(field, "", f"can have at most {SHORT_MAX} characters")
    if len((obj.get("message") or obj.get("note") or "").encode()) > NOTE_MAX:
        errors.invalid("message", "", f"can have at most {NOTE_MAX} characters")


def _new_event(errors: Errors, obj: Obj, old: Obj | None) -> None:
    series = obj.get("series")
    if old is not None:
        if series != old.get("series"):
            _series(errors, series)
        for name, own in _FROZEN:
            check_same(errors, obj.get(own) or None, old.get(own) or None, name)
        return
    _event(errors, obj, old)
    _series(errors, series)
    if not obj.get("eventTime"):
        errors.required("eventTime")
    kind = obj.get("type", "")
    if kind not in EVENT_TYPES:
        errors.invalid("type", "", f"has invalid value: {kind}")
    for name, own in _UNSET:
        if obj.get(own):
            errors.invalid(name, "", "needs to be unset")
    source = obj.get("deprecatedSource") or {}
    if source.get("component") or source.get("host"):
        errors.invalid("source", "", "needs to be unset")


def _series(errors: Errors, series: Obj | None) -> None:
    if series is None:
        return
    if series.get("count", 0) < 2:
        errors.invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        errors.required("series.lastObservedTime")


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    ("", "Event"): _event,
    ("events.k8s.io", "Event"): _new_event,
}
