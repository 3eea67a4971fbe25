"""Pods and pod templates."""

from __future__ import annotations

import re
from typing import Any

from aiopslab.sim.core.quantity import text
from aiopslab.sim.core.totals import container_total
from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.affinity import check_affinity, check_spread
from aiopslab.sim.core.validate.containers import PodParts, check_containers, check_padding
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_annotations, check_labels
from aiopslab.sim.core.validate.resources import POD_RESOURCES, check_pod_name, check_resources
from aiopslab.sim.core.validate.security import check_host_users, check_pod_security
from aiopslab.sim.core.validate.volumes import check_volumes

Obj = dict[str, Any]
RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
PREEMPTION = ("PreemptLowerPriority", "Never")
SYSTEMS = ("linux", "windows")
CLAIM_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
CONTAINER_LISTS = ("containers", "initContainers")
NAMESERVERS_MAX, SEARCHES_MAX, SEARCH_CHARS_MAX = 3, 32, 2048
MIRROR, DELETION_COST = "kubernetes.io/config.mirror", "controller.kubernetes.io/pod-deletion-cost"


def check_pod(errors: Errors, pod: Obj) -> None:
    """A Pod, whether new or changed."""
    spec, meta = pod.get("spec", {}), pod["metadata"]
    _check_annotations(errors, meta.get("annotations") or {}, spec, "metadata.annotations")
    check_pod_spec(errors, spec, "spec", pod=meta.get("name", ""))
    for field in CONTAINER_LISTS:
        for index, container in enumerate(spec.get(field) or ()):
            check_padding(errors, container, f"spec.{field}[{index}]")


