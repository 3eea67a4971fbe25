"""Ingresses, NetworkPolicies, Endpoints, EndpointSlices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.containers import PROTOCOLS
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_selector

Obj = dict[str, Any]
PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
SLICE_ENDPOINTS_MAX = 1000


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
    ("", "Endpoints"): _endpoints,
    ("discovery.k8s.io", "EndpointSlice"): _endpoint_slice,
    ("networking.k8s.io", "Ingress"): _ingress,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
}
