"""Validation of built-in kinds with the API server's own messages, paths and order.

``validate`` expects an object that was decoded (``schema.typed``) and defaulted. Custom resources are checked
for their metadata only; their schemas are checked elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.schema import KindLike
from aiopslab.sim.core.validate import (
    admission,
    batch,
    cluster,
    config,
    definitions,
    extensions,
    network,
    policy,
    rbac,
    values,
    workloads,
)
from aiopslab.sim.core.validate.errors import Errors, FieldError
from aiopslab.sim.core.validate.meta import check_meta
from aiopslab.sim.core.validate.pod import check_pod

__all__ = ["FieldError", "validate"]

Obj = dict[str, Any]
Check = Callable[[Errors, Obj, Obj | None], None]
_CHECKS: dict[tuple[str, str], Check] = {
    ("", "Pod"): check_pod,
    **workloads.CHECKS,
    **batch.CHECKS,
    **network.CHECKS,
    **config.CHECKS,
    **definitions.CHECKS,
    **cluster.CHECKS,
    **policy.CHECKS,
    **rbac.CHECKS,
    **admission.CHECKS,
    **extensions.CHECKS,
}
_NAME_RULES: dict[tuple[str, str], Callable[[str], list[str]]] = {
    ("", "Namespace"): values.dns_label,
    ("", "Service"): values.dns_label,
    ("apiregistration.k8s.io", "APIService"): values.path_segment,
    (rbac.GROUP, "Role"): values.path_segment,
    (rbac.GROUP, "ClusterRole"): values.path_segment,
    (rbac.GROUP, "RoleBinding"): values.path_segment,
    (rbac.GROUP, "ClusterRoleBinding"): values.path_segment,
}


def validate(obj: Obj, kind: KindLike, old: Obj | None = None) -> list[FieldError]:
    """All errors of a new object (``old`` None) or of a change, in the order in which the server lists them."""
    errors = Errors()
    key = (kind.group, kind.kind)
    check_meta(errors, obj, old, _NAME_RULES.get(key, values.dns_subdomain))
    check = _CHECKS.get(key)
    if check is not None and getattr(kind, "crd", None) is None:
        check(errors, obj, old)
    return list(errors)
