"""Services, Ingresses, NetworkPolicies, Endpoints, EndpointSlices."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.containers import PROTOCOLS
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_labels, check_selector

Obj = dict[str, Any]
SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
AFFINITIES = ("ClientIP", "None")
POLICIES = ("Cluster", "Local")
PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
STICKY_MAX_S = 86400
SLICE_ENDPOINTS_MAX = 1000


def _service(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj["spec"]
    kind, ports = spec.get("type", ""), spec.get("ports") or []
    headless = (spec.get("clusterIPs") or [spec.get("clusterIP")])[0] == "None"
    if kind in ("LoadBalancer", "NodePort") and headless:
        errors.invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        _external_name(errors, spec)
    if not ports and not headless and kind != "ExternalName":
        errors.required("spec.ports")
    names: set[str] = set()
    for index, port in enumerate(ports):
        _service_port(errors, port, len(ports) > 1, names, f"spec.ports[{index}]")
    check_labels(errors, spec.get("selector"), "spec.selector")
    _session_affinity(errors, spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        errors.invalid_each(f"spec.externalIPs[{index}]", address, values.ip_address(address))
    if not kind:
        errors.required("spec.type")
    elif kind not in SERVICE_TYPES:
        errors.not_supported("spec.type", kind, SERVICE_TYPES)
    _unique_ports(errors, kind, ports)
    _traffic_policies(errors, spec)
    if old is not None:
        _service_update(errors, spec, old["spec"])


def _external_name(errors: Errors, spec: Obj) -> None:
    if spec.get("clusterIPs") or spec.get("clusterIP"):
        errors.forbidden("spec.clusterIPs", "may not be set for ExternalName services")
    name = str(spec.get("externalName", "")).removesuffix(".")
    if not name:
        errors.required("spec.externalName")
    else:
        errors.invalid_each("spec.externalName", name, values.dns_subdomain(name.lower()))


def _service_port(errors: Errors, port: Obj, named: bool, names: set[str], path: str) -> None:
    name, number, protocol = port.get("name", ""), port.get("port", 0), port.get("protocol", "")
    if name:
        errors.invalid_each(f"{path}.name", name, values.dns_label(name))
        if name in names:
            errors.duplicate(f"{path}.name", name)
        names.add(name)
    elif named:
        errors.required(f"{path}.name")
    errors.invalid_each(f"{path}.port", number, values.port_number(number))
    if not protocol:
        errors.required(f"{path}.protocol")
    elif protocol not in PROTOCOLS:
        errors.not_supported(f"{path}.protocol", protocol, PROTOCOLS)
    values.check_port_or_name(errors, f"{path}.targetPort", port.get("targetPort"))
    if port.get("appProtocol"):
        errors.invalid_each(f"{path}.appProtocol", port["appProtocol"], values.qualified_name(port["appProtocol"]))


def _session_affinity(errors: Errors, spec: Obj) -> None:
    affinity = spec.get("sessionAffinity", "")
    if not affinity:
        errors.required("spec.sessionAffinity")
    elif affinity not in AFFINITIES:
        errors.not_supported("spec.sessionAffinity", affinity, AFFINITIES)
    config = spec.get("sessionAffinityConfig")
    if affinity == "None" and config is not None:
        detail = "must not be set when session affinity is None"
        errors.forbidden("spec.sessionAffinityConfig", detail)
    elif affinity == "ClientIP":
        timeout = ((config or {}).get("clientIP") or {}).get("timeoutSeconds", 0)
        if not 0 < timeout <= STICKY_MAX_S:
            where = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            errors.invalid(where, timeout, f"must be greater than 0 and less than {STICKY_MAX_S}")


def _unique_ports(errors: Errors, kind: str, ports: list[Obj]) -> None:
    node_ports: set[tuple[str, int]] = set()
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        protocol, node_port = port.get("protocol", ""), port.get("nodePort", 0)
        if node_port and kind == "ClusterIP":
            detail = "may not be used when `type` is 'ClusterIP'"
            errors.forbidden(f"spec.ports[{index}].nodePort", detail)
        elif node_port and (protocol, node_port) in node_ports:
            errors.duplicate(f"spec.ports[{index}].nodePort", node_port)
        node_ports.add((protocol, node_port))
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in numbers:
            shown = {
                "Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1], "TargetPort": 0, "NodePort": 0,
            }  # fmt: skip
            errors.duplicate(f"spec.ports[{index}]", shown)
        numbers.add(key)


def _traffic_policies(errors: Errors, spec: Obj) -> None:
    kind = spec.get("type")
    external, internal = spec.get("externalTrafficPolicy"), spec.get("internalTrafficPolicy")
    reachable = kind in ("NodePort", "LoadBalancer") or bool(spec.get("externalIPs"))
    if external is not None and not reachable:
        detail = "may only be set for externally-accessible services"
        errors.invalid("spec.externalTrafficPolicy", external, detail)
    elif external is not None and external not in POLICIES:
        errors.not_supported("spec.externalTrafficPolicy", external, POLICIES)
    if internal is not None and internal not in POLICIES:
        errors.not_supported("spec.internalTrafficPolicy", internal, POLICIES)
    for index, source in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        try:
            ipaddress.ip_network(source, strict=False)
        except ValueError:
            detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            errors.invalid(f"spec.LoadBalancerSourceRanges[{index}]", source, detail)


def _service_update(errors: Errors, spec: Obj, before: Obj) -> None:
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return
    new = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    old = before.get("clusterIPs") or ([before["clusterIP"]] if before.get("clusterIP") else [])
    if new and old and new[0] != old[0]:
        errors.invalid("spec.clusterIPs[0]", new, "may not change once set")


def _ingress(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec", {})
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and backend is None:
        errors.invalid("spec", spec, "either `defaultBackend` or `rules` must be specified")
    if backend is not None:
        _backend(errors, backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        _ingress_rule(errors, rule, f"spec.rules[{index}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        for at, host in enumerate(tls.get("hosts") or ()):
            rule = values.wildcard_subdomain if "*" in host else values.dns_subdomain
            errors.invalid_each(f"spec.tls[{index}].hosts[{at}]", host, rule(host))
    name = spec.get("ingressClassName")
    if name is not None:
        errors.invalid_each("spec.ingressClassName", name, values.dns_subdomain(name))


def _ingress_rule(errors: Errors, rule: Obj, path: str) -> None:
    host = rule.get("host", "")
    if host and not values.ip_address(host):
        errors.invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
    elif host:
        check = values.wildcard_subdomain if "*" in host else values.dns_subdomain
        errors.invalid_each(f"{path}.host", host, check(host))
    if rule.get("http") is None:
        return
    paths = rule["http"].get("paths") or []
    if not paths:
        errors.required(f"{path}.http.paths")
    for index, item in enumerate(paths):
        where = f"{path}.http.paths[{index}]"
        kind, target = item.get("pathType"), item.get("path", "")
        if kind is None:
            errors.required(f"{where}.pathType", "pathType must be specified")
        elif kind not in PATH_TYPES:
            errors.not_supported(f"{where}.pathType", kind, PATH_TYPES)
        elif (kind != "ImplementationSpecific" or target) and not target.startswith("/"):
            errors.invalid(f"{where}.path", target, "must be an absolute path")
        _backend(errors, item.get("backend", {}), f"{where}.backend")


def _backend(errors: Errors, backend: Obj, path: str) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is None and resource is None:
        errors.required(path, "resource or service backend is required")
        return
    if service is None:
        return
    if resource is not None:
        errors.invalid(path, "", "cannot set both resource and service backends")
    name, port = service.get("name", ""), service.get("port") or {}
    if not name:
        errors.required(f"{path}.service.name")
    else:
        errors.invalid_each(f"{path}.service.name", name, values.dns_1035_label(name))
    if port.get("name") and port.get("number"):
        errors.invalid(f"{path}.service.port", "", "cannot set both port name & port number")
    elif port.get("name"):
        errors.invalid_each(f"{path}.service.port.name", port["name"], values.port_name(port["name"]))
    elif port.get("number"):
        errors.invalid_each(f"{path}.service.port.number", port["number"], values.port_number(port["number"]))
    else:
        errors.required(f"{path}.service", "port name or number is required")


def _network_policy(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec", {})
    check_selector(errors, spec.get("podSelector") or {}, "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            _policy_rule(errors, rule, peers, f"spec.{direction}[{index}]")
    kinds = spec.get("policyTypes") or []
    if len(kinds) > 2:
        errors.invalid("spec.policyTypes", kinds, "may not specify more than two policyTypes")
    for index, kind in enumerate(kinds):
        if kind not in ("Egress", "Ingress"):
            errors.not_supported(f"spec.policyTypes[{index}]", kind, ("Egress", "Ingress"))


def _policy_rule(errors: Errors, rule: Obj, peers: str, path: str) -> None:
    for index, port in enumerate(rule.get("ports") or ()):
        where, protocol = f"{path}.ports[{index}]", port.get("protocol")
        if protocol is not None and protocol not in PROTOCOLS:
            errors.not_supported(f"{where}.protocol", protocol, PROTOCOLS)
        if port.get("port") is not None:
            values.check_port_or_name(errors, f"{where}.port", port["port"])
    for index, peer in enumerate(rule.get(peers) or ()):
        where = f"{path}.{peers}[{index}]"
        for field in ("podSelector", "namespaceSelector"):
            if peer.get(field) is not None:
                check_selector(errors, peer[field], f"{where}.{field}")
        if not peer:
            errors.required(where, "must specify a peer")
        elif "ipBlock" in peer and len(peer) > 1:
            errors.forbidden(where, "may not specify both ipBlock and another peer")


def _endpoints(errors: Errors, obj: Obj, old: Obj | None) -> None:
    for index, subset in enumerate(obj.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.required(path, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for at, address in enumerate(subset.get(field) or ()):
                where, ip = f"{path}.{field}[{at}].ip", address.get("ip", "")
                errors.invalid_each(where, ip, values.ip_address(ip) or values.special_address(ip))
        ports = subset.get("ports") or []
        for at, port in enumerate(ports):
            _endpoint_port(errors, port, len(ports) > 1, f"{path}.ports[{at}]")


def _endpoint_port(errors: Errors, port: Obj, named: bool, path: str) -> None:
    if port.get("name"):
        errors.invalid_each(f"{path}.name", port["name"], values.dns_label(port["name"]))
    elif named:
        errors.required(f"{path}.name")
    number = port.get("port", 0)
    errors.invalid_each(f"{path}.port", number, values.port_number(number))
    if port.get("protocol") not in PROTOCOLS:
        errors.not_supported(f"{path}.protocol", port.get("protocol", ""), PROTOCOLS)


def _endpoint_slice(errors: Errors, obj: Obj, old: Obj | None) -> None:
    kind, endpoints = obj.get("addressType", ""), obj.get("endpoints") or []
    if not kind:
        errors.required("addressType")
    elif kind not in ADDRESS_TYPES:
        errors.not_supported("addressType", kind, ADDRESS_TYPES)
    if len(endpoints) > SLICE_ENDPOINTS_MAX:
        errors.too_many("endpoints", len(endpoints), SLICE_ENDPOINTS_MAX)
    for index, endpoint in enumerate(endpoints):
        addresses = endpoint.get("addresses") or []
        if not addresses:
            errors.required(f"endpoints[{index}].addresses", "must contain at least 1 address")
        for at, address in enumerate(addresses):
            check = values.dns_subdomain if kind == "FQDN" else values.ip_address
            wrong = check(address) or (kind != "FQDN" and values.special_address(address)) or []
            errors.invalid_each(f"endpoints[{index}].addresses[{at}]", address, wrong)
    names: set[str] = set()
    for index, port in enumerate(obj.get("ports") or ()):
        name = port.get("name", "")
        if name:
            errors.invalid_each(f"ports[{index}].name", name, values.dns_label(name))
        if name in names:
            errors.duplicate(f"ports[{index}].name", name)
        names.add(name)
        if port.get("port") is not None:
            errors.invalid_each(f"ports[{index}].port", port["port"], values.port_number(port["port"]))
    if old is not None and kind != old.get("addressType"):
        errors.invalid("addressType", kind, values.IMMUTABLE)


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    ("", "Service"): _service,
    ("", "Endpoints"): _endpoints,
    ("discovery.k8s.io", "EndpointSlice"): _endpoint_slice,
    ("networking.k8s.io", "Ingress"): _ingress,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
}
