"""How a name becomes an address inside a container: its resolv.conf, the way to the DNS, and what that answers.

The cluster has no way out, so names outside it end at the forwarder: those under a public top-level domain with
SERVFAIL, others do not exist.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from aiopslab.sim.core.store import Obj
from aiopslab.sim.world.addresses import is_address
from aiopslab.sim.world.corefile import CorefileError, Server, in_zone, parse, serving
from aiopslab.sim.world.effects import Effects
from aiopslab.sim.world.hashing import text_key
from aiopslab.sim.world.runs import Run
from aiopslab.sim.world.view import DNS_SERVICE, View

NAMESERVER = "10.96.0.10"
NODE_NAMESERVER = "172.18.0.1"
CLUSTER_DOMAIN = "cluster.local"
COREFILE = "/etc/coredns/Corefile"
DNS_PORT = 53
NDOTS = 5
CNAME_DEPTH_MAX = 8
PUBLIC = frozenset("ai app cloud com dev edu gov io net org".split())  # noqa: SIM905
NOERROR, NXDOMAIN, SERVFAIL, REFUSED = "NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED"
TIMEOUT, UNREACHED = "TIMEOUT", "UNREACHED"  # no answer at all; a port that nobody listens on


@dataclass(frozen=True, slots=True)
class Name:
    """What a lookup ended with. ``name`` is the one that was answered; ``asked`` counts the questions sent."""

    rcode: str
    addresses: tuple[str, ...] = ()
    name: str = ""
    asked: int = 0


class Names:
    """Lookups in one state of the cluster."""

    def __init__(self, view: View, effects: Effects) -> None:
        self._view = view
        self._effects = effects

    def lookup(self, run: Run, host: str) -> Name:
        """The answer that a container's resolver gives its program."""
        if is_address(host):
            return Name(NOERROR, (host,), host)
        pod = self._view.pods.get(run.pod_key) or {}
        known = _hosts(pod, run).get(host.rstrip("."))
        if known:
            return Name(NOERROR, (known,), host.rstrip("."))
        settings = Settings.of(pod.get("spec") or {}, run.ref.namespace)
        servers: list[Server] | str = [] if settings.outside else self._servers(run)
        if isinstance(servers, str):
            return Name(servers, (), host, 2)
        answer, asked = Name(NXDOMAIN, (), host), 0
        for candidate in settings.candidates(host):
            asked += 2  # for both address families
            found = _outside(candidate) if settings.outside else self._ask(servers, candidate, 0)
            answer = found if found.rcode != NXDOMAIN or answer.rcode == NXDOMAIN else answer
            if found.rcode == NOERROR and found.addresses:
                break
        return Name(answer.rcode, answer.addresses, answer.name or host, asked)

    def _servers(self, run: Run) -> list[Server] | str:
        """The configuration of the DNS server that answers a container, or why none does."""
        service = self._view.services.get(DNS_SERVICE, {}).get(DNS_PORT)
        if service is None or service.cluster_ip != NAMESERVER:
            return TIMEOUT
        if not service.endpoints:
            return UNREACHED
        order = sorted(service.endpoints, key=lambda e: text_key("dns", run.ref.pod_uid, e.ip))
        for endpoint in order[:2]:  # a resolver asks twice
            for server in self._view.runs_by_ip.get(endpoint.ip, ()):
                path = self._effects.path(run.pod_key, server.pod_key)
                cut = path.cut or self._view.blocked(run, server, DNS_PORT, "UDP")
                if endpoint.port != DNS_PORT and not cut:
                    return UNREACHED
                if not cut:
                    return _configuration(server.spec.files.get(COREFILE, ""))
        return TIMEOUT

    def _ask(self, servers: list[Server], name: str, depth: int) -> Name:
        """One question to CoreDNS, for a full name without its dot."""
        server = serving(servers, name)
        if server is None or depth > CNAME_DEPTH_MAX:
            return Name(REFUSED if depth == 0 else SERVFAIL, (), name)
        wanted = server.rewritten(name)
        for template in server.templates:
            if template.covers(wanted) and template.rcode != NOERROR:
                return Name(template.rcode, (), name)
        if wanted in server.hosts:
            return Name(NOERROR, server.hosts[wanted], name)
        for zone in server.kubernetes:
            if in_zone(wanted, zone) and not zone.endswith(".arpa"):
                return self._kubernetes(servers, wanted, zone, depth)
        if server.hosts_only:
            return Name(NXDOMAIN, (), name)
        return _outside(wanted) if server.forwards else Name(REFUSED, (), name)

    def _kubernetes(self, servers: list[Server], name: str, zone: str, depth: int) -> Name:
        labels = name[: -len(zone) - 1].split(".") if name != zone else []
        if len(labels) == 3 and labels[2] == "pod":
            address = labels[0].replace("-", ".")
            return Name(NOERROR, (address,), name) if is_address(address) else Name(NXDOMAIN, (), name)
        if len(labels) not in (3, 4) or labels[-1] != "svc":
            return Name(NXDOMAIN, (), name)
        service, namespace = labels[-3], labels[-2]
        alias = self._view.aliases.get((namespace, service))
        if alias is not None and len(labels) == 3:
            found = self._ask(servers, alias.rstrip("."), depth + 1)
            return Name(found.rcode, found.addresses, name)
        ports = self._view.services.get((namespace, service))
        if ports is None:
            return Name(NXDOMAIN, (), name)
        if len(labels) == 4:
            member = self._view.hostnames.get((namespace, service, labels[0]))
            return Name(NOERROR, (member,), name) if member else Name(NXDOMAIN, (), name)
        cluster_ip = next((p.cluster_ip for p in ports.values()), "")
        if cluster_ip not in ("", "None"):
            return Name(NOERROR, (cluster_ip,), name)
        pods = sorted({e.ip for p in ports.values() for e in p.endpoints})
        return Name(NOERROR, tuple(pods), name)


@dataclass(frozen=True, slots=True)
class Settings:
    """A container's resolv.conf. ``outside``: it asks the node's DNS, which knows no Service."""

    search: tuple[str, ...]
    ndots: int
    outside: bool
    servers: tuple[str, ...] = (NAMESERVER,)
    options: tuple[str, ...] = (f"ndots:{NDOTS}",)

    @classmethod
    def of(cls, spec: Obj, namespace: str) -> Settings:
        """By the pod's ``dnsPolicy`` and ``dnsConfig``."""
        policy, config = spec.get("dnsPolicy") or "ClusterFirst", spec.get("dnsConfig") or {}
        host_network = bool(spec.get("hostNetwork")) and policy == "ClusterFirst"
        outside = policy == "Default" or host_network
        search: tuple[str, ...] = ()
        if not outside and policy != "None":
            search = (f"{namespace}.svc.{CLUSTER_DOMAIN}", f"svc.{CLUSTER_DOMAIN}", CLUSTER_DOMAIN)
        if policy == "None":
            outside = NAMESERVER not in (config.get("nameservers") or [])
        given = {o.get("name", ""): o.get("value") or "" for o in config.get("options") or []}
        options = {**({"ndots": str(NDOTS)} if search else {}), **given}
        ndots = options.get("ndots", "")
        own = () if policy == "None" else (NODE_NAMESERVER,) if outside else (NAMESERVER,)
        return cls(
            (*search, *(config.get("searches") or [])),
            int(ndots) if ndots.isdigit() else NDOTS if search else 1,
            outside,
            (*own, *(config.get("nameservers") or [])),
            tuple(f"{name}:{value}" if value else name for name, value in options.items()),
        )

    def text(self) -> str:
        """The file as the kubelet writes it."""
        lines = [f"search {' '.join(self.search)}"] if self.search else []
        lines += [f"nameserver {server}" for server in self.servers]
        lines += [f"options {' '.join(self.options)}"] if self.options else []
        return "".join(f"{line}\n" for line in lines)

    def candidates(self, host: str) -> list[str]:
        """Full names in the order in which they are asked for."""
        if host.endswith("."):
            return [host.rstrip(".")]
        searched = [f"{host}.{domain}" for domain in self.search]
        return [*searched, host] if host.count(".") < self.ndots else [host, *searched]


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> tuple[Server, ...] | None:
    try:
        return tuple(parse(text))
    except CorefileError:
        return None


def _configuration(text: str) -> list[Server] | str:
    servers = _parsed(text)
    return TIMEOUT if servers is None else list(servers)


def _outside(name: str) -> Name:
    public = "." in name and name.rpartition(".")[2] in PUBLIC
    return Name(SERVFAIL if public else NXDOMAIN, (), name)


def hosts_lines(pod: Obj, run: Run) -> list[tuple[str, list[str]]]:
    """``/etc/hosts``, (address, names) each: the pod itself and its ``hostAliases``."""
    spec = pod.get("spec") or {}
    aliases = [(alias["ip"], list(alias.get("hostnames") or [])) for alias in spec.get("hostAliases") or []]
    return [("127.0.0.1", ["localhost"]), (run.spec.pod_ip, [spec.get("hostname") or run.ref.pod]), *aliases]


def _hosts(pod: Obj, run: Run) -> dict[str, str]:
    return {name: address for address, names in hosts_lines(pod, run) for name in names}
