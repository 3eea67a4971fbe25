"""Images of one node: what is cached, serialised pulls, the texts of the events."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aiopslab.sim.core.ids import Ids
from aiopslab.sim.core.ports import ImageRegistry
from aiopslab.sim.core.store import Obj

# A registry answers "no such image" and "unchanged" quickly; both need a round trip.
ROUND_TRIP_S = 0.4
REPORTED_MAX = 50  # images that a node's status lists
DEFAULT_REGISTRY = "docker.io"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(?::\d+)?/)?{_PART}(?:/{_PART})*"
    r"(?::[\w][\w.-]{0,127})?(?:@[a-z][a-z0-9]*(?:[-_+.][a-z][a-z0-9]*)*:[0-9a-fA-F]{32,})?"
)


@dataclass(frozen=True, slots=True)
class Pull:
    """One pull: when it ends, how long it took with and without waiting, and its error text."""

    ends_at: float
    took_s: float
    waited_s: float
    error: str = ""


class NodeImages:
    """The image store of a node. One pull runs at a time, as the kubelet's default is."""

    def __init__(self, registry: ImageRegistry, ids: Ids, node: str) -> None:
        self._registry, self._ids, self._node = registry, ids, node
        self._cached: dict[str, float] = {}  # by name as it was asked for: when its first pull ended
        self._free_at = 0.0

    def has(self, image: str, now: float) -> bool:
        """Whether the image can be used without a pull."""
        if self._cached.get(image, now + 1) <= now:
            return True
        return not (self._registry.pull(image) or self._registry.pull_seconds(image))

    def pull(self, image: str, now: float) -> Pull:
        """Plan a pull that is asked for now. The image is cached from ``ends_at`` on if it succeeds."""
        error = self._registry.pull(image)
        jitter = self._ids.unit("pull", self._node, image)
        if error or image in self._cached:
            took_s = ROUND_TRIP_S * (1 + jitter)
        else:
            took_s = self._registry.pull_seconds(image) * (0.9 + 0.2 * jitter)
        begins = max(now, self._free_at)
        self._free_at = begins + took_s
        if not error:
            self._cached.setdefault(image, self._free_at)
        return Pull(self._free_at, took_s, self._free_at - now, error or "")

    def report(self, now: float) -> list[Obj]:
        """``status.images`` of the node: what was pulled, the largest first."""
        names: dict[str, list[str]] = {}
        sizes: dict[str, int] = {}
        for image, since in self._cached.items():
            if since > now:
                continue
            digest, name = image_id(self._ids, image), canonical(image)
            sizes[digest] = self._registry.size_bytes(image)
            known = names.setdefault(digest, [digest])
            known += [name] if name not in known else []
        order = sorted(names, key=lambda digest: (-sizes[digest], digest))
        return [{"names": names[digest], "sizeBytes": sizes[digest]} for digest in order[:REPORTED_MAX]]

    def prune(self, used: set[str]) -> bool:
        """Remove images that no container uses; whether there were any."""
        unused = [image for image in self._cached if image not in used]
        for image in unused:
            del self._cached[image]
        return bool(unused)

    def runs_as_root(self, image: str) -> bool:
        """Whether the image's own user is root."""
        return self._registry.runs_as_root(image)

    def size_bytes(self, image: str) -> int:
        """Size as the runtime reports it."""
        return self._registry.size_bytes(image)


def wrong_reference(image: str) -> str:
    """Why an image's name cannot be read, as the kubelet says it; empty when it can."""
    if _REFERENCE.fullmatch(image):
        return ""
    why = "invalid reference format"
    if _REFERENCE.fullmatch(image.lower()):
        path = image.partition("@")[0].partition(":")[0]
        why += f": repository name ({path if '/' in path else f'library/{path}'}) must be lowercase"
    return f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {why}'


def canonical(image: str) -> str:
    """The name under which a runtime keeps an image: with registry, repository and tag."""
    name, _, digest = image.partition("@")
    head, _, rest = name.partition("/")
    if not rest:
        name = f"{DEFAULT_REGISTRY}/library/{name}"
    elif "." not in head and ":" not in head and head != "localhost":
        name = f"{DEFAULT_REGISTRY}/{name}"
    if digest:
        return f"{name}@{digest}"
    return name if ":" in name.rsplit("/", 1)[-1] else f"{name}:latest"


def image_id(ids: Ids, image: str) -> str:
    """``repository@sha256:...`` for a tag; images given by digest keep it."""
    name = canonical(image)
    if "@" in name:
        return name
    digest = ids.hex(40, "image", name) + ids.hex(24, "image", name, "tail")
    return f"{name.rpartition(':')[0]}@sha256:{digest}"


def duration(seconds: float) -> str:
    """Seconds as Go prints a duration cut to milliseconds: ``412ms``, ``1.2s``, ``1m2.5s``."""
    millis = int(seconds * 1000)
    if millis < 1000:
        return f"{millis}ms" if millis else "0s"
    minutes, millis = divmod(millis, 60_000)
    rest = f"{millis / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}"
    return f"{minutes}m{rest}" if minutes else rest
