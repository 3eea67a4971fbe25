"""Service to EndpointSlice and to legacy Endpoints, and the mirroring of hand-made Endpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers.common import (
    Base,
    annotations_of,
    deleting,
    is_code,
    key_of,
    labels_of,
    namespace_is_ending,
    owner_reference,
    with_metadata,
)
from aiopslab.sim.core.endpointslices import SERVICE_LABEL, SLICES
from aiopslab.sim.core.store import Change, Key, Obj

MANAGED_LABEL = "endpointslice.kubernetes.io/managed-by"
HEADLESS_LABEL = "service.kubernetes.io/headless"
LEGACY_LABEL = "endpoints.kubernetes.io/managed-by"
SLICER = "endpointslice-controller.k8s.io"
MIRROR = "endpointslicemirroring-controller.k8s.io"
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
ENDPOINTS_PER_SLICE_MAX = 100

Port = tuple[str, str, int, str]  # name, protocol, number, appProtocol


class ServiceTracker(Base):
    """Maps changes of Services, their pods and their products to Service keys."""

    product = ""

    def keys(self, change: Change) -> Iterable[Key]:
        """Services themselves, Services that select a changed pod, and owners of a touched product."""
        key = change.key
        if key.resource == "services":
            return (key,)
        if key.resource == "pods":
            return self._selecting(change)
        if key.resource == self.product:
            return self._of_product(change)
        return ()

    def _of_product(self, change: Change) -> Iterable[Key]:
        raise NotImplementedError

    def _selecting(self, change: Change) -> Iterable[Key]:
        old = change.old
        if old is not None and change.type == "MODIFIED" and _footprint(old) == _footprint(change.obj):
            return ()
        found: dict[Key, None] = {}
        states = [labels_of(obj) for obj in (old, change.obj) if obj is not None]
        for service in self.index.listed("services", change.key.namespace):
            selector = service["spec"].get("selector")
            if selector and any(selector.items() <= labels.items() for labels in states):
                found[key_of("services", service)] = None
        return found

    def backends(self, service: Obj) -> list[Obj]:
        """Pods behind a Service that have an address and have not ended, by name."""
        selector = {"matchLabels": service["spec"].get("selector") or {}}
        pods = self.index.selected(service["metadata"]["namespace"], selector)
        return [pod for pod in pods if _address(pod) and not podlib.finished(pod)]


class EndpointSlices(ServiceTracker):
    """The endpointslice-controller."""

    name = "endpoint-slice-controller"
    product = SLICES

    def _of_product(self, change: Change) -> Iterable[Key]:
        service = labels_of(change.obj).get(SERVICE_LABEL)
        if service and labels_of(change.obj).get(MANAGED_LABEL) == SLICER:
            return (Key("services", change.key.namespace, service),)
        return ()

    def reconcile(self, key: Key) -> None:
        """Make the slices of one Service what its pods are now."""
        service = self.store.get(key)
        current = self._slices(key)
        if service is None or deleting(service) or not service["spec"].get("selector"):
            if service is None or not service["spec"].get("selector"):
                for one in current:
                    self.delete(key_of(SLICES, one))
            return
        if service["spec"].get("type") == "ExternalName":
            return
        wanted = self._wanted(service)
        self._write(service, current, wanted)

    def _slices(self, service: Key) -> list[Obj]:
        return [
            one
            for one in self.index.listed(SLICES, service.namespace)
            if labels_of(one).get(SERVICE_LABEL) == service.name
            and labels_of(one).get(MANAGED_LABEL) == SLICER
        ]

    def _wanted(self, service: Obj) -> list[tuple[list[Obj] | None, list[Obj] | None]]:
        """(ports, endpoints) of each slice; one empty slice when there is no endpoint."""
        groups: dict[tuple[Port, ...], list[Obj]] = {}
        for pod in self.backends(service):
            ports = tuple(resolve_ports(service, pod))
            groups.setdefault(ports, []).append(_endpoint(service, pod))
        slices: list[tuple[list[Obj] | None, list[Obj] | None]] = []
        for group, endpoints in sorted(groups.items()):
            listed = [_slice_port(port) for port in group] or None
            for start in range(0, len(endpoints), ENDPOINTS_PER_SLICE_MAX):
                slices.append((listed, endpoints[start : start + ENDPOINTS_PER_SLICE_MAX]))
        return slices or [(None, None)]

    def _write(
        self, service: Obj, current: list[Obj], wanted: list[tuple[list[Obj] | None, list[Obj] | None]]
    ) -> None:
        """Reuse slices with the same ports first, then any, create what is missing, delete what is left."""
        left = list(current)
        unmatched = []
        for ports, endpoints in wanted:
            same = next((one for one in left if one.get("ports") == ports), None)
            if same is None:
                unmatched.append((ports, endpoints))
                continue
            left.remove(same)
            self._rewrite(service, same, ports, endpoints)
        for ports, endpoints in unmatched:
            if left:
                self._rewrite(service, left.pop(0), ports, endpoints)
            else:
                self._create(service, ports, endpoints)
        for one in left:
            self.delete(key_of(SLICES, one))

    def _rewrite(self, service: Obj, old: Obj, ports: list[Obj] | None, endpoints: list[Obj] | None) -> None:
        labels = _slice_labels(service)
        if (old.get("ports"), old.get("endpoints"), labels_of(old)) == (ports, endpoints, labels):
            return
        annotations = {**annotations_of(old), TRIGGER: self.kernel.timestamp()}
        new = with_metadata(old, labels=labels, annotations=annotations)
        self.update(key_of(SLICES, old), {**new, "ports": ports, "endpoints": endpoints})

    def _create(self, service: Obj, ports: list[Obj] | None, endpoints: list[Obj] | None) -> None:
        meta = service["metadata"]
        name = self.unused_name(SLICES, meta["namespace"], meta["name"], meta["uid"])
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": name,
                "generateName": f"{meta['name']}-",
                "namespace": meta["namespace"],
                "labels": _slice_labels(service),
                "annotations": {TRIGGER: self.kernel.timestamp()},
                "ownerReferences": [owner_reference(service)],
                "generation": 1,
            },
            "addressType": _family(service),
            "endpoints": endpoints,
            "ports": ports,
        }
        key = Key(SLICES, meta["namespace"], name)
        namespace = self.store.get(Key("namespaces", "", meta["namespace"]))
        if namespace is not None and not deleting(namespace):
            self.update(key, body)


class LegacyEndpoints(ServiceTracker):
    """The endpoint-controller: one Endpoints object per Service with a selector."""

    name = "endpoint-controller"
    product = "endpoints"

    def _of_product(self, change: Change) -> Iterable[Key]:
        return (Key("services", change.key.namespace, change.key.name),)

    def reconcile(self, key: Key) -> None:
        """Make the Endpoints object of one Service what its pods are now."""
        service = self.store.get(key)
        target = Key("endpoints", key.namespace, key.name)
        current = self.store.get(target)
        if service is None:
            if current is not None and labels_of(current).get(LEGACY_LABEL):
                self.delete(target)
            return
        if deleting(service) or not service["spec"].get("selector"):
            return
        subsets = self._subsets(service)
        labels = {**labels_of(service), LEGACY_LABEL: "endpoint-controller"}
        if _headless(service):
            labels[HEADLESS_LABEL] = ""
        if current is None:
            self._create(target, labels, subsets)
        elif (current.get("subsets") or []) != subsets or labels_of(current) != labels:
            annotations = {**annotations_of(current), TRIGGER: self.kernel.timestamp()}
            new = with_metadata(current, labels=labels, annotations=annotations)
            new.pop("subsets", None)
            self.update(target, {**new, "subsets": subsets} if subsets else new)

    def _create(self, key: Key, labels: dict[str, str], subsets: list[Obj]) -> None:
        body: Obj = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "labels": labels,
                "annotations": {TRIGGER: self.kernel.timestamp()},
            },
        }
        if subsets:
            body["subsets"] = subsets
        namespace = self.store.get(Key("namespaces", "", key.namespace))
        if namespace is not None and not deleting(namespace):
            self.update(key, body)

    def _subsets(self, service: Obj) -> list[Obj]:
        publish = bool(service["spec"].get("publishNotReadyAddresses"))
        groups: dict[tuple[Port, ...], dict[str, list[Obj]]] = {}
        for pod in self.backends(service):
            if deleting(pod) and not publish:
                continue
            ports = tuple(resolve_ports(service, pod))
            if not ports and service["spec"].get("ports"):
                continue
            address: Obj = {
                "ip": _address(pod),
                "nodeName": pod["spec"].get("nodeName"),
                "targetRef": _target(pod),
            }
            if hostname := _hostname(service, pod):
                address["hostname"] = hostname
            where = "addresses" if publish or podlib.ready(pod) else "notReadyAddresses"
            groups.setdefault(ports, {}).setdefault(where, []).append(address)
        subsets = []
        for ports, found in sorted(groups.items(), key=lambda item: item[0]):
            subset: Obj = {
                where: sorted(found[where], key=lambda entry: entry["ip"])
                for where in ("addresses", "notReadyAddresses")
                if found.get(where)
            }
            if ports:
                subset["ports"] = [_legacy_port(port) for port in ports]
            subsets.append(subset)
        return subsets


class EndpointMirroring(Base):
    """Copies Endpoints of Services without selector into slices."""

    name = "endpoint-slice-mirroring-controller"

    def keys(self, change: Change) -> Iterable[Key]:
        """Endpoints and Services of the same name."""
        if change.key.resource in ("endpoints", "services"):
            return (Key("endpoints", change.key.namespace, change.key.name),)
        return ()

    def reconcile(self, key: Key) -> None:
        """One slice per subset, or none when the Service selects pods itself."""
        endpoints = self.store.get(key)
        service = self.store.get(Key("services", key.namespace, key.name))
        current = [
            one
            for one in self.index.listed(SLICES, key.namespace)
            if labels_of(one).get(SERVICE_LABEL) == key.name and labels_of(one).get(MANAGED_LABEL) == MIRROR
        ]
        wanted: list[Obj] = []
        if endpoints is not None and service is not None and not service["spec"].get("selector"):
            wanted = endpoints.get("subsets") or []
        for one in current[len(wanted) :]:
            self.delete(key_of(SLICES, one))
        for position, subset in enumerate(wanted):
            self._mirror(endpoints or {}, subset, current[position] if position < len(current) else None)

    def _mirror(self, endpoints: Obj, subset: Obj, old: Obj | None) -> None:
        meta = endpoints["metadata"]
        body = {"endpoints": _mirrored(subset), "ports": _mirrored_ports(subset)}
        if old is not None:
            self.update(key_of(SLICES, old), {**old, **body})
            return
        labels = {**labels_of(endpoints), SERVICE_LABEL: meta["name"], MANAGED_LABEL: MIRROR}
        new = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": self.unused_name(SLICES, meta["namespace"], meta["name"], meta["uid"]),
                "generateName": f"{meta['name']}-",
                "namespace": meta["namespace"],
                "labels": labels,
                "ownerReferences": [owner_reference(endpoints)],
            },
            "addressType": "IPv4",
            **body,
        }
        try:
            self.api.create(SLICES, meta["namespace"], new, self.options)
        except ApiError as error:
            if not namespace_is_ending(error) and not is_code(error, "AlreadyExists"):
                raise


def resolve_ports(service: Obj, pod: Obj) -> list[Port]:
    """The Service's ports as numbers on this pod; a named target that the pod lacks is left out."""
    found = []
    for port in service["spec"].get("ports") or ():
        protocol = port.get("protocol", "TCP")
        target = port.get("targetPort", port["port"])
        number: int | None = target if isinstance(target, int) else container_port(pod, target, protocol)
        if number is not None:
            found.append(
                (port.get("name", ""), protocol, number or port["port"], port.get("appProtocol", ""))
            )
    return found


