"""HorizontalPodAutoscaler: every 15 s from usage to replicas, with the conditions that explain it."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from aiopslab.sim.core import apiservices
from aiopslab.sim.core.api import Api
from aiopslab.sim.core.apiservices import METRICS_GROUP, METRICS_VERSION
from aiopslab.sim.core.controllers import hpa_metrics as metrics
from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers.common import Base, find_condition, with_spec
from aiopslab.sim.core.controllers.index import Index
from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.ports import ContainerRef, Usage, World
from aiopslab.sim.core.quantity import text as quantity_text
from aiopslab.sim.core.store import Change, Key, Obj

RESOURCE = "autoscaling/horizontalpodautoscalers"
SYNC_S = 15.0
NO_METRICS = "failed to get {0} utilization: unable to get metrics for resource {0}: "
PERCENT = "{} resource utilization (percentage of request)"


class Unavailable(Exception):
    """A metric cannot be read. ``str`` is what the condition and the event say."""


class Proposal(NamedTuple):
    """What one metric asks for."""

    replicas: int
    name: str
    status: Obj


class Autoscalers(Base):
    """The horizontal-pod-autoscaler."""

    name = "horizontal-pod-autoscaler"

    def __init__(self, kernel: Kernel, api: Api, index: Index, world: World) -> None:
        super().__init__(kernel, api, index)
        self._world = world
        self._recommended: dict[Key, list[tuple[float, int]]] = {}
        self._changes: dict[Key, list[tuple[float, int]]] = {}

    def keys(self, change: Change) -> Iterable[Key]:
        """Autoscalers whose spec is new; all else happens on the timer."""
        if change.key.resource != RESOURCE:
            return ()
        same = change.old is not None and change.old["spec"] == change.obj["spec"]
        return () if same and change.type == "MODIFIED" else (change.key,)

    def reconcile(self, key: Key) -> None:
        """One sync; the next one is in 15 s."""
        hpa = self.store.get(key)
        if hpa is None:
            self._recommended.pop(key, None)
            self._changes.pop(key, None)
            self.kernel.cancel(f"{self.name}/{'/'.join(key)}")
            return
        self.requeue_after(SYNC_S, key)
        status = dict(hpa.get("status") or {})
        status["observedGeneration"] = hpa["metadata"].get("generation", 1)
        self._sync(key, hpa, status)
        self.update_status(key, status)

    def _sync(self, key: Key, hpa: Obj, status: Obj) -> None:
        status.setdefault("currentMetrics", None)
        status.setdefault("desiredReplicas", 0)
        target_key = self._target(hpa)
        target = self.store.get(target_key) if target_key is not None else None
        if target is None or target_key is None:
            self._no_target(hpa, status)
            return
        text = "the HPA controller was able to get the target's current scale"
        self._set(status, "AbleToScale", "True", "SucceededGetScale", text)
        current = target["spec"].get("replicas", 1)
        status["currentReplicas"] = (target.get("status") or {}).get("replicas", 0)
        least, most = hpa["spec"].get("minReplicas", 1), hpa["spec"]["maxReplicas"]
        reason = ""
        if current == 0 and least:
            text = "scaling is disabled since the replica count of the target is zero"
            self._set(status, "ScalingActive", "False", "ScalingDisabled", text)
            status["desiredReplicas"] = 0
            return
        if current > most:
            desired, reason = most, "Current number of replicas above Spec.MaxReplicas"
        elif current < least:
            desired, reason = least, "Current number of replicas below Spec.MinReplicas"
        else:
            proposal = self._propose(hpa, status, target, current)
            if proposal is None:
                status["desiredReplicas"] = current
                return
            desired = self._limited(key, hpa, status, current, proposal.replicas)
            if desired > current:
                reason = f"{proposal.name} above target"
            elif desired < current:
                reason = "All metrics below target"
        status["desiredReplicas"] = desired
        if desired != current:
            self._rescale(key, hpa, status, target_key, desired, reason)

    def _target(self, hpa: Obj) -> Key | None:
        reference = hpa["spec"]["scaleTargetRef"]
        kind = self.api.kinds.by_gvk(reference.get("apiVersion", ""), reference["kind"])
        return (
            Key(kind.resource, hpa["metadata"]["namespace"], reference["name"]) if kind is not None else None
        )

    def _no_target(self, hpa: Obj, status: Obj) -> None:
        reference = hpa["spec"]["scaleTargetRef"]
        kind = self.api.kinds.by_gvk(reference.get("apiVersion", ""), reference["kind"])
        if kind is None:
            group = reference.get("apiVersion", "").partition("/")[0]
            text = f'no matches for kind "{reference["kind"]}" in group "{group}"'
        else:
            text = f'{kind.qualified} "{reference["name"]}" not found'
        self.event(hpa, "Warning", "FailedGetScale", text)
        message = f"the HPA controller was unable to get the target's current scale: {text}"
        self._set(status, "AbleToScale", "False", "FailedGetScale", message)

    # Metrics ----------------------------------------------------------------------------------------------

    def _propose(self, hpa: Obj, status: Obj, target: Obj, current: int) -> Proposal | None:
        selected = self.index.selected(hpa["metadata"]["namespace"], target["spec"].get("selector"))
        pods = [pod for pod in selected if podlib.active(pod)]
        proposals, errors = [], []
        wanted = hpa["spec"].get("metrics") or []
        for metric in wanted:
            try:
                proposals.append(self._read(metric, pods, current))
            except Unavailable as error:
                errors.append((_failure_reason(metric), str(error)))
        status["currentMetrics"] = [one.status for one in proposals] or None
        for reason, text in errors:
            self.event(hpa, "Warning", reason, text)
        best = max(proposals, key=lambda one: one.replicas, default=None)
        if best is None or (errors and best.replicas < current):
            reason, text = errors[0]
            message = f"the HPA was unable to compute the replica count: {text}"
            self._set(status, "ScalingActive", "False", reason, message)
            summary = f"invalid metrics ({len(errors)} invalid out of {len(wanted)}), first error is: {text}"
            self.event(hpa, "Warning", "FailedComputeMetricsReplicas", summary)
            return None
        message = f"the HPA was able to successfully calculate a replica count from {best.name}"
        self._set(status, "ScalingActive", "True", "ValidMetricFound", message)
        return best

    def _read(self, metric: Obj, pods: list[Obj], current: int) -> Proposal:
        type_ = metric["type"]
        if type_ not in ("Resource", "ContainerResource"):
            kind = type_.lower()
            raise Unavailable(
                f"failed to get {kind} metric value: unable to get metric: no custom metrics API is"
                " registered"
            )
        source = metric["resource" if type_ == "Resource" else "containerResource"]
        name, target = source["name"], source["target"]
        if apiservices.state(self.store, METRICS_GROUP, METRICS_VERSION) == "down":
            raise Unavailable(self._no_answer(name, "the server is currently unable to handle the request"))
        if not self._sampled(pods, source.get("container", "")):
            raise Unavailable(self._no_samples(name))
        samples = self._samples(name, source.get("container", ""), pods, "averageUtilization" in target)
        if "averageUtilization" in target:
            reading = metrics.by_utilization(samples, target["averageUtilization"], current)
            label = PERCENT.format(name)
        else:
            reading = metrics.by_average(samples, podlib.quantity(target["averageValue"]), current)
            label = f"{name} resource"
        if reading is None:
            raise Unavailable(self._no_samples(name))
        value: Obj = {"averageValue": _amount(name, reading.average)}
        if reading.utilization is not None:
            value["averageUtilization"] = reading.utilization
        part: Obj = {"name": name, "current": value}
        if type_ == "ContainerResource":
            part["container"] = source["container"]
        field = "resource" if type_ == "Resource" else "containerResource"
        return Proposal(reading.replicas, label, {"type": type_, field: part})

    def _no_samples(self, name: str) -> str:
        if not apiservices.state(self.store, METRICS_GROUP, METRICS_VERSION):
            return self._no_answer(name, "the server could not find the requested resource")
        return f"{NO_METRICS.format(name)}no metrics returned from resource metrics API"

    def _no_answer(self, name: str, why: str) -> str:
        head = NO_METRICS.format(name)
        return f"{head}unable to fetch metrics from resource metrics API: {why} (get pods.metrics.k8s.io)"

    def _sampled(self, pods: list[Obj], only: str) -> bool:
        """Whether the metrics API has anything about the pods: it is asked before requests are looked at."""
        names = ((pod, c["name"]) for pod in pods for c in pod["spec"]["containers"] if only in ("", c["name"]))
        return any(self._usage(pod, name) is not None for pod, name in names)

    def _samples(self, name: str, only: str, pods: list[Obj], needs_request: bool) -> list[metrics.PodSample]:
        samples = []
        for pod in pods:
            usage, request = 0.0, 0.0
            complete = True
            for container in pod["spec"]["containers"]:
                if only and container["name"] != only:
                    continue
                asked = ((container.get("resources") or {}).get("requests") or {}).get(name)
                if asked is None and needs_request:
                    where = f"container {container['name']} of Pod {pod['metadata']['name']}"
                    raise Unavailable(
                        f"failed to get {name} utilization: missing request for {name} in {where}"
                    )
                request += podlib.quantity(asked)
                sample = self._usage(pod, container["name"])
                complete = complete and sample is not None
                if sample is not None:
                    usage += sample.cpu_cores if name == "cpu" else sample.memory_bytes
            ready = name != "cpu" or podlib.ready(pod)
            samples.append(metrics.PodSample(usage if complete else None, request, ready))
        return samples

    def _usage(self, pod: Obj, container: str) -> Usage | None:
        for entry in (pod.get("status") or {}).get("containerStatuses") or ():
            if entry["name"] == container and "running" in entry["state"]:
                meta = pod["metadata"]
                ref = ContainerRef(
                    meta["namespace"], meta["name"], meta["uid"], container, entry["restartCount"]
                )
                return self._world.usage(ref, self.kernel.now)
        return None

    # Limits -----------------------------------------------------------------------------------------------

    def _limited(self, key: Key, hpa: Obj, status: Obj, current: int, proposed: int) -> int:
        """Stabilisation, then the rate of change, then minimum and maximum."""
        now = self.kernel.now
        stable = self._stabilised(key, hpa, current, proposed)
        if stable != proposed:
            way = "Down" if stable > proposed else "Up"
            word = ("higher", "highest") if way == "Down" else ("lower", "lowest")
            text = (
                f"recent recommendations were {word[0]} than current one, applying the {word[1]} recent"
                " recommendation"
            )
            self._set(status, "AbleToScale", "True", f"Scale{way}Stabilized", text)
        else:
            text = "recommended size matches current size"
            self._set(status, "AbleToScale", "True", "ReadyForNewScale", text)
        least, most = hpa["spec"].get("minReplicas", 1), hpa["spec"]["maxReplicas"]
        changes = self._changes.get(key, [])
        limited, reason, text = (
            stable,
            "DesiredWithinRange",
            "the desired count is within the acceptable range",
        )
        if stable > current:
            allowed = max(current, metrics.rate_limit(hpa, current, changes, now, up=True))
            if stable > min(allowed, most):
                limited, reason = min(allowed, most), "ScaleUpLimit" if allowed < most else "TooManyReplicas"
        elif stable < current:
            allowed = min(current, metrics.rate_limit(hpa, current, changes, now, up=False))
            if stable < max(allowed, least):
                limited, reason = (
                    max(allowed, least),
                    "ScaleDownLimit" if allowed > least else "TooFewReplicas",
                )
        elif proposed < least:
            reason = "TooFewReplicas"
        elif proposed > most:
            reason = "TooManyReplicas"
        limited = min(max(limited, least), most)
        texts = {
            "ScaleUpLimit": "the desired replica count is increasing faster than the maximum scale rate",
            "ScaleDownLimit": "the desired replica count is decreasing faster than the maximum scale rate",
            "TooManyReplicas": "the desired replica count is more than the maximum replica count",
            "TooFewReplicas": "the desired replica count is less than the minimum replica count",
        }
        value = "False" if reason == "DesiredWithinRange" else "True"
        self._set(status, "ScalingLimited", value, reason, texts.get(reason, text))
        return limited

    def _stabilised(self, key: Key, hpa: Obj, current: int, proposed: int) -> int:
        now = self.kernel.now
        up_s, down_s = (metrics.rules(hpa, way)[0] for way in ("scaleUp", "scaleDown"))
        kept = [(at, n) for at, n in self._recommended.get(key, []) if now - at < max(up_s, down_s)]
        self._recommended[key] = [*kept, (now, proposed)]
        highest = max([proposed, *(n for at, n in kept if now - at < down_s)])
        lowest = min([proposed, *(n for at, n in kept if now - at < up_s)])
        if current < lowest:
            return lowest
        return highest if current > highest else current

    def _rescale(self, key: Key, hpa: Obj, status: Obj, target: Key, desired: int, reason: str) -> None:
        obj = self.store.get(target)
        if obj is None:
            return
        before = obj["spec"].get("replicas", 1)
        self.update(target, with_spec(obj, replicas=desired))
        recent = [(at, n) for at, n in self._changes.get(key, []) if self.kernel.now - at < 3600]
        self._changes[key] = [*recent, (self.kernel.now, desired - before)]
        status["lastScaleTime"] = self.kernel.timestamp()
        self.event(hpa, "Normal", "SuccessfulRescale", f"New size: {desired}; reason: {reason}")
        text = f"the HPA controller was able to update the target scale to {desired}"
        self._set(status, "AbleToScale", "True", "SucceededRescale", text)

    def _set(self, status: Obj, type_: str, value: str, reason: str, message: str) -> None:
        conditions = list(status.get("conditions") or ())
        old = find_condition(conditions, type_)
        same = old is not None and old["status"] == value
        entry = {
            "type": type_,
            "status": value,
            "lastTransitionTime": old["lastTransitionTime"]
            if old is not None and same
            else self.kernel.timestamp(),
            "reason": reason,
            "message": message,
        }
        if old is None:
            status["conditions"] = [*conditions, entry]
        else:
            status["conditions"] = [entry if one["type"] == type_ else one for one in conditions]


def _failure_reason(metric: Obj) -> str:
    kind = {"Resource": "Resource", "ContainerResource": "ContainerResource"}.get(
        metric["type"], metric["type"]
    )
    return f"FailedGet{kind}Metric"


def _amount(name: str, value: float) -> str:
    if name == "cpu":
        return quantity_text(Fraction(round(value * 1000), 1000))
    return str(round(value))
