"""What well-known general-purpose images bring: their base and the programs that people use them for."""

from __future__ import annotations

from dataclasses import dataclass

from aiopslab.sim.world.userland.machine import Flavour

NETWORK_TOOLS = frozenset({"curl", "dig", "getent", "ip", "nc", "netstat", "nslookup", "ping", "ps", "ss", "wget"})


@dataclass(frozen=True, slots=True)
class Profile:
    """Userland of an image: base flavour and extra programs.

    ``entry`` is the program that takes a command line of options only. ``default`` is what runs without a
    command line, when that is a program that reads its input and ends; empty for servers.
    """

    flavour: Flavour
    tools: frozenset[str] = frozenset()
    entry: str = ""
    default: tuple[str, ...] = ()


SHELL = ("sh",)
PROFILES: dict[str, Profile] = {
    "alpine": Profile("alpine", default=SHELL),
    "busybox": Profile("alpine", default=SHELL),
    "curlimages/curl": Profile("alpine", frozenset({"curl"}), entry="curl", default=("curl",)),
    "debian": Profile("debian", default=SHELL),
    "nginx": Profile("debian", frozenset({"curl"})),
    "nicolaka/netshoot": Profile("alpine", NETWORK_TOOLS | {"bash"}, default=SHELL),
    "postgres": Profile("debian"),
    "python": Profile("debian"),
    "redis": Profile("alpine", frozenset({"redis-cli"})),
    "ubuntu": Profile("debian", default=SHELL),
    "valkey/valkey": Profile("alpine", frozenset({"valkey-cli", "redis-cli"})),
}
# An image that nothing is known about has a shell and the usual text tools, as most have.
UNKNOWN = Profile("debian")


def profile(image: str) -> Profile:
    """The userland of an image that no application describes."""
    return known(image) or UNKNOWN


def known(image: str) -> Profile | None:
    """The userland of a well-known image."""
    name = image.partition("@")[0]
    head, _, tail = name.rpartition(":")
    name = head if head and "/" not in tail else name
    for prefix in ("docker.io/", "library/", "ghcr.io/", "quay.io/", "registry.k8s.io/"):
        name = name.removeprefix(prefix)
    return PROFILES.get(name)
