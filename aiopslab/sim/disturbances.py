"""Noise that acts on the cluster: an outside monitor's visits and a rollout restart that somebody made."""

from __future__ import annotations

from aiopslab.sim.core.api import Api
from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.options import WriteOptions
from aiopslab.sim.core.store import Change, Key
from aiopslab.sim.world.background import VISITS, VISITS_EVERY_S, Background
from aiopslab.sim.world.world import SimWorld

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
DEPLOYMENTS = "apps/deployments"
SYSTEM_PREFIX = "kube-"


class Disturbances:
    """Schedules them on the virtual clock. ``spared`` are namespaces that nobody touches."""

    def __init__(
        self, kernel: Kernel, api: Api, world: SimWorld, background: Background, spared: frozenset[str]
    ) -> None:
        self._kernel, self._api, self._world, self._background = kernel, api, world, background
        self._spared = spared

    def start(self) -> None:
        """Begin. Does nothing when the level is off."""
        if self._background.level == "off":
            return
        self._kernel.call_after(self._background.visits_phase_s(), "disturbances/visits", self._visit)
        self._kernel.store.subscribe(self._note)

    def _note(self, change: Change) -> None:
        name = change.key.name
        if change.key.resource != "namespaces" or change.type != "ADDED" or name.startswith(SYSTEM_PREFIX):
            return
        after_s = None if name in self._spared else self._background.restart_after_s(name)
        if after_s is not None:
            self._kernel.call_after(after_s, f"disturbances/restart/{name}", lambda: self._restart(name))

    def _visit(self) -> None:
        """Ask every web server for its first page without parameters, a few times."""
        now = self._kernel.now
        self._world.run_until(now)
        for run in list(self._world.runs.alive()):
            program = run.program
            if program is None or program.serves != "http" or not run.listening(now):
                continue
            pages = sorted(op.target for op in program.ops.values() if op.method == "GET" and "{" not in op.target)
            for _ in range(VISITS if pages and run.ref.namespace not in self._spared else 0):
                self._world.ask(run, run, "GET", pages[0])
        self._kernel.call_after(VISITS_EVERY_S, "disturbances/visits", self._visit)

    def _restart(self, namespace: str) -> None:
        """``kubectl rollout restart`` of one Deployment."""
        names = [obj["metadata"]["name"] for obj in self._kernel.store.list(DEPLOYMENTS, namespace)]
        if not names or self._kernel.store.get(Key("namespaces", "", namespace)) is None:
            return
        name = names[self._background.choice(f"restart in {namespace}", len(names))]
        template = {"metadata": {"annotations": {RESTARTED_AT: self._kernel.timestamp()}}}
        body = {"spec": {"template": template}}
        options = WriteOptions(manager="kubectl-rollout")
        self._api.patch(DEPLOYMENTS, namespace, name, "strategic", body, options)
