"""What the API server warns of in a pod or a pod template that it accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from aiopslab.sim.core import quantity
from aiopslab.sim.core.validate import values

Obj = dict[str, Any]
OLD_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
OLD_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_OLD_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_APPARMOR = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_BYTES = ("memory", "ephemeral-storage")
_NO_POD = "a null labelSelector results in matching no pod"
_REQUIRED, _PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))


def pod_warnings(pod: Obj, path: str = "") -> Iterator[str]:
    """Warnings of a pod, or of the template at ``path`` (with a dot at its end)."""
    spec, notes = pod.get("spec") or {}, (pod.get("metadata") or {}).get("annotations") or {}
    where = f"{path}spec"
    yield from _placement(spec, where)
    yield from (f"{path}metadata.annotations[{k}]: {text}" for k, text in _OLD_ANNOTATIONS.items() if k in notes)
    yield from _volumes(spec, where)
    yield from _repeated(spec.get("hostAliases"), f"{where}.hostAliases", "ip")
    yield from _repeated(spec.get("imagePullSecrets"), f"{where}.imagePullSecrets", "name")
    for index, item in enumerate(spec.get("imagePullSecrets") or ()):
        if not item.get("name"):
            yield f'{where}.imagePullSecrets[{index}].name: invalid empty name ""'
    yield from fractions(spec.get("overhead"), f"{where}.overhead", _BYTES)
    context = spec.get("securityContext") or {}
    key = "seccomp.security.alpha.kubernetes.io/pod"
    if key in notes and not context.get("seccompProfile"):
        yield f"{path}metadata.annotations[{key}]: {_SECCOMP}"
    for container, at in _containers(spec, where):
        own = container.get("securityContext") or {}
        key = f"container.seccomp.security.alpha.kubernetes.io/{container.get('name', '')}"
        if key in notes and not own.get("seccompProfile"):
            yield f"{path}metadata.annotations[{key}]: {_SECCOMP}"
        key = f"container.apparmor.security.beta.kubernetes.io/{container.get('name', '')}"
        if path and key in notes and not (own.get("appArmorProfile") or context.get("appArmorProfile")):
            yield f"{path}metadata.annotations[{key}]: {_APPARMOR}"
        yield from _container(container, at)
    yield from _ports(spec, where)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{where}.terminationGracePeriodSeconds: {text}"
    yield from _pod_affinity(spec.get("affinity") or {}, f"{where}.affinity")


def _containers(spec: Obj, path: str) -> Iterator[tuple[Obj, str]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield container, f"{path}.{field}[{index}]"


def _placement(spec: Obj, path: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or {}:
        if key in OLD_LABELS:
            yield f"{path}.nodeSelector[{key}]: {OLD_LABELS[key]}"
    nodes, where = (spec.get("affinity") or {}).get("nodeAffinity") or {}, f"{path}.affinity.nodeAffinity"
    for index, term in enumerate((nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield from term_warnings(term, f"{where}.{_REQUIRED}.nodeSelectorTerms[{index}]")
    for index, term in enumerate(nodes.get(_PREFERRED) or ()):
        at = f"{where}.{_PREFERRED}[{index}].preference"
        yield from term_warnings(term.get("preference") or {}, at, with_values=True)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        at, key = f"{path}.topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        if key in OLD_LABELS:
            yield f"{at}.topologyKey: {key} is {OLD_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{at}.labelSelector: {_NO_POD}"


def term_warnings(term: Obj, path: str, *, with_values: bool = False) -> Iterator[str]:
    """Warnings of one node selector term."""
    for index, one in enumerate(term.get("matchExpressions") or ()):
        key = one.get("key", "")
        if key in OLD_LABELS:
            yield f"{path}.matchExpressions[{index}].key: {key} is {OLD_LABELS[key]}"
        for at, value in enumerate(one.get("values") or () if with_values else ()):
            for text in values.label_value(value):
                yield f"{path}.matchExpressions[{index}].values[{at}]: {value} is invalid, {text}"


def _volumes(spec: Obj, path: str) -> Iterator[str]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for field, text in OLD_VOLUMES.items():
            if volume.get(field) is not None:
                yield f"{path}.volumes[{index}].{'storageOS' if field == 'storageos' else field}: {text}"
        claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if claim is not None:
            yield from claim_warnings(claim, f"{path}.volumes[{index}].ephemeral.volumeClaimTemplate.spec")


def claim_warnings(claim: Obj, path: str) -> Iterator[str]:
    """Warnings of the spec of a claim."""
    resources = (claim.get("spec") or {}).get("resources") or {}
    for field in ("requests", "limits"):
        yield from fractions(resources.get(field), f"{path}.resources.{field}", ("storage",))


def _repeated(items: list[Obj] | None, path: str, field: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items or ()):
        value = item.get(field, "")
        if value in seen:
            yield f"{path}[{index}].{field}: duplicate {field} {json.dumps(value)}"
        seen.add(value)


def fractions(amounts: Obj | None, path: str, names: tuple[str, ...]) -> Iterator[str]:
    """Resources that are counted in bytes and are no whole number of them."""
    for name in names:
        value = (amounts or {}).get(name)
        if value is not None and quantity.parse(value).denominator != 1:
            shown = json.dumps(quantity.canonical(value))
            yield f"{path}[{name}]: fractional byte value {shown} is invalid, must be an integer"


def _container(container: Obj, path: str) -> Iterator[str]:
    resources = container.get("resources") or {}
    for name in _BYTES:
        for field in ("limits", "requests"):
            yield from fractions(resources.get(field), f"{path}.resources.{field}", (name,))
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"  # a value that builds on the previous one hides nothing
        builds = reference in value and value != reference and variable.get("valueFrom") is None
        if name in seen and not builds:
            hidden = f"hides previous definition of {json.dumps(name)}"
            yield f"{path}.env[{index}]: {hidden}, which may be dropped when using apply"
        seen.add(name)


def _ports(spec: Obj, path: str) -> Iterator[str]:
    known: dict[tuple[int, str], list[tuple[str, str, int]]] = {}
    for container, at in _containers(spec, path):
        for index, port in enumerate(container.get("ports") or ()):
            where, host, number = f"{at}.ports[{index}]", port.get("hostIP", ""), port.get("hostPort", 0)
            others = known.setdefault((port.get("containerPort", 0), port.get("protocol", "TCP")), [])
            for other, other_host, other_number in others:
                if (host, number) == (other_host, other_number):
                    yield f"{where}: duplicate port definition with {other}"
                elif not number or not other_number:
                    yield f"{where}: overlapping port definition with {other}"
                elif number == other_number and (not host or not other_host):
                    yield f"{where}: dangerously ambiguous port definition with {other}"
            others.append((where, host, number))


def _pod_affinity(affinity: Obj, path: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        for index, term in enumerate(rules.get(_REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"{path}.{kind}.{_REQUIRED}[{index}].labelSelector: {_NO_POD}"
        for index, term in enumerate(rules.get(_PREFERRED) or ()):
            if (term.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{path}.{kind}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NO_POD}"
