"""LimitRange admission: default requests and limits, and refusals of what is out of range."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core.apierrors import forbidden
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.quantity import canonical, parse, text
from aiopslab.sim.core.store import Store
from aiopslab.sim.core.totals import pod_total

Obj = dict[str, Any]


def fill_in(pod: Obj, ranges: list[Obj]) -> Obj:
    """The pod with defaults of all ``Container`` ranges, and the annotation that names what the last one set."""
    for item in ranges:
        pod = _filled(pod, item)
    return pod


def _filled(pod: Obj, item: Obj) -> Obj:
    defaults: Obj = {}
    requests: Obj = {}
    for limit in _limits(item, "Container"):
        defaults |= limit.get("default") or {}
        requests |= limit.get("defaultRequest") or {}
    if not defaults and not requests:
        return pod
    spec, notes = dict(pod["spec"]), []
    for field, what in (("containers", "container"), ("initContainers", "init container")):
        containers = []
        for container in spec.get(field) or []:
            container, set_ = _fill_container(container, requests, defaults)
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


def admit(store: Store, kind: Kind, obj: Obj, old: Obj | None, subresource: str) -> None:
    """Raises 403 that lists everything that a range does not allow. Of a changed object only changes count."""
    pod = kind.resource == "pods" and (old is None or subresource == "resize")
    claim = kind.resource == "persistentvolumeclaims" and not subresource
    for item in store.list("limitranges", obj["metadata"]["namespace"]) if pod or claim else ():
        errors = _check_pod(obj, item, old) if pod else _check_claim(obj, item, old)
        if errors := list(dict.fromkeys(errors)):
            why = errors[0] if len(errors) == 1 else "[" + ", ".join(errors) + "]"
            raise forbidden(kind, obj["metadata"]["name"], why)


def _check_claim(claim: Obj, item: Obj, old: Obj | None) -> list[str]:
    what = "PersistentVolumeClaim"
    usage = (claim["spec"].get("resources") or {}).get("requests") or {}
    if old is not None and usage == ((old["spec"].get("resources") or {}).get("requests") or {}):
        return []
    errors: list[str] = []
    for limit in _limits(item, what):
        for name, bound in sorted((limit.get("min") or {}).items()):
            errors += _minimum(what, name, bound, usage, {})
        for name, bound in sorted((limit.get("max") or {}).items()):
            errors += _maximum_request(what, name, bound, usage)
    return errors


def _check_pod(pod: Obj, item: Obj, old: Obj | None) -> list[str]:
    errors: list[str] = []
    spec, was = pod["spec"], (old or {}).get("spec") or {}
    for limit in (item.get("spec") or {}).get("limits") or []:
        if limit.get("type") == "Container":
            for field in ("containers", "initContainers"):
                before = {c["name"]: c.get("resources") or {} for c in was.get(field) or ()}
                for container in spec.get(field) or ():
                    resources = container.get("resources") or {}
                    if before.get(container["name"]) != resources:
                        errors += _bounds("Container", limit, resources)
        elif limit.get("type") == "Pod" and (not was or _totals(was) != _totals(spec)):
            errors += _bounds("Pod", limit, _totals(spec))
    return errors


def _totals(spec: Obj) -> Obj:
    return {
        field: {name: text(*amount) for name, amount in pod_total(spec, field, overhead=False).items()}
        for field in ("requests", "limits")
    }


def _bounds(what: str, limit: Obj, resources: Obj) -> list[str]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    errors = []
    for name, bound in sorted((limit.get("min") or {}).items()):
        errors += _minimum(what, name, bound, requests, limits)
    for name, bound in sorted((limit.get("max") or {}).items()):
        errors += _maximum(what, name, bound, requests, limits)
    for name, bound in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        errors += _ratio(what, name, bound, requests, limits)
    return errors


def _ratio(what: str, name: str, bound: Any, requests: Obj, limits: Obj) -> list[str]:
    most = f"{name} max limit to request ratio per {what} is {canonical(bound)}, but"
    if name not in requests or not parse(requests[name]):
        return [f"{most} no request is specified or request is 0"]
    if name not in limits or not parse(limits[name]):
        return [f"{most} no limit is specified or limit is 0"]
    found = parse(limits[name]) / parse(requests[name])
    return [f"{most} provided ratio is {float(found):f}"] if found > parse(bound) else []


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
    if name not in limits:
        return [f"{high}.  No limit is specified"]
    if parse(limits[name]) > parse(bound):
        return [f"{high}, but limit is {canonical(limits[name])}"]
    return _maximum_request(what, name, bound, requests) if name in requests else []


def _maximum_request(what: str, name: str, bound: Any, requests: Obj) -> list[str]:
    high = f"maximum {name} usage per {what} is {canonical(bound)}"
    if name not in requests:
        return [f"{high}.  No request is specified"]
    over = parse(requests[name]) > parse(bound)
    return [f"{high}, but request is {canonical(requests[name])}"] if over else []


def _limits(item: Obj, type_: str) -> list[Obj]:
    return [limit for limit in (item.get("spec") or {}).get("limits") or [] if limit.get("type") == type_]
