"""EndpointSlices of a Service, as whoever looks a Service up reads them."""

from __future__ import annotations

from aiopslab.sim.core.store import Obj, Store

SLICES = "discovery.k8s.io/endpointslices"
SERVICE_LABEL = "kubernetes.io/service-name"


def slices_of(store: Store, namespace: str, service: str) -> list[Obj]:
    """The slices of a Service, in order of name."""
    found = store.list(SLICES, namespace)
    return [item for item in found if (item["metadata"].get("labels") or {}).get(SERVICE_LABEL) == service]


def is_ready(endpoint: Obj) -> bool:
    """Whether an endpoint takes new connections; one that does not say counts as ready."""
    return bool((endpoint.get("conditions") or {}).get("ready", True))
