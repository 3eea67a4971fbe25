"""Rows of Services, endpoints, Ingresses and network policies."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core.tables.columns import Cells, layout
from aiopslab.sim.core.tables.text import NONE, UNSET, age, equalities, join, limited, selector

Obj = dict[str, Any]
SHOWN_MAX = 3


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _balancer(obj: Obj) -> list[str]:
    ingress = obj.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
    return sorted({item.get("ip") or item.get("hostname") or "" for item in ingress} - {""})


def _external_ip(service: Obj) -> str:
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    addresses = list(spec.get("externalIPs") or ())
    if spec.get("type") == "LoadBalancer":
        return join([*addresses, *_balancer(service)], "<pending>")
    return join(addresses)


def _port(port: Obj) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node_port}/{port.get('protocol', 'TCP')}"


def _service(obj: Obj, now: float) -> Cells:
    spec = obj["spec"]
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP", "")]
    return [
        _name(obj),
        spec.get("type", "ClusterIP"),
        addresses[0] or NONE,
        _external_ip(obj),
        join(map(_port, spec.get("ports") or ())),
        age(obj, now),
        equalities(spec.get("selector")),
    ]


def _endpoints(obj: Obj, now: float) -> Cells:
    found: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [item.get("ip", "") for item in subset.get("addresses") or ()]
        ports = subset.get("ports") or []
        for port in ports:
            found += [f"{ip}:{port.get('port', 0)}" for ip in addresses]
        if not ports:
            found += addresses
    return [_name(obj), limited(found, SHOWN_MAX, NONE), age(obj, now)]


def _endpoint_slice(obj: Obj, now: float) -> Cells:
    ports = ["*" if p.get("port") is None else str(p["port"]) for p in obj.get("ports") or ()]
    addresses = [a for endpoint in obj.get("endpoints") or () for a in endpoint.get("addresses") or ()]
    return [
        _name(obj),
        obj.get("addressType", ""),
        limited(ports, SHOWN_MAX, UNSET),
        limited(addresses, SHOWN_MAX, UNSET),
        age(obj, now),
    ]


def _ingress(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec", {})
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    return [
        _name(obj),
        spec.get("ingressClassName") or NONE,
        limited(hosts, SHOWN_MAX, "*"),
        ",".join(_balancer(obj)),
        "80, 443" if spec.get("tls") else "80",
        age(obj, now),
    ]


def _ingress_class(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec", {})
    parameters = spec.get("parameters")
    shown = NONE
    if parameters:
        kind = parameters.get("kind", "")
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        shown = f"{kind}{group}/{parameters.get('name', '')}"
    return [_name(obj), spec.get("controller", ""), shown, age(obj, now)]


def _network_policy(obj: Obj, now: float) -> Cells:
    return [_name(obj), selector(obj.get("spec", {}).get("podSelector")), age(obj, now)]


LAYOUTS = {
    ("", "Service"): layout("Type, Cluster-IP, External-IP, Port(s), Age, Selector*", _service),
    ("", "Endpoints"): layout("Endpoints, Age", _endpoints),
    ("discovery.k8s.io", "EndpointSlice"): layout("AddressType, Ports, Endpoints, Age", _endpoint_slice),
    ("networking.k8s.io", "Ingress"): layout("Class, Hosts, Address, Ports, Age", _ingress),
    ("networking.k8s.io", "IngressClass"): layout("Controller, Parameters, Age", _ingress_class),
    ("networking.k8s.io", "NetworkPolicy"): layout("Pod-Selector, Age", _network_policy),
}
