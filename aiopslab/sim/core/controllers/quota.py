"""ResourceQuota: ``status.hard`` and ``status.used``. Admission counts by itself."""

from __future__ import annotations

from collections.abc import Iterable

from aiopslab.sim.core.controllers.common import Base, deleting, key_of
from aiopslab.sim.core.quotas import usage, usage_text
from aiopslab.sim.core.store import Change, Key

RESOURCE = "resourcequotas"


class ResourceQuotas(Base):
    """The resourcequota-controller."""

    name = "resourcequota-controller"

    def keys(self, change: Change) -> Iterable[Key]:
        """Quotas, and the quotas of a namespace in which something came, went or changed its demands."""
        key = change.key
        if key.resource == RESOURCE:
            return (key,)
        if not key.namespace or key.resource in ("events", "coordination.k8s.io/leases"):
            return ()
        quotas = self.index.listed(RESOURCE, key.namespace)
        return [key_of(RESOURCE, quota) for quota in quotas]

    def reconcile(self, key: Key) -> None:
        """Count what is used."""
        quota = self.store.get(key)
        if quota is None or deleting(quota):
            return
        hard = quota["spec"].get("hard") or {}
        self.update_status(
            key, {"hard": dict(sorted(hard.items())), "used": usage_text(usage(self.store, quota))}
        )
