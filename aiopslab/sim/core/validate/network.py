"""NetworkPolicies, Endpoints, EndpointSlices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.containers import PROTOCOLS
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_selector

Obj = dict[str, Any]
ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
SLICE_ENDPOINTS_MAX = 1000
SLICE_LIST_MAX = 100  # addresses of an endpoint, ports of a slice
POLICY_TYPES = ("Ingress", "Egress")
POLICY_PROTOCOLS = ("TCP", "UDP", "SCTP")


def _network_policy(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec", {})
    check_selector(errors, spec.get("podSelector") or {}, "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            _policy_rule(errors, rule, peers, f"spec.{direction}[{index}]")
    kinds = spec.get("policyTypes") or []
    if len(kinds) > len(POLICY_TYPES):
        errors.invalid("spec.policyTypes", kinds, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(kinds):
        if kind not in POLICY_TYPES:
            errors.not_supported(f"spec.policyTypes[{index}]", kind, POLICY_TYPES)


def _policy_rule(errors: Errors, rule: Obj, peers: str, path: str) -> None:
    for index, port in enumerate(rule.get("ports") or ()):
        _policy_port(errors, port, f"{path}.ports[{index}]")
    for index, peer in enumerate(rule.get(peers) or ()):
        where, given = f"{path}.{peers}[{index}]", {name for name, value in peer.items() if value is not None}
        for field in ("podSelector", "namespaceSelector"):
            if field in given:
                check_selector(errors, peer[field], f"{where}.{field}")
        if "ipBlock" in given:
            _ip_block(errors, peer["ipBlock"], f"{where}.ipBlock")
        if not given:
            errors.required(where, "must specify a peer")
        elif "ipBlock" in given and len(given) > 1:
            errors.forbidden(where, "may not specify both ipBlock and another peer")


def _policy_port(errors: Errors, port: Obj, path: str) -> None:
    protocol, first, last = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in POLICY_PROTOCOLS:
        errors.not_supported(f"{path}.protocol", protocol, POLICY_PROTOCOLS)
    if last is not None and not isinstance(first, int):
        problem = "not specified" if first is None else "non-numeric"
        errors.invalid(f"{path}.endPort", last, f"may not be specified when `port` is {problem}")
    if first is not None:
        values.check_port_or_name(errors, f"{path}.port", first)
    if last is not None and isinstance(first, int):
        if last < first:
            errors.invalid(f"{path}.endPort", last, "must be greater than or equal to `port`")
        errors.invalid_each(f"{path}.endPort", last, values.port_number(last))


def _ip_block(errors: Errors, block: Obj, path: str) -> None:
    whole = block.get("cidr", "")
    if not whole:
        errors.required(f"{path}.cidr")
        return
    errors.invalid_each(f"{path}.cidr", whole, values.ip_range(whole))
    outer = values.network(whole)
    for index, part in enumerate(block.get("except") or ()):
        errors.invalid_each(f"{path}.except[{index}]", part, values.ip_range(part))
        inner = values.network(part)
        if outer is None or inner is None:
            continue
        if outer.version != inner.version or outer == inner or not inner.subnet_of(outer):  # type: ignore[arg-type]
            errors.invalid(f"{path}.except[{index}]", part, "must be a strict subset of `cidr`")


def _endpoints(errors: Errors, obj: Obj, old: Obj | None) -> None:
    for index, subset in enumerate(obj.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.required(path, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for at, address in enumerate(subset.get(field) or ()):
                _endpoint_address(errors, address, f"{path}.{field}[{at}]")
        ports = subset.get("ports") or []
        for at, port in enumerate(ports):
            _endpoint_port(errors, port, len(ports) > 1, f"{path}.ports[{at}]")


def _endpoint_address(errors: Errors, address: Obj, path: str) -> None:
    ip, host, node = address.get("ip", ""), address.get("hostname"), address.get("nodeName")
    errors.invalid_each(f"{path}.ip", ip, values.ip_address(ip))
    if host:
        errors.invalid_each(f"{path}.hostname", host, values.dns_label(host))
    if node is not None:
        errors.invalid_each(f"{path}.nodeName", node, values.dns_subdomain(node))
    errors.invalid_each(f"{path}.ip", ip, values.special_address(ip))


def _endpoint_port(errors: Errors, port: Obj, named: bool, path: str) -> None:
    if port.get("name"):
        errors.invalid_each(f"{path}.name", port["name"], values.dns_label(port["name"]))
    elif named:
        errors.required(f"{path}.name")
    number = port.get("port", 0)
    errors.invalid_each(f"{path}.port", number, values.port_number(number))
    if not port.get("protocol"):
        errors.required(f"{path}.protocol")
    elif port["protocol"] not in PROTOCOLS:
        errors.not_supported(f"{path}.protocol", port["protocol"], PROTOCOLS)
    if port.get("appProtocol") is not None:
        errors.invalid_each(f"{path}.appProtocol", port["appProtocol"], values.qualified_name(port["appProtocol"]))


def _endpoint_slice(errors: Errors, obj: Obj, old: Obj | None) -> None:
    kind, endpoints = obj.get("addressType", ""), obj.get("endpoints") or []
    if not kind:
        errors.required("addressType")
    elif kind not in ADDRESS_TYPES:
        errors.not_supported("addressType", kind, ADDRESS_TYPES)
    if len(endpoints) > SLICE_ENDPOINTS_MAX:
        errors.too_many("endpoints", len(endpoints), SLICE_ENDPOINTS_MAX)
        endpoints = []
    for index, endpoint in enumerate(endpoints):
        _slice_endpoint(errors, endpoint, kind, f"endpoints[{index}]")
    ports = obj.get("ports") or []
    if len(ports) > SLICE_LIST_MAX:
        errors.too_many("ports", len(ports), SLICE_LIST_MAX)
        ports = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        _slice_port(errors, port, names, f"ports[{index}]")
    if old is not None and kind != old.get("addressType"):
        errors.invalid("addressType", kind, values.IMMUTABLE)


def _slice_endpoint(errors: Errors, endpoint: Obj, kind: str, path: str) -> None:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        errors.required(f"{path}.addresses", "must contain at least 1 address")
    elif len(addresses) > SLICE_LIST_MAX:
        errors.too_many(f"{path}.addresses", len(addresses), SLICE_LIST_MAX)
    for at, address in enumerate(addresses):
        where = f"{path}.addresses[{at}]"
        if kind == "FQDN":
            values.check_domain_name(errors, where, address)
        elif kind in ADDRESS_TYPES:
            wrong = values.ip_address(address)
            other = ":" in address if kind == "IPv4" else ":" not in address
            if wrong or other:
                wrong = [text for text in wrong if "must be a valid IP" not in text]
                errors.invalid_each(where, address, wrong or [f"must be a valid {kind} address"])
            errors.invalid_each(where, address, values.special_address(address))
    if endpoint.get("hostname") is not None:
        errors.invalid_each(f"{path}.hostname", endpoint["hostname"], values.dns_label(endpoint["hostname"]))


def _slice_port(errors: Errors, port: Obj, names: set[str], path: str) -> None:
    name, protocol = port.get("name") or "", port.get("protocol")
    if name:
        errors.invalid_each(f"{path}.name", name, values.dns_label(name))
    if name in names:
        errors.duplicate(f"{path}.name", name)
    names.add(name)
    if protocol is None:
        errors.required(f"{path}.protocol")
    elif protocol not in PROTOCOLS:
        errors.not_supported(f"{path}.protocol", protocol, PROTOCOLS)
    if port.get("appProtocol") is not None:
        errors.invalid_each(f"{path}.appProtocol", port["appProtocol"], values.qualified_name(port["appProtocol"]))


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    ("", "Endpoints"): _endpoints,
    ("discovery.k8s.io", "EndpointSlice"): _endpoint_slice,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
}
