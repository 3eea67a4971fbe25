"""Pods and pod templates."""

from __future__ import annotations

import difflib
import json
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.affinity import check_affinity, check_spread
from aiopslab.sim.core.validate.containers import check_containers
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_annotations, check_labels
from aiopslab.sim.core.validate.volumes import check_volumes

Obj = dict[str, Any]
RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)
CONTAINER_LISTS = ("containers", "initContainers")


def check_pod(errors: Errors, pod: Obj, old: Obj | None) -> None:
    """A new or changed Pod."""
    spec = pod.get("spec", {})
    if old is None:
        check_pod_spec(errors, spec, "spec")
    else:
        _check_pod_update(errors, pod, old)


def check_template(errors: Errors, template: Obj, path: str) -> None:
    """A pod template: labels, annotations, spec."""
    check_template_meta(errors, template, path)
    check_pod_spec(errors, template.get("spec", {}), f"{path}.spec")


def check_template_meta(errors: Errors, template: Obj, path: str) -> None:
    """Labels and annotations of a pod template."""
    meta = template.get("metadata", {})
    check_labels(errors, meta.get("labels"), f"{path}.labels")
    check_annotations(errors, meta.get("annotations"), f"{path}.annotations")


def check_pod_spec(errors: Errors, spec: Obj, path: str) -> None:
    """A pod spec."""
    volumes = check_volumes(errors, spec.get("volumes") or [], f"{path}.volumes")
    check_containers(errors, spec, volumes, path)
    policy = spec.get("restartPolicy", "")
    if not policy:
        errors.required(f"{path}.restartPolicy")
    elif policy not in RESTART_POLICIES:
        errors.not_supported(f"{path}.restartPolicy", policy, RESTART_POLICIES)
    dns = spec.get("dnsPolicy", "")
    if not dns:
        errors.required(f"{path}.dnsPolicy")
    elif dns not in DNS_POLICIES:
        errors.not_supported(f"{path}.dnsPolicy", dns, DNS_POLICIES)
    check_labels(errors, spec.get("nodeSelector"), f"{path}.nodeSelector")
    _check_security(errors, spec, path)
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            errors.required(f"{path}.imagePullSecrets[{index}].name")
    check_affinity(errors, spec.get("affinity") or {}, f"{path}.affinity")
    if dns == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        errors.required(f"{path}.dnsConfig.nameservers", detail)
    _check_gates(errors, spec, path)
    check_spread(errors, spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")
    _check_names(errors, spec, path)
    check_tolerations(errors, spec.get("tolerations") or [], f"{path}.tolerations")
    _check_aliases(errors, spec.get("hostAliases") or [], f"{path}.hostAliases")
    if spec.get("priorityClassName"):
        name = spec["priorityClassName"]
        errors.invalid_each(f"{path}.priorityClassName", name, values.dns_subdomain(name))


def _check_security(errors: Errors, spec: Obj, path: str) -> None:
    context = spec.get("securityContext") or {}
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        value = context.get(field)
        if value is not None and not 0 <= value <= values.INT32_MAX:
            errors.invalid(f"{path}.securityContext.{field}", value, "must be between 0 and 2147483647, inclusive")
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(spec.get("containers") or ()):
        for at, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort") != port.get("containerPort"):
                field = f"{path}.containers[{index}].ports[{at}].containerPort"
                errors.invalid(field, port.get("containerPort"), "must match `hostPort` when `hostNetwork` is true")


def _check_gates(errors: Errors, spec: Obj, path: str) -> None:
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        name = gate.get("conditionType", "")
        errors.invalid_each(f"{path}.readinessGates[{index}].conditionType", name, values.qualified_name(name))
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name, field = gate.get("name", ""), f"{path}.schedulingGates[{index}]"
        if not name:
            errors.required(field, "must not be empty")
        else:
            errors.invalid_each(field, name, values.qualified_name(name))
        if name in seen:
            errors.duplicate(field, name)
        seen.add(name)


def _check_names(errors: Errors, spec: Obj, path: str) -> None:
    for field in ("serviceAccountName", "nodeName"):
        if spec.get(field):
            errors.invalid_each(f"{path}.{field}", spec[field], values.dns_subdomain(spec[field]))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= values.INT32_MAX:
        detail = "must be between 1 and 2147483647, inclusive"
        errors.invalid(f"{path}.activeDeadlineSeconds", deadline, detail)
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            errors.invalid_each(f"{path}.{field}", spec[field], values.dns_label(spec[field]))


def _check_aliases(errors: Errors, aliases: list[Obj], path: str) -> None:
    for index, alias in enumerate(aliases):
        ip = alias.get("ip", "")
        errors.invalid_each(f"{path}[{index}].ip", ip, values.ip_address(ip))
        for name in alias.get("hostnames") or ():
            errors.invalid_each(f"{path}[{index}].hostnames", name, values.dns_subdomain(name))


def check_tolerations(errors: Errors, tolerations: list[Obj], path: str) -> None:
    """Tolerations of a pod."""
    for index, item in enumerate(tolerations):
        where = f"{path}[{index}]"
        key, operator, value = item.get("key", ""), item.get("operator", ""), item.get("value", "")
        if key:
            errors.invalid_each(f"{where}.key", key, values.qualified_name(key))
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.invalid(f"{where}.operator", operator, detail)
        effect = item.get("effect", "")
        if item.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.invalid(f"{where}.effect", effect, detail)
        if operator in ("", "Equal"):
            if problems := values.label_value(value):
                errors.invalid(f"{where}.operator", value, ";".join(problems))
        elif operator == "Exists":
            if value:
                errors.invalid(f"{where}.operator", value, "value must be empty when `operator` is 'Exists'")
        else:
            errors.not_supported(f"{where}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in EFFECTS:
            errors.not_supported(f"{where}.effect", effect, EFFECTS)


def _check_pod_update(errors: Errors, pod: Obj, old: Obj) -> None:
    new_spec, old_spec = pod.get("spec", {}), old.get("spec", {})
    if new_spec == old_spec:
        return
    for field in CONTAINER_LISTS:
        if len(new_spec.get(field) or ()) != len(old_spec.get(field) or ()):
            errors.forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    for field in CONTAINER_LISTS:
        for index, container in enumerate(new_spec.get(field) or ()):
            image = container.get("image", "")
            if not image:
                errors.required(f"spec.{field}[{index}].image")
            elif image.strip() != image:
                detail = "must not have leading or trailing whitespace"
                errors.invalid(f"spec.{field}[{index}].image", image, detail)
    _check_deadline_update(errors, new_spec, old_spec)
    frozen = _with_mutable_fields(new_spec, old_spec)
    if not _tolerations_grow(new_spec, old_spec):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        errors.forbidden("spec.tolerations", detail)
    if frozen != old_spec:
        detail = f"pod updates may not change fields other than {UPDATABLE}\n{_difference(frozen, old_spec)}"
        errors.forbidden("spec", detail)


def _check_deadline_update(errors: Errors, new: Obj, old: Obj) -> None:
    field = "spec.activeDeadlineSeconds"
    after, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if after is not None:
        if not 1 <= after <= values.INT32_MAX:
            errors.invalid(field, after, "must be between 1 and 2147483647, inclusive")
        elif before is not None and before < after:
            errors.invalid(field, after, "must be less than or equal to previous value")
    elif before is not None:
        errors.invalid(field, None, "must not update from a positive integer to nil value")


def _with_mutable_fields(new: Obj, old: Obj) -> Obj:
    """The new spec with everything that may change set back to its old value."""
    spec = dict(new)
    for field in CONTAINER_LISTS:
        if field in new:
            pairs = zip(new[field] or (), old.get(field) or (), strict=False)
            spec[field] = [{**after, "image": before.get("image")} for after, before in pairs]
    for field in ("activeDeadlineSeconds", "tolerations"):
        spec.pop(field, None)
        if field in old:
            spec[field] = old[field]
    grace = "terminationGracePeriodSeconds"
    if old.get(grace, 0) < 0 and new.get(grace) == 1:
        spec[grace] = old[grace]
    gates = old.get("schedulingGates") or ()
    if gates and all(gate in gates for gate in new.get("schedulingGates") or ()):
        # Gates may be lifted, and a gated pod may still be narrowed to fewer nodes.
        before, after = old.get("nodeSelector") or {}, new.get("nodeSelector") or {}
        narrowed = all(after.get(key) == value for key, value in before.items())
        for field in ("schedulingGates", "nodeSelector") if narrowed else ("schedulingGates",):
            spec.pop(field, None)
            if field in old:
                spec[field] = old[field]
    return spec


def _tolerations_grow(new: Obj, old: Obj) -> bool:
    def bare(item: Obj) -> Obj:
        return {key: value for key, value in item.items() if key != "tolerationSeconds"}

    present = [bare(item) for item in new.get("tolerations") or ()]
    return all(bare(item) in present for item in old.get("tolerations") or ())


def _difference(new: Obj, old: Obj) -> str:
    """A unified diff of two specs, as the message shows it."""
    before, after = (json.dumps(spec, indent=1, sort_keys=True).splitlines() for spec in (old, new))
    lines = list(difflib.unified_diff(before, after, lineterm="", n=2))
    return "\n".join(lines[2:]) + "\n"
