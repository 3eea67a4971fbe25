"""What happens to a write between defaulting and storing: mutating plugins, then validating ones.

A mutating plugin is a function of the attempt; the list at the end gives the order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiopslab.sim.core import (
    admissionpolicy,
    claimresize,
    limitranges,
    podsecurity,
    quotas,
    runtimeclasses,
    webhooks,
)
from aiopslab.sim.core.apierrors import forbidden
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.options import DeleteOptions, WriteOptions
from aiopslab.sim.core.ports import Principal
from aiopslab.sim.core.rbac import Rbac
from aiopslab.sim.core.store import Key, Store

if TYPE_CHECKING:
    from aiopslab.sim.core.api import Api

Obj = dict[str, Any]

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_LIFETIME_S = 3607
EVICTION_TOLERANCE_S = 300
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
SIGNING_REQUESTS = "certificates.k8s.io/certificatesigningrequests"
DEFAULT_STORAGE = "storageclass.kubernetes.io/is-default-class"
DEFAULT_INGRESS = "ingressclass.kubernetes.io/is-default-class"
INGRESS_CLASS = "kubernetes.io/ingress.class"


@dataclass(slots=True)
class Attempt:
    """A write on its way: ``old`` is None for creation. ``tracked`` once managedFields
    are right."""

    kind: Kind
    obj: Obj
    old: Obj | None
    subresource: str
    opts: WriteOptions
    tracked: bool = False

    @property
    def write(self) -> webhooks.Write:
        """The attempt as webhooks and policies see it now."""
        opts = self.opts
        return webhooks.Write(self.kind, self.obj, self.old, self.subresource, opts.user, opts.dry_run)

    @property
    def creates(self) -> bool:
        """Whether a new object is made."""
        return self.old is None


def requested_by(request: Obj, user: Principal) -> Obj:
    """A certificate signing request that says who made it, whatever it said itself."""
    who: Obj = {"username": user.username, "groups": list(user.groups)}
    if user.uid:
        who["uid"] = user.uid
    if user.extra:
        who["extra"] = user.extra
    spec = {k: v for k, v in (request.get("spec") or {}).items() if k not in ("username", "groups", "uid", "extra")}
    return {**request, "spec": {**spec, **who}}


class Admission:
    """The chain of plugins of one cluster."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store: Store = api.store
        self.rbac = Rbac(api.store)

    def check_escalation(self, attempt: Attempt) -> None:
        """Nobody grants more than they hold. Raises 403."""
        self.rbac.check_escalation(attempt.kind, attempt.obj, attempt.old, attempt.opts.user)

    def mutate(self, attempt: Attempt) -> Obj:
        """The object after all mutating plugins."""
        if attempt.creates and attempt.kind.resource == SIGNING_REQUESTS and attempt.opts.user is not None:
            attempt.obj = requested_by(attempt.obj, attempt.opts.user)
        for plugin in MUTATING:
            attempt.obj = plugin(self, attempt)
        self._webhooks(webhooks.MUTATING, attempt)
        return attempt.obj

    def validate(self, attempt: Attempt) -> None:
        """Raises when a validating plugin refuses. Quotas come last: nothing after them refuses what they counted."""
        self._limits(attempt)
        attempt.opts.warnings += podsecurity.check(self._store, attempt.write)
        attempt.opts.warnings += admissionpolicy.check(self._store, attempt.write)
        self._webhooks(webhooks.VALIDATING, attempt)
        self._quota(attempt)

    def deleting(self, kind: Kind, obj: Obj, opts: DeleteOptions) -> None:
        """Raises when a policy or a webhook refuses the deletion of an object."""
        write = webhooks.Write(kind, None, obj, "", opts.user, opts.dry_run)
        admissionpolicy.check(self._store, write)
        for configurations in (webhooks.MUTATING, webhooks.VALIDATING):
            webhooks.check(self._store, configurations, write)

    def _webhooks(self, configurations: str, attempt: Attempt) -> None:
        webhooks.check(self._store, configurations, attempt.write)

    # Mutating plugins -----------------------------------------------------------------------------------

    def _limit_defaults(self, attempt: Attempt) -> Obj:
        if attempt.kind.resource != "pods" or not attempt.creates:
            return attempt.obj
        namespace = attempt.obj["metadata"]["namespace"]
        return limitranges.fill_in(attempt.obj, self._store.list("limitranges", namespace))

    def _service_account(self, attempt: Attempt) -> Obj:
        if attempt.kind.resource != "pods" or not attempt.creates:
            return attempt.obj
        pod, spec = attempt.obj, dict(attempt.obj["spec"])
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        if "kubernetes.io/config.mirror" in (pod["metadata"].get("annotations") or {}):
            return pod
        account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = account
        found = self._store.get(Key("serviceaccounts", namespace, account))
        if found is None:
            why = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
            raise forbidden(attempt.kind, name, why)
        if found.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = found["imagePullSecrets"]
        automount = spec.get("automountServiceAccountToken", found.get("automountServiceAccountToken", True))
        if automount:
            suffix = self._api.kernel.ids.suffix(5, "token-volume", namespace, name)
            mount_token(spec, f"kube-api-access-{suffix}")
        return {**pod, "spec": spec}

    def _tolerations(self, attempt: Attempt) -> Obj:
        if attempt.kind.resource != "pods" or not attempt.creates:
            return attempt.obj
        spec = dict(attempt.obj["spec"])
        tolerations = list(spec.get("tolerations") or [])
        for condition in ("not-ready", "unreachable"):
            key = f"node.kubernetes.io/{condition}"
            if not any(_tolerates(t, key) for t in tolerations):
                tolerations.append(
                    {
                        "key": key,
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": EVICTION_TOLERANCE_S,
                    }
                )
        spec["tolerations"] = tolerations
        return {**attempt.obj, "spec": spec}

    def _priority(self, attempt: Attempt) -> Obj:
        if attempt.kind.resource != "pods" or not attempt.creates:
            return attempt.obj
        spec = dict(attempt.obj["spec"])
        wanted = spec.get("priorityClassName", "")
        found = self._priority_class(wanted)
        if wanted and found is None:
            why = f"no PriorityClass with name {wanted} was found"
            raise forbidden(attempt.kind, attempt.obj["metadata"]["name"], why)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
        spec["priority"] = found.get("value", 0) if found else 0
        spec.setdefault("preemptionPolicy", (found or {}).get("preemptionPolicy", "PreemptLowerPriority"))
        return {**attempt.obj, "spec": spec}

    def _priority_class(self, name: str) -> Obj | None:
        classes = self._store.list("scheduling.k8s.io/priorityclasses")
        if not name:
            return next((c for c in classes if c.get("globalDefault")), None)
        if name in SYSTEM_PRIORITIES:
            return {"metadata": {"name": name}, "value": SYSTEM_PRIORITIES[name]}
        return next((c for c in classes if c["metadata"]["name"] == name), None)

    def _storage_class(self, attempt: Attempt) -> Obj:
        if attempt.kind.resource != "persistentvolumeclaims" or not attempt.creates:
            return attempt.obj
        spec = attempt.obj.get("spec") or {}
        default = self._newest_default("storage.k8s.io/storageclasses", DEFAULT_STORAGE)
        if "storageClassName" in spec or default is None:
            return attempt.obj
        return {**attempt.obj, "spec": {**spec, "storageClassName": default}}

    def _ingress_class(self, attempt: Attempt) -> Obj:
        if attempt.kind.resource != "networking.k8s.io/ingresses" or not attempt.creates:
            return attempt.obj
        spec, annotations = attempt.obj.get("spec") or {}, attempt.obj["metadata"].get("annotations") or {}
        default = self._newest_default("networking.k8s.io/ingressclasses", DEFAULT_INGRESS)
        if "ingressClassName" in spec or INGRESS_CLASS in annotations or default is None:
            return attempt.obj
        return {**attempt.obj, "spec": {**spec, "ingressClassName": default}}

    def _newest_default(self, resource: str, annotation: str) -> str | None:
        """The class that is marked as the default; of several the newest, then the first by name."""
        marked = [
            c["metadata"]
            for c in self._store.list(resource)
            if (c["metadata"].get("annotations") or {}).get(annotation) == "true"
        ]
        marked.sort(key=lambda meta: meta["name"])
        marked.sort(key=lambda meta: meta["creationTimestamp"], reverse=True)
        return marked[0]["name"] if marked else None

    def _runtime_class(self, attempt: Attempt) -> Obj:
        if attempt.kind.resource != "pods" or not attempt.creates:
            return attempt.obj
        return runtimeclasses.fill_in(self._store, attempt.kind, attempt.obj)

    # Validating plugins ---------------------------------------------------------------------------------

    def _limits(self, attempt: Attempt) -> None:
        limitranges.admit(self._store, attempt.kind, attempt.obj, attempt.old, attempt.subresource)
        claimresize.admit(self._store, attempt.kind, attempt.obj, attempt.old, attempt.subresource)

    def _quota(self, attempt: Attempt) -> None:
        if attempt.kind.namespaced:
            quotas.check(self._store, attempt.kind, attempt.obj, attempt.old, attempt.subresource)


