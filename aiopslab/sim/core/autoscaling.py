"""HorizontalPodAutoscalers as ``autoscaling/v1`` shows them: CPU utilisation in fields, the rest in annotations.

Annotation names and shapes are those of Kubernetes' own conversion.
"""

from __future__ import annotations

from typing import Any

import orjson

Obj = dict[str, Any]

PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS, CURRENT, CONDITIONS, BEHAVIOR = (
    PREFIX + name for name in ("metrics", "current-metrics", "conditions", "behavior")
)
KEPT = ("maxReplicas", "minReplicas", "scaleTargetRef")
STATUS_KEPT = ("currentReplicas", "desiredReplicas", "lastScaleTime", "observedGeneration")


def to_v1(obj: Obj) -> Obj:
    """A stored (``v2``) object as ``v1``."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    shown: Obj = {name: spec[name] for name in KEPT if name in spec}
    others = []
    for metric in spec.get("metrics") or []:
        target = (metric.get("resource") or {}).get("target") or {}
        if _is_cpu(metric) and "averageUtilization" in target and "targetCPUUtilizationPercentage" not in shown:
            shown["targetCPUUtilizationPercentage"] = target["averageUtilization"]
        else:
            others.append(_old_metric(metric, "target"))
    told: Obj = {name: status[name] for name in STATUS_KEPT if name in status}
    current = []
    for metric in status.get("currentMetrics") or []:
        now = (metric.get("resource") or {}).get("current") or {}
        if _is_cpu(metric) and "averageUtilization" in now:
            told["currentCPUUtilizationPercentage"] = now["averageUtilization"]
        current.append(_old_metric(metric, "current"))
    notes = {
        METRICS: others, CURRENT: current, CONDITIONS: status.get("conditions"), BEHAVIOR: spec.get("behavior"),
    }  # fmt: skip
    annotations = {**(obj["metadata"].get("annotations") or {})}
    annotations.update({name: orjson.dumps(value).decode() for name, value in notes.items() if value})
    meta = {**obj["metadata"], **({"annotations": annotations} if annotations else {})}
    shown_obj = {**obj, "apiVersion": "autoscaling/v1", "metadata": meta, "spec": shown}
    return {**shown_obj, "status": told} if "status" in obj else shown_obj


def from_v1(obj: Obj) -> Obj:
    """A client's ``v1`` object as it is stored; annotations that say nothing readable stay what they are."""
    spec = {**(obj.get("spec") or {})}
    annotations = {**(obj.get("metadata", {}).get("annotations") or {})}
    metrics = [_new_metric(m, "target") for m in _read(annotations, METRICS) or []]
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.insert(0, {"type": "Resource", "resource": {"name": "cpu", "target": target}})
    if metrics:
        spec["metrics"] = metrics
    behavior = _read(annotations, BEHAVIOR)
    if behavior:
        spec["behavior"] = behavior
    status = {**(obj.get("status") or {})}
    status.pop("currentCPUUtilizationPercentage", None)
    current, conditions = _read(annotations, CURRENT), _read(annotations, CONDITIONS)
    if current:
        status["currentMetrics"] = [_new_metric(m, "current") for m in current]
    if conditions:
        status["conditions"] = conditions
    meta = {**obj.get("metadata", {})}
    if annotations or "annotations" in meta:
        meta["annotations"] = annotations
    if not meta.get("annotations"):
        meta.pop("annotations", None)
    stored = {**obj, "apiVersion": "autoscaling/v2", "metadata": meta, "spec": spec}
    return {**stored, "status": status} if "status" in obj else stored


def _read(annotations: dict[str, str], name: str) -> Any:
    text = annotations.pop(name, None)
    if text is None:
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        annotations[name] = text
        return None


def _is_cpu(metric: Obj) -> bool:
    return metric.get("type") == "Resource" and (metric.get("resource") or {}).get("name") == "cpu"


# What v2 has in ``target`` or ``current`` stands beside the name in v1's annotations, each under two names.
_VALUES = {
    "target": (("averageUtilization", "targetAverageUtilization"), ("averageValue", "targetAverageValue"),
               ("value", "targetValue")),
    "current": (("averageUtilization", "currentAverageUtilization"), ("averageValue", "currentAverageValue"),
                ("value", "currentValue")),
}  # fmt: skip
_SOURCES = {
    "Resource": "resource", "ContainerResource": "containerResource", "Pods": "pods", "Object": "object",
    "External": "external",
}  # fmt: skip


def _old_metric(metric: Obj, part: str) -> Obj:
    source = _SOURCES.get(metric.get("type", ""), "resource")
    inner = {**(metric.get(source) or {})}
    values = inner.pop(part, None) or {}
    named = inner.pop("metric", None) or {}
    if named:
        inner["metricName"] = named.get("name", "")
        if named.get("selector"):
            inner["metricSelector" if source == "external" else "selector"] = named["selector"]
    if "describedObject" in inner:
        inner["target"] = inner.pop("describedObject")
    for new, old in _VALUES[part]:
        if new in values:
            inner["averageValue" if source == "object" and new == "averageValue" else old] = values[new]
    return {"type": metric.get("type"), source: inner}


def _new_metric(metric: Obj, part: str) -> Obj:
    source = _SOURCES.get(metric.get("type", ""), "resource")
    inner = {**(metric.get(source) or {})}
    values: Obj = {}
    for new, old in _VALUES[part]:
        for name in (old, "averageValue") if source == "object" and new == "averageValue" else (old,):
            if name in inner:
                values[new] = inner.pop(name)
    if part == "target":
        kinds = {"averageUtilization": "Utilization", "averageValue": "AverageValue", "value": "Value"}
        values = {"type": next((kinds[n] for n in kinds if n in values), "Utilization"), **values}
    if "metricName" in inner:
        named: Obj = {"name": inner.pop("metricName")}
        selector = inner.pop("metricSelector", None) or inner.pop("selector", None)
        if selector:
            named["selector"] = selector
        inner["metric"] = named
    if source == "object" and "target" in inner:
        inner["describedObject"] = inner.pop("target")
    return {"type": metric.get("type"), source: {**inner, part: values}}
