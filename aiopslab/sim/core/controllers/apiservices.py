"""APIServices: one for each group version that the server answers, and the availability of those behind Services."""

from __future__ import annotations

from collections.abc import Iterable

from aiopslab.sim.core import apiservices
from aiopslab.sim.core.apiservices import AUTOMANAGED, METRICS_GROUP, RESOURCE
from aiopslab.sim.core.controllers.common import Base, key_of
from aiopslab.sim.core.endpointslices import SERVICE_LABEL, SLICES
from aiopslab.sim.core.store import Change, Key, Obj

DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
NAMESPACES = "namespaces"
ALL = Key(RESOURCE, "", "")


class ApiServices(Base):
    """The aggregator's registration and availability controllers."""

    name = "kube-aggregator"

    def keys(self, change: Change) -> Iterable[Key]:
        """All for a new cluster or a changed definition; those behind a Service whose endpoints change."""
        key = change.key
        if key.resource == RESOURCE:
            return (key,)
        if key.resource == DEFINITIONS or (key.resource == NAMESPACES and key.name == "default"):
            return (ALL,)
        if key.resource not in ("services", SLICES):
            return ()
        name = key.name
        if key.resource == SLICES:
            name = (change.obj["metadata"].get("labels") or {}).get(SERVICE_LABEL, "")
        return [
            key_of(RESOURCE, found)
            for found in self.store.list(RESOURCE)
            if (service := found["spec"].get("service")) is not None
            and (service.get("namespace"), service.get("name")) == (key.namespace, name)
        ]

    def reconcile(self, key: Key) -> None:
        """Register what is served, and say what is available."""
        found = self.store.get(key) if key != ALL else None
        if found is None:
            self._register()
            return
        service = found["spec"].get("service")
        if service is None:
            return
        new = apiservices.judged(self.store, service, self.kernel.timestamp())
        conditions = (found.get("status") or {}).get("conditions") or ()
        old: Obj = next((c for c in conditions if c["type"] == "Available"), {})
        if old.get("status") == new["status"]:
            new["lastTransitionTime"] = old["lastTransitionTime"]
        if new != old:
            self.update_status(key, {"conditions": [new]})

    def _register(self) -> None:
        kinds = self.api.kinds
        wanted = {(g, v) for g in kinds.groups() if g != METRICS_GROUP for v in kinds.versions(g)}
        for group, version in sorted(wanted):
            key = Key(RESOURCE, "", apiservices.name_of(group, version))
            if self.store.get(key) is None:
                made = apiservices.local(group, version, self.kernel.timestamp())
                self.api.create(RESOURCE, "", made, self.options)
                self.update_status(key, made["status"])
        for found in self.store.list(RESOURCE):
            spec, labels = found["spec"], found["metadata"].get("labels") or {}
            if labels.get(AUTOMANAGED) == "true" and (spec.get("group", ""), spec["version"]) not in wanted:
                self.delete(key_of(RESOURCE, found))
