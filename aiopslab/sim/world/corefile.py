"""What a Corefile makes of a question: the part of CoreDNS' configuration that decides answers.

Plugins without a say in it (errors, health, ready, cache, loop, reload, loadbalance, prometheus) are accepted and
passed over. An unknown plugin or a brace too many makes the file unusable, as it does for CoreDNS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from aiopslab.sim.world.addresses import is_address

PLUGINS = frozenset(
    """
    acl any auto autopath azure bind bufsize cache cancel chaos clouddns debug dns64 dnssec dnstap erratic errors
    etcd file forward geoip grpc grpc_server header health hosts https https3 import k8s_external kubernetes
    loadbalance local log loop metadata minimal multisocket nomad nsid pprof prometheus quic ready reload rewrite
    root route53 secondary sign template timeouts tls trace transfer tsig view whoami
    """.split()  # noqa: SIM905
)


class CorefileError(Exception):
    """CoreDNS could not start with this file; the text is its complaint."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """``rewrite name``: how names match, and what they become."""

    how: str  # exact | prefix | suffix | substring | regex
    match: str
    to: str

    def apply(self, name: str) -> str | None:
        """The new name, or None when the rule is not for this one. Names carry no trailing dot."""
        match, to = self.match.rstrip("."), self.to.rstrip(".")
        if self.how == "exact":
            return to if name == match else None
        if self.how == "suffix":
            return name[: len(name) - len(match)] + to if match and name.endswith(match) else None
        if self.how == "prefix":
            return to + name[len(match) :] if name.startswith(match) else None
        if self.how == "substring":
            return name.replace(match, to) if match in name else None
        try:
            found = re.fullmatch(self.match.rstrip("."), name)
        except re.error:
            return None
        return re.sub(r"\{(\d+)\}", lambda m: found[int(m[1])] or "", to) if found else None


@dataclass(frozen=True, slots=True)
class Template:
    """``template``: the fixed code of names in a zone that match."""

    zone: str
    matches: tuple[str, ...]
    rcode: str

    def covers(self, name: str) -> bool:
        """Whether it answers for a name."""
        if not in_zone(name, self.zone):
            return False
        return not self.matches or any(re.search(m, f"{name}.") for m in self.matches)


@dataclass(slots=True)
class Server:
    """One server block."""

    zones: list[str]
    kubernetes: list[str] = field(default_factory=list)
    hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    hosts_only: bool = False  # without fallthrough: names that the hosts plugin lacks do not exist
    rewrites: list[Rewrite] = field(default_factory=list)
    templates: list[Template] = field(default_factory=list)
    forwards: bool = False

    def rewritten(self, name: str) -> str:
        """The name that is looked up for ``name``: the first rule that fits changes it."""
        return next((new for rule in self.rewrites if (new := rule.apply(name)) is not None), name)


def in_zone(name: str, zone: str) -> bool:
    """Whether a name (no trailing dot) belongs to a zone; ``.`` is all of them."""
    zone = zone.strip(".")
    return not zone or name == zone or name.endswith(f".{zone}")


def parse(text: str) -> list[Server]:
    """The server blocks. Raises CorefileError."""
    servers: list[Server] = []
    stack: list[tuple[Server, str, list[str]]] = []  # open plugin block: server, plugin, its arguments
    current: Server | None = None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if current is None:
            if words[-1] != "{" or len(words) < 2:
                raise CorefileError(f"Corefile:{number} - Error during parsing: Unexpected token '{words[0]}'")
            current = Server([_zone(w.rstrip(",")) for w in words[:-1]])
        elif words == ["}"]:
            if stack:
                stack.pop()
            else:
                servers.append(current)
                current = None
        elif stack:
            _option(*stack[-1], words)
        else:
            opens = words[-1] == "{"
            plugin, arguments = words[0], words[1 : -1 if opens else None]
            if plugin not in PLUGINS:
                raise CorefileError(f"Corefile:{number} - Error during parsing: Unknown directive '{plugin}'")
            _directive(current, plugin, arguments)
            if opens:
                stack.append((current, plugin, arguments))
    if current is not None or stack:
        raise CorefileError(f"Corefile:{len(text.splitlines())} - Error during parsing: Unexpected end of file")
    return servers


def serving(servers: list[Server], name: str) -> Server | None:
    """The block with the longest zone that a name belongs to."""
    found = [(len(zone.strip(".")), s) for s in servers for zone in s.zones if in_zone(name, zone)]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _zone(word: str) -> str:
    word = word.partition("://")[2] or word
    return re.sub(r":\d+$", "", word) or "."


def _directive(server: Server, plugin: str, arguments: list[str]) -> None:
    if plugin == "kubernetes":
        server.kubernetes = [a.strip(".") for a in arguments] or ["cluster.local"]
    elif plugin == "forward":
        server.forwards = True
    elif plugin == "hosts":
        server.hosts_only = True
    elif plugin == "rewrite":
        _rewrite(server, arguments)
    elif plugin == "template" and len(arguments) >= 2:
        zone = arguments[2] if len(arguments) > 2 else "."
        server.templates.append(Template(zone, (), "NOERROR"))


def _option(server: Server, plugin: str, arguments: list[str], words: list[str]) -> None:
    if plugin == "hosts":
        if words[0] == "fallthrough":
            server.hosts_only = False
        elif is_address(words[0]):
            for name in words[1:]:
                known = server.hosts.get(name.rstrip("."), ())
                server.hosts[name.rstrip(".")] = (*known, words[0])
    elif plugin == "template" and server.templates:
        last = server.templates[-1]
        if words[0] == "rcode" and len(words) > 1:
            server.templates[-1] = Template(last.zone, last.matches, words[1].upper())
        elif words[0] == "match":
            server.templates[-1] = Template(last.zone, (*last.matches, *(w.strip('"') for w in words[1:])), last.rcode)
    elif plugin == "rewrite":
        _rewrite(server, words)


def _rewrite(server: Server, words: list[str]) -> None:
    if words and words[0] in ("stop", "continue"):
        words = words[1:]
    if len(words) < 3 or words[0] != "name":
        return
    how, rest = ("exact", words[1:]) if words[1] not in HOWS else (words[1], words[2:])
    if len(rest) >= 2:
        server.rewrites.append(Rewrite(how, rest[0], rest[1]))


HOWS = ("exact", "prefix", "suffix", "substring", "regex")
