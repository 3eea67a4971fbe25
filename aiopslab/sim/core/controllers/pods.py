"""What controllers ask of a pod: active, ready, available, resources, quality of service."""

from __future__ import annotations

from functools import lru_cache

from aiopslab.sim.core.controllers.common import condition, deleting, owner_reference
from aiopslab.sim.core.kernel import parse_time
from aiopslab.sim.core.quantity import parse as parse_quantity
from aiopslab.sim.core.store import Obj


@lru_cache(maxsize=4096)
def quantity(value: str | int | float | None) -> float:
    """A Kubernetes quantity (``250m``, ``1Gi``, ``2``) as a number in its base unit; ``None`` is 0."""
    return 0.0 if value is None else float(parse_quantity(value))


def phase(pod: Obj) -> str:
    """``status.phase``, Pending when unset."""
    return (pod.get("status") or {}).get("phase") or "Pending"


def finished(pod: Obj) -> bool:
    """Whether the pod has ended for good."""
    return phase(pod) in ("Succeeded", "Failed")


def active(pod: Obj) -> bool:
    """Whether the pod counts as a replica: neither ended nor being deleted."""
    return not finished(pod) and not deleting(pod)


def ready(pod: Obj) -> bool:
    """Whether the pod's Ready condition is True."""
    entry = condition(pod, "Ready")
    return entry is not None and entry["status"] == "True"


def ready_since(pod: Obj) -> float | None:
    """Unix seconds of the transition to Ready, None when not ready."""
    entry = condition(pod, "Ready")
    if entry is None or entry["status"] != "True":
        return None
    return parse_time(entry["lastTransitionTime"])


def available(pod: Obj, min_ready_s: float, now: float) -> bool:
    """Ready, and for at least ``min_ready_s`` seconds."""
    since = ready_since(pod)
    return since is not None and (min_ready_s == 0 or since + min_ready_s <= now)


def restarts(pod: Obj) -> int:
    """The most restarts that any container of the pod has had."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((entry.get("restartCount", 0) for entry in statuses), default=0)


def from_template(template: Obj, owner: Obj, name: str, generate_name: str = "") -> Obj:
    """A pod as a controller creates it from ``spec.template`` of ``owner``."""
    meta = template.get("metadata") or {}
    metadata: Obj = {"name": name, "namespace": owner["metadata"]["namespace"]}
    if generate_name:
        metadata["generateName"] = generate_name
    for field in ("labels", "annotations", "finalizers"):
        if meta.get(field):
            metadata[field] = dict(meta[field]) if field != "finalizers" else list(meta[field])
    metadata["ownerReferences"] = [owner_reference(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**template["spec"]}}


def requests(pod: Obj) -> dict[str, float]:
    """What the scheduler reserves: cpu in cores, memory and ephemeral storage in bytes, others as counts.

    Per resource the larger of (containers + sidecars) and the largest init container together with the
    sidecars started before it, plus the pod's overhead.
    """
    spec = pod["spec"]
    total: dict[str, float] = {}
    for container in spec.get("containers") or ():
        _add(total, _requested(container))
    sidecars: dict[str, float] = {}
    init_peak: dict[str, float] = {}
    for container in spec.get("initContainers") or ():
        own = _requested(container)
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
            own = dict(sidecars)
        else:
            own = {
                name: own.get(name, 0.0) + sidecars.get(name, 0.0) for name in own.keys() | sidecars.keys()
            }
        for name, amount in own.items():
            init_peak[name] = max(init_peak.get(name, 0.0), amount)
    for name, amount in init_peak.items():
        total[name] = max(total.get(name, 0.0), amount)
    _add(total, {name: quantity(v) for name, v in (spec.get("overhead") or {}).items()})
    return total


def host_ports(pod: Obj) -> set[tuple[str, str, int]]:
    """(host address, protocol, port) that the pod takes on its node."""
    taken = set()
    host_network = pod["spec"].get("hostNetwork")
    for container in pod["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if host_network else 0)
            if number:
                taken.add((port.get("hostIP") or "0.0.0.0", port.get("protocol", "TCP"), number))
    return taken


def _requested(container: Obj) -> dict[str, float]:
    resources = container.get("resources") or {}
    merged = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantity(value) for name, value in merged.items()}


def _add(total: dict[str, float], more: dict[str, float]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0.0) + amount
