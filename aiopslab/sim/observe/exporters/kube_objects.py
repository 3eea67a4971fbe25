"""kube-state-metrics families of everything else: nodes, services, endpoints, storage, namespaces."""

from __future__ import annotations

from collections.abc import Iterator

from aiopslab.sim.core.quantity import parse as parse_quantity
from aiopslab.sim.core.store import Obj
from aiopslab.sim.observe.exporters.kube_pods import Row, conditions, resource_rows, timed, truth
from aiopslab.sim.observe.exporters.page import Pairs

_ROLE = "node-role.kubernetes.io/"


def node_rows(obj: Obj) -> Iterator[Row]:
    """``kube_node_*``."""
    meta, spec, status = obj["metadata"], obj.get("spec", {}), obj.get("status", {})
    info = status.get("nodeInfo") or {}
    addresses = {found["type"]: found["address"] for found in status.get("addresses") or ()}
    yield "kube_node_info", (
        ("kernel_version", info.get("kernelVersion", "")), ("os_image", info.get("osImage", "")),
        ("container_runtime_version", info.get("containerRuntimeVersion", "")),
        ("kubelet_version", info.get("kubeletVersion", "")), ("pod_cidr", spec.get("podCIDR", "")),
        ("provider_id", spec.get("providerID", "")), ("system_uuid", info.get("systemUUID", "")),
        ("internal_ip", addresses.get("InternalIP", "")),
    ), 1.0  # fmt: skip
    yield from timed("kube_node_created", meta.get("creationTimestamp"))
    yield "kube_node_spec_unschedulable", (), truth(spec.get("unschedulable"))
    for taint in spec.get("taints") or ():
        labels = (("key", taint["key"]), ("value", taint.get("value", "")), ("effect", taint["effect"]))
        yield "kube_node_spec_taint", labels, 1.0
    for label in sorted(meta.get("labels") or {}):
        if label.startswith(_ROLE):
            yield "kube_node_role", (("role", label.removeprefix(_ROLE)),), 1.0
    for kind, found in sorted(conditions(obj).items()):
        for option in ("true", "false", "unknown"):
            held = truth(found["status"].lower() == option)
            yield "kube_node_status_condition", (("condition", kind), ("status", option)), held
    yield from resource_rows("kube_node_status_capacity", status.get("capacity"))
    yield from resource_rows("kube_node_status_allocatable", status.get("allocatable"))


def namespace_rows(obj: Obj) -> Iterator[Row]:
    """``kube_namespace_*``."""
    phase = obj.get("status", {}).get("phase", "Active")
    for option in ("Active", "Terminating"):
        yield "kube_namespace_status_phase", (("phase", option),), truth(phase == option)
    yield from timed("kube_namespace_created", obj["metadata"].get("creationTimestamp"))


def service_rows(obj: Obj) -> Iterator[Row]:
    """``kube_service_*``."""
    spec = obj.get("spec", {})
    yield "kube_service_info", (
        ("cluster_ip", spec.get("clusterIP", "")), ("external_name", spec.get("externalName", "")),
        ("load_balancer_ip", spec.get("loadBalancerIP", "")),
    ), 1.0  # fmt: skip
    yield "kube_service_spec_type", (("type", spec.get("type", "ClusterIP")),), 1.0
    yield from timed("kube_service_created", obj["metadata"].get("creationTimestamp"))


def endpoints_rows(obj: Obj) -> Iterator[Row]:
    """``kube_endpoint_*``."""
    yield "kube_endpoint_info", (), 1.0
    yield from timed("kube_endpoint_created", obj["metadata"].get("creationTimestamp"))
    for subset in obj.get("subsets") or ():
        for field, ready in (("addresses", "true"), ("notReadyAddresses", "false")):
            for address in subset.get(field) or ():
                for port in subset.get("ports") or ():
                    labels = (
                        ("ip", address["ip"]), ("port_name", port.get("name", "")), ("ready", ready),
                        ("port_protocol", port.get("protocol", "TCP")), ("port_number", str(port["port"])),
                    )  # fmt: skip
                    yield "kube_endpoint_address", labels, 1.0