def container_port(pod: Obj, name: str, protocol: str = "TCP") -> int | None:
    """The number of a named container port, None when no container declares it."""
    sidecars = [c for c in pod["spec"].get("initContainers") or () if c.get("restartPolicy") == "Always"]
    for container in [*pod["spec"]["containers"], *sidecars]:
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                return port["containerPort"]
    return None


def _endpoint(service: Obj, pod: Obj) -> Obj:
    serving, ending = podlib.ready(pod), deleting(pod)
    ready = (serving and not ending) or bool(service["spec"].get("publishNotReadyAddresses"))
    entry: Obj = {
        "addresses": [_address(pod)],
        "conditions": {"ready": ready, "serving": serving, "terminating": ending},
        "nodeName": pod["spec"].get("nodeName"),
        "targetRef": _target(pod),
    }
    if hostname := _hostname(service, pod):
        entry["hostname"] = hostname
    return entry


def _target(pod: Obj) -> Obj:
    meta = pod["metadata"]
    return {"kind": "Pod", "name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}


def _hostname(service: Obj, pod: Obj) -> str:
    spec = pod["spec"]
    named = spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]
    return spec["hostname"] if named else ""


def _address(pod: Obj) -> str:
    return (pod.get("status") or {}).get("podIP", "")


def _headless(service: Obj) -> bool:
    return service["spec"].get("clusterIP") == "None"


