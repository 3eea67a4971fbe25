"""Services."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.containers import PROTOCOLS
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_labels

Obj = dict[str, Any]
TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
AFFINITIES = ("ClientIP", "None")
POLICIES = ("Cluster", "Local")
FAMILIES = ("IPv4", "IPv6")
FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
DISTRIBUTIONS = ("PreferClose", "PreferSameNode", "PreferSameZone")
STICKY_MAX_S = 86400
NONE = "None"
ONLY_BALANCED = "may only be used when `type` is 'LoadBalancer'"
NOT_EXTERNAL = "may not be set for ExternalName services"
UNCHANGED = "may not change once set"
SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
HINTS, TOPOLOGY_MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"


def is_headless(spec: Obj) -> bool:
    """A Service without an address of its own."""
    return list(spec.get("clusterIPs") or ()) == [NONE]


def is_reachable(spec: Obj) -> bool:
    """Whether a Service can be reached from outside the cluster."""
    kind = spec.get("type")
    return kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_check(spec: Obj) -> bool:
    """Whether nodes tell a load balancer through a port of their own if they have endpoints."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _service(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj["spec"]
    if old is not None:
        _update(errors, spec, old["spec"])
    kind, ports = spec.get("type", ""), spec.get("ports") or []
    headless = is_headless(spec)
    _topology(errors, obj["metadata"].get("annotations") or {})
    if not ports and not headless and kind != "ExternalName":
        errors.required("spec.ports")
    if kind in ("LoadBalancer", "NodePort") and headless:
        errors.invalid("spec.clusterIPs[0]", NONE, f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        _external_name(errors, spec)
    names: set[str] = set()
    for index, port in enumerate(ports):
        _port(errors, port, len(ports) > 1, names, f"spec.ports[{index}]")
    check_labels(errors, spec.get("selector"), "spec.selector")
    _session_affinity(errors, spec)
    check_addresses(errors, spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        wrong = values.ip_address(address) or values.special_address(address)
        errors.invalid_each(f"spec.externalIPs[{index}]", address, wrong)
    if not kind:
        errors.required("spec.type")
    elif kind not in TYPES:
        errors.not_supported("spec.type", kind, TYPES)
    _unique_ports(errors, kind, ports)
    _load_balancer(errors, obj)
    _traffic(errors, spec)


def _topology(errors: Errors, annotations: Obj) -> None:
    mode, hints = annotations.get(TOPOLOGY_MODE), annotations.get(HINTS)
    if mode is not None and hints is not None and mode != hints:
        detail = f"must match annotations[{HINTS}] when both are specified"
        errors.invalid(f"metadata.annotations[{TOPOLOGY_MODE}]", mode, detail)


def _external_name(errors: Errors, spec: Obj) -> None:
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            errors.forbidden(f"spec.{field}", NOT_EXTERNAL)
    name = str(spec.get("externalName", "")).removesuffix(".")
    if not name:
        errors.required("spec.externalName")
    else:
        errors.invalid_each("spec.externalName", name, values.dns_subdomain(name))


def _port(errors: Errors, port: Obj, named: bool, names: set[str], path: str) -> None:
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
    if port.get("appProtocol") is not None:
        errors.invalid_each(f"{path}.appProtocol", port["appProtocol"], values.qualified_name(port["appProtocol"]))


def _session_affinity(errors: Errors, spec: Obj) -> None:
    affinity = spec.get("sessionAffinity", "")
    if not affinity:
        errors.required("spec.sessionAffinity")
    elif affinity not in AFFINITIES:
        errors.not_supported("spec.sessionAffinity", affinity, AFFINITIES)
    config = spec.get("sessionAffinityConfig")
    if affinity == NONE and config is not None:
        detail = "must not be set when session affinity is None"
        errors.forbidden("spec.sessionAffinityConfig", detail)
    elif affinity == "ClientIP":
        timeout = ((config or {}).get("clientIP") or {}).get("timeoutSeconds", 0)
        if not 0 < timeout <= STICKY_MAX_S:
            where = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            errors.invalid(where, timeout, f"must be greater than 0 and less than {STICKY_MAX_S}")


def check_addresses(errors: Errors, spec: Obj) -> None:
    """``clusterIP``, ``clusterIPs``, ``ipFamilies`` and ``ipFamilyPolicy`` by themselves and together."""
    if spec.get("type") == "ExternalName":
        return
    first, addresses = spec.get("clusterIP", ""), list(spec.get("clusterIPs") or ())
    families, policy = list(spec.get("ipFamilies") or ()), spec.get("ipFamilyPolicy")
    if first and not addresses:
        errors.required("spec.clusterIPs")
    elif first and addresses[0] != first:
        errors.invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    elif not first and addresses:
        errors.invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified")
    for index, family in enumerate(families):
        if family not in FAMILIES:
            errors.not_supported(f"spec.ipFamilies[{index}]", family, FAMILIES)
        if family in families[:index]:
            errors.duplicate(f"spec.ipFamilies[{index}]", family)
    if policy is not None and policy not in FAMILY_POLICIES:
        errors.not_supported("spec.ipFamilyPolicy", policy, FAMILY_POLICIES)
    before = len(errors)
    for index, address in enumerate(addresses):
        if index == 0 and address == NONE:
            if len(addresses) > 1:
                errors.invalid("spec.clusterIPs", addresses, "'None' must be the first and only value")
            continue
        errors.invalid_each(f"spec.clusterIPs[{index}]", address, values.ip_address(address))
    wrong = len(errors) > before
    if len(addresses) > 2:
        errors.invalid("spec.clusterIPs", addresses, "may only hold up to 2 values")
    if not wrong:
        _families(errors, addresses, families)


def _families(errors: Errors, addresses: list[str], families: list[str]) -> None:
    if NONE in addresses:
        return
    found = [family_of(address) for address in addresses]
    if len(found) > 1 and len(set(found)) < 2:
        errors.invalid("spec.clusterIPs", addresses, "may specify no more than one IP for each IP family")
    for index, (family, wanted) in enumerate(zip(found, families, strict=False)):
        if wanted in FAMILIES and family != wanted:
            detail = f"expected an {wanted} value as indicated by `ipFamilies[{index}]`"
            errors.invalid(f"spec.clusterIPs[{index}]", addresses[index], detail)


def family_of(address: str) -> str:
    """``IPv4`` or ``IPv6`` of a valid address."""
    return FAMILIES[ipaddress.ip_address(address).version == 6]


def _unique_ports(errors: Errors, kind: str, ports: list[Obj]) -> None:
    if kind == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                errors.forbidden(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
    node_ports: set[tuple[str, int]] = set()
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("nodePort", 0))
        if key[1] and key in node_ports:
            errors.duplicate(f"spec.ports[{index}].nodePort", key[1])
        node_ports.add(key)
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in numbers:
            shown = {
                "Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1], "TargetPort": 0, "NodePort": 0,
            }  # fmt: skip
            errors.duplicate(f"spec.ports[{index}]", shown)
        numbers.add(key)


def _load_balancer(errors: Errors, obj: Obj) -> None:
    spec, balanced = obj["spec"], obj["spec"].get("type") == "LoadBalancer"
    ranges, noted = spec.get("loadBalancerSourceRanges"), (obj["metadata"].get("annotations") or {})
    if ranges:
        if not balanced:
            errors.forbidden("spec.LoadBalancerSourceRanges", ONLY_BALANCED)
        for index, source in enumerate(ranges):
            field = f"spec.LoadBalancerSourceRanges[{index}]"
            errors.invalid_each(field, source.strip(), values.ip_range(source.strip()))
    elif SOURCE_RANGES in noted:
        field = f"metadata.annotations[{SOURCE_RANGES}]"
        if not balanced:
            errors.forbidden(field, ONLY_BALANCED)
        for source in noted[SOURCE_RANGES].strip().split(",") if noted[SOURCE_RANGES].strip() else ():
            errors.invalid_each(field, source.strip(), values.ip_range(source.strip()))
    if not balanced and spec.get("allocateLoadBalancerNodePorts") is not None:
        errors.forbidden("spec.allocateLoadBalancerNodePorts", ONLY_BALANCED)
    name = spec.get("loadBalancerClass")
    if name is not None and not balanced:
        errors.forbidden("spec.loadBalancerClass", ONLY_BALANCED)
    elif name is not None:
        errors.invalid_each("spec.loadBalancerClass", name, values.qualified_name(name))


def _traffic(errors: Errors, spec: Obj) -> None:
    external, internal = spec.get("externalTrafficPolicy"), spec.get("internalTrafficPolicy")
    if external and not is_reachable(spec):
        detail = "may only be set for externally-accessible services"
        errors.invalid("spec.externalTrafficPolicy", external, detail)
    elif external and external not in POLICIES:
        errors.not_supported("spec.externalTrafficPolicy", external, POLICIES)
    port = spec.get("healthCheckNodePort", 0)
    if port and not needs_health_check(spec):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.invalid("spec.healthCheckNodePort", port, detail)
    elif port:
        errors.invalid_each("spec.healthCheckNodePort", port, values.port_number(port))
    if internal is not None and internal not in POLICIES:
        errors.not_supported("spec.internalTrafficPolicy", internal, POLICIES)
    spread = spec.get("trafficDistribution")
    if spread is not None and spread not in DISTRIBUTIONS:
        errors.not_supported("spec.trafficDistribution", spread, DISTRIBUTIONS)


def _update(errors: Errors, spec: Obj, before: Obj) -> None:
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        _addresses_kept(errors, spec, before)
    if spec.get("type") == before.get("type") == "LoadBalancer":
        name = spec.get("loadBalancerClass")
        if name != before.get("loadBalancerClass"):
            errors.invalid("spec.loadBalancerClass", name, UNCHANGED)
    checked = needs_health_check(spec) and needs_health_check(before)
    if checked and spec.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
        errors.forbidden("spec.healthCheckNodePort", values.IMMUTABLE)


def _addresses_kept(errors: Errors, spec: Obj, before: Obj) -> None:
    new, old = list(spec.get("clusterIPs") or ()), list(before.get("clusterIPs") or ())
    if is_headless(spec) and is_headless(before):
        return
    if old and not new:
        errors.invalid("spec.clusterIPs[0]", None, "primary clusterIP can not be unset")
    for index, (after, earlier) in enumerate(zip(new, old, strict=False)):
        if after != earlier and (index == 0 or len(new) == len(old)):
            errors.invalid(f"spec.clusterIPs[{index}]", new, UNCHANGED)
    if is_headless(spec) != is_headless(before):
        return
    families, were = list(spec.get("ipFamilies") or ()), list(before.get("ipFamilies") or ())
    if families and were and families[0] != were[0]:
        shown = families if len(families) == len(were) else new
        errors.invalid("spec.ipFamilies[0]", shown, UNCHANGED)


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {("", "Service"): _service}
