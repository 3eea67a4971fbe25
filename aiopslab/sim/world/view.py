"""The part of the cluster's state that traffic depends on: Services, endpoints, names, policies.

Built from the object store, kept until one of these objects changes.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Any

from aiopslab.sim.core.store import Change, Obj, Store
from aiopslab.sim.world.runs import Run, Runs

SERVICES = "services"
SLICES = "discovery.k8s.io/endpointslices"
POLICIES = "networking.k8s.io/networkpolicies"
PODS = "pods"
NAMESPACES = "namespaces"
SERVICE_LABEL = "kubernetes.io/service-name"
CLUSTER_SUFFIXES = (".svc.cluster.local", ".svc", "")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One backend address of a Service port."""

    ip: str
    port: int


@dataclass(frozen=True, slots=True)
class ServicePort:
    """What a Service does with one of its ports. No endpoints means that connections are refused."""

    cluster_ip: str
    port: int
    endpoints: tuple[Endpoint, ...]


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

    def resolve(self, host: str, namespace: str) -> str | None:
        """Address of a name as a pod of ``namespace`` sees it: a Service or a literal; None: no such name."""
        try:
            return str(ipaddress.ip_address(host))
        except ValueError:
            pass
        name, wanted = split_name(host, namespace)
        ports = self.services.get((wanted, name))
        if ports is None:
            return None
        return next((p.cluster_ip for p in ports.values()), "")

    def endpoints(self, ip: str, port: int) -> tuple[Endpoint, ...]:
        """Where a connection to ``ip:port`` may arrive; empty when it is refused."""
        service = self.by_cluster_ip.get((ip, port))
        if service is not None:
            return service.endpoints
        return (Endpoint(ip, port),) if ip in self.pod_by_ip or ip in self.runs_by_ip else ()

    def listener(self, endpoint: Endpoint, now: float) -> Run | None:
        """The run that accepts connections at an endpoint."""
        for run in self.runs_by_ip.get(endpoint.ip, ()):
            if run.port == endpoint.port and run.listening(now):
                return run
        return None

    def blocked(self, source: Run, target: Run) -> bool:
        """Whether NetworkPolicies drop new connections from ``source`` to ``target``."""
        if not self.policies:
            return False
        return not (self._allows(source, target, "Egress") and self._allows(source, target, "Ingress"))

    def _allows(self, source: Run, target: Run, direction: str) -> bool:
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
            self._rule_allows(rule, subject.ref.namespace, peer, target.port, direction)
            for spec in selecting
            for rule in spec.get(direction.lower()) or []
        )

    def _rule_allows(self, rule: Obj, namespace: str, peer: Run, port: int, direction: str) -> bool:
        ports = rule.get("ports")
        if ports and not any(p.get("port") in (None, port) for p in ports):
            return False
        peers = rule.get("from" if direction == "Ingress" else "to")
        return not peers or any(self._peer_matches(p, namespace, peer) for p in peers)

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
        return
    ports: dict[int, ServicePort] = {}
    for port in spec.get("ports") or []:
        endpoints = _ready(slices.get(key, []), port.get("name", ""))
        found = ServicePort(spec.get("clusterIP", ""), port["port"], endpoints)
        ports[port["port"]] = found
        if found.cluster_ip not in ("", "None"):
            view.by_cluster_ip[(found.cluster_ip, found.port)] = found
    view.services[key] = ports


def _ready(slices: list[Obj], port_name: str) -> tuple[Endpoint, ...]:
    found = []
    for item in slices:
        number = next((p.get("port") for p in item.get("ports") or [] if (p.get("name") or "") == port_name), None)
        if number is None:
            continue
        for endpoint in item.get("endpoints") or []:
            if (endpoint.get("conditions") or {}).get("ready", True):
                found += [Endpoint(address, number) for address in endpoint.get("addresses", [])]
    return tuple(sorted(set(found), key=lambda e: (e.ip, e.port)))


def matters(change: Change) -> bool:
    """Whether a store change can alter traffic."""
    resource = change.key.resource
    if resource in (POLICIES, NAMESPACES):
        return _part(change.obj, "spec") != _part(change.old, "spec") or change.type != "MODIFIED"
    if resource.startswith("chaos-mesh.org/"):
        return True
    if resource == SERVICES:
        return change.type != "MODIFIED" or _part(change.obj, "spec") != _part(change.old, "spec")
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
