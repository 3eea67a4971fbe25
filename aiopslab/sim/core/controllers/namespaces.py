"""Namespace lifecycle, default ServiceAccounts and the root CA bundle of each namespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from aiopslab.sim.core.api import Api
from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.controllers.common import MANAGER, Base, deleting, is_code
from aiopslab.sim.core.controllers.index import Index
from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.options import WriteOptions
from aiopslab.sim.core.store import Change, Key, Obj

FINALIZER = "kubernetes"
CA_CONFIG_MAP = "kube-root-ca.crt"
CA_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as"
    " the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of"
    " Kubernetes clusters."
)
OBSERVE_S = 5.0
FINALIZER_S = 15.0
# Events may still be written while a namespace goes; they neither hold it nor count as content.
IGNORED = frozenset({"events"})


class Namespaces(Base):
    """The namespace-controller: empties a namespace that is being deleted, then lets it go."""

    name = "namespace-controller"

    def __init__(self, kernel: Kernel, api: Api, index: Index) -> None:
        super().__init__(kernel, api, index)
        self._due: dict[Key, float] = {}

    def keys(self, change: Change) -> Iterable[Key]:
        """Namespaces that are being deleted."""
        key = change.key
        if key.resource != "namespaces":
            return ()
        if change.type == "DELETED":
            self._due.pop(key, None)
            return ()
        return (key,) if deleting(change.obj) else ()

    def reconcile(self, key: Key) -> None:
        """Delete contents; report what remains and look again; drop the finalizer when nothing does.

        The first pass waits until all other controllers have seen the deletion, as the real one does.
        """
        namespace = self.store.get(key)
        if namespace is None or not deleting(namespace):
            return
        now = self.kernel.now
        due = self._due.setdefault(key, now + OBSERVE_S)
        if now < due:
            self.requeue_after(due - now, key)
            return
        estimate_s = 0.0
        for held in self.index.in_namespace(key.name):
            obj = self.store.get(held)
            if obj is not None and not deleting(obj):
                self._remove(held)
            estimate_s = max(estimate_s, self._estimate_s(held))
        remaining = [k for k in self.index.in_namespace(key.name) if k.resource not in IGNORED]
        if not remaining:
            self._finalize(namespace)
            return
        delay_s = estimate_s / 2 + 1
        self._due[key] = now + delay_s
        self._report(key, remaining)
        self.requeue_after(delay_s, key)

    def _estimate_s(self, key: Key) -> float:
        """How long the rest of an object's deletion may take."""
        obj = self.store.get(key)
        if obj is None:
            return 0.0
        meta = obj["metadata"]
        return max(
            float(meta.get("deletionGracePeriodSeconds") or 0), FINALIZER_S if meta.get("finalizers") else 0
        )

    def _remove(self, key: Key) -> None:
        try:
            self.delete(key, propagation="Background")
        except ApiError as error:
            if not is_code(error, "NotFound") and not is_code(error, "Conflict"):
                raise

    def _finalize(self, namespace: Obj) -> None:
        name = namespace["metadata"]["name"]
        kept = [entry for entry in namespace["spec"].get("finalizers") or () if entry != FINALIZER]
        changed = {**namespace, "spec": {**namespace["spec"], "finalizers": kept}}
        try:
            self.api.update("namespaces", "", name, changed, WriteOptions(manager=MANAGER), "finalize")
        except ApiError as error:
            if not is_code(error, "NotFound"):
                raise

    def _report(self, key: Key, remaining: list[Key]) -> None:
        namespace = self.store.get(key)
        if namespace is None:
            return
        held = [obj for obj in map(self.store.get, remaining) if obj is not None]
        finalizers = Counter(entry for obj in held for entry in obj["metadata"].get("finalizers") or ())
        resources = Counter(k.resource for k in remaining)
        left = ", ".join(
            f"{_plain(name)} has {count} resource instances" for name, count in sorted(resources.items())
        )
        kept = ", ".join(
            f"{name} in {count} resource instances" for name, count in sorted(finalizers.items())
        )
        states = [
            (
                "NamespaceDeletionDiscoveryFailure",
                "",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                "",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            (
                "NamespaceDeletionContentFailure",
                "",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            (
                "NamespaceContentRemaining",
                left,
                "SomeResourcesRemain" if left else "ContentRemoved",
                f"Some resources are remaining: {left}" if left else "All content successfully removed",
            ),
            (
                "NamespaceFinalizersRemaining",
                kept,
                "SomeFinalizersRemain" if kept else "ContentHasNoFinalizers",
                f"Some content in the namespace has finalizers remaining: {kept}"
                if kept
                else "All content-preserving finalizers finished",
            ),
        ]
        conditions = [self._condition(namespace, state) for state in states]
        self.update_status(
            key, {**(namespace.get("status") or {}), "phase": "Terminating", "conditions": conditions}
        )

    def _condition(self, namespace: Obj, state: tuple[str, str, str, str]) -> Obj:
        type_, set_by, reason, message = state
        status = "True" if set_by else "False"
        old = next(
            (c for c in (namespace.get("status") or {}).get("conditions") or () if c["type"] == type_), None
        )
        since = (
            old["lastTransitionTime"]
            if old is not None and old["status"] == status
            else self.kernel.timestamp()
        )
        return {
            "type": type_,
            "status": status,
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        }


class NamespaceDefaults(Base):
    """Puts the ``default`` ServiceAccount and the root CA bundle into every active namespace."""

    name = "serviceaccount-controller"

    def __init__(self, kernel: Kernel, api: Api, index: Index, root_ca: str = "") -> None:
        super().__init__(kernel, api, index)
        self._root_ca = root_ca

    def keys(self, change: Change) -> Iterable[Key]:
        """Namespaces, and the two objects when they are changed or removed."""
        key = change.key
        if key.resource == "namespaces":
            return (key,)
        ours = (key.resource, key.name) in (("serviceaccounts", "default"), ("configmaps", CA_CONFIG_MAP))
        return (Key("namespaces", "", key.namespace),) if ours else ()

    def reconcile(self, key: Key) -> None:
        """Create what is missing; a changed CA bundle is put right again."""
        namespace = self.store.get(key)
        if namespace is None or deleting(namespace):
            return
        account = Key("serviceaccounts", key.name, "default")
        if self.store.get(account) is None:
            body: Obj = {"apiVersion": "v1", "kind": "ServiceAccount"}
            self.update(account, {**body, "metadata": {"name": "default", "namespace": key.name}})
        bundle = Key("configmaps", key.name, CA_CONFIG_MAP)
        data = {"ca.crt": self._root_ca}
        current = self.store.get(bundle)
        if current is None:
            metadata = {
                "name": CA_CONFIG_MAP,
                "namespace": key.name,
                "annotations": {"kubernetes.io/description": CA_DESCRIPTION},
            }
            self.update(bundle, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        elif current.get("data") != data:
            self.update(bundle, {**current, "data": data})


def _plain(resource: str) -> str:
    """``apps/deployments`` as namespace conditions write it: ``deployments.apps``; core has a dot only."""
    group, _, plural = resource.rpartition("/")
    return f"{plural}.{group}"
