"""Admission webhooks: which of them a write concerns, and how calling them fails.

No simulated program speaks AdmissionReview, so a call never succeeds. A webhook that says ``failurePolicy: Ignore``
lets writes pass; one that says ``Fail`` refuses them, with the reason that a real API server would meet at its
Service: it is missing, it has no endpoints, or nothing there answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aiopslab.sim.core import cel
from aiopslab.sim.core.apierrors import internal
from aiopslab.sim.core.controllers.labels import label_selector_matches
from aiopslab.sim.core.endpointslices import is_ready, slices_of
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.ports import Principal
from aiopslab.sim.core.store import Key, Obj, Store

GROUP = "admissionregistration.k8s.io"
MUTATING = f"{GROUP}/mutatingwebhookconfigurations"
VALIDATING = f"{GROUP}/validatingwebhookconfigurations"
DEFAULT_PORT = 443
DEFAULT_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Write:
    """A write that webhooks and policies judge. ``new`` is None for a deletion, ``old`` for a creation."""

    kind: Kind
    new: Obj | None
    old: Obj | None
    subresource: str
    user: Principal | None
    dry_run: bool

    @property
    def operation(self) -> str:
        """CREATE, UPDATE or DELETE."""
        return "DELETE" if self.new is None else "CREATE" if self.old is None else "UPDATE"

    @property
    def obj(self) -> Obj:
        """The object, as it will be or as it was."""
        found = self.new if self.new is not None else self.old
        assert found is not None
        return found

    @property
    def request(self) -> Obj:
        """``request`` of expressions about the write."""
        kind, meta, user = self.kind, self.obj["metadata"], self.user
        return {
            "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            "resource": {"group": kind.group, "version": kind.version, "resource": kind.plural},
            "subResource": self.subresource,
            "name": meta.get("name", ""),
            "namespace": meta.get("namespace", ""),
            "operation": self.operation,
            "userInfo": {
                "username": user.username if user else "system:apiserver",
                "groups": list(user.groups) if user else ["system:masters"],
            },
            "dryRun": self.dry_run,
        }


def check(store: Store, configurations: str, write: Write) -> None:
    """Raise 500 when a webhook that concerns this write must be asked and cannot be."""
    if write.kind.group == GROUP or not store.count(configurations):
        return
    for hook in _hooks(store, configurations):
        if hook.get("failurePolicy") == "Ignore" or not _conditions_hold(hook, write):
            continue
        if not any(covers(rule, write) for rule in hook.get("rules") or ()):
            continue
        if in_scope(store, hook, write):
            raise internal(
                f'failed calling webhook "{hook["name"]}": failed to call webhook: {_failure(store, hook)}'
            )


def _conditions_hold(hook: Obj, write: Write) -> bool:
    """Whether all ``matchConditions`` are true; one that cannot be evaluated counts as true."""
    names = {"object": write.new, "oldObject": write.old, "request": write.request}
    for condition in hook.get("matchConditions") or ():
        try:
            if cel.evaluate(condition["expression"], names) is False:
                return False
        except (cel.Unsupported, cel.EvaluationError):
            continue
    return True


def _hooks(store: Store, configurations: str) -> Iterator[Obj]:
    for configuration in store.list(configurations):
        yield from configuration.get("webhooks") or ()


def covers(rule: Obj, write: Write) -> bool:
    """Whether a rule (operations, groups, versions, resources, scope) names a write."""
    kind, subresource = write.kind, write.subresource

    def allows(field: str, value: str) -> bool:
        return bool({"*", value} & set(rule.get(field) or ()))

    scope = rule.get("scope") or "*"
    if scope != "*" and (scope == "Namespaced") != kind.namespaced:
        return False
    if not (allows("operations", write.operation) and allows("apiGroups", kind.group)):
        return False
    if not allows("apiVersions", kind.version):
        return False
    named = set(rule.get("resources") or ())
    if subresource:
        return bool(named & {"*/*", f"{kind.plural}/*", f"*/{subresource}", f"{kind.plural}/{subresource}"})
    return bool(named & {"*", "*/*", kind.plural})


def in_scope(store: Store, hook: Obj, write: Write) -> bool:
    """Whether the selectors of namespace and object match."""
    kind, new, old = write.kind, write.obj, write.old
    namespace = new["metadata"].get("namespace") if kind.namespaced else None
    place = (
        store.get(Key("namespaces", "", namespace)) if namespace else new if kind.plural == "namespaces" else None
    )
    if place is not None and not _selects(hook.get("namespaceSelector"), place):
        return False
    return any(_selects(hook.get("objectSelector"), obj) for obj in (new, old) if obj is not None)


def _selects(selector: Obj | None, obj: Obj) -> bool:
    return not selector or label_selector_matches(selector, obj["metadata"].get("labels") or {})


def _failure(store: Store, hook: Obj) -> str:
    """Why the call does not succeed, with the address that was called."""
    client = hook.get("clientConfig") or {}
    query = f"timeout={hook.get('timeoutSeconds') or DEFAULT_TIMEOUT_S}s"
    service = client.get("service")
    if service is None:
        url = str(client.get("url", ""))
        host = url.partition("://")[2].partition("/")[0].partition(":")[0]
        return f'Post "{url}?{query}": dial tcp: lookup {host}: no such host'
    name, namespace = service["name"], service["namespace"]
    port = service.get("port") or DEFAULT_PORT
    path = "/" + (service.get("path") or "").lstrip("/")
    why = _unreachable(store, namespace, name, port)
    return f'Post "https://{name}.{namespace}.svc:{port}{path}?{query}": {why}'


def _unreachable(store: Store, namespace: str, name: str, port: int) -> str:
    found = store.get(Key("services", namespace, name))
    if found is None:
        return f'service "{name}" not found'
    endpoints = [e for item in slices_of(store, namespace, name) for e in item.get("endpoints") or ()]
    if not any(map(is_ready, endpoints)):
        return f'no endpoints available for service "{name}"'
    return f"dial tcp {found['spec'].get('clusterIP', '')}:{port}: connect: connection refused"
