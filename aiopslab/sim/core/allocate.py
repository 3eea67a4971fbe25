"""Addresses and ports of Services: chosen by hash of the Service's name, so that they do not depend on the
order of requests; taken ones are stepped over."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from aiopslab.sim.core.apierrors import Cause, invalid
from aiopslab.sim.core.ids import Ids
from aiopslab.sim.core.store import Store

Obj = dict[str, Any]

SERVICE_NETWORK = IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
# Low addresses are for well-known ones, as on a real cluster.
_WELL_KNOWN = {("default", "kubernetes"): "10.96.0.1", ("kube-system", "kube-dns"): "10.96.0.10"}
_DYNAMIC_FROM = 256


def allocate_service(store: Store, ids: Ids, obj: Obj, old: Obj | None) -> Obj:
    """The Service with its cluster IP, node ports and health-check port filled in. Raises 422 for taken ones."""
    spec = dict(obj.get("spec") or {})
    name = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
    others = [
        s for s in store.list("services")
        if (s["metadata"]["namespace"], s["metadata"]["name"]) != name
    ]  # fmt: skip
    was = (old or {}).get("spec") or {}
    if spec.get("type", "ClusterIP") == "ExternalName":
        for field in ("clusterIP", "clusterIPs"):
            spec.pop(field, None)
    else:
        _cluster_ip(spec, was, others, name, ids)
    _node_ports(spec, was, others, name, ids)
    return {**obj, "spec": spec}


def _cluster_ip(spec: Obj, was: Obj, others: list[Obj], name: tuple[str, str], ids: Ids) -> None:
    asked = spec.get("clusterIP") or (spec.get("clusterIPs") or [""])[0] or was.get("clusterIP", "")
    if asked and asked != "None" and asked != was.get("clusterIP"):
        _check_given(asked, others, name[1])
    taken = {s["spec"].get("clusterIP") for s in others}
    if not asked:
        asked = _WELL_KNOWN.get(name, "")
    if not asked or (asked in taken and asked != "None"):
        size = SERVICE_NETWORK.num_addresses - _DYNAMIC_FROM - 1
        base = int(SERVICE_NETWORK.network_address) + _DYNAMIC_FROM
        asked = _probe(lambda n: str(IPv4Address(base + ids.number(size, "service-ip", *name, n))), taken)
    spec["clusterIP"] = asked
    spec["clusterIPs"] = [asked]


def _check_given(address: str, others: list[Obj], name: str) -> None:
    try:
        inside = IPv4Address(address) in SERVICE_NETWORK
    except ValueError:
        return  # the validators refuse it with their own words
    why = ""
    if not inside:
        why = f"failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. " \
              f"The range of valid IPs is {SERVICE_NETWORK}"  # fmt: skip
    elif any(s["spec"].get("clusterIP") == address for s in others):
        why = f"failed to allocate IP {address}: provided IP is already allocated"
    if why:
        message = f'Invalid value: ["{address}"]: {why}'
        raise invalid(("Service", ""), name, [Cause("FieldValueInvalid", message, "spec.clusterIPs")])


def _node_ports(spec: Obj, was: Obj, others: list[Obj], name: tuple[str, str], ids: Ids) -> None:
    exposed = spec.get("type") in ("NodePort", "LoadBalancer")
    taken: set[Any] = {p["nodePort"] for s in others for p in s["spec"].get("ports") or [] if p.get("nodePort")}
    earlier = {(p.get("protocol"), p.get("port")): p.get("nodePort") for p in was.get("ports") or []}
    ports = []
    for index, given in enumerate(spec.get("ports") or []):
        port = dict(given)
        before = earlier.get((port.get("protocol"), port.get("port")))
        if not exposed:
            if port.get("nodePort") == before:
                port.pop("nodePort", None)
            ports.append(port)
            continue
        wanted = port.get("nodePort") or before
        if wanted and wanted != before:
            _check_node_port(wanted, taken, name[1], index)
        port["nodePort"] = wanted or _free_node_port(ids, (*name, port.get("port")), taken)
        taken.add(port["nodePort"])
        ports.append(port)
    if ports:
        spec["ports"] = ports


def _free_node_port(ids: Ids, slot: tuple[Any, ...], taken: set[Any]) -> int:
    found: int = _probe(lambda n: NODE_PORTS[ids.number(len(NODE_PORTS), "node-port", *slot, n)], taken)
    return found


def _check_node_port(port: int, taken: set[Any], name: str, index: int) -> None:
    why = ""
    if port not in NODE_PORTS:
        why = (
            f"provided port is not in the valid range. The range of valid ports is {NODE_PORTS[0]}-{NODE_PORTS[-1]}"
        )
    elif port in taken:
        why = "provided port is already allocated"
    if why:
        cause = Cause("FieldValueInvalid", f"Invalid value: {port}: {why}", f"spec.ports[{index}].nodePort")
        raise invalid(("Service", ""), name, [cause])


def _probe(candidate: Callable[[int], Any], taken: set[Any]) -> Any:
    attempt = 0
    while (found := candidate(attempt)) in taken:
        attempt += 1
    return found
