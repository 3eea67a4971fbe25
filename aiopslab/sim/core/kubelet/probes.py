"""Probes of one pod. A probe whose outcome is steady costs a timer and a call of the world, no write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiopslab.sim.core.controllers.endpoints import container_port
from aiopslab.sim.core.kubelet.run import ContainerRun
from aiopslab.sim.core.store import Obj

if TYPE_CHECKING:
    from aiopslab.sim.core.kubelet.worker import PodWorker

KINDS = ("startup", "readiness", "liveness")
# After a start the kubelet notices the container within a second and probes at once.
NOTICE_S = 1.0


@dataclass(slots=True)
class Probe:
    """One probe of one container run."""

    run: ContainerRun
    kind: str
    spec: Obj
    next_at: float
    period_s: float
    good: bool | None = None  # outcome of the current streak
    streak: int = 0
    on_hold: bool = False  # its container is being replaced


class PodProbes:
    """All probes of one pod on one timer."""

    def __init__(self, worker: PodWorker) -> None:
        self._worker, self._kernel = worker, worker.kernel
        self._origin = worker.kernel.now
        self._probes: list[Probe] = []

    def add(self, run: ContainerRun) -> None:
        """A container has started: ready and started until its probes say otherwise is decided here."""
        self.remove(run)
        own = [
            self._probe(run, kind) for kind in KINDS if run.spec.get(f"{kind}Probe") and run.role != "init"
        ]
        kinds = {probe.kind for probe in own}
        run.started = "startup" not in kinds
        run.ready = run.started and "readiness" not in kinds
        self._probes += own
        self._schedule()

    def remove(self, run: ContainerRun) -> None:
        """A container has ended or is about to be stopped."""
        self._probes = [probe for probe in self._probes if probe.run is not run]
        self._schedule()

    def clear(self) -> None:
        """The pod ends."""
        self._probes = []
        self._schedule()

    def _probe(self, run: ContainerRun, kind: str) -> Probe:
        spec = resolved(self._worker.pod, run.spec[f"{kind}Probe"])
        period_s = float(spec.get("periodSeconds") or 10)
        delay_s = float(spec.get("initialDelaySeconds") or 0)
        now = self._kernel.now
        if delay_s or kind == "liveness":
            first = self._tick_from(now + delay_s, period_s)
        else:
            first = now + NOTICE_S * self._kernel.ids.unit("probe", self._worker.uid, run.name, run.restarts)
        return Probe(run, kind, spec, first, period_s)

    def _tick_from(self, at: float, period_s: float) -> float:
        """The first tick of this pod's ticker at or after ``at``."""
        ticks = -(-(at - self._origin) // period_s)
        return self._origin + max(1.0, ticks) * period_s

    def _schedule(self) -> None:
        due = [probe.next_at for probe in self._probes if self._may_run(probe)]
        if due:
            self._kernel.call_at(min(due), self._worker.timer("probes"), self._fire)
        else:
            self._kernel.cancel(self._worker.timer("probes"))

    def _may_run(self, probe: Probe) -> bool:
        return not probe.on_hold and (probe.run.started or probe.kind == "startup")

    def _fire(self) -> None:
        now = self._kernel.now
        for probe in list(self._probes):
            if probe.next_at <= now and self._may_run(probe) and probe in self._probes:
                probe.next_at = self._tick_from(now + 1e-6, probe.period_s)
                self._run(probe, now)
        self._schedule()

    def _run(self, probe: Probe, now: float) -> None:
        if probe.run.ref is None:
            return
        result = self._worker.world.probe(probe.run.ref, probe.spec, now)
        if not result.ok:
            message = f"{probe.kind.capitalize()} probe failed: {result.message}"
            self._worker.event("Warning", "Unhealthy", message, probe.run)
        probe.streak = probe.streak + 1 if probe.good == result.ok else 1
        probe.good = result.ok
        threshold = probe.spec.get("successThreshold" if result.ok else "failureThreshold")
        if probe.streak >= (threshold or (1 if result.ok else 3)):
            self._conclude(probe, result.ok)

    def _conclude(self, probe: Probe, good: bool) -> None:
        run = probe.run
        if probe.kind == "readiness":
            self._set_ready(run, good)
        elif good and probe.kind == "startup" and not run.started:
            self._started(run)
        elif not good:
            probe.on_hold, probe.streak, probe.good = True, 0, None
            self._worker.restart_unhealthy(run, probe.kind, probe.spec.get("terminationGracePeriodSeconds"))
        if good and probe.kind == "startup":
            probe.on_hold = True

    def _started(self, run: ContainerRun) -> None:
        """The startup probe succeeded: readiness is asked at once, liveness at its next tick."""
        run.started = True
        own = [probe for probe in self._probes if probe.run is run and probe.kind == "readiness"]
        for probe in own:
            probe.next_at = max(
                self._kernel.now, probe.next_at if probe.spec.get("initialDelaySeconds") else 0
            )
        run.ready = not own
        self._worker.changed()

    def _set_ready(self, run: ContainerRun, good: bool) -> None:
        if run.ready != good and run.running:
            run.ready = good
            self._worker.changed()


def resolved(pod: Obj, probe: Obj) -> Obj:
    """The probe with named ports as numbers."""
    spec = dict(probe)
    for handler in ("httpGet", "tcpSocket"):
        target = spec.get(handler)
        if target and isinstance(target.get("port"), str):
            number = container_port(pod, target["port"])
            text = target["port"]
            spec[handler] = {
                **target,
                "port": number if number is not None else int(text) if text.isdigit() else 0,
            }
    return spec