def endpointslice_rows(obj: Obj) -> Iterator[Row]:
    """``kube_endpointslice_*``."""
    yield "kube_endpointslice_info", (("addresstype", obj.get("addressType", "")),), 1.0
    yield from timed("kube_endpointslice_created", obj["metadata"].get("creationTimestamp"))
    for endpoint in obj.get("endpoints") or ():
        state = endpoint.get("conditions") or {}
        target = endpoint.get("targetRef") or {}
        labels: Pairs = (
            *((name, str(state[name]).lower()) for name in ("ready", "serving", "terminating") if name in state),
            ("hostname", endpoint.get("hostname", "")), ("endpoint_nodename", endpoint.get("nodeName", "")),
            ("targetref_kind", target.get("kind", "")), ("targetref_name", target.get("name", "")),
            ("targetref_namespace", target.get("namespace", "")),
        )  # fmt: skip
        for address in endpoint.get("addresses") or ():
            yield "kube_endpointslice_endpoints", (*labels, ("address", address)), 1.0
    for port in obj.get("ports") or ():
        yield "kube_endpointslice_ports", (
            ("port_name", port.get("name", "")), ("port_protocol", port.get("protocol", "")),
            ("port_number", str(port.get("port", ""))),
        ), 1.0  # fmt: skip


def configmap_rows(obj: Obj) -> Iterator[Row]:
    """``kube_configmap_*``."""
    yield "kube_configmap_info", (), 1.0
    yield from timed("kube_configmap_created", obj["metadata"].get("creationTimestamp"))


def secret_rows(obj: Obj) -> Iterator[Row]:
    """``kube_secret_*``."""
    yield "kube_secret_info", (), 1.0
    yield "kube_secret_type", (("type", obj.get("type", "")),), 1.0
    yield from timed("kube_secret_created", obj["metadata"].get("creationTimestamp"))


def claim_rows(obj: Obj) -> Iterator[Row]:
    """``kube_persistentvolumeclaim_*``."""
    spec, phase = obj.get("spec", {}), obj.get("status", {}).get("phase", "Pending")
    prefix = "kube_persistentvolumeclaim"
    yield f"{prefix}_info", (
        ("storageclass", spec.get("storageClassName", "")), ("volumename", spec.get("volumeName", "")),
        ("volumemode", spec.get("volumeMode", "")),
    ), 1.0  # fmt: skip
    for option in ("Pending", "Bound", "Lost"):
        yield f"{prefix}_status_phase", (("phase", option),), truth(phase == option)
    storage = (spec.get("resources") or {}).get("requests", {}).get("storage")
    if storage is not None:
        yield f"{prefix}_resource_requests_storage_bytes", (), float(parse_quantity(storage))


def volume_rows(obj: Obj) -> Iterator[Row]:
    """``kube_persistentvolume_*``."""
    spec, phase = obj.get("spec", {}), obj.get("status", {}).get("phase", "Pending")
    prefix = "kube_persistentvolume"
    claim = spec.get("claimRef") or {}
    yield f"{prefix}_info", (("storageclass", spec.get("storageClassName", "")),), 1.0
    bound: Pairs = (("name", claim.get("name", "")), ("claim_namespace", claim.get("namespace", "")))
    yield f"{prefix}_claim_ref", bound, 1.0
    for option in ("Pending", "Available", "Bound", "Released", "Failed"):
        yield f"{prefix}_status_phase", (("phase", option),), truth(phase == option)
    capacity = (spec.get("capacity") or {}).get("storage")
    if capacity is not None:
        yield f"{prefix}_capacity_bytes", (), float(parse_quantity(capacity))


def quota_rows(obj: Obj) -> Iterator[Row]:
    """``kube_resourcequota``: hard and used amounts."""
    status = obj.get("status", {})
    for kind in ("hard", "used"):
        for name, amount in sorted((status.get(kind) or {}).items()):
            yield "kube_resourcequota", (("resource", name), ("type", kind)), float(parse_quantity(amount))
    yield from timed("kube_resourcequota_created", obj["metadata"].get("creationTimestamp"))


def policy_rows(obj: Obj) -> Iterator[Row]:
    """``kube_networkpolicy_*``."""
    spec = obj.get("spec", {})
    yield from timed("kube_networkpolicy_created", obj["metadata"].get("creationTimestamp"))
    yield "kube_networkpolicy_spec_ingress_rules", (), float(len(spec.get("ingress") or ()))
    yield "kube_networkpolicy_spec_egress_rules", (), float(len(spec.get("egress") or ()))


def budget_rows(obj: Obj) -> Iterator[Row]:
    """``kube_poddisruptionbudget_*``."""
    status, prefix = obj.get("status", {}), "kube_poddisruptionbudget"
    yield from timed(f"{prefix}_created", obj["metadata"].get("creationTimestamp"))
    for metric, field in (
        ("current_healthy", "currentHealthy"), ("desired_healthy", "desiredHealthy"),
        ("pod_disruptions_allowed", "disruptionsAllowed"), ("expected_pods", "expectedPods"),
        ("observed_generation", "observedGeneration"),
    ):  # fmt: skip
        yield f"{prefix}_status_{metric}", (), float(status.get(field) or 0)
