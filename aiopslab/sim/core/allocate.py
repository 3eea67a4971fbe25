"""Addresses and ports of Services: chosen by hash of the Service's name, so that they do not depend on the
order of requests; taken ones are stepped over. As on a real server they are chosen before the Service is
validated, and what a changed type no longer needs is given up unless the client changed that as well."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from aiopslab.sim.core.apierrors import Cause, as_cause, internal, invalid
from aiopslab.sim.core.ids import Ids
from aiopslab.sim.core.store import Store
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.services import (
    NONE,
    check_addresses,
    family_of,
    is_reachable,
    needs_health_check,
)  # fmt: skip

Obj = dict[str, Any]

SERVICE_NETWORK = IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
FAMILY = "IPv4"  # the only one that this cluster has addresses of
OTHER_FAMILY = {"IPv4": "IPv6", "IPv6": "IPv4"}
# Low addresses are for well-known ones, as on a real cluster.
_WELL_KNOWN = {("default", "kubernetes"): "10.96.0.1", ("kube-system", "kube-dns"): "10.96.0.10"}
_DYNAMIC_FROM = 256
_EXPOSED = ("NodePort", "LoadBalancer")
_RANGE = f"{NODE_PORTS[0]}-{NODE_PORTS[-1]}"


def allocate_service(store: Store, ids: Ids, obj: Obj, old: Obj | None) -> Obj:
    """The Service with its families, cluster IP, node ports and health-check port filled in. Raises 422 for
    taken ones."""
    spec = {**(obj.get("spec") or {})}
    spec["ports"] = [dict(port) for port in spec.get("ports") or ()]
    name = (obj["metadata"].get("namespace", ""), obj["metadata"].get("name", ""))
    others = [
        s["spec"] for s in store.list("services")
        if (s["metadata"]["namespace"], s["metadata"]["name"]) != name
    ]  # fmt: skip
    was = dict((old or {}).get("spec") or {})
    if old is not None:
        _keep_allocated(spec, was)
    _pair_addresses(spec, was)
    if spec.get("type") != "ExternalName":
        _choose_families(spec, was, name[1])
        _cluster_ip(spec, was, others, name, ids)
    _node_ports(spec, was, others, name, ids)
    if was:
        _drop_needless(spec, was)
    if not spec["ports"]:
        spec.pop("ports")
    made = {**obj, "spec": spec}
    if was and spec.get("type") != "LoadBalancer" and (obj.get("status") or {}).get("loadBalancer"):
        made["status"] = {**obj["status"], "loadBalancer": {}}
    return made


def _keep_allocated(spec: Obj, was: Obj) -> None:
    """A client that leaves out what the cluster chose for it keeps that: node ports by the ports' names."""
    if "ExternalName" not in (spec.get("type"), was.get("type")):
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and was.get(field):
                spec[field] = was[field]
    if spec.get("type") in _EXPOSED and was.get("type") in _EXPOSED:
        stay = _used_ports(spec) & _used_ports(was)
        named = {port.get("name", ""): port.get("nodePort", 0) for port in was.get("ports") or ()}
        for port in spec["ports"]:
            before = named.get(port.get("name", ""), 0)
            if not port.get("nodePort") and before and before not in stay:
                port["nodePort"] = before
    if needs_health_check(spec) and needs_health_check(was) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = was.get("healthCheckNodePort", 0)


def _used_ports(spec: Obj) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


def _pair_addresses(spec: Obj, was: Obj) -> None:
    """``clusterIPs`` follows ``clusterIP`` where a client set only the latter."""
    first, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs")
    if not was:
        if first and not addresses:
            spec["clusterIPs"] = [first]
    elif first and first != was.get("clusterIP") and addresses in (None, [], was.get("clusterIPs")):
        spec["clusterIPs"] = [first]


def _refuse(name: str, field: str, value: str, why: str) -> Exception:
    return invalid(("Service", ""), name, [Cause("FieldValueInvalid", f"Invalid value: {value}: {why}", field)])


def _choose_families(spec: Obj, was: Obj, name: str) -> None:
    """``ipFamilyPolicy`` and ``ipFamilies`` on this single-stack cluster. Raises 422 for what it cannot give."""
    selects_nothing = spec.get("clusterIP") == NONE and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        default = "RequireDualStack" if selects_nothing else "SingleStack"
        spec["ipFamilyPolicy"] = was.get("ipFamilyPolicy") or default
    errors = Errors()
    check_addresses(errors, spec)
    policy, families = spec["ipFamilyPolicy"], list(spec.get("ipFamilies") or ())
    if not errors:
        if policy == "SingleStack":
            for found, what in ((spec.get("clusterIPs"), "cluster IPs"), (families, "IP families")):
                if len(found or ()) == 2:
                    detail = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                    errors.invalid("spec.ipFamilyPolicy", policy, detail)
        for index, address in enumerate(spec.get("clusterIPs") or ()):
            if address != NONE and index >= len(families) and (family := family_of(address)) != FAMILY:
                detail = f"{family} is not configured on this cluster"
                errors.invalid(f"spec.clusterIPs[{index}]", spec["clusterIPs"], detail)
    if not errors and not selects_nothing:
        if policy == "RequireDualStack":
            detail = "this cluster is not configured for dual-stack services"
            errors.invalid("spec.ipFamilyPolicy", policy, detail)
        for index, family in enumerate(families):
            if family != FAMILY:
                errors.invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
    if errors:
        raise invalid(("Service", ""), name, [as_cause(error) for error in errors])
    families = families or [FAMILY]
    if selects_nothing and len(families) == 1 and policy != "SingleStack":
        families.append(OTHER_FAMILY[families[0]])
    spec["ipFamilies"] = families


