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
    events,
    extensions,
    ingress,
    limits,
    network,
    policy,
    rbac,
    services,
    storage,
    values,
    workloads,
)
from aiopslab.sim.core.validate.errors import Errors, FieldError
from aiopslab.sim.core.validate.meta import check_meta
from aiopslab.sim.core.validate.podupdates import PARTS, check_any_pod

__all__ = ["FieldError", "validate"]

Obj = dict[str, Any]
Check = Callable[[Errors, Obj, Obj | None], None]
_CHECKS: dict[tuple[str, str], Check] = {
    ("", "Pod"): check_any_pod,
    **workloads.CHECKS,
    **batch.CHECKS,
    **services.CHECKS,
    **network.CHECKS,
    **ingress.CHECKS,
    **config.CHECKS,
    **definitions.CHECKS,
    **cluster.CHECKS,
    **events.CHECKS,
    **storage.CHECKS,
    **limits.CHECKS,
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


def validate(obj: Obj, kind: KindLike, old: Obj | None = None, subresource: str = "") -> list[FieldError]:
    """All errors of a new object (``old`` None) or of a change, in the order in which the server lists them.

    Writes of ``status`` leave the rest as it is, so only the metadata is looked at.
    """
    errors = Errors()
    key = (kind.group, kind.kind)
    check_meta(errors, obj, old, _NAME_RULES.get(key, values.dns_subdomain))
    check = _CHECKS.get(key)
    if key == ("", "Pod"):
        check = PARTS.get(subresource, check)
    if check is not None and subresource != "status" and getattr(kind, "crd", None) is None:
        check(errors, obj, old)
    return list(errors)
