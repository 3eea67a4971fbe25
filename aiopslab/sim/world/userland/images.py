"""What well-known general-purpose images bring: their base and the programs that people use them for."""

from __future__ import annotations

from dataclasses import dataclass

from aiopslab.sim.world.userland.machine import Flavour

NETWORK_TOOLS = frozenset({"curl", "dig", "getent", "ip", "nc", "netstat", "nslookup", "ping", "ps", "ss", "wget"})


@dataclass(frozen=True, slots=True)
class Profile:
    """Userland of an image: base flavour and extra programs."""

    flavour: Flavour
    tools: frozenset[str] = frozenset()


PROFILES: dict[str, Profile] = {
    "alpine": Profile("alpine"),
    "busybox": Profile("alpine"),
    "curlimages/curl": Profile("alpine", frozenset({"curl"})),
    "debian": Profile("debian"),
    "nginx": Profile("debian", frozenset({"curl"})),
    "nicolaka/netshoot": Profile("alpine", NETWORK_TOOLS),
    "postgres": Profile("debian"),
    "python": Profile("debian"),
    "redis": Profile("alpine", frozenset({"redis-cli"})),
    "ubuntu": Profile("debian"),
    "valkey/valkey": Profile("alpine", frozenset({"valkey-cli", "redis-cli"})),
}
# An image that nothing is known about has a shell and the usual text tools, as most have.
UNKNOWN = Profile("debian")


def profile(image: str) -> Profile:
    """The userland of an image that no application describes."""
    name = image.partition("@")[0]
    head, _, tail = name.rpartition(":")
    name = head if head and "/" not in tail else name
    for prefix in ("docker.io/", "library/", "ghcr.io/", "quay.io/", "registry.k8s.io/"):
        name = name.removeprefix(prefix)
    return PROFILES.get(name, UNKNOWN)
