"""RuntimeClass admission: what the class of a new pod adds to it."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core.apierrors import forbidden
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.store import Key, Store

Obj = dict[str, Any]

RESOURCE = "node.k8s.io/runtimeclasses"


def fill_in(store: Store, kind: Kind, pod: Obj) -> Obj:
    """The pod with the overhead, node selector and tolerations of its class. Raises 403 where they contradict."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    found = store.get(Key(RESOURCE, "", name)) if name else None

    def refuse(why: str) -> Exception:
        return forbidden(kind, pod["metadata"].get("name", ""), why)

    if name and found is None:
        raise refuse(f'pod rejected: RuntimeClass "{name}" not found')
    overhead = ((found or {}).get("overhead") or {}).get("podFixed")
    if spec.get("overhead") and not overhead:
        raise refuse("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if found is None:
        return pod
    if overhead:
        if spec.get("overhead") and spec["overhead"] != overhead:
            raise refuse("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec = {**spec, "overhead": overhead}
    scheduling = found.get("scheduling") or {}
    own = spec.get("nodeSelector") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if own.get(key, value) != value:
            mine, theirs = f"pod.spec.nodeSelector[{key}]", f"runtimeClass.scheduling.nodeSelector[{key}]"
            raise refuse(f"conflict: {theirs} = {value}; {mine} = {own[key]}")
        own = {**own, key: value}
    if own:
        spec = {**spec, "nodeSelector": own}
    more = [t for t in scheduling.get("tolerations") or () if t not in (spec.get("tolerations") or ())]
    if more:
        spec = {**spec, "tolerations": [*(spec.get("tolerations") or ()), *more]}
    return {**pod, "spec": spec}
