"""A Deployment is scaled to zero."""

from __future__ import annotations

from aiopslab.api import InjectionError, Saved, Site


class ScaleToZero:
    """Sets ``spec.replicas`` to 0, as a slip of ``kubectl scale`` would."""

    async def save(self, site: Site) -> Saved:
        """How many replicas there were."""
        name = site.params["service"]
        deployment = await site.kube.get("apps/deployments", site.namespace, name)
        replicas = deployment["spec"].get("replicas", 1)
        if replicas == 0:
            raise InjectionError(f"deployment {name} already has 0 replicas; choose another service")
        return {"replicas": replicas}

    async def inject(self, site: Site, saved: Saved) -> None:
        """Scale to zero."""
        await self._scale(site, 0)

    async def recover(self, site: Site, saved: Saved) -> None:
        """Scale back where it is still at zero; a number that the agent chose stays."""
        deployment = await site.kube.find("apps/deployments", site.namespace, site.params["service"])
        if deployment and deployment["spec"].get("replicas") == 0:
            await self._scale(site, saved["replicas"])

    async def _scale(self, site: Site, replicas: int) -> None:
        patch = {"spec": {"replicas": replicas}}
        await site.kube.patch("apps/deployments", site.namespace, site.params["service"], patch)
