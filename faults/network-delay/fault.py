"""Packets that leave one service's pods are held back."""

from __future__ import annotations

from aiopslab.api import InjectionError, KubeError, Obj, Saved, Site

NETWORK_CHAOS = "chaos-mesh.org/networkchaos"


class NetworkDelay:
    """A NetworkChaos object, kept in the chaos namespace under a neutral name. It lasts until it is deleted."""

    async def save(self, site: Site) -> Saved:
        """Which pods it will meet, and by which labels; nothing that exists is changed."""
        labels = await self._labels(site)
        selector = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
        pods = await site.kube.list("pods", site.namespace, labels=selector)
        if not pods:
            raise InjectionError(f"namespace {site.namespace} has no pods with the label {selector}")
        return {"pods": sorted(pod["metadata"]["name"] for pod in pods), "labels": labels}

    async def inject(self, site: Site, saved: Saved) -> None:
        """Create the object; the chaos controller acts on it."""
        try:
            await site.kube.create("namespaces", "", {"metadata": {"name": site.chaos_namespace}})
        except KubeError as error:
            if error.reason != "AlreadyExists":
                raise
        await site.kube.create(NETWORK_CHAOS, site.chaos_namespace, self._manifest(site, saved["labels"]))

    async def recover(self, site: Site, saved: Saved) -> None:
        """Delete the object; its controller takes the delay off the pods that still exist."""
        await site.kube.delete(NETWORK_CHAOS, site.chaos_namespace, site.object_name)

    async def _labels(self, site: Site) -> dict[str, str]:
        """The labels by which the workload finds its pods; ``app`` where there is no such Deployment."""
        name = site.params["service"]
        deployment = await site.kube.find("apps/deployments", site.namespace, name)
        selector = (deployment or {}).get("spec", {}).get("selector") or {}
        return selector.get("matchLabels") or {"app": name}

    def _manifest(self, site: Site, labels: dict[str, str]) -> Obj:
        params = site.params
        selector = {"namespaces": [site.namespace], "labelSelectors": labels}
        delay = {
            "latency": f"{params['latency_ms']}ms",
            "jitter": f"{params['jitter_ms']}ms",
            "correlation": str(params["correlation_percent"]),
        }
        return {
            "apiVersion": "chaos-mesh.org/v1alpha1",
            "kind": "NetworkChaos",
            "metadata": {"name": site.object_name, "namespace": site.chaos_namespace},
            "spec": {"action": "delay", "mode": "all", "direction": "to", "selector": selector, "delay": delay},
        }
