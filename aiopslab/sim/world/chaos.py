"""The Chaos Mesh controller: selects pods, keeps records, conditions and events, ends experiments.

Network and stress effects follow from the records (see ``effects``); pod actions are carried out here, on the
objects that the real operator would touch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Protocol

from aiopslab.sim.core.api import Api
from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.kernel import Kernel, parse_time
from aiopslab.sim.core.options import DeleteOptions, WriteOptions
from aiopslab.sim.core.ports import ContainerRef
from aiopslab.sim.core.store import Change, Key, Obj
from aiopslab.sim.world.effects import seconds
from aiopslab.sim.world.view import selects

GROUP = "chaos-mesh.org"
KINDS = {"networkchaos": "NetworkChaos", "podchaos": "PodChaos", "stresschaos": "StressChaos"}
MANAGER = "chaos-controller-manager"
FINALIZER = "chaos-mesh/records"
FORCED = "chaos-mesh.chaos-mesh.org/cleanFinalizer"
PAUSE = "experiment.chaos-mesh.org/pause"
PAUSE_IMAGE = "gcr.io/google-containers/pause:latest"
NOT_INJECTED, INJECTED = "Not Injected", "Injected"
EVENTS_MAX = 100
CRDS = "apiextensions.k8s.io/customresourcedefinitions"


class Killer(Protocol):
    """The part of the world that container-kill needs."""

    def kill(self, ref: ContainerRef, now: float, reason: str = "Error") -> None:
        """SIGKILL to a container."""


def install(kernel: Kernel, api: Api, world: Killer) -> None:
    """Register the custom resources and the controller."""
    for plural, kind in KINDS.items():
        api.create(CRDS, "", definition(plural, kind), WriteOptions(MANAGER))
    kernel.add(ChaosController(kernel, api, world))


def definition(plural: str, kind: str) -> Obj:
    """The CustomResourceDefinition of one chaos kind."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        "required": ["spec"],
    }
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": plural},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


