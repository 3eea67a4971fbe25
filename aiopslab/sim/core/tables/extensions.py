"""Tables of kinds that extend the API server, and of the smaller groups."""

from __future__ import annotations

from aiopslab.sim.core.tables.columns import Cells, Layout, Obj, layout
from aiopslab.sim.core.tables.text import age

_ADMISSION, _NETWORKING, _STORAGE = "admissionregistration.k8s.io", "networking.k8s.io", "storage.k8s.io"
UNSET = "<unset>"


def _name(obj: Obj) -> str:
    return str(obj["metadata"].get("name", ""))


def _api_service(obj: Obj, now: float) -> Cells:
    service = obj["spec"].get("service")
    where = f"{service['namespace']}/{service['name']}" if service else "Local"
    available = "Unknown"
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Available":
            held = condition["status"] == "True"
            available = "True" if held else f"{condition['status']} ({condition['reason']})"
    return [_name(obj), where, available, age(obj, now)]


def _policy(rules: str) -> Layout:
    def cells(obj: Obj, now: float) -> Cells:
        spec = obj.get("spec") or {}
        kind = spec.get("paramKind")
        shown = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET
        return [_name(obj), len(spec.get(rules.lower()) or ()), shown, age(obj, now)]

    return layout(f"{rules}:integer, ParamKind, Age", cells)


def _policy_binding(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec") or {}
    reference = spec.get("paramRef") or {}
    parts = (reference.get("namespace"), reference.get("name"))
    shown = "/".join(filter(None, parts)) if reference.get("name") else UNSET
    return [_name(obj), spec.get("policyName", ""), shown, age(obj, now)]


def _runtime_class(obj: Obj, now: float) -> Cells:
    return [_name(obj), obj.get("handler", ""), age(obj, now)]


def _ip_address(obj: Obj, now: float) -> Cells:
    parent = obj["spec"].get("parentRef") or {}
    resource = ".".join(filter(None, (parent.get("resource"), parent.get("group"))))
    shown = "/".join(filter(None, (resource, parent.get("namespace"), parent.get("name"))))
    return [_name(obj), shown, age(obj, now)]


def _service_cidr(obj: Obj, now: float) -> Cells:
    return [_name(obj), ",".join(obj["spec"].get("cidrs") or ()), age(obj, now)]


def _attributes_class(obj: Obj, now: float) -> Cells:
    return [_name(obj), obj.get("driverName", ""), age(obj, now)]


def _csi_driver(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec") or {}
    tokens = ",".join(str(request.get("audience", "")) for request in spec.get("tokenRequests") or ()) or UNSET
    modes = ",".join(spec.get("volumeLifecycleModes") or ()) or "<none>"
    return [
        _name(obj),
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        tokens,
        spec.get("requiresRepublish", False),
        modes,
        age(obj, now),
    ]


_BINDING = layout("PolicyName, ParamRef, Age", _policy_binding)
LAYOUTS: dict[tuple[str, str], Layout] = {
    ("apiregistration.k8s.io", "APIService"): layout("Service, Available, Age", _api_service),
    (_ADMISSION, "ValidatingAdmissionPolicy"): _policy("Validations"),
    (_ADMISSION, "MutatingAdmissionPolicy"): _policy("Mutations"),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): _BINDING,
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): _BINDING,
    ("node.k8s.io", "RuntimeClass"): layout("Handler, Age", _runtime_class),
    (_NETWORKING, "IPAddress"): layout("ParentRef, Age", _ip_address),
    (_NETWORKING, "ServiceCIDR"): layout("CIDRs, Age", _service_cidr),
    (_STORAGE, "VolumeAttributesClass"): layout("DriverName, Age", _attributes_class),
    (_STORAGE, "CSIDriver"): layout(
        "AttachRequired:boolean, PodInfoOnMount:boolean, StorageCapacity:boolean, TokenRequests, "
        "RequiresRepublish:boolean, Modes, Age",
        _csi_driver,
    ),
}
