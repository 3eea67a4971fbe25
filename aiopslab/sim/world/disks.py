"""What containers have on their node's disk: files of their own, files in emptyDir volumes, logs.

A volume lives as long as its pod. Its files are those of the containers that mount it; what a container that has
ended left there is there for the next one.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiopslab.sim.core.ports import ContainerSpec
from aiopslab.sim.world.runs import Run

GIB = 1 << 30
DEFAULT_DISK_BYTES = 100 * GIB
SYSTEM_DISK_BYTES = 6 * GIB  # the operating system and the runtime
ROOT_SHARE = 0.05  # of a file system, kept for root
LOG_SHARE = 0.06  # bytes of log per byte that pods send
LOG_BYTES_MAX = 5 * 10 << 20  # the kubelet keeps five files of 10 MiB of a container
BLOCK_BYTES = 4096
SHM, SHM_BYTES = "/dev/shm", 64 << 20
MANAGED = frozenset({"/etc/resolv.conf", "/etc/hosts", "/etc/hostname"})  # brought by kubelet and runtime

Contents = dict[str, tuple[bytes, int]]  # path inside a volume -> what is kept of the file, bytes that follow


class Volumes:
    """The emptyDir volumes of all pods, by (pod uid, volume)."""

    def __init__(self) -> None:
        self._left: dict[tuple[str, str], Contents] = {}

    def mount(self, spec: ContainerSpec) -> dict[str, int]:
        """Put what earlier containers of the pod left among a container's files; the sizes of large ones."""
        bulk = {}
        for path, volume in spec.shared.items():
            for name, (content, more) in self._left.get((spec.ref.pod_uid, volume), {}).items():
                spec.files[f"{path}/{name}"] = content.decode(errors="replace")
                if more:
                    bulk[f"{path}/{name}"] = more
        return bulk

    def ended(self, run: Run) -> None:
        """Keep what a container leaves behind."""
        if run.files is None:
            return
        for path, volume in run.spec.shared.items():
            left = self._left.setdefault((run.ref.pod_uid, volume), {})
            for name in [n for n in left if f"{path}/{n}" in run.spec.files and f"{path}/{n}" not in run.files]:
                del left[name]
            left |= _inside(run, path)

    def forget(self, pod_uid: str) -> None:
        """The pod is gone, and its volumes with it."""
        for key in [k for k in self._left if k[0] == pod_uid]:
            del self._left[key]

    def sizes(self, runs: Iterable[Run]) -> dict[tuple[str, str], int]:
        """Bytes by (pod uid, volume) of the pods that ``runs`` belong to."""
        found: dict[tuple[str, str], Contents] = {}
        for run in runs:
            for path, volume in run.spec.shared.items():
                key = (run.ref.pod_uid, volume)
                if key not in found:
                    found[key] = dict(self._left.get(key, {}))
                if run.files is not None:
                    found[key] |= _inside(run, path)
        return {key: sum(_blocks(len(c) + more) for c, more in files.values()) for key, files in found.items()}


def layer_bytes(run: Run) -> int:
    """What a container wrote outside of volumes."""
    if run.files is None:
        return 0
    folders = (f"{SHM}/", *(f"{path}/" for path in run.spec.shared))
    return sum(
        _blocks(len(content) + run.bulk.get(path, 0))
        for path, content in run.files.items()
        if path not in MANAGED and path not in run.spec.files and not path.startswith(folders)
    )


def tmpfs_bytes(run: Run) -> int:
    """What a container holds in memory as files."""
    folders = tuple(f"{path}/" for path in limits(run) if run.files)
    return sum(
        _blocks(len(content) + run.bulk.get(path, 0))
        for path, content in (run.files or {}).items()
        if path.startswith(folders)
    )


def limits(run: Run) -> dict[str, int]:
    """The tmpfs that a container has: folder to size."""
    memory = run.spec.in_memory
    return {SHM: SHM_BYTES, **{path: memory[v] for path, v in run.spec.shared.items() if v in memory}}


def log_bytes(run: Run, sent_bytes: float) -> int:
    """A container's log."""
    return min(int(LOG_SHARE * sent_bytes) + sum(len(text) + 1 for _, text in run.lines), LOG_BYTES_MAX)


def available(size: float, taken: float) -> float:
    """Bytes that are left for anybody but root."""
    return max((1.0 - ROOT_SHARE) * size - taken, 0.0)


def _inside(run: Run, folder: str) -> Contents:
    prefix, files = f"{folder}/", run.files or {}
    return {
        path.removeprefix(prefix): (content, run.bulk.get(path, 0))
        for path, content in files.items()
        if path.startswith(prefix)
    }


def _blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES
