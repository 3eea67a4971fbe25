"""The part of the cluster's state that traffic depends on: Services, endpoints, names, policies.

Built from the object store, kept until one of these objects changes.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Any

from aiopslab.sim.core.endpointslices import SERVICE_LABEL, SLICES, is_ready
from aiopslab.sim.core.store import Change, Obj, Store
from aiopslab.sim.world.runs import Run, Runs

SERVICES = "services"
POLICIES = "networking.k8s.io/networkpolicies"
PODS = "pods"
NAMESPACES = "namespaces"
NODES = "nodes"
DNS_SERVICE = ("kube-system", "kube-dns")
CLUSTER_SUFFIXES = (".svc.cluster.local", ".svc", "")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One backend address of a Service port."""

    ip: str
    port: int
    node: str = ""


@dataclass(frozen=True, slots=True)
class ServicePort:
    """What a Service does with one of its ports. No endpoints means that connections are refused.

    ``sticky``: a client's connections go to one endpoint. ``local``: only to endpoints on the client's node.
    """

    cluster_ip: str
    port: int
    endpoints: tuple[Endpoint, ...]
    sticky: bool = False
    local: bool = False


@dataclass(slots=True)
class View:
    """Services by (namespace, name) and port, pods by address, policies by namespace."""

    services: dict[tuple[str, str], dict[int, ServicePort]] = field(default_factory=dict)
    by_cluster_ip: dict[tuple[str, int], ServicePort] = field(default_factory=dict)
    pod_by_ip: dict[str, Obj] = field(default_factory=dict)
    pods: dict[tuple[str, str], Obj] = field(default_factory=dict)
    policies: dict[str, list[Obj]] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    runs_by_ip: dict[str, list[Run]] = field(default_factory=dict)
    aliases: dict[tuple[str, str], str] = field(default_factory=dict)  # ExternalName Services
    hostnames: dict[tuple[str, str, str], str] = field(default_factory=dict)  # (namespace, service, pod's) -> IP
    node_ports: dict[int, ServicePort] = field(default_factory=dict)
    node_ips: set[str] = field(default_factory=set)

    def service(self, ip: str, port: int) -> ServicePort | None:
        """The Service port behind an address that kube-proxy has rules for: cluster, external, node port."""
        if ip in self.node_ips and port in self.node_ports:
            return self.node_ports[port]
        return self.by_cluster_ip.get((ip, port))

    def endpoints(self, ip: str, port: int) -> tuple[Endpoint, ...]:
        """Where a connection to ``ip:port`` may arrive."""
        service = self.service(ip, port)
        if service is not None:
            return service.endpoints
        return (Endpoint(ip, port),) if ip in self.pod_by_ip or ip in self.runs_by_ip else ()

    def listener(self, endpoint: Endpoint, now: float) -> Run | None:
        """The run that accepts connections at an endpoint."""
        for run in self.runs_by_ip.get(endpoint.ip, ()):
            if run.port == endpoint.port and run.listening(now):
                return run
        return None

    def blocked(self, source: Run, target: Run, port: int = 0, protocol: str = "TCP") -> bool:
        """Whether NetworkPolicies drop new connections from ``source`` to ``target``; ``port`` is where its
        program listens unless given."""
        if not self.policies:
            return False
        where = (port or target.port, protocol)
        return not (
            self._allows(source, target, "Egress", where) and self._allows(source, target, "Ingress", where)
        )

    def _allows(self, source: Run, target: Run, direction: str, where: tuple[int, str]) -> bool:
        subject, peer = (target, source) if direction == "Ingress" else (source, target)
        labels = self.labels(subject)
        selecting = [
            p["spec"]
            for p in self.policies.get(subject.ref.namespace, [])
            if direction in policy_types(p["spec"]) and selects(p["spec"].get("podSelector") or {}, labels)
        ]
        if not selecting:
            return True
        return any(
            self._ports_allow(rule.get("ports"), target, where) and self._rule_allows(rule, subject, peer, direction)
            for spec in selecting
            for rule in spec.get(direction.lower()) or []
        )

    def _ports_allow(self, ports: list[Obj] | None, target: Run, where: tuple[int, str]) -> bool:
        number, protocol = where
        return not ports or any(
            (port.get("protocol") or "TCP") == protocol and self._covers(port, target, number) for port in ports
        )

    def _covers(self, port: Obj, target: Run, number: int) -> bool:
        wanted = port.get("port")
        if isinstance(wanted, str):
            containers = (self.pods.get(target.pod_key) or {}).get("spec", {}).get("containers") or []
            named = [p for c in containers for p in c.get("ports") or [] if p.get("name") == wanted]
            return any(p.get("containerPort") == number for p in named)
        return wanted is None or wanted <= number <= (port.get("endPort") or wanted)

    def _rule_allows(self, rule: Obj, subject: Run, peer: Run, direction: str) -> bool:
        peers = rule.get("from" if direction == "Ingress" else "to")
        return not peers or any(self._peer_matches(p, subject.ref.namespace, peer) for p in peers)

    def _peer_matches(self, wanted: Obj, namespace: str, peer: Run) -> bool:
        if "ipBlock" in wanted:
            address = ipaddress.ip_address(peer.spec.pod_ip)
            block = wanted["ipBlock"]
            inside = address in ipaddress.ip_network(block["cidr"], strict=False)
            return inside and not any(
                address in ipaddress.ip_network(c, strict=False) for c in block.get("except", [])
            )
        if "namespaceSelector" in wanted:
            labels = self.namespaces.get(peer.ref.namespace, {})
            if not selects(wanted["namespaceSelector"] or {}, labels):
                return False
        elif peer.ref.namespace != namespace:
            return False
        return "podSelector" not in wanted or selects(wanted["podSelector"] or {}, self.labels(peer))

    def labels(self, run: Run) -> dict[str, str]:
        """Labels of a run's pod, now."""
        pod = self.pods.get(run.pod_key)
        return (pod or {}).get("metadata", {}).get("labels") or run.spec.labels


def split_name(host: str, namespace: str) -> tuple[str, str]:
    """(service name, namespace) of a DNS name as written in a pod of ``namespace``."""
    host = host.rstrip(".")
    for suffix in CLUSTER_SUFFIXES:
        if suffix and host.endswith(suffix):
            host = host[: -len(suffix)]
            break
    name, _, wanted = host.partition(".")
    return name, wanted or namespace


def policy_types(spec: Obj) -> list[str]:
    """``policyTypes`` with the API's default."""
    return spec.get("policyTypes") or (["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])


def selects(selector: Obj, labels: dict[str, str]) -> bool:
    """Whether a LabelSelector matches; an empty one matches everything."""
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(e, labels) for e in selector.get("matchExpressions") or [])


def _expression(expression: Obj, labels: dict[str, str]) -> bool:
    value, operator = labels.get(expression["key"]), expression["operator"]
    if operator == "In":
        return value in expression["values"]
    if operator == "NotIn":
        return value not in expression["values"]
    return (value is not None) == (operator == "Exists")


def build_view(store: Store, runs: Runs) -> View:
    """Read the store."""
    view = View()
    for run in runs.alive():
        view.runs_by_ip.setdefault(run.spec.pod_ip, []).append(run)
    for pod in store.list(PODS):
        meta = pod["metadata"]
        view.pods[(meta["namespace"], meta["name"])] = pod
        ip = pod.get("status", {}).get("podIP")
        if ip:
            view.pod_by_ip[ip] = pod
    for namespace in store.list(NAMESPACES):
        view.namespaces[namespace["metadata"]["name"]] = namespace["metadata"].get("labels") or {}
    for policy in store.list(POLICIES):
        view.policies.setdefault(policy["metadata"]["namespace"], []).append(policy)
    for node in store.list(NODES):
        addresses = (node.get("status") or {}).get("addresses") or []
        view.node_ips.update(a["address"] for a in addresses if a.get("type") == "InternalIP")
    slices: dict[tuple[str, str], list[Obj]] = {}
    for item in store.list(SLICES):
        owner = (item["metadata"].get("labels") or {}).get(SERVICE_LABEL)
        if owner:
            slices.setdefault((item["metadata"]["namespace"], owner), []).append(item)
    for service in store.list(SERVICES):
        _add_service(view, service, slices)
    return view


def _add_service(view: View, service: Obj, slices: dict[tuple[str, str], list[Obj]]) -> None:
    key = (service["metadata"]["namespace"], service["metadata"]["name"])
    spec = service.get("spec", {})
    if spec.get("type") == "ExternalName":
        view.aliases[key] = spec.get("externalName", "")
        return
    ports: dict[int, ServicePort] = {}
    mine = slices.get(key, [])
    for port in spec.get("ports") or []:
        found = ServicePort(
            spec.get("clusterIP", ""),
            port["port"],
            _serving(mine, port.get("name", "")),
            spec.get("sessionAffinity") == "ClientIP",
            spec.get("internalTrafficPolicy") == "Local",
        )
        ports[port["port"]] = found
        for ip in _addresses(service):
            view.by_cluster_ip[(ip, found.port)] = found
        if port.get("nodePort"):
            view.node_ports[port["nodePort"]] = found
    view.services[key] = ports
    for endpoint in (e for item in mine for e in item.get("endpoints") or []):
        if endpoint.get("hostname") and endpoint.get("addresses"):
            view.hostnames[(*key, endpoint["hostname"])] = endpoint["addresses"][0]


def _addresses(service: Obj) -> list[str]:
    """Addresses that kube-proxy answers for."""
    spec = service.get("spec", {})
    balancer = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    found = [spec.get("clusterIP", ""), *(spec.get("externalIPs") or []), *(i.get("ip", "") for i in balancer)]
    return [ip for ip in found if ip not in ("", "None")]


def _serving(slices: list[Obj], port_name: str) -> tuple[Endpoint, ...]:
    """Endpoints that take connections: the ready ones; while there is none, those that end but still serve."""
    ready, ending = [], []
    for item in slices:
        number = next((p.get("port") for p in item.get("ports") or [] if (p.get("name") or "") == port_name), None)
        if number is None:
            continue
        for endpoint in item.get("endpoints") or []:
            found = [Endpoint(a, number, endpoint.get("nodeName", "")) for a in endpoint.get("addresses", [])]
            conditions = endpoint.get("conditions") or {}
            if is_ready(endpoint):
                ready += found
            elif conditions.get("serving") and conditions.get("terminating"):
                ending += found
    return tuple(sorted(set(ready or ending), key=lambda e: (e.ip, e.port)))


def matters(change: Change) -> bool:
    """Whether a store change can alter traffic."""
    resource = change.key.resource
    if resource in (POLICIES, NAMESPACES):
        return _part(change.obj, "spec") != _part(change.old, "spec") or change.type != "MODIFIED"
    if resource.startswith("chaos-mesh.org/"):
        return True
    if resource == SERVICES:
        parts = ("spec", "status")
        return change.type != "MODIFIED" or any(_part(change.obj, p) != _part(change.old, p) for p in parts)
    if resource == SLICES:
        parts = ("endpoints", "ports")
        return change.type != "MODIFIED" or any(_part(change.obj, p) != _part(change.old, p) for p in parts)
    if resource == PODS:
        return change.type == "MODIFIED" and _labels(change.obj) != _labels(change.old)
    return False


def _part(obj: Obj | None, name: str) -> Any:
    return (obj or {}).get(name)


def _labels(obj: Obj | None) -> Any:
    return ((obj or {}).get("metadata") or {}).get("labels")