class ChaosController:
    """Implements ``kernel.Controller``."""

    name = "chaos-mesh"

    def __init__(self, kernel: Kernel, api: Api, world: Killer) -> None:
        self._kernel = kernel
        self._api = api
        self._world = world

    def keys(self, change: Change) -> Iterable[Key]:
        """Chaos objects."""
        group, _, plural = change.key.resource.partition("/")
        return (change.key,) if group == GROUP and plural in KINDS and change.type != "DELETED" else ()

    def reconcile(self, key: Key) -> None:
        """One pass of the operator's pipeline."""
        chaos = self._kernel.store.get(key)
        if chaos is None or chaos["spec"].get("remoteCluster"):
            return
        try:
            self._pass(key, chaos)
        except ApiError as problem:
            self._event(chaos, "Warning", "Failed", f"Failed to apply chaos: {problem}")

    def _pass(self, key: Key, chaos: Obj) -> None:
        meta = chaos["metadata"]
        deleting = "deletionTimestamp" in meta
        if not deleting and FINALIZER not in (meta.get("finalizers") or []):
            self._finalizers(key, chaos, [*(meta.get("finalizers") or []), FINALIZER])
            self._event(chaos, "Normal", "FinalizerInited", "Finalizer has been inited")
            return
        experiment = (chaos.get("status") or {}).get("experiment") or {}
        desired = self._desired(key, chaos, experiment)
        records = self._records(chaos, experiment)
        if records is not None:
            records = [self._step(chaos, record, desired) for record in records]
        self._write(key, desired, records)
        done = all(r["phase"] == NOT_INJECTED for r in records or [])
        forced = (meta.get("annotations") or {}).get(FORCED) == "forced"
        if deleting and (done or forced or one_shot(chaos)):
            current = self._kernel.store.get(key)
            if current is not None and FINALIZER in (current["metadata"].get("finalizers") or []):
                self._event(current, "Normal", "FinalizerInited", "Finalizer has been removed")
                kept = [f for f in current["metadata"]["finalizers"] if f != FINALIZER]
                self._finalizers(key, current, kept)

    def _desired(self, key: Key, chaos: Obj, experiment: Obj) -> str:
        meta, old = chaos["metadata"], experiment.get("desiredPhase")
        desired, reason, text = "Run", "Started", "Experiment has started"
        if "deletionTimestamp" in meta:
            desired, reason, text = "Stop", "Deleted", "Experiment has been deleted"
        elif one_shot(chaos):
            pass
        elif self._over(key, chaos):
            desired, reason, text = "Stop", "TimeUp", "Time up according to the duration"
        elif (meta.get("annotations") or {}).get(PAUSE) == "true":
            desired, reason, text = "Stop", "Paused", "Experiment has been paused"
        if desired != old:
            self._event(chaos, "Normal", reason, text)
        return desired

    def _over(self, key: Key, chaos: Obj) -> bool:
        duration = chaos["spec"].get("duration")
        if not duration:
            return False
        end = parse_time(chaos["metadata"]["creationTimestamp"]) + seconds(duration)
        if end > self._kernel.now:
            self._kernel.call_at(end, f"chaos/{key.resource}/{key.namespace}/{key.name}", lambda: self._again(key))
            return False
        return True

    def _again(self, key: Key) -> None:
        self._kernel.enqueue(self, key)

    def _records(self, chaos: Obj, experiment: Obj) -> list[Obj] | None:
        """The records, selected at the first pass; None while no pod is selected."""
        known = experiment.get("containerRecords")
        if known is not None:
            return [dict(record) for record in known]
        found = [(record, ".") for record in self._select(chaos, chaos["spec"])]
        target = chaos["spec"].get("target")
        if isinstance(target, dict):
            found += [(record, ".Target") for record in self._select(chaos, target)]
        if not found:
            self._event(chaos, "Warning", "Failed", "Failed to select targets: no pod is selected")
            return None
        start = {"phase": NOT_INJECTED, "injectedCount": 0, "recoveredCount": 0}
        return [{"id": record, "selectorKey": where, **start} for record, where in found]

    def _select(self, chaos: Obj, spec: Obj) -> list[str]:
        pods = self._chosen(chaos, spec, self._matching(chaos, spec.get("selector") or {}))
        if not by_container(chaos):
            return [f"{p['metadata']['namespace']}/{p['metadata']['name']}" for p in pods]
        wanted = spec.get("containerNames")
        found = []
        for pod in pods:
            names = [c["name"] for c in pod["spec"]["containers"]]
            for name in [n for n in names if n in wanted] if wanted else names[:1]:
                found.append(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}/{name}")
        return found

    def _matching(self, chaos: Obj, selector: Obj) -> list[Obj]:
        store = self._kernel.store
        if selector.get("pods"):
            keys = [Key("pods", ns, name) for ns, names in sorted(selector["pods"].items()) for name in names]
            return [pod for pod in map(store.get, keys) if pod is not None]
        namespaces = selector.get("namespaces") or [chaos["metadata"]["namespace"]]
        pods = [pod for namespace in sorted(set(namespaces)) for pod in store.list("pods", namespace)]
        return [pod for pod in pods if matches(pod, selector)]

    def _chosen(self, chaos: Obj, spec: Obj, pods: list[Obj]) -> list[Obj]:
        """The pods that ``mode`` and ``value`` leave, drawn without replacement."""
        mode, value = spec.get("mode", "all"), float(spec.get("value") or 0)
        ids, identity = self._kernel.ids, chaos["metadata"].get("uid", "")
        if mode == "all":
            return pods
        if mode == "random-max-percent":
            value *= ids.unit("chaos-percent", identity)
        counts = {"one": 1, "fixed": int(value)}
        count = counts.get(mode, math.ceil(len(pods) * value / 100))
        order = sorted(pods, key=lambda p: ids.unit("chaos", identity, p["metadata"]["name"]))
        return sorted(order[:count], key=lambda p: p["metadata"]["name"])

    def _step(self, chaos: Obj, record: Obj, desired: str) -> Obj:
        """Inject or recover one record."""
        if desired == "Run" and record["phase"] == NOT_INJECTED:
            problem = self._apply(chaos, record)
            done = {**record, "phase": INJECTED, "injectedCount": record["injectedCount"] + 1}
            return self._noted(chaos, record, done, ("Apply", "Applied", "apply"), problem)
        if desired == "Stop" and record["phase"] == INJECTED and not one_shot(chaos):
            problem = self._recover(chaos, record)
            done = {**record, "phase": NOT_INJECTED, "recoveredCount": record["recoveredCount"] + 1}
            return self._noted(chaos, record, done, ("Recover", "Recovered", "recover"), problem)
        return record

    def _noted(self, chaos: Obj, record: Obj, done: Obj, words: tuple[str, str, str], problem: str) -> Obj:
        operation, reason, verb = words
        entry: dict[str, Any] = {"operation": operation, "timestamp": self._kernel.timestamp()}
        if problem:
            self._event(chaos, "Warning", "Failed", f"Failed to {verb} chaos: {problem}")
            entry |= {"type": "Failed", "message": problem}
            return {**record, "events": [*(record.get("events") or []), entry][-EVENTS_MAX:]}
        self._event(chaos, "Normal", reason, f"Successfully {verb} chaos for {record['id']}")
        entry["type"] = "Succeeded"
        return {**done, "events": [*(record.get("events") or []), entry][-EVENTS_MAX:]}

    def _apply(self, chaos: Obj, record: Obj) -> str:
        """Carry out a pod action. Returns an error text, empty when it went well."""
        if chaos["kind"] != "PodChaos":
            return ""
        key = pod_key(record)
        pod = self._kernel.store.get(key)
        if pod is None:
            return f'pods "{key.name}" not found'
        action = chaos["spec"].get("action")
        if action == "pod-kill":
            grace_s = int(chaos["spec"].get("gracePeriod") or 0)
            self._api.delete("pods", key.namespace, key.name, DeleteOptions(manager=MANAGER, grace_s=grace_s))
        elif action == "container-kill":
            self._kill(pod, record["id"].split("/")[2])
        elif action == "pod-failure":
            self._images(key, pod, to_pause=True)
        return ""

    def _recover(self, chaos: Obj, record: Obj) -> str:
        key = pod_key(record)
        pod = self._kernel.store.get(key)
        if pod is not None and chaos["kind"] == "PodChaos" and chaos["spec"].get("action") == "pod-failure":
            self._images(key, pod, to_pause=False)
        return ""

    def _kill(self, pod: Obj, container: str) -> None:
        statuses = (pod.get("status") or {}).get("containerStatuses") or []
        attempt = next((s.get("restartCount", 0) for s in statuses if s["name"] == container), 0)
        meta = pod["metadata"]
        ref = ContainerRef(meta["namespace"], meta["name"], meta["uid"], container, attempt)
        self._world.kill(ref, self._kernel.now)

    def _images(self, key: Key, pod: Obj, to_pause: bool) -> None:
        """Swap every image for the pause image, or back from the annotations that keep the originals."""
        kept = dict(pod["metadata"].get("annotations") or {})
        spec = dict(pod["spec"])
        for part, suffix in (("containers", "normal"), ("initContainers", "init")):
            changed = []
            for container in spec.get(part) or []:
                name = f"{container['name']}-{suffix}"
                if to_pause:
                    kept[name] = container["image"]
                    changed.append({**container, "image": PAUSE_IMAGE})
                else:
                    changed.append({**container, "image": kept.pop(name, container["image"])})
            if changed:
                spec[part] = changed
        self._api.put(key, {**pod, "metadata": {**pod["metadata"], "annotations": kept}, "spec": spec}, MANAGER)

    def _write(self, key: Key, desired: str, records: list[Obj] | None) -> None:
        experiment: Obj = {"desiredPhase": desired}
        if records is not None:
            experiment["containerRecords"] = records
        paused = self._paused(key)
        flags = {
            "Selected": records is not None,
            "AllInjected": bool(records) and all(r["phase"] == INJECTED for r in records or []),
            "AllRecovered": bool(records) and all(r["phase"] == NOT_INJECTED for r in records or []),
            "Paused": paused,
        }
        conditions = [{"type": name, "status": "True" if flag else "False"} for name, flag in flags.items()]
        self._api.put_status(key, {"conditions": conditions, "experiment": experiment}, MANAGER)

    def _paused(self, key: Key) -> bool:
        chaos = self._kernel.store.get(key)
        return ((chaos or {}).get("metadata", {}).get("annotations") or {}).get(PAUSE) == "true"

    def _finalizers(self, key: Key, chaos: Obj, finalizers: list[str]) -> None:
        self._api.put(key, {**chaos, "metadata": {**chaos["metadata"], "finalizers": finalizers}}, MANAGER)

    def _event(self, chaos: Obj, type_: str, reason: str, message: str) -> None:
        self._api.event(chaos, type_, reason, message, MANAGER)