def _family(service: Obj) -> str:
    families = service["spec"].get("ipFamilies") or ["IPv4"]
    return families[0]


def _slice_labels(service: Obj) -> dict[str, str]:
    labels = {**labels_of(service), SERVICE_LABEL: service["metadata"]["name"], MANAGED_LABEL: SLICER}
    if _headless(service):
        labels[HEADLESS_LABEL] = ""
    return labels


def _slice_port(port: Port) -> Obj:
    name, protocol, number, app_protocol = port
    entry: dict[str, Any] = {"name": name, "protocol": protocol, "port": number}
    return {**entry, "appProtocol": app_protocol} if app_protocol else entry


def _legacy_port(port: Port) -> Obj:
    name, protocol, number, app_protocol = port
    entry = {"name": name, "port": number, "protocol": protocol, "appProtocol": app_protocol}
    return {field: value for field, value in entry.items() if value}


def _mirrored(subset: Obj) -> list[Obj]:
    endpoints = []
    for where, ready in (("addresses", True), ("notReadyAddresses", False)):
        for address in subset.get(where) or ():
            entry: Obj = {"addresses": [address["ip"]], "conditions": {"ready": ready}}
            for field in ("hostname", "nodeName", "targetRef"):
                if address.get(field):
                    entry[field] = address[field]
            endpoints.append(entry)
    return endpoints


def _mirrored_ports(subset: Obj) -> list[Obj]:
    return [
        {"name": port.get("name", ""), "port": port["port"], "protocol": port.get("protocol", "TCP")}
        for port in subset.get("ports") or ()
    ]


def _footprint(pod: Obj) -> tuple[object, ...]:
    """What of a pod can change its endpoints."""
    spec = pod["spec"]
    return (
        labels_of(pod),
        _address(pod),
        podlib.ready(pod),
        podlib.finished(pod),
        deleting(pod),
        spec.get("nodeName"),
    )