def mount_token(spec: Obj, volume: str) -> None:
    """Give every container without one the ServiceAccount token volume."""
    mounted = False
    for field in ("initContainers", "containers"):
        containers = []
        for container in spec.get(field) or []:
            mounts = list(container.get("volumeMounts") or [])
            if all(m.get("mountPath") != TOKEN_PATH for m in mounts):
                mounts.append({"mountPath": TOKEN_PATH, "name": volume, "readOnly": True})
                mounted = True
            containers.append({**container, "volumeMounts": mounts})
        if containers:
            spec[field] = containers
    if mounted:
        spec["volumes"] = [*(spec.get("volumes") or []), {"name": volume, "projected": _token_sources()}]


def _token_sources() -> Obj:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_LIFETIME_S, "path": "token"}},
            {
                "configMap": {
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    "name": "kube-root-ca.crt",
                }
            },
            {"downwardAPI": {"items": [namespace]}},
        ],
    }


def _tolerates(toleration: Obj, key: str) -> bool:
    return toleration.get("key", key) == key and toleration.get("effect", "NoExecute") == "NoExecute"


MUTATING: tuple[Callable[[Admission, Attempt], Obj], ...] = (
    Admission._limit_defaults,
    Admission._service_account,
    Admission._tolerations,
    Admission._priority,
    Admission._storage_class,
    Admission._runtime_class,
    Admission._ingress_class,
)
