"""LimitRange admission: default requests and limits, and refusals of what is out of range."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from aiopslab.sim.core.apierrors import forbidden
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.quantity import canonical, is_binary, parse, text

Obj = dict[str, Any]


def fill_in(pod: Obj, ranges: list[Obj]) -> Obj:
    """The pod with defaults of all ``Container`` ranges, and the annotation that names what was set."""
    defaults: Obj = {}
    requests: Obj = {}
    for limit in _limits(ranges, "Container"):
        defaults |= limit.get("default") or {}
        requests |= limit.get("defaultRequest") or {}
    if not defaults and not requests:
        return pod
    spec, notes = dict(pod["spec"]), []
    for field in ("containers", "initContainers"):
        containers = []
        for container in spec.get(field) or []:
            container, set_ = _fill_container(container, requests, defaults)
            what = "init container" if field == "initContainers" else "container"
            for kind in ("request", "limit"):
                if set_[kind]:
                    notes.append(f"{', '.join(sorted(set_[kind]))} {kind} for {what} {container['name']}")
            containers.append(container)
        if containers:
            spec[field] = containers
    meta = dict(pod["metadata"])
    if notes:
        note = f"LimitRanger plugin set: {'; '.join(notes)}"
        meta["annotations"] = {**(meta.get("annotations") or {}), "kubernetes.io/limit-ranger": note}
    return {**pod, "metadata": meta, "spec": spec}


def _fill_container(container: Obj, requests: Obj, limits: Obj) -> tuple[Obj, dict[str, list[str]]]:
    resources = dict(container.get("resources") or {})
    done: dict[str, list[str]] = {"request": [], "limit": []}
    for field, kind, wanted in (("requests", "request", requests), ("limits", "limit", limits)):
        have = dict(resources.get(field) or {})
        for name, value in sorted(wanted.items()):
            if name not in have:
                have[name] = value
                done[kind].append(name)
        if have:
            resources[field] = have
    return {**container, "resources": resources}, done


def check(kind: Kind, obj: Obj, ranges: list[Obj]) -> None:
    """Raises 403 that lists everything out of range."""
    errors: list[str] = []
    if kind.resource == "persistentvolumeclaims":
        usage = (obj["spec"].get("resources") or {}).get("requests") or {}
        for limit in _limits(ranges, "PersistentVolumeClaim"):
            errors += _bounds("PersistentVolumeClaim", limit, usage, usage)
    else:
        errors += _check_pod(obj, ranges)
    if errors:
        why = errors[0] if len(errors) == 1 else "[" + ", ".join(errors) + "]"
        raise forbidden(kind, obj["metadata"]["name"], why)


def _check_pod(pod: Obj, ranges: list[Obj]) -> list[str]:
    errors: list[str] = []
    containers = pod["spec"].get("containers") or []
    for item in ranges:
        for limit in (item.get("spec") or {}).get("limits") or []:
            if limit.get("type") == "Container":
                for container in containers:
                    resources = container.get("resources") or {}
                    errors += _bounds(
                        "Container", limit, resources.get("requests") or {}, resources.get("limits") or {}
                    )
            elif limit.get("type") == "Pod":
                errors += _bounds("Pod", limit, _total(containers, "requests"), _total(containers, "limits"))
    return errors


def _bounds(what: str, limit: Obj, requests: Obj, limits: Obj) -> list[str]:
    errors = []
    for name, bound in sorted((limit.get("min") or {}).items()):
        errors += _minimum(what, name, bound, requests, limits)
    for name, bound in sorted((limit.get("max") or {}).items()):
        errors += _maximum(what, name, bound, requests, limits)
    for name, ratio in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        if name in requests and name in limits and parse(requests[name]):
            found = parse(limits[name]) / parse(requests[name])
            if found > parse(ratio):
                text_ = f"{name} max limit to request ratio per {what} is {ratio}"
                errors.append(f"{text_}, but provided ratio is {float(found):f}")
    return errors


def _minimum(what: str, name: str, bound: Any, requests: Obj, limits: Obj) -> list[str]:
    low = f"minimum {name} usage per {what} is {canonical(bound)}"
    if name not in requests:
        return [f"{low}.  No request is specified"]
    if parse(requests[name]) < parse(bound):
        return [f"{low}, but request is {canonical(requests[name])}"]
    if name in limits and parse(limits[name]) < parse(bound):
        return [f"{low}, but limit is {canonical(limits[name])}"]
    return []


def _maximum(what: str, name: str, bound: Any, requests: Obj, limits: Obj) -> list[str]:
    high = f"maximum {name} usage per {what} is {canonical(bound)}"
    if what == "PersistentVolumeClaim":
        over = name in requests and parse(requests[name]) > parse(bound)
        return [f"{high}, but request is {canonical(requests[name])}"] if over else []
    if name not in limits:
        return [f"{high}.  No limit is specified"]
    if parse(limits[name]) > parse(bound):
        return [f"{high}, but limit is {canonical(limits[name])}"]
    if name in requests and parse(requests[name]) > parse(bound):
        return [f"{high}, but request is {canonical(requests[name])}"]
    return []


def _total(containers: list[Obj], field: str) -> Obj:
    totals: dict[str, tuple[Fraction, bool]] = {}
    for container in containers:
        for name, value in ((container.get("resources") or {}).get(field) or {}).items():
            before, binary = totals.get(name, (Fraction(0), False))
            totals[name] = (before + parse(value), binary or is_binary(value))
    return {name: text(value, binary) for name, (value, binary) in totals.items()}


def _limits(ranges: list[Obj], type_: str) -> Iterator[Obj]:
    for item in ranges:
        for limit in (item.get("spec") or {}).get("limits") or []:
            if limit.get("type") == type_:
                yield limit
