"""Rows of nodes, namespaces, events, configuration, storage, policy and RBAC."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from aiopslab.sim.core import quantity
from aiopslab.sim.core.tables.columns import AGE, CREATED_AT, NAME, Cells, Column, Layout, layout
from aiopslab.sim.core.tables.text import NONE, UNKNOWN, UNSET, age, condition, human_duration, join, since

Obj = dict[str, Any]
ROLE_PREFIX = "node-role.kubernetes.io/"
MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def _signing_request(obj: Obj, now: float) -> Cells:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    given = [c.get("type") for c in status.get("conditions") or []]
    found = [word for word in ("Approved", "Denied", "Failed") if word in given] or ["Pending"]
    if status.get("certificate"):
        found.append("Issued")
    seconds = spec.get("expirationSeconds")
    duration = NONE if seconds is None else human_duration(seconds)
    return [
        _name(obj), age(obj, now), spec.get("signerName", NONE), spec.get("username", ""), duration,
        ",".join(found),
    ]  # fmt: skip


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _node(obj: Obj, now: float) -> Cells:
    status, info = obj.get("status", {}), obj.get("status", {}).get("nodeInfo", {})
    ready = condition(obj, "Ready")
    state = "Unknown" if not ready else "Ready" if ready.get("status") == "True" else "NotReady"
    if obj.get("spec", {}).get("unschedulable"):
        state += ",SchedulingDisabled"
    labels = obj["metadata"].get("labels") or {}
    roles = {key.removeprefix(ROLE_PREFIX) for key in labels if key.startswith(ROLE_PREFIX)}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    addresses = {item.get("type"): item.get("address") for item in reversed(status.get("addresses") or [])}
    return [
        _name(obj),
        state,
        join(sorted(roles - {""})),
        age(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _namespace(obj: Obj, now: float) -> Cells:
    return [_name(obj), obj.get("status", {}).get("phase", ""), age(obj, now)]


def _event(obj: Obj, now: float) -> Cells:
    """Events of both groups: events.k8s.io names some fields differently."""
    involved = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    series = obj.get("series")
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    if series:
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    kind, name = str(involved.get("kind", "")).lower(), involved.get("name")
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    host = source.get("host") or (obj.get("reportingInstance") if not source.get("component") else "")
    return [
        since(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        involved.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        str(obj.get("message") or obj.get("note") or "").strip(),
        since(first, now),
        count,
        _name(obj),
    ]


def _config_map(obj: Obj, now: float) -> Cells:
    return [_name(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now)]


def _secret(obj: Obj, now: float) -> Cells:
    return [_name(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now)]


def _aged(obj: Obj, now: float) -> Cells:
    return [_name(obj), age(obj, now)]


def _created(obj: Obj, now: float) -> Cells:
    return [_name(obj), obj["metadata"].get("creationTimestamp", "")]


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in MODES.items() if mode in (modes or ()))


def _storage_class_of(obj: Obj) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    return str(annotations.get(CLASS_ANNOTATION) or obj.get("spec", {}).get("storageClassName") or "")


def _phase(obj: Obj) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(obj.get("status", {}).get("phase", ""))


def _claim(obj: Obj, now: float) -> Cells:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    bound = bool(spec.get("volumeName"))
    return [
        _name(obj),
        _phase(obj),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "") if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        _storage_class_of(obj),
        spec.get("volumeAttributesClassName") or UNSET,
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _volume(obj: Obj, now: float) -> Cells:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    claim = spec.get("claimRef") or {}
    return [
        _name(obj),
        (spec.get("capacity") or {}).get("storage", ""),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _storage_class_of(obj),
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason", ""),
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _storage_class(obj: Obj, now: float) -> Cells:
    annotations = obj["metadata"].get("annotations") or {}
    default = any(annotations.get(key) == "true" for key in DEFAULT_CLASS)
    return [
        _name(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def _quota(obj: Obj, now: float) -> Cells:
    status = obj.get("status", {})
    hard, used = status.get("hard") or {}, status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        target = limits if name.startswith("limits.") else requests
        target.append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [_name(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def _priority_class(obj: Obj, now: float) -> Cells:
    return [
        _name(obj),
        obj.get("value", 0),
        bool(obj.get("globalDefault")),
        age(obj, now),
        obj.get("preemptionPolicy", ""),
    ]


def _binding(obj: Obj, now: float) -> Cells:
    role, subjects = obj.get("roleRef", {}), obj.get("subjects") or []

    def names(kind: str) -> str:
        return ", ".join(s.get("name", "") for s in subjects if s.get("kind") == kind)

    accounts = (s for s in subjects if s.get("kind") == "ServiceAccount")
    return [
        _name(obj),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(obj, now),
        names("User"),
        names("Group"),
        ", ".join(f"{s.get('namespace', '')}/{s.get('name', '')}" for s in accounts),
    ]


def _lease(obj: Obj, now: float) -> Cells:
    return [_name(obj), obj.get("spec", {}).get("holderIdentity", ""), age(obj, now)]


def _webhooks(obj: Obj, now: float) -> Cells:
    return [_name(obj), len(obj.get("webhooks") or ()), age(obj, now)]


def _attachment(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec", {})
    return [
        _name(obj),
        spec.get("attacher", ""),
        spec.get("source", {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        bool(obj.get("status", {}).get("attached")),
        age(obj, now),
    ]


def _csi_node(obj: Obj, now: float) -> Cells:
    return [_name(obj), len(obj.get("spec", {}).get("drivers") or ()), age(obj, now)]


def _usage(obj: Obj, now: float) -> Cells:
    """Metrics of a node or pod; a pod's containers add up."""
    parts = [c.get("usage", {}) for c in obj["containers"]] if "containers" in obj else [obj.get("usage", {})]

    def total(name: str) -> str:
        amounts = [quantity.parse(part.get(name, "0")) for part in parts]
        return quantity.text(sum(amounts, start=Fraction(0)), binary=name == "memory")

    return [_name(obj), total("cpu"), total("memory"), obj.get("window", "")]


