"""What one pod uses of its node beside what it asked for, and the sentences about it in an eviction."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.ports import ContainerUse, NodeUse
from aiopslab.sim.core.quantity import canonical, is_binary, parse, text
from aiopslab.sim.core.store import Obj

if TYPE_CHECKING:
    from aiopslab.sim.core.kubelet.worker import PodWorker

STORAGE = "ephemeral-storage"


class PodStats:
    """The statistics of one pod."""

    def __init__(self, worker: PodWorker, use: NodeUse) -> None:
        self.worker = worker
        self._spec: Obj = worker.pod["spec"]
        self._containers: dict[str, ContainerUse] = {}
        for run in worker.runs:
            found = use.containers.get(run.ref) if run.running and run.ref is not None else None
            if found is not None:
                self._containers[run.name] = found
        self._volumes = {name: size for (uid, name), size in use.volumes.items() if uid == worker.uid}

    def used(self, resource: str) -> float:
        """Memory or storage of the whole pod."""
        if resource == "memory":
            return sum(use.memory for use in self._containers.values())
        on_disk = sum(size for name, size in self._volumes.items() if name not in in_memory(self._spec))
        return on_disk + sum(use.layer + use.log for use in self._containers.values())

    def requested(self, resource: str) -> float:
        """What the scheduler reserved for it."""
        return podlib.requests(self.worker.pod).get(resource, 0.0)

    def over_limit(self) -> str:
        """What is said of the first storage limit that the pod is over; empty when it keeps all of them."""
        for volume in self._spec.get("volumes") or ():
            limit = (volume.get("emptyDir") or {}).get("sizeLimit")
            if limit and 0 < podlib.quantity(limit) < self._volumes.get(volume["name"], 0):
                return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{canonical(limit)}". '
        limits = {c["name"]: _limit(c) for c in self._spec["containers"] if _limit(c)}
        total = sum((parse(limit) for limit in limits.values()), Fraction(0))
        if limits and self.used(STORAGE) > total:
            shown = text(total, all(is_binary(limit) for limit in limits.values()))
            return f"Pod ephemeral local storage usage exceeds the total limit of containers {shown}. "
        for name, use in self._containers.items():
            limit = limits.get(name)
            if limit and podlib.quantity(limit) < use.layer + use.log:
                return f'Container {name} exceeded its local ephemeral storage limit "{canonical(limit)}". '
        return ""

    def blame(self, resource: str) -> tuple[str, dict[str, str]]:
        """The containers that use more than they asked for: a sentence each, and the event's annotations."""
        sentences, names, amounts = "", [], []
        containers = [*self._spec["containers"], *(self._spec.get("initContainers") or ())]
        for container in containers:
            use = self._containers.get(container["name"])
            if use is None:
                continue
            amount = use.memory if resource == "memory" else use.layer + use.log
            request = ((container.get("resources") or {}).get("requests") or {}).get(resource, "0")
            if amount > podlib.quantity(request):
                shown = text(Fraction(amount), binary=True)
                sentences += f"Container {container['name']} was using {shown}, request is {canonical(request)}, "
                sentences += f"has larger consumption of {resource}. "
                names.append(container["name"])
                amounts.append(shown)
        return sentences, {
            "offending_containers": ",".join(names),
            "offending_containers_usage": ",".join(amounts),
            "starved_resource": resource,
        }


def limited(pod: Obj) -> bool:
    """Whether a pod has any storage limit."""
    volumes = pod["spec"].get("volumes") or ()
    return any((volume.get("emptyDir") or {}).get("sizeLimit") for volume in volumes) or any(
        _limit(container) for container in pod["spec"]["containers"]
    )


def in_memory(spec: Obj) -> set[str]:
    """Names of the emptyDir volumes that are a tmpfs."""
    volumes = spec.get("volumes") or ()
    return {volume["name"] for volume in volumes if (volume.get("emptyDir") or {}).get("medium") == "Memory"}


def _limit(container: Obj) -> str:
    return str(((container.get("resources") or {}).get("limits") or {}).get(STORAGE, ""))
