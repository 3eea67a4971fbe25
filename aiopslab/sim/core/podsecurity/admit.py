"""Judging writes of pods, of what makes pods, and of namespaces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiopslab.sim.core.apierrors import Cause, forbidden, invalid
from aiopslab.sim.core.podsecurity.checks import Violation, violations
from aiopslab.sim.core.podsecurity.levels import PRIVILEGED, Level, Policy, policy_of
from aiopslab.sim.core.store import Key, Store
from aiopslab.sim.core.webhooks import Write

Obj = dict[str, Any]

MAX_PODS = 3000
# Where the pod of each kind that makes pods is.
TEMPLATES: dict[str, tuple[str, ...]] = {
    "replicationcontrollers": ("spec", "template"),
    "podtemplates": ("template",),
    "apps/replicasets": ("spec", "template"),
    "apps/deployments": ("spec", "template"),
    "apps/statefulsets": ("spec", "template"),
    "apps/daemonsets": ("spec", "template"),
    "batch/jobs": ("spec", "template"),
    "batch/cronjobs": ("spec", "jobTemplate", "spec", "template"),
}
# Writes that cannot make a pod ask for more.
HARMLESS = frozenset({"attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status"})


def check(store: Store, write: Write) -> list[str]:
    """Warnings about a create or an update. Raises 403 for a pod, 422 for a namespace that are refused."""
    resource = write.kind.resource
    if resource == "namespaces":
        return [] if write.subresource else _namespace(store, write)
    if resource == "pods":
        return [] if write.subresource in HARMLESS else _pod(store, write)
    if resource in TEMPLATES and not write.subresource:
        return _controller(store, write)
    return []


def _policy(store: Store, write: Write) -> Policy:
    place = store.get(Key("namespaces", "", write.obj["metadata"]["namespace"]))
    return policy_of((place or {}).get("metadata", {}).get("labels") or {})


def _pod(store: Store, write: Write) -> list[str]:
    policy = _policy(store, write)
    if policy.enforce.name == policy.warn.name == PRIVILEGED:
        return []
    pod = write.obj
    if write.old is not None and not _is_significant(pod, write.old):
        return []
    found = violations(policy.enforce, pod["metadata"], pod["spec"])
    if found:
        why = f'violates PodSecurity "{policy.enforce}": {_details(found)}'
        raise forbidden(write.kind, pod["metadata"].get("name", ""), why)
    return _warnings(policy.warn, pod)


def _controller(store: Store, write: Write) -> list[str]:
    policy = _policy(store, write)
    if policy.warn.name == PRIVILEGED:
        return []
    template: Obj = write.obj
    for field in TEMPLATES[write.kind.resource]:
        template = template.get(field) or {}
    return _warnings(policy.warn, template) if template.get("spec") else []


def _warnings(level: Level, pod: Obj) -> list[str]:
    found = violations(level, pod.get("metadata") or {}, pod["spec"])
    return [f'would violate PodSecurity "{level}": {_details(found)}'] if found else []


def _details(found: Iterable[Violation]) -> str:
    return ", ".join(f"{v.reason} ({v.detail})" for v in found)


def _is_significant(new: Obj, old: Obj) -> bool:
    """Whether an update changes an image, adds a container or sets another seccomp annotation."""

    def facts(pod: Obj) -> tuple[dict[tuple[str, str], str], Obj]:
        containers = {
            (field, c["name"]): c.get("image")
            for field in ("initContainers", "containers", "ephemeralContainers")
            for c in pod["spec"].get(field) or ()
        }
        annotations = pod["metadata"].get("annotations") or {}
        return containers, {k: v for k, v in annotations.items() if "seccomp.security.alpha.kubernetes.io/" in k}

    return facts(new) != facts(old)


# Namespaces -------------------------------------------------------------------------------------------------------


def _namespace(store: Store, write: Write) -> list[str]:
    """Warnings about pods that are there and would not be let in again."""
    policy = policy_of(write.obj["metadata"].get("labels") or {})
    before = policy_of((write.old or {}).get("metadata", {}).get("labels") or {})
    if policy.errors and (write.old is None or policy.errors != before.errors):
        raise _invalid(write, policy)
    new, old = policy.enforce, before.enforce
    if write.old is None or new == old or new.name == PRIVILEGED or new.is_relaxed_from(old):
        return []
    return _existing(store, write.obj["metadata"]["name"], new)


def _invalid(write: Write, policy: Policy) -> Exception:
    causes = [
        Cause("FieldValueInvalid", f'Invalid value: "{value}": {message}', f"metadata.labels[{label}]")
        for label, value, message in policy.errors
    ]
    return invalid((write.kind.kind, write.kind.group), write.obj["metadata"].get("name", ""), causes)


def _existing(store: Store, namespace: str, level: Level) -> list[str]:
    pods = store.list("pods", namespace)
    names: dict[str, list[str]] = {}
    for pod in pods[:MAX_PODS]:
        reasons = ", ".join(v.reason for v in violations(level, pod["metadata"], pod["spec"]))
        if reasons:
            names.setdefault(reasons, []).append(pod["metadata"]["name"])
    warnings = []
    if len(pods) > MAX_PODS:
        checked = f"the first {MAX_PODS} of {len(pods)} existing pods"
        warnings.append(f"new PodSecurity enforce level only checked against {checked}")
    if names:
        warnings.append(f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{level}"')
    return warnings + sorted(f"{_first(pods_of)}: {reasons}" for reasons, pods_of in names.items())


def _first(names: list[str]) -> str:
    more = len(names) - 1
    others = "" if not more else f" (and {more} other pod{'s' if more > 1 else ''})"
    return min(names) + others
