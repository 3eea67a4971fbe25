"""What containers hold on their nodes: memory, files in their own layers, files in volumes of their pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aiopslab.sim.core.ports import Held
from aiopslab.sim.world.runs import Run

GIVEN = ("/etc/resolv.conf", "/etc/hosts", "/etc/hostname")  # the kubelet's, not the container's
MEMORY_FOLDERS = ("/dev/", "/proc/", "/sys/")


def held(runs: Iterable[Run], memory: Callable[[Run], int]) -> dict[str, Held]:
    """By uid of pod; ``memory`` gives the working set of a run in bytes."""
    found: dict[str, Held] = {}
    volumes: dict[tuple[str, str, str], int] = {}  # pod, volume, path inside it
    for run in runs:
        ref = run.ref
        pod = found.setdefault(ref.pod_uid, Held({}, {}, {}))
        pod.memory[ref.container] = memory(run)
        own = 0
        for path, content in (run.files or {}).items():
            mount = max((m for m in run.spec.shared if path.startswith(f"{m}/")), key=len, default=None)
            if mount is not None:
                volumes[ref.pod_uid, run.spec.shared[mount], path.removeprefix(mount)] = len(content)
            elif path not in GIVEN and path not in run.spec.files and not path.startswith(MEMORY_FOLDERS):
                own += len(content)
        pod.files[ref.container] = own
    for (uid, volume, _), size in volumes.items():
        found[uid].volumes[volume] = found[uid].volumes.get(volume, 0) + size
    return found
