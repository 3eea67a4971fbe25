"""APIServices: which group versions the server answers itself, and which only while a Service behind them is up."""

from __future__ import annotations

from aiopslab.sim.core.endpointslices import is_ready, slices_of
from aiopslab.sim.core.store import Key, Obj, Store

RESOURCE = "apiregistration.k8s.io/apiservices"
AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
METRICS_GROUP, METRICS_VERSION = "metrics.k8s.io", "v1beta1"
# groupPriorityMinimum of the server's own groups; those of CustomResourceDefinitions have 1000.
PRIORITIES = {
    "": 18000, "apiregistration.k8s.io": 17900, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600, "autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200, "policy": 17100, "rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700, "admissionregistration.k8s.io": 16700, "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500, "node.k8s.io": 16300, "discovery.k8s.io": 16200,
}  # fmt: skip
VERSION_PRIORITIES = {("", "v1"): 1, ("autoscaling", "v2"): 30}


def name_of(group: str, version: str) -> str:
    """``v1.apps``; the core group's is ``v1.``."""
    return f"{version}.{group}"


def local(group: str, version: str, now: str) -> Obj:
    """The APIService of a group version that the server answers itself."""
    builtin = group in PRIORITIES
    priority = VERSION_PRIORITIES.get((group, version), 15) if builtin else 100
    spec: Obj = {"version": version, "groupPriorityMinimum": PRIORITIES.get(group, 1000), "versionPriority": priority}
    if group:
        spec = {"group": group, **spec}
    message = "Local APIServices are always available"
    return {
        "metadata": {"name": name_of(group, version), "labels": {AUTOMANAGED: "onstart" if builtin else "true"}},
        "spec": spec,
        "status": {"conditions": [condition("True", "Local", message, now)]},
    }


def metrics_service() -> Obj:
    """The APIService that a metrics server brings."""
    spec = {
        "group": METRICS_GROUP,
        "version": METRICS_VERSION,
        "service": {"name": "metrics-server", "namespace": "kube-system", "port": 443},
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
    }
    labels = {"k8s-app": "metrics-server"}
    return {"metadata": {"name": name_of(METRICS_GROUP, METRICS_VERSION), "labels": labels}, "spec": spec}


def condition(status: str, reason: str, message: str, now: str) -> Obj:
    """``Available`` since ``now``."""
    return {"lastTransitionTime": now, "message": message, "reason": reason, "status": status, "type": "Available"}


def judged(store: Store, service: Obj, now: str) -> Obj:
    """The condition of an APIService behind a Service: its Service, then its endpoints."""
    name, namespace, port = service.get("name", ""), service.get("namespace", ""), service.get("port", 443)
    where = f'service/{name} in "{namespace}"'
    found = store.get(Key("services", namespace, name))
    if found is None:
        return condition("False", "ServiceNotFound", f"{where} is not present", now)
    ports = [p for p in found["spec"].get("ports") or () if p["port"] == port]
    if not ports:
        return condition("False", "ServicePortError", f"{where} is not listening on port {port}", now)
    slices = slices_of(store, namespace, name)
    if not slices:
        return condition("False", "EndpointsNotFound", f"cannot find endpointslices for {where}", now)
    if not any(is_ready(e) for item in slices for e in item.get("endpoints") or ()):
        port_name = ports[0].get("name", "")
        message = f"endpoints for {where} have no addresses with port name \"{port_name}\""
        return condition("False", "MissingEndpoints", message, now)
    return condition("True", "Passed", "all checks passed", now)


def state(store: Store, group: str, version: str) -> str:
    """``"local"``, ``"up"`` or ``"down"`` of a group version; ``""`` for metrics without a registration."""
    found = store.get(Key(RESOURCE, "", name_of(group, version)))
    if found is None or found["spec"].get("service") is None:
        return "" if group == METRICS_GROUP else "local"
    conditions = (found.get("status") or {}).get("conditions") or ()
    held = any(c["type"] == "Available" and c["status"] == "True" for c in conditions)
    return "up" if held else "down"
