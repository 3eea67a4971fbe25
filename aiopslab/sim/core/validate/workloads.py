"""Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_same, check_selector, is_empty_selector, selects
from aiopslab.sim.core.validate.pod import check_template, check_template_meta

Obj = dict[str, Any]
NO_MATCH = "`selector` does not match template `labels`"
STATEFUL_FROZEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
STATEFUL_MUTABLE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
RETENTION = ("Delete", "Retain")


def check_template_labels(errors: Errors, selector: Obj, template: Obj, path: str) -> None:
    """The template's labels must be what the selector selects."""
    labels = template.get("metadata", {}).get("labels")
    if not is_empty_selector(selector) and not selects(selector, labels):
        errors.invalid(f"{path}.metadata.labels", labels and dict(sorted(labels.items())), NO_MATCH)


def _always_restarts(errors: Errors, template: Obj, path: str, kind: str) -> None:
    spec = template.get("spec", {})
    if spec.get("restartPolicy") != "Always":
        errors.not_supported(f"{path}.spec.restartPolicy", spec.get("restartPolicy", ""), ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.forbidden(f"{path}.spec.activeDeadlineSeconds", detail)


def _replicated_template(errors: Errors, spec: Obj, kind: str) -> None:
    """Selector and template of a Deployment or ReplicaSet."""
    selector, template = spec.get("selector"), spec.get("template", {})
    valid = True
    if selector is None:
        errors.required("spec.selector")
    else:
        valid = check_selector(errors, selector, "spec.selector")
        if is_empty_selector(selector):
            errors.invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
    if not valid:
        errors.invalid("spec.selector", selector, "invalid label selector")
        return
    if selector is None:  # it selects nothing
        errors.invalid("spec.template.metadata.labels", template.get("metadata", {}).get("labels"), NO_MATCH)
    else:
        check_template_labels(errors, selector, template, "spec.template")
    check_template(errors, template, "spec.template")
    _always_restarts(errors, template, "spec.template", "ReplicaSet")


def _deployment(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj["spec"]
    values.check_non_negative(errors, spec, "spec", "replicas")
    _replicated_template(errors, spec, "deployment")
    _deployment_strategy(errors, spec.get("strategy", {}))
    values.check_non_negative(
        errors, spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        errors.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    _selector_frozen(errors, obj, old)


def _selector_frozen(errors: Errors, obj: Obj, old: Obj | None) -> None:
    if old is not None:
        check_same(errors, obj["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def _deployment_strategy(errors: Errors, strategy: Obj) -> None:
    path, kind, rolling = "spec.strategy", strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            errors.forbidden(f"{path}.rollingUpdate", detail)
        return
    if kind != "RollingUpdate":
        shown = {"Type": kind, "RollingUpdate": rolling}
        errors.not_supported(path, shown, ("Recreate", "RollingUpdate"))
        return
    if rolling is None:
        errors.required(f"{path}.rollingUpdate", "this should be defaulted and never be nil")
        return
    where, unavailable, surge = f"{path}.rollingUpdate", rolling.get("maxUnavailable"), rolling.get("maxSurge")
    values.check_int_or_percent(errors, f"{where}.maxUnavailable", unavailable)
    values.check_int_or_percent(errors, f"{where}.maxSurge", surge)
    if not values.percent_or_int(unavailable) and not values.percent_or_int(surge):
        errors.invalid(f"{where}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    if values.is_percent(unavailable) and values.percent_or_int(unavailable) > 100:
        errors.invalid(f"{where}.maxUnavailable", unavailable, "must not be greater than 100%")


def _replica_set(errors: Errors, obj: Obj, old: Obj | None) -> None:
    values.check_non_negative(errors, obj["spec"], "spec", "replicas", "minReadySeconds")
    _replicated_template(errors, obj["spec"], "deployment")
    _selector_frozen(errors, obj, old)


def _replication_controller(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj["spec"]
    values.check_non_negative(errors, spec, "spec", "minReadySeconds")
    selector, template = spec.get("selector") or {}, spec.get("template")
    if not selector:
        errors.required("spec.selector")
    values.check_non_negative(errors, spec, "spec", "replicas")
    if template is None:
        errors.required("spec.template")
        return
    check_template_labels(errors, {"matchLabels": selector}, template, "spec.template")
    check_template(errors, template, "spec.template")
    _always_restarts(errors, template, "spec.template", "ReplicationController")


def _stateful_set(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj["spec"]
    management = spec.get("podManagementPolicy", "")
    if not management:
        errors.required("spec.podManagementPolicy")
    elif management not in ("OrderedReady", "Parallel"):
        errors.invalid("spec.podManagementPolicy", management, "must be 'OrderedReady' or 'Parallel'")
    _stateful_strategy(errors, spec.get("updateStrategy", {}))
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in ("whenDeleted", "whenScaled"):
        if retention.get(field, "Retain") not in RETENTION:
            where = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            errors.not_supported(where, retention[field], RETENTION)
    values.check_non_negative(errors, spec, "spec", "replicas", "minReadySeconds")
    values.check_non_negative(errors, spec.get("ordinals") or {}, "spec.ordinals", "start")
    _owned_template(errors, spec, "StatefulSet")
    if old is not None:
        frozen, before = ({k: v for k, v in s.items() if k not in STATEFUL_MUTABLE} for s in (spec, old["spec"]))
        if frozen != before:
            errors.forbidden("spec", STATEFUL_FROZEN)


def _stateful_strategy(errors: Errors, strategy: Obj) -> None:
    path, kind, rolling = "spec.updateStrategy", strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is not None:
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            errors.invalid(f"{path}.rollingUpdate", rolling, detail)
    elif kind == "RollingUpdate":
        if rolling is not None:
            values.check_non_negative(errors, rolling, f"{path}.rollingUpdate", "partition")
            unavailable = rolling.get("maxUnavailable")
            where = f"{path}.rollingUpdate.maxUnavailable"
            values.check_int_or_percent(errors, where, unavailable, at_most_all=True)
    elif not kind:
        errors.required(path)
    else:
        errors.invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")


def _owned_template(errors: Errors, spec: Obj, kind: str) -> None:
    """Selector and template of a StatefulSet or DaemonSet.

    As on a real server, the pods that a StatefulSet asks for are not checked before they are created: their
    mounts may name claims that only then become volumes.
    """
    selector, template = spec.get("selector"), spec.get("template", {})
    if selector is None:
        errors.required("spec.selector")
    else:
        valid = check_selector(errors, selector, "spec.selector")
        if valid:
            check_template_labels(errors, selector, template, "spec.template")
        if is_empty_selector(selector):
            errors.invalid("spec.selector", selector, f"empty selector is invalid for {kind.lower()}")
    if kind == "StatefulSet":
        check_template_meta(errors, template, "spec.template")
    else:
        check_template(errors, template, "spec.template")
    _always_restarts(errors, template, "spec.template", kind)


def _daemon_set(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj["spec"]
    _owned_template(errors, spec, "DaemonSet")
    values.check_non_negative(errors, spec, "spec", "minReadySeconds", "revisionHistoryLimit")
    strategy = spec.get("updateStrategy", {})
    path, kind, rolling = "spec.updateStrategy", strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        if rolling is None:
            errors.required(f"{path}.rollingUpdate")
        else:
            _daemon_rolling(errors, rolling, f"{path}.rollingUpdate")
    elif kind != "OnDelete":
        errors.not_supported(path, strategy, ("RollingUpdate", "OnDelete"))
    _selector_frozen(errors, obj, old)


def _daemon_rolling(errors: Errors, rolling: Obj, path: str) -> None:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    values.check_int_or_percent(errors, f"{path}.maxUnavailable", unavailable, at_most_all=True)
    values.check_int_or_percent(errors, f"{path}.maxSurge", surge, at_most_all=True)
    some, more = values.percent_or_int(unavailable) != 0, values.percent_or_int(surge) != 0
    if some and more:
        errors.invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
    elif not some and not more:
        errors.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("", "ReplicationController"): _replication_controller,
}
