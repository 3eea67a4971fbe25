"""Pods as requests find and leave them: created, changed as a whole, or in one part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.strategy import qos_class
from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors, difference
from aiopslab.sim.core.validate.internals import internal
from aiopslab.sim.core.validate.pod import CONTAINER_LISTS, check_pod, check_tolerations

Obj = dict[str, Any]
UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)
REQUIRED_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
RESIZABLE = ("cpu", "memory")


def check_any_pod(errors: Errors, pod: Obj, old: Obj | None) -> None:
    """A new or changed Pod."""
    check_pod(errors, pod)
    spec = pod.get("spec", {})
    if old is not None:
        _check_update(errors, pod, old)
        return
    if spec.get("ephemeralContainers"):
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def _check_update(errors: Errors, pod: Obj, old: Obj) -> None:
    new_spec, old_spec = pod.get("spec", {}), old.get("spec", {})
    for field in CONTAINER_LISTS:
        if len(new_spec.get(field) or ()) != len(old_spec.get(field) or ()):
            errors.forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    if not _check_deadline(errors, new_spec, old_spec):
        return
    _check_tolerations(errors, new_spec, old_spec)
    gates = [gate.get("name") for gate in old_spec.get("schedulingGates") or ()]
    for index, gate in enumerate(new_spec.get("schedulingGates") or ()):
        if gate.get("name") not in gates:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            errors.forbidden(f"spec.schedulingGates[{index}].name", detail)
    frozen = _with_mutable_fields(new_spec, old_spec)
    if gates:
        frozen = _narrowed(errors, frozen, old_spec)
    if frozen != old_spec:
        shown = difference(internal("PodSpec", frozen), internal("PodSpec", old_spec))
        errors.forbidden("spec", f"pod updates may not change fields other than {UPDATABLE}\n{shown}")


def _check_deadline(errors: Errors, new: Obj, old: Obj) -> bool:
    """Whether the rest is worth looking at."""
    field = "spec.activeDeadlineSeconds"
    after, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if after is None:
        if before is not None:
            errors.invalid(field, None, "must not update from a positive integer to nil value")
        return True
    if not 0 <= after <= values.INT32_MAX:
        errors.invalid(field, after, "must be between 0 and 2147483647, inclusive")
        return False
    if before is not None and before < after:
        errors.invalid(field, after, "must be less than or equal to previous value")
        return False
    return True


def _check_tolerations(errors: Errors, new: Obj, old: Obj) -> None:
    def bare(item: Obj) -> Obj:
        return {key: value for key, value in item.items() if key != "tolerationSeconds"}

    present = [bare(item) for item in new.get("tolerations") or ()]
    if all(bare(item) in present for item in old.get("tolerations") or ()):
        check_tolerations(errors, new.get("tolerations") or [], "spec.tolerations")
    else:
        detail = "existing toleration can not be modified except its tolerationSeconds"
        errors.forbidden("spec.tolerations", detail)


def _with_mutable_fields(new: Obj, old: Obj) -> Obj:
    """The new spec with everything that may change set back to its old value."""
    spec = dict(new)
    for field in CONTAINER_LISTS:
        if field in new:
            pairs = zip(new[field] or (), old.get(field) or (), strict=False)
            spec[field] = [{**after, "image": before.get("image")} for after, before in pairs]
    _restore(spec, old, "activeDeadlineSeconds", "tolerations", "schedulingGates")
    grace = "terminationGracePeriodSeconds"
    if old.get(grace, 0) < 0 and new.get(grace) == 1:
        spec[grace] = old[grace]
    return spec


def _restore(spec: Obj, old: Obj, *fields: str) -> None:
    for field in fields:
        spec.pop(field, None)
        if field in old:
            spec[field] = old[field]


def _narrowed(errors: Errors, spec: Obj, old: Obj) -> Obj:
    """A gated pod may be narrowed to fewer nodes."""
    spec = dict(spec)
    after, before = spec.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if any(after.get(key) != value for key, value in before.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.invalid("spec.nodeSelector", after, detail)
    _restore(spec, old, "nodeSelector")
    affinity, was = dict(spec.get("affinity") or {}), old.get("affinity") or {}
    _check_terms(errors, affinity.get("nodeAffinity") or {}, was.get("nodeAffinity") or {})
    _restore(affinity, was, "nodeAffinity")
    spec.pop("affinity", None)
    if affinity or "affinity" in old:
        spec["affinity"] = affinity
    return spec


def _check_terms(errors: Errors, new: Obj, old: Obj) -> None:
    path = f"spec.affinity.nodeAffinity.{REQUIRED_TERMS}.nodeSelectorTerms"
    terms, were = ((one.get(REQUIRED_TERMS) or {}).get("nodeSelectorTerms") or [] for one in (new, old))
    if were and len(terms) != len(were):
        errors.invalid(path, terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for index, (term, was) in enumerate(zip(terms, were, strict=False)):
        kept = all(
            (term.get(field) or [])[: len(was.get(field) or ())] == (was.get(field) or [])
            for field in ("matchExpressions", "matchFields")
        )
        if not kept or (term and not was):
            errors.invalid(f"{path}[{index}]", term, "only additions are allowed (no mutations or deletions)")


def _check_ephemeral(errors: Errors, pod: Obj, old: Obj | None) -> None:
    """The ``ephemeralcontainers`` of a pod: those that are there stay as they are."""
    check_pod(errors, pod)
    by_name = {one.get("name"): one for one in pod.get("spec", {}).get("ephemeralContainers") or ()}
    for before in (old or {}).get("spec", {}).get("ephemeralContainers") or ():
        name, field = before["name"], "spec.ephemeralContainers"
        if name not in by_name:
            errors.forbidden(field, f'existing ephemeral containers "{name}" may not be removed\n')
        elif by_name[name] != before:
            shown = difference(internal("Container", by_name[name]), internal("Container", before))
            errors.forbidden(field, f'existing ephemeral containers "{name}" may not be changed\n{shown}')


def _check_resize(errors: Errors, pod: Obj, old: Obj | None) -> None:
    """The ``resize`` of a pod: cpu and memory of containers that run."""
    check_pod(errors, pod)
    spec, was = pod.get("spec", {}), (old or {}).get("spec", {})
    if qos_class(spec) != qos_class(was):
        found = pod.get("status", {}).get("qosClass", "")
        errors.invalid("spec", found, "Pod QOS Class may not change as a result of resizing")
    for field in ("initContainers", "containers"):
        for index, (container, before) in enumerate(zip(spec.get(field) or (), was.get(field) or (), strict=False)):
            sidecar = field == "initContainers"
            if sidecar and container.get("restartPolicy") != "Always":
                if container != before:
                    errors.forbidden("spec", "resources for non-sidecar init containers are immutable")
                continue
            _check_resized(errors, container, before, f"spec.{field}[{index}].resources", sidecar=sidecar)


def _check_resized(errors: Errors, container: Obj, before: Obj, path: str, *, sidecar: bool) -> None:
    new, old = container.get("resources") or {}, before.get("resources") or {}
    others = []
    for field in ("requests", "limits"):
        after, earlier = new.get(field) or {}, old.get(field) or {}
        if set(earlier) - set(after):
            errors.forbidden(f"{path}.{field}", f"resource {field} cannot be removed")
        others.append(
            {k: v for k, v in after.items() if k not in RESIZABLE}
            == {k: v for k, v in earlier.items() if k not in RESIZABLE}
        )
    if not all(others):
        what = " for sidecar containers" if sidecar else ""
        errors.forbidden("spec", f"only cpu and memory resources{what} are mutable")


# What checks a request to a part of a pod.
PARTS: dict[str, Callable[[Errors, Obj, Obj | None], None]] = {
    "ephemeralcontainers": _check_ephemeral,
    "resize": _check_resize,
}