def one_shot(chaos: Obj) -> bool:
    """Experiments that act once and have nothing to recover."""
    return chaos["kind"] == "PodChaos" and chaos["spec"].get("action") in ("pod-kill", "container-kill")


def by_container(chaos: Obj) -> bool:
    """Whether records name containers and not only pods."""
    return chaos["kind"] == "StressChaos" or chaos["spec"].get("action") == "container-kill"


def pod_key(record: Obj) -> Key:
    """The pod of a record id."""
    namespace, name = record["id"].split("/")[:2]
    return Key("pods", namespace, name)


def matches(pod: Obj, selector: Obj) -> bool:
    """Whether a pod fits all members of a Chaos Mesh selector."""
    meta, spec = pod["metadata"], pod["spec"]
    labels = meta.get("labels") or {}
    expressions = {
        "matchLabels": selector.get("labelSelectors") or {},
        "matchExpressions": selector.get("expressionSelectors") or [],
    }
    annotations = selector.get("annotationSelectors") or {}
    fields = {"metadata.name": meta["name"], "spec.nodeName": spec.get("nodeName", "")}
    phases = selector.get("podPhaseSelectors")
    return (
        selects(expressions, labels)
        and all((meta.get("annotations") or {}).get(k) == v for k, v in annotations.items())
        and all(fields.get(k) == v for k, v in (selector.get("fieldSelectors") or {}).items())
        and (not selector.get("nodes") or spec.get("nodeName") in selector["nodes"])
        and (not phases or (pod.get("status") or {}).get("phase") in phases)
    )
