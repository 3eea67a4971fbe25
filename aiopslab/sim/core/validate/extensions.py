"""RuntimeClasses and APIServices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_labels, check_same

Obj = dict[str, Any]


def _runtime_class(errors: Errors, obj: Obj, old: Obj | None) -> None:
    handler = obj.get("handler", "")
    errors.invalid_each("handler", handler, values.dns_label(handler))
    scheduling = obj.get("scheduling") or {}
    check_labels(errors, scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations") or []
    for index, toleration in enumerate(tolerations):
        if toleration in tolerations[:index]:
            errors.duplicate(f"scheduling.tolerations[{index}]", toleration)
    if old is not None:
        check_same(errors, handler, old.get("handler", ""), "handler")


def _api_service(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    group, version, service = spec.get("group", ""), spec.get("version", ""), spec.get("service")
    if name != f"{version}.{group}":
        errors.invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{version}.{group}"')
    if group:
        errors.invalid_each("spec.group", group, values.dns_subdomain(group))
    elif version != "v1":
        errors.required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    errors.invalid_each("spec.version", version, values.dns_1035_label(version))
    for field, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        value = spec.get(field, 0)
        if not 0 < value <= most:
            errors.invalid(f"spec.{field}", value, f"must be positive and less than {most}")
    bundle, insecure = spec.get("caBundle"), bool(spec.get("insecureSkipTLSVerify"))
    if service is None:
        if bundle:
            errors.invalid("spec.caBundle", f"{len(bundle)} bytes", "local APIServices may not have a caBundle")
        if insecure:
            detail = "local APIServices may not have insecureSkipTLSVerify"
            errors.invalid("spec.insecureSkipTLSVerify", insecure, detail)
        return
    for field in ("namespace", "name"):
        if not service.get(field):
            errors.required(f"spec.service.{field}")
    port = service.get("port", 443)
    if wrong := values.port_number(port):
        errors.invalid("spec.service.port", port, f"port is not valid: {', '.join(wrong)}")
    if insecure and bundle:
        errors.invalid("spec.insecureSkipTLSVerify", insecure, "may not be true if caBundle is present")


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    ("apiregistration.k8s.io", "APIService"): _api_service,
    ("node.k8s.io", "RuntimeClass"): _runtime_class,
}
