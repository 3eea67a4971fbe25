"""What can be pulled, how large it is and how long the first pull on a node takes."""

from __future__ import annotations

import re

from aiopslab.sim.world.hashing import text_key, unit_int
from aiopslab.sim.world.programs import Programs

MIB = 1 << 20
ROOTLESS = re.compile(r"unprivileged|nonroot|distroless|curlimages/|bitnami/|chainguard/")
BYTES_PER_S = 60e6
KNOWN_TAG = "v"  # repositories of known programs carry release tags


class Registry:
    """Implements ``core.ports.ImageRegistry``. Images of known programs exist in their release versions;
    about others nothing is known, so they exist, except on hosts reserved by RFC 2606."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs

    def pull(self, image: str) -> str | None:
        """None, or the runtime's error text."""
        repository, tag = split_image(image)
        host = repository.partition("/")[0]
        full = canonical(repository)
        if host.endswith((".example", ".invalid", ".test")) or host.split(".")[0] == "invalid":
            return (
                f'failed to pull and unpack image "{full}:{tag}": failed to resolve reference "{full}:{tag}": '
                f'failed to do request: Head "https://{host}/v2/{repository.partition("/")[2]}/manifests/{tag}": '
                f"dial tcp: lookup {host}: no such host"
            )
        known = self._programs.match(image) is not None
        if (known and not known_tag(tag)) or (not known and self._programs.shares(repository)):
            name = f"{full}:{tag}"
            return (
                f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": {name}: not found'
            )
        return None

    def pull_seconds(self, image: str) -> float:
        """Seconds of the first pull on a node: round trips and transfer."""
        return 0.4 + self.size_bytes(image) / BYTES_PER_S + 0.3 * unit_int(text_key("pull", image))

    def runs_as_root(self, image: str) -> bool:
        """Programs say whose they are; of other images most run as root, but those for unprivileged users."""
        program = self._programs.match(image)
        return program.uid == 0 if program is not None else not ROOTLESS.search(image)

    def size_bytes(self, image: str) -> int:
        """Compressed size."""
        program = self._programs.match(image)
        base = program.image_mib if program is not None else 15.0
        return int(base * MIB * (0.98 + 0.04 * unit_int(text_key("size", split_image(image)[0]))))


def split_image(image: str) -> tuple[str, str]:
    """Repository and tag; ``latest`` without one, the digest where one is given."""
    repository, at, digest = image.partition("@")
    if at:
        return repository, digest
    head, colon, tail = image.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (image, "latest")


def canonical(repository: str) -> str:
    """The name with the registry that containerd adds."""
    host, slash, _ = repository.partition("/")
    if slash and ("." in host or ":" in host or host == "localhost"):
        return repository
    return f"docker.io/{repository}" if slash else f"docker.io/library/{repository}"


def known_tag(tag: str) -> bool:
    """Whether a tag looks like one that is published: a version, a digest or a moving name."""
    plain = tag.removeprefix(KNOWN_TAG)
    return plain[:1].isdigit() or tag in ("latest", "alpine", "stable") or tag.startswith("sha256:")