def _cluster_ip(spec: Obj, was: Obj, others: list[Obj], name: tuple[str, str], ids: Ids) -> None:
    asked = (spec.get("clusterIPs") or [""])[0]
    if asked == NONE or (was.get("type") not in (None, "ExternalName") and was.get("clusterIPs")):
        return  # an update does not choose anew; validation refuses another address
    if asked and asked != was.get("clusterIP"):
        _check_given(asked, others, name[1])
    taken = {other.get("clusterIP") for other in others}
    asked = asked or _WELL_KNOWN.get(name, "")
    if not asked or asked in taken:
        size = SERVICE_NETWORK.num_addresses - _DYNAMIC_FROM - 1
        base = int(SERVICE_NETWORK.network_address) + _DYNAMIC_FROM
        asked = _probe(lambda n: str(IPv4Address(base + ids.number(size, "service-ip", *name, n))), taken)
    spec["clusterIP"] = asked
    spec["clusterIPs"] = [asked]


def _check_given(address: str, others: list[Obj], name: str) -> None:
    why = ""
    if IPv4Address(address) not in SERVICE_NETWORK:
        why = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {SERVICE_NETWORK}"
    elif any(other.get("clusterIP") == address for other in others):
        why = "provided IP is already allocated"
    if why:
        raise _refuse(name, "spec.clusterIPs", f'["{address}"]', f"failed to allocate IP {address}: {why}")


def _node_ports(spec: Obj, was: Obj, others: list[Obj], name: tuple[str, str], ids: Ids) -> None:
    taken: set[Any] = set()
    for other in others:
        taken |= _used_ports(other) | {other.get("healthCheckNodePort")}
    taken.add(was.get("healthCheckNodePort"))
    mine: dict[int, int] = {}  # port -> node port: one number serves both protocols
    chosen: set[int] = set()
    for index, port in enumerate(spec["ports"] if spec.get("type") in _EXPOSED else ()):
        wanted, number = port.get("nodePort", 0), port.get("port", 0)
        if not wanted and spec.get("allocateLoadBalancerNodePorts") is False:
            continue
        if not wanted and not was:
            wanted = mine.get(number, 0) or next(
                (p["nodePort"] for p in spec["ports"] if p.get("port") == number and p.get("nodePort")), 0
            )
        if wanted and wanted not in _used_ports(was) and wanted != mine.get(number):
            _check_node_port(wanted, taken if was else taken | chosen, name[1], index)
        port["nodePort"] = wanted or _free_node_port(ids, (*name, number), taken | chosen | _used_ports(was))
        mine.setdefault(number, port["nodePort"])
        chosen.add(port["nodePort"])
    if needs_health_check(spec) and not needs_health_check(was):
        spec["healthCheckNodePort"] = _health_port(spec, taken | chosen, name, ids)


def _health_port(spec: Obj, taken: set[Any], name: tuple[str, str], ids: Ids) -> int:
    wanted: int = spec.get("healthCheckNodePort", 0)
    if not wanted:
        return _free_node_port(ids, (*name, "health-check"), taken)
    if why := _unusable(wanted, taken):
        raise internal(f"failed to allocate requested HealthCheck NodePort {wanted}: {why}")
    return wanted


def _free_node_port(ids: Ids, slot: tuple[Any, ...], taken: set[Any]) -> int:
    found: int = _probe(lambda n: NODE_PORTS[ids.number(len(NODE_PORTS), "node-port", *slot, n)], taken)
    return found


def _unusable(port: int, taken: set[Any]) -> str:
    if port not in NODE_PORTS:
        return f"provided port is not in the valid range. The range of valid ports is {_RANGE}"
    return "provided port is already allocated" if port in taken else ""


def _check_node_port(port: int, taken: set[Any], name: str, index: int) -> None:
    if why := _unusable(port, taken):
        raise _refuse(name, f"spec.ports[{index}].nodePort", str(port), why)


def _drop_needless(spec: Obj, was: Obj) -> None:
    """What the new type does not use goes, unless the client changed it at the same time."""
    if spec.get("type") == "ExternalName" != was.get("type"):
        if all(spec.get(field) == was.get(field) for field in ("clusterIP", "clusterIPs")):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        _drop_unchanged(spec, was, "ipFamilies", "ipFamilyPolicy")
    if was.get("type") in _EXPOSED and spec.get("type") not in _EXPOSED and _used_ports(spec) <= _used_ports(was):
        for port in spec["ports"]:
            port.pop("nodePort", None)
    if needs_health_check(was) and not needs_health_check(spec):
        _drop_unchanged(spec, was, "healthCheckNodePort")
    if was.get("type") == "LoadBalancer" != spec.get("type"):
        _drop_unchanged(spec, was, "allocateLoadBalancerNodePorts", "loadBalancerClass")
    if is_reachable(was) and not is_reachable(spec):
        _drop_unchanged(spec, was, "externalTrafficPolicy")


def _drop_unchanged(spec: Obj, was: Obj, *fields: str) -> None:
    for field in fields:
        if spec.get(field) == was.get(field):
            spec.pop(field, None)


def _probe(candidate: Callable[[int], Any], taken: set[Any]) -> Any:
    attempt = 0
    while (found := candidate(attempt)) in taken:
        attempt += 1
    return found
