"""Ingresses and IngressClasses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_same

Obj = dict[str, Any]
GROUP = "networking.k8s.io"
PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
SCOPES = ("Cluster", "Namespace")
CONTROLLER_MAX = 250
CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_FORBIDDEN_PARTS = ("//", "/./", "/../", "%2f", "%2F")
_FORBIDDEN_ENDS = ("/..", "/.")


def _ingress(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec", {})
    rules, backend, name = spec.get("rules") or [], spec.get("defaultBackend"), spec.get("ingressClassName")
    if not rules and backend is None:
        errors.invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified")
    if backend is not None:
        _backend(errors, backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        _rule(errors, rule, f"spec.rules[{index}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        for at, host in enumerate(tls.get("hosts") or ()):
            _host(errors, host, f"spec.tls[{index}].hosts[{at}]")
        if tls.get("secretName"):
            wrong = values.dns_subdomain(tls["secretName"])
            errors.invalid_each(f"spec.tls[{index}].secretName", tls["secretName"], wrong)
    if name is not None:
        errors.invalid_each("spec.ingressClassName", name, values.dns_subdomain(name))
    annotation = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
    if old is None and None not in (annotation, name) and annotation != name:
        detail = "must match `ingressClassName` when both are specified"
        errors.invalid(f"annotations.{CLASS_ANNOTATION}", annotation, detail)


def _host(errors: Errors, host: str, path: str) -> None:
    check = values.wildcard_subdomain if "*" in host else values.dns_subdomain
    errors.invalid_each(path, host, check(host))


def _rule(errors: Errors, rule: Obj, path: str) -> None:
    host = rule.get("host", "")
    if host and not values.ip_address(host):
        errors.invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
    if host:
        _host(errors, host, f"{path}.host")
    if rule.get("http") is None:
        return
    paths = rule["http"].get("paths") or []
    if not paths:
        errors.required(f"{path}.http.paths")
    for index, item in enumerate(paths):
        _path(errors, item, f"{path}.http.paths[{index}]")


def _path(errors: Errors, item: Obj, path: str) -> None:
    kind, target = item.get("pathType"), item.get("path", "")
    if kind is None:
        errors.required(f"{path}.pathType", "pathType must be specified")
        return
    if kind not in PATH_TYPES:
        errors.not_supported(f"{path}.pathType", kind, PATH_TYPES)
    elif (kind != "ImplementationSpecific" or target) and not target.startswith("/"):
        errors.invalid(f"{path}.path", target, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        wrong = [f"must not contain '{part}'" for part in _FORBIDDEN_PARTS if part in target]
        wrong += [f"cannot end with '{end}'" for end in _FORBIDDEN_ENDS if target.endswith(end)]
        errors.invalid_each(f"{path}.path", target, wrong)
    _backend(errors, item.get("backend", {}), f"{path}.backend")


def _backend(errors: Errors, backend: Obj, path: str) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is None and resource is None:
        errors.invalid(path, "", "resource or service backend is required")
        return
    if service is not None and resource is not None:
        errors.invalid(path, "", "cannot set both resource and service backends")
        return
    if service is None:
        _reference(errors, backend["resource"], f"{path}.resource")
        return
    name, port = service.get("name", ""), service.get("port") or {}
    if not name:
        errors.required(f"{path}.service.name")
    else:
        errors.invalid_each(f"{path}.service.name", name, values.dns_label(name))
    if port.get("name") and port.get("number"):
        errors.invalid(path, "", "cannot set both port name & port number")
    elif port.get("name"):
        errors.invalid_each(f"{path}.service.port.name", port["name"], values.port_name(port["name"]))
    elif port.get("number"):
        errors.invalid_each(f"{path}.service.port.number", port["number"], values.port_number(port["number"]))
    else:
        errors.required(path, "port name or number is required")


def _reference(errors: Errors, reference: Obj, path: str) -> None:
    """A backend or the parameters of a class."""
    group = reference.get("apiGroup")
    if group is not None:
        errors.invalid_each(f"{path}.apiGroup", group, values.dns_subdomain(group))
    for field in ("kind", "name"):
        value = reference.get(field, "")
        if not value:
            errors.required(f"{path}.{field}")
        else:
            errors.invalid_each(f"{path}.{field}", value, values.path_segment(value))


def _class(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec", {})
    controller, parameters = spec.get("controller", ""), spec.get("parameters")
    if old is not None:
        check_same(errors, controller, old.get("spec", {}).get("controller", ""), "spec.controller")
    if not controller:
        errors.required("spec.controller")
    else:
        if len(controller) > CONTROLLER_MAX:
            errors.too_long("spec.controller", CONTROLLER_MAX)
        values.check_domain_path(errors, "spec.controller", controller)
    if parameters is None:
        return
    _reference(errors, parameters, "spec.parameters")
    scope, space, where = parameters.get("scope"), parameters.get("namespace"), "spec.parameters.namespace"
    if scope is None:
        errors.required("spec.parameters.scope")
    elif scope not in SCOPES:
        errors.not_supported("spec.parameters.scope", scope, SCOPES)
    elif scope == "Namespace" and space is None:
        errors.required(where, "`parameters.scope` is set to 'Namespace'")
    elif scope == "Namespace":
        errors.invalid_each(where, space, values.dns_label(space))
    elif space is not None:
        errors.forbidden(where, "`parameters.scope` is set to 'Cluster'")


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    (GROUP, "Ingress"): _ingress,
    (GROUP, "IngressClass"): _class,
}
