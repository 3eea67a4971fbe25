"""RuntimeClasses."""

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


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    ("node.k8s.io", "RuntimeClass"): _runtime_class,
}
