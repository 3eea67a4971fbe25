"""Warnings: what a client is told about an object that was accepted all the same."""

from __future__ import annotations

import base64
import ipaddress
import json
from collections.abc import Callable, Iterator
from typing import Any

from aiopslab.sim.core.schema import KindLike
from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.ingress import CLASS_ANNOTATION
from aiopslab.sim.core.validate.podwarnings import OLD_VOLUMES, claim_warnings, fractions, pod_warnings, term_warnings

Obj = dict[str, Any]
_LABEL_BETTER = "which can result in surprising behavior; a DNS label is recommended"
_NAMES_PODS = ("Deployment", "ReplicaSet", "ReplicationController", "Job", "CronJob")
_TEMPLATED = (*_NAMES_PODS, "DaemonSet", "StatefulSet")
_CLASS_NOTE = "volume.beta.kubernetes.io/storage-class"
_MOUNT_NOTE = "volume.beta.kubernetes.io/mount-options"
_HINTS_NOTE, _MODE_NOTE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"


def warn(obj: Obj, kind: KindLike, old: Obj | None, subresource: str) -> list[str]:
    """Warnings about a valid object, in the server's order. A change of a pod or of a status gives none."""
    key = (kind.group, kind.kind)
    if subresource or getattr(kind, "crd", None) is not None:
        return []
    if kind.kind in _TEMPLATED and kind.group in ("", "apps", "batch"):
        return list(_workload(obj, kind.kind, old))
    check = _CHECKS.get(key)
    return [] if check is None else list(check(obj, old))


def _notes(obj: Obj) -> Obj:
    return obj["metadata"].get("annotations") or {}


def _pod(obj: Obj, old: Obj | None) -> Iterator[str]:
    if old is not None:
        return
    if wrong := values.dns_label(obj["metadata"].get("name", "")):
        yield f"metadata.name: this is used in the Pod's hostname, {_LABEL_BETTER}: [{' '.join(wrong)}]"
    yield from pod_warnings(obj)


def _workload(obj: Obj, kind: str, old: Obj | None) -> Iterator[str]:
    meta, spec = obj["metadata"], obj.get("spec") or {}
    if old is None or meta.get("generation") != old["metadata"].get("generation"):
        yield from _template(obj, kind, old)
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            yield from claim_warnings(claim, f"spec.volumeClaimTemplates[{index}].spec")
    if kind == "StatefulSet" and (spec.get("revisionHistoryLimit") or 0) < 0:
        text = "a negative value retains all historical revisions; a value >= 0 is recommended"
        yield f"spec.revisionHistoryLimit: {text}"


def _template(obj: Obj, kind: str, old: Obj | None) -> Iterator[str]:
    meta, spec = obj["metadata"], obj.get("spec") or {}
    if old is None and kind in _NAMES_PODS and (wrong := values.dns_label(meta.get("name", ""))):
        yield f"metadata.name: this is used in Pod names and hostnames, {_LABEL_BETTER}: [{' '.join(wrong)}]"
    path = "spec.template."
    if kind == "CronJob":
        spec, path = (spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec.template."
    yield from pod_warnings(spec.get("template") or {}, path)


def _service(obj: Obj, old: Obj | None) -> Iterator[str]:
    spec, notes = obj["spec"], _notes(obj)
    kind, outer = spec.get("type", "ClusterIP"), spec.get("externalIPs") or []
    headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    if _HINTS_NOTE in notes:
        yield f"annotation {_HINTS_NOTE} is deprecated, please use {_MODE_NOTE} instead"
    if not headless:
        yield from _addresses(spec.get("clusterIPs"), "spec.clusterIPs")
    else:
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if outer:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity", "None") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    yield from _addresses(outer, "spec.externalIPs")
    if outer and not headless and kind != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if outer and kind == "ExternalName":
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if kind != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _addresses(addresses: list[str] | None, path: str) -> Iterator[str]:
    for index, address in enumerate(addresses or ()):
        try:
            standard = str(ipaddress.ip_address(address))
        except ValueError:
            continue
        if standard != address:
            shown, better = json.dumps(address), json.dumps(standard)
            yield f"{path}[{index}]: IPv6 address {shown} should be in RFC 5952 canonical format ({better})"


def _class_note(obj: Obj) -> Iterator[str]:
    if _CLASS_NOTE in _notes(obj):
        text = 'deprecated since v1.8; use "storageClassName" attribute instead'
        yield f"metadata.annotations[{_CLASS_NOTE}]: {text}"


def _claim(obj: Obj, old: Obj | None) -> Iterator[str]:
    yield from _class_note(obj)
    yield from claim_warnings(obj, "spec")


def _volume(obj: Obj, old: Obj | None) -> Iterator[str]:
    spec = obj["spec"]
    yield from _class_note(obj)
    if _MOUNT_NOTE in _notes(obj):
        yield f'metadata.annotations[{_MOUNT_NOTE}]: deprecated since v1.31; use "mountOptions" attribute instead'
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    for index, term in enumerate(required.get("nodeSelectorTerms") or ()):
        yield from term_warnings(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]")
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        text = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic "
        yield f"spec.persistentVolumeReclaimPolicy: {text}provisioning."
    yield from (f"spec.{field}: {text}" for field, text in OLD_VOLUMES.items() if spec.get(field) is not None)
    yield from fractions(spec.get("capacity"), "spec.capacity", ("storage",))


def _ingress(obj: Obj, old: Obj | None) -> Iterator[str]:
    if old is None and CLASS_ANNOTATION in _notes(obj):
        yield f'annotation "{CLASS_ANNOTATION}" is deprecated, please use \'spec.ingressClassName\' instead'


def _secret(obj: Obj, old: Obj | None) -> Iterator[str]:
    """A certificate and its key as files, which is all that is looked at of them."""
    data = obj.get("data") or {}
    if obj.get("type") == "kubernetes.io/tls":
        for key, what in (("tls.crt", "certificate"), ("tls.key", "key")):
            if b"-----BEGIN " not in base64.b64decode(data.get(key, "")):
                yield f"tls: failed to find any PEM data in {what} input"
                return


_CHECKS: dict[tuple[str, str], Callable[[Obj, Obj | None], Iterator[str]]] = {
    ("", "Pod"): _pod,
    ("", "Secret"): _secret,
    ("", "Service"): _service,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "PersistentVolume"): _volume,
    ("networking.k8s.io", "Ingress"): _ingress,
}