_EVENT_COLUMNS = (
    Column("Last Seen"),
    Column("Type"),
    Column("Reason"),
    Column("Object"),
    Column("Subobject", priority=1),
    Column("Source", priority=1),
    Column("Message"),
    Column("First Seen", priority=1),
    Column("Count", priority=1),
    Column("Name", format="name", priority=1),
)
_AGED = Layout((NAME, AGE), _aged)
_CREATED = Layout((NAME, CREATED_AT), _created)
_EVENTS = Layout(_EVENT_COLUMNS, _event)
_BINDING = layout("Role, Age, Users*, Groups*, ServiceAccounts*", _binding)
_METRICS = layout("CPU, Memory, Window", _usage)
_RBAC, _STORAGE = "rbac.authorization.k8s.io", "storage.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
DEFAULT = _AGED
LAYOUTS = {
    ("", "Node"): layout(
        "Status, Roles, Age, Version, Internal-IP*, External-IP*, OS-Image*, Kernel-Version*, Container-Runtime*",
        _node,
    ),
    ("", "Namespace"): layout("Status, Age", _namespace),
    ("", "Event"): _EVENTS,
    ("events.k8s.io", "Event"): _EVENTS,
    ("", "ConfigMap"): layout("Data:integer, Age", _config_map),
    ("", "Secret"): layout("Type, Data:integer, Age", _secret),
    ("", "ServiceAccount"): _AGED,
    ("", "PersistentVolumeClaim"): layout(
        "Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, VolumeMode*", _claim
    ),
    ("", "PersistentVolume"): layout(
        "Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, Age, "
        "VolumeMode*",
        _volume,
    ),
    ("", "ResourceQuota"): layout("Request, Limit, Age", _quota),
    ("", "LimitRange"): _CREATED,
    (_STORAGE, "StorageClass"): layout(
        "Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion:boolean, Age", _storage_class
    ),
    (_STORAGE, "VolumeAttachment"): layout("Attacher, PV, Node, Attached:boolean, Age", _attachment),
    (_STORAGE, "CSINode"): layout("Drivers:integer, Age", _csi_node),
    ("scheduling.k8s.io", "PriorityClass"): layout(
        "Value:integer, Global-Default:boolean, Age, PreemptionPolicy", _priority_class
    ),
    (_RBAC, "Role"): _CREATED,
    (_RBAC, "ClusterRole"): _CREATED,
    (_RBAC, "RoleBinding"): _BINDING,
    (_RBAC, "ClusterRoleBinding"): _BINDING,
    ("certificates.k8s.io", "CertificateSigningRequest"): layout(
        "Age, SignerName, Requestor, RequestedDuration, Condition", _signing_request
    ),
    ("coordination.k8s.io", "Lease"): layout("Holder, Age", _lease),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _CREATED,
    (_ADMISSION, "MutatingWebhookConfiguration"): layout("Webhooks:integer, Age", _webhooks),
    (_ADMISSION, "ValidatingWebhookConfiguration"): layout("Webhooks:integer, Age", _webhooks),
    ("metrics.k8s.io", "NodeMetrics"): _METRICS,
    ("metrics.k8s.io", "PodMetrics"): _METRICS,
}
