"""A Service's targetPort is set to a port that nobody listens on."""

from __future__ import annotations

from datetime import UTC, datetime

from aiopslab.api import InjectionError, Saved, Site

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


class ServiceTargetPort:
    """Patches the Service, then rolls the workload behind it.

    Callers hold long-lived connections that a changed Service does not break; they end when the pods
    behind it are replaced, which is what a roll-out of the same bad manifest would have done.
    """

    async def save(self, site: Site) -> Saved:
        """The port's targetPort, and whether there is a Deployment to roll."""
        name, index = site.params["service"], site.params["port_index"]
        service = await site.kube.get("services", site.namespace, name)
        ports = service["spec"].get("ports") or []
        if index >= len(ports):
            raise InjectionError(f"service {name} has {len(ports)} ports; port_index is {index}")
        port = ports[index]
        before = port.get("targetPort", port["port"])
        if before == site.params["target_port"]:
            raise InjectionError(f"service {name} already forwards to {before}; choose another target_port")
        deployment = await site.kube.find("apps/deployments", site.namespace, name)
        return {"target_port": before, "rolls": deployment is not None}

    async def inject(self, site: Site, saved: Saved) -> None:
        """Set the wrong port, then restart the pods as ``kubectl rollout restart`` does."""
        await self._set_port(site, site.params["target_port"])
        if saved["rolls"]:
            at = datetime.fromtimestamp(int(await site.clock.now()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            template = {"metadata": {"annotations": {RESTARTED_AT: at}}}
            patch = {"spec": {"template": template}}
            await site.kube.patch("apps/deployments", site.namespace, site.params["service"], patch)

    async def recover(self, site: Site, saved: Saved) -> None:
        """Set the old port where the wrong one is still there; a port that the agent chose stays."""
        service = await site.kube.find("services", site.namespace, site.params["service"])
        ports = service["spec"].get("ports") or [] if service else []
        index = site.params["port_index"]
        if index < len(ports) and ports[index].get("targetPort") == site.params["target_port"]:
            await self._set_port(site, saved["target_port"])

    async def _set_port(self, site: Site, port: int | str) -> None:
        path = f"/spec/ports/{site.params['port_index']}/targetPort"
        patch = [{"op": "replace", "path": path, "value": port}]
        await site.kube.patch("services", site.namespace, site.params["service"], patch, type="json")
