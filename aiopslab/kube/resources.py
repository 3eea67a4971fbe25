"""From resource strings and manifests to URL paths.

A resource string is ``plural`` for the core group, else ``group/plural``: ``pods``, ``apps/deployments``,
``chaos-mesh.org/networkchaos``. A subresource is named separately.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A served resource. ``group`` is empty for core."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def resource(self) -> str:
        """The resource string."""
        return f"{self.group}/{self.plural}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """URL path of the collection, an object or a subresource of it; no namespace means all of them."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(quote(part, safe="") for part in parts)


def split_resource(resource: str) -> tuple[str, str]:
    """``apps/deployments`` to (group, plural)."""
    group, _, plural = resource.rpartition("/")
    return group, plural


def split_api_version(api_version: str) -> tuple[str, str]:
    """``apps/v1`` to (group, version); ``v1`` has the empty group."""
    group, _, version = api_version.rpartition("/")
    return group, version


# What a namespace's snapshot holds. Order is the order in the snapshot; what a cluster does not serve is left out.
SNAPSHOT_RESOURCES = (
    "pods",
    "services",
    "endpoints",
    "configmaps",
    "secrets",
    "serviceaccounts",
    "persistentvolumeclaims",
    "resourcequotas",
    "limitranges",
    "events",
    "apps/deployments",
    "apps/replicasets",
    "apps/statefulsets",
    "apps/daemonsets",
    "batch/jobs",
    "batch/cronjobs",
    "autoscaling/horizontalpodautoscalers",
    "policy/poddisruptionbudgets",
    "networking.k8s.io/networkpolicies",
    "networking.k8s.io/ingresses",
    "discovery.k8s.io/endpointslices",
    "rbac.authorization.k8s.io/roles",
    "rbac.authorization.k8s.io/rolebindings",
)
