"""Memory and disk of one node as its kubelet reads them: the figures that the counters show."""

from __future__ import annotations

import numpy as np

from aiopslab.sim.core.ports import ContainerUse, NodeUse
from aiopslab.sim.core.store import Key, Obj, Store
from aiopslab.sim.world import disks
from aiopslab.sim.world.counters import IntArray
from aiopslab.sim.world.effects import Effects
from aiopslab.sim.world.exporting import NODE_BASE_BYTES, Exporter, capacity, memory_bytes, quantity, working_set
from aiopslab.sim.world.metering import Meter
from aiopslab.sim.world.runs import Run, Runs


class NodeUses:
    """Adds up what runs on each node."""

    def __init__(self, runs: Runs, meter: Meter, store: Store, exporter: Exporter) -> None:
        self.volumes = disks.Volumes()
        self._runs, self._meter, self._store, self._exporter = runs, meter, store, exporter

    def read(self, name: str, now: float, effects: Effects) -> NodeUse | None:
        """One node; None when there is no such node."""
        node = self._store.get(Key("nodes", "", name))
        if node is None:
            return None
        here = self._on(name)
        containers = {}
        for run in here:
            usage = self._meter.usage(run)
            memory = working_set(*memory_bytes(run, now, usage, effects))
            containers[run.ref] = ContainerUse(memory, disks.layer_bytes(run), disks.log_bytes(run, usage.tx_bytes))
        total = int(quantity(capacity(node, "memory", "8Gi")))
        used = NODE_BASE_BYTES + sum(use.memory for use in containers.values())
        size = quantity(capacity(node, "ephemeral-storage", str(disks.DEFAULT_DISK_BYTES)))
        logs = disks.LOG_SHARE * self._exporter.sent_bytes(here, name, now)
        volumes = self.volumes.sizes(here)
        written = sum(use.layer for use in containers.values()) + _on_disk(volumes, here)
        taken = disks.SYSTEM_DISK_BYTES + image_bytes(node) + logs + written
        room = int(disks.available(size, taken))
        return NodeUse(total, max(total - used, 0), int(size), room, containers, volumes)

    def stored(self, names: list[str]) -> IntArray:
        """Bytes that containers have written, by node."""
        runs = [run for run in self._runs.alive() if run.files is not None or run.spec.shared]
        written = dict.fromkeys(names, 0)
        for name in {run.spec.node for run in runs} & written.keys():
            here = [run for run in runs if run.spec.node == name]
            written[name] = sum(disks.layer_bytes(run) for run in here) + _on_disk(self.volumes.sizes(here), here)
        return np.array(list(written.values()), np.int64)

    def _on(self, name: str) -> list[Run]:
        return [run for run in self._runs.alive() if run.spec.node == name]


def _on_disk(volumes: dict[tuple[str, str], int], here: list[Run]) -> int:
    """Bytes of the volumes that are not kept in memory."""
    in_memory = {(run.ref.pod_uid, volume) for run in here for volume in run.spec.in_memory}
    return sum(size for key, size in volumes.items() if key not in in_memory)


def image_bytes(node: Obj) -> int:
    """Size of the images that a node has."""
    return sum(image.get("sizeBytes", 0) for image in (node.get("status") or {}).get("images") or ())
