"""HorizontalPodAutoscalers and PodDisruptionBudgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_selector

Obj = dict[str, Any]
METRIC_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
TARGET_TYPES = ("AverageValue", "Utilization", "Value")
SELECT_POLICIES = ("Disabled", "Max", "Min")
POLICY_TYPES = ("Percent", "Pods")
EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
WINDOW_MAX_S = 3600
PERIOD_MAX_S = 1800


def _autoscaler(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj["spec"]
    low, high = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if low is not None and low < 1:
        errors.invalid("spec.minReplicas", low, "must be greater than or equal to 1")
    if high == 0:
        errors.required("spec.maxReplicas", "must be set and greater than 0")
    elif high < 0:
        errors.invalid("spec.maxReplicas", high, "must be greater than 0")
    if low is not None and high < low:
        errors.invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    _reference(errors, spec.get("scaleTargetRef", {}), "spec.scaleTargetRef", needs_group=True)
    for index, metric in enumerate(spec.get("metrics") or ()):
        _metric(errors, metric, f"spec.metrics[{index}]")
    behavior = spec.get("behavior") or {}
    for name in ("scaleUp", "scaleDown"):
        if behavior.get(name) is not None:
            _scaling_rules(errors, behavior[name], f"spec.behavior.{name}")


def _reference(errors: Errors, reference: Obj, path: str, *, needs_group: bool = False) -> None:
    for field in ("kind", "name"):
        value = reference.get(field, "")
        if not value:
            errors.required(f"{path}.{field}")
        else:
            errors.invalid_each(f"{path}.{field}", value, values.path_segment(value))
    version = reference.get("apiVersion", "")
    if needs_group and "/" not in version and reference.get("kind") != "ReplicationController":
        errors.invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _metric(errors: Errors, metric: Obj, path: str) -> None:
    kind = metric.get("type", "")
    if not kind:
        errors.required(f"{path}.type", "must specify a metric source type")
        return
    if kind not in METRIC_TYPES:
        errors.not_supported(f"{path}.type", kind, METRIC_TYPES)
        return
    field = kind[:1].lower() + kind[1:]
    source = metric.get(field)
    if source is None:
        errors.required(f"{path}.{field}", "must populate information for the given metric source")
        return
    where = f"{path}.{field}"
    if kind in ("Resource", "ContainerResource"):
        if not source.get("name"):
            errors.required(f"{where}.name", "must specify a resource name")
        if kind == "ContainerResource" and not source.get("container"):
            errors.required(f"{where}.container", "must specify a container")
    else:
        if kind == "Object":
            _reference(errors, source.get("describedObject", {}), f"{where}.describedObject")
        if not source.get("metric", {}).get("name"):
            errors.required(f"{where}.metric.name", "must specify a metric name")
    _target(errors, source.get("target", {}), kind, f"{where}.target")


def _target(errors: Errors, target: Obj, kind: str, path: str) -> None:
    if not target.get("type"):
        errors.required(f"{path}.type", "must specify a metric target type")
    elif target["type"] not in TARGET_TYPES:
        errors.invalid(f"{path}.type", target["type"], "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        if target.get(field) is not None and values.amount(target[field]) <= 0:
            errors.invalid(f"{path}.{field}", target[field], "must be positive")
    usage, average = target.get("averageUtilization"), target.get("averageValue")
    if usage is not None and usage < 1:
        errors.invalid(f"{path}.averageUtilization", usage, "must be greater than 0")
    if kind in ("Resource", "ContainerResource"):
        if usage is None and average is None:
            detail = "must set either a target raw value or a target utilization"
            errors.required(f"{path}.averageUtilization", detail)
        if usage is not None and average is not None:
            errors.forbidden(f"{path}.averageValue", "may not set both a target raw value and a target utilization")
    elif average is None and (kind == "Pods" or target.get("value") is None):
        detail = (
            "must specify a positive target averageValue"
            if kind == "Pods"
            else "must set either a target value for metric or a per-pod target"
        )
        errors.required(f"{path}.averageValue", detail)


def _scaling_rules(errors: Errors, rules: Obj, path: str) -> None:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        errors.invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    elif window is not None and window > WINDOW_MAX_S:
        detail = f"must be less than or equal to {WINDOW_MAX_S}"
        errors.invalid(f"{path}.stabilizationWindowSeconds", window, detail)
    choice = rules.get("selectPolicy")
    if choice is not None and choice not in SELECT_POLICIES:
        errors.not_supported(f"{path}.selectPolicy", choice, SELECT_POLICIES)
    policies = rules.get("policies") or []
    if not policies:
        errors.required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(policies):
        where = f"{path}.policies[{index}]"
        if policy.get("type") not in POLICY_TYPES:
            errors.not_supported(f"{where}.type", policy.get("type", ""), POLICY_TYPES)
        for field in ("value", "periodSeconds"):
            if policy.get(field, 0) <= 0:
                errors.invalid(f"{where}.{field}", policy.get(field, 0), "must be greater than zero")
        if policy.get("periodSeconds", 0) > PERIOD_MAX_S:
            detail = f"must be less than or equal to {PERIOD_MAX_S}"
            errors.invalid(f"{where}.periodSeconds", policy["periodSeconds"], detail)


def _disruption_budget(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec", {})
    low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
    if low is not None and high is not None:
        errors.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field, value in (("minAvailable", low), ("maxUnavailable", high)):
        if value is not None:
            values.check_int_or_percent(errors, f"spec.{field}", value, at_most_all=True)
    if spec.get("selector") is not None:
        check_selector(errors, spec["selector"], "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in EVICTION_POLICIES:
        errors.not_supported("spec.unhealthyPodEvictionPolicy", policy, EVICTION_POLICIES)


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("policy", "PodDisruptionBudget"): _disruption_budget,
}
