"""Roles and bindings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors

Obj = dict[str, Any]
GROUP = "rbac.authorization.k8s.io"
SUBJECTS = ("Group", "ServiceAccount", "User")


def _rules(errors: Errors, obj: Obj, namespaced: bool) -> None:
    for index, rule in enumerate(obj.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            errors.required(f"{path}.verbs", "verbs must contain at least one value")
        urls = rule.get("nonResourceURLs")
        if urls:
            if namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                errors.invalid(f"{path}.nonResourceURLs", urls, detail)
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                errors.invalid(f"{path}.nonResourceURLs", urls, detail)
            continue
        if not rule.get("apiGroups"):
            errors.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            errors.required(f"{path}.resources", "resource rules must supply at least one resource")


def _role(errors: Errors, obj: Obj, old: Obj | None) -> None:
    _rules(errors, obj, namespaced=True)


def _cluster_role(errors: Errors, obj: Obj, old: Obj | None) -> None:
    _rules(errors, obj, namespaced=False)


def _check_ref(errors: Errors, reference: Obj, kinds: tuple[str, ...]) -> None:
    if reference.get("apiGroup") != GROUP:
        errors.not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), (GROUP,))
    if reference.get("kind") not in kinds:
        errors.not_supported("roleRef.kind", reference.get("kind", ""), kinds)
    if not reference.get("name"):
        errors.required("roleRef.name")
    else:
        errors.invalid_each("roleRef.name", reference["name"], values.path_segment(reference["name"]))


def _check_subject(errors: Errors, subject: Obj, path: str) -> None:
    kind, name, group = subject.get("kind", ""), subject.get("name", ""), subject.get("apiGroup", "")
    if not name:
        errors.required(f"{path}.name")
    if kind == "ServiceAccount":
        if name:
            errors.invalid_each(f"{path}.name", name, values.dns_subdomain(name))
        if group:
            errors.not_supported(f"{path}.apiGroup", group, ("",))
        if not subject.get("namespace"):
            errors.required(f"{path}.namespace")
    elif kind in SUBJECTS:
        if group != GROUP:
            errors.not_supported(f"{path}.apiGroup", group, (GROUP,))
    else:
        errors.not_supported(f"{path}.kind", kind, SUBJECTS)


def _binding(errors: Errors, obj: Obj, old: Obj | None, kinds: tuple[str, ...]) -> None:
    _check_ref(errors, obj.get("roleRef", {}), kinds)
    for index, subject in enumerate(obj.get("subjects") or ()):
        _check_subject(errors, subject, f"subjects[{index}]")
    if old is not None and obj.get("roleRef") != old.get("roleRef"):
        errors.invalid("roleRef", obj.get("roleRef"), "cannot change roleRef")


def _role_binding(errors: Errors, obj: Obj, old: Obj | None) -> None:
    _binding(errors, obj, old, ("ClusterRole", "Role"))


def _cluster_role_binding(errors: Errors, obj: Obj, old: Obj | None) -> None:
    _binding(errors, obj, old, ("ClusterRole",))


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    (GROUP, "Role"): _role,
    (GROUP, "ClusterRole"): _cluster_role,
    (GROUP, "RoleBinding"): _role_binding,
    (GROUP, "ClusterRoleBinding"): _cluster_role_binding,
}