def check_template(errors: Errors, template: Obj, path: str) -> None:
    """A pod template: labels, annotations, spec."""
    check_template_meta(errors, template, path)
    spec = template.get("spec", {})
    _check_annotations(errors, template.get("metadata", {}).get("annotations") or {}, spec, f"{path}.annotations")
    check_pod_spec(errors, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        errors.forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def check_template_meta(errors: Errors, template: Obj, path: str) -> None:
    """Labels and annotations of a pod template."""
    meta = template.get("metadata", {})
    check_labels(errors, meta.get("labels"), f"{path}.labels")
    check_annotations(errors, meta.get("annotations"), f"{path}.annotations")


def _check_annotations(errors: Errors, annotations: Obj, spec: Obj, path: str) -> None:
    cost = annotations.get(DELETION_COST)
    if MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.invalid(f"{path}[{MIRROR}]", annotations[MIRROR], detail)
    if cost is not None and not (re.fullmatch(r"0|-?[1-9]\d*", cost) and abs(int(cost)) <= values.INT32_MAX):
        errors.invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer")


def check_pod_spec(errors: Errors, spec: Obj, path: str, pod: str | None = None) -> None:
    """A pod spec. ``pod`` is the name of the pod whose spec it is, None in a template."""
    claims = spec.get("resourceClaims") or []
    parts = PodParts(
        volumes=check_volumes(errors, spec.get("volumes") or [], f"{path}.volumes", pod),
        claims=tuple(claim["name"] for claim in claims if claim.get("name")),
        restart_policy=spec.get("restartPolicy", ""),
        grace_s=spec.get("terminationGracePeriodSeconds"),
        host_users=spec.get("hostUsers") is not False,
    )
    _check_claims(errors, claims, f"{path}.resourceClaims")
    check_containers(errors, spec, parts, path)
    if spec.get("resources"):
        _check_pod_resources(errors, spec, f"{path}.resources")
    _check_host_network(errors, spec, path, in_pod=pod is not None)
    policy, dns = spec.get("restartPolicy", ""), spec.get("dnsPolicy", "")
    for field, value, known in (("restartPolicy", policy, RESTART_POLICIES), ("dnsPolicy", dns, DNS_POLICIES)):
        if not value:
            errors.required(f"{path}.{field}")
        elif value not in known:
            errors.not_supported(f"{path}.{field}", value, known)
    check_labels(errors, spec.get("nodeSelector"), f"{path}.nodeSelector")
    check_pod_security(errors, spec, path)
    check_affinity(errors, spec.get("affinity") or {}, f"{path}.affinity")
    _check_dns(errors, spec.get("dnsConfig"), dns, f"{path}.dnsConfig")
    _check_gates(errors, spec, path)
    check_spread(errors, spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")
    check_host_users(errors, spec, path)
    _check_names(errors, spec, path)
    check_tolerations(errors, spec.get("tolerations") or [], f"{path}.tolerations")
    _check_aliases(errors, spec.get("hostAliases") or [], f"{path}.hostAliases")
    for field in ("priorityClassName", "runtimeClassName"):
        if spec.get(field) or (field == "runtimeClassName" and field in spec):
            errors.invalid_each(f"{path}.{field}", spec[field], values.dns_subdomain(spec[field]))
    preemption = spec.get("preemptionPolicy")
    if preemption is not None and preemption not in PREEMPTION:
        errors.not_supported(f"{path}.preemptionPolicy", preemption, PREEMPTION)
    if spec.get("overhead"):
        check_resources(errors, {"limits": spec["overhead"]}, f"{path}.overhead")
    system = (spec.get("os") or {}).get("name")
    if system is not None and system not in SYSTEMS:
        errors.not_supported(f"{path}.os", system, SYSTEMS)


def _check_claims(errors: Errors, claims: list[Obj], path: str) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            errors.required(f"{where}.name")
        elif name in seen:
            errors.duplicate(f"{where}.name", name)
        else:
            errors.invalid_each(f"{where}.name", name, values.dns_label(name))
        seen.add(name)
        given = [field for field in CLAIM_SOURCES if claim.get(field) is not None]
        if len(given) != 1:
            one = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            none = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            shown = {field[:1].upper() + field[1:]: claim.get(field) for field in ("name", *CLAIM_SOURCES)}
            errors.invalid(where, shown, one if given else none)
        for field in given:
            errors.invalid_each(f"{where}.{field}", claim[field], values.dns_subdomain(claim[field]))


def _check_pod_resources(errors: Errors, spec: Obj, path: str) -> None:
    """Resources of the pod as a whole cover those of its containers."""
    resources = spec["resources"]
    if resources.get("claims"):
        errors.forbidden(f"{path}.claims", "claims cannot be set for Resources at pod-level")
    check_resources(errors, resources, path, check_pod_name)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, (asked, binary) in sorted(container_total(spec, "requests").items()):
        if name in POD_RESOURCES and asked > values.amount(requests.get(name, "0")):
            detail = f"must be greater than or equal to aggregate container requests of {text(asked, binary)}"
            errors.invalid(f"{path}.requests[{name}]", values.shown_amount(requests.get(name, "0")), detail)
    for index, container in enumerate(spec.get("containers") or ()):
        for name, value in sorted(((container.get("resources") or {}).get("limits") or {}).items()):
            if name in limits and values.amount(value) > values.amount(limits[name]):
                detail = f"must be less than or equal to pod limits of {values.shown_amount(limits[name])}"
                field = f"{path}.containers[{index}][{name}].limits"
                errors.invalid(field, values.shown_amount(value), detail)


def _check_host_network(errors: Errors, spec: Obj, path: str, *, in_pod: bool) -> None:
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(spec.get("containers") or ()):
        for at, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort", 0)
            if (in_pod or host) and host != port.get("containerPort", 0):
                field = f"{path}.containers[{index}].ports[{at}].hostPort"
                errors.invalid(field, host, "must match `containerPort` when `hostNetwork` is true")


def _check_dns(errors: Errors, config: Obj | None, policy: str, path: str) -> None:
    if policy == "None" and config is None:
        errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        return
    servers, searches = (config or {}).get("nameservers") or [], (config or {}).get("searches") or []
    if policy == "None" and not servers:
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        errors.required(f"{path}.nameservers", detail)
        return
    if len(servers) > NAMESERVERS_MAX:
        errors.invalid(f"{path}.nameservers", servers, f"must not have more than {NAMESERVERS_MAX} nameservers")
    for index, server in enumerate(servers):
        errors.invalid_each(f"{path}.nameservers[{index}]", server, values.ip_address(server))
    if len(searches) > SEARCHES_MAX:
        errors.invalid(f"{path}.searches", searches, f"must not have more than {SEARCHES_MAX} search paths")
    if len(" ".join(searches)) > SEARCH_CHARS_MAX:
        detail = f"must not have more than {SEARCH_CHARS_MAX} characters (including spaces) in the search list"
        errors.invalid(f"{path}.searches", searches, detail)
    for index, search in enumerate(searches):
        if search != ".":
            name = search.removesuffix(".")
            errors.invalid_each(f"{path}.searches[{index}]", name, values.underscored_subdomain(name))
    for index, option in enumerate((config or {}).get("options") or ()):
        if not option.get("name"):
            errors.required(f"{path}.options[{index}]", "must not be empty")


def _check_gates(errors: Errors, spec: Obj, path: str) -> None:
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        name = gate.get("conditionType", "")
        errors.invalid_each(f"{path}.readinessGates[{index}].conditionType", name, values.qualified_name(name))
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name, field = gate.get("name", ""), f"{path}.schedulingGates[{index}]"
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
        for at, name in enumerate(alias.get("hostnames") or ()):
            errors.invalid_each(f"{path}[{index}].hostnames[{at}]", name, values.dns_subdomain(name))


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
