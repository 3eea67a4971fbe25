"""Stopping containers: deletion with its grace period, failed probes, changed definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiopslab.sim.core.kubelet.run import ContainerRun
from aiopslab.sim.core.store import Obj

if TYPE_CHECKING:
    from aiopslab.sim.core.kubelet.worker import PodWorker

# A container gets this long to die after SIGTERM even when its pod was deleted by force.
GRACE_LEAST_S = 2.0
# From the end of the last container until the pod object goes: sandbox and volumes are torn down.
TEARDOWN_FIRST_S, TEARDOWN_SPREAD_S = 0.2, 0.5
DEFAULT_GRACE_S = 30.0


class Stopper:
    """Ends containers of one pod, or the pod."""

    def __init__(self, worker: PodWorker) -> None:
        self._worker, self._kernel = worker, worker.kernel
        self.ending = False
        self._forced = False

    def end_pod(self, grace_s: float) -> None:
        """The pod is being deleted: stop everything, then let the object go."""
        if self.ending:
            return
        self.ending = True
        self._worker.cancel_timers()
        self._worker.probes.clear()
        live = [run for run in self._worker.runs if run.running]
        if not live:
            self.container_ended()
            return
        apps = [run for run in live if run.role != "sidecar"]
        for run in apps or live:
            self._stop(run, grace_s, f"Stopping container {run.name}")

    def vanish(self) -> None:
        """The pod object is gone already: nobody waits for its containers any more."""
        self._forced = True
        self.end_pod(GRACE_LEAST_S)

    def container_ended(self) -> None:
        """One of the pod's containers has ended while the pod ends."""
        live = [run for run in self._worker.runs if run.running]
        sidecars = [run for run in live if run.role == "sidecar"]
        if live and len(sidecars) == len(live):
            for run in sidecars:
                if not run.stopping:
                    self._stop(run, DEFAULT_GRACE_S, f"Stopping container {run.name}")
        if live:
            return
        if self._forced:
            self._gone()
            return
        for run in self._worker.runs:
            if run.terminated is None and run.ref is None:
                run.busy = False
        self._worker.changed()
        delay_s = TEARDOWN_FIRST_S + TEARDOWN_SPREAD_S * self._worker.unit("teardown")
        self._worker.after(delay_s, "gone", self._gone)

    def kill(self, run: ContainerRun, message: str, grace_s: float | None) -> None:
        """Stop one container of a pod that goes on; it is restarted as after a crash."""
        if run.running and not run.stopping:
            self._stop(run, self._grace(grace_s), message)

    def replace(self, run: ContainerRun) -> None:
        """The image in the pod's spec changed."""
        run.pull_backoff.delay_s = run.retry_at = 0.0
        if run.running:
            self.kill(run, f"Container {run.name} definition changed, will be restarted", None)
        elif "waiting" in run.state and not run.busy:
            self._kernel.cancel(self._worker.timer(f"backoff/{run.name}"))
            run.wait("ContainerCreating")

    def stop_all(self, grace_s: float | None = None, again: bool = False) -> None:
        """The pod has ended but its object stays: sidecars and, after a failure, the rest are stopped. ``again``:
        those too that are being stopped already, as nobody waits for them any more."""
        live = [run for run in self._worker.runs if run.running]
        for run in live:
            if again or not run.stopping:
                self._stop(run, self._grace(grace_s), f"Stopping container {run.name}")
        if not live:
            self._worker.release()
            self._worker.changed()

    def _stop(self, run: ContainerRun, grace_s: float, message: str) -> None:
        worker = self._worker
        worker.event("Normal", "Killing", message, run)
        if run.ref is None:
            return
        run.stopping = True
        self._kernel.cancel(worker.timer(f"exit/{run.name}"))
        hook_s = min(self._pre_stop_s(run), grace_s)
        left_s = max(grace_s - hook_s, GRACE_LEAST_S)
        delay_s, code = worker.world.stop(run.ref, self._kernel.now + hook_s, left_s)
        worker.after(hook_s + delay_s, f"stop/{run.name}", lambda: worker.exited(run, code))

    def _pre_stop_s(self, run: ContainerRun) -> float:
        """How long the preStop hook takes."""
        hook: Obj = (run.spec.get("lifecycle") or {}).get("preStop") or {}
        if "sleep" in hook:
            return float(hook["sleep"]["seconds"])
        command = (hook.get("exec") or {}).get("command")
        if not command or run.ref is None:
            return 0.0
        result = self._worker.world.exec(run.ref, list(command), b"", self._kernel.now)
        if result.error or result.exit_code:
            self._worker.event("Warning", "FailedPreStopHook", "PreStopHook failed", run)
        return result.duration_s

    def _grace(self, asked_s: float | None) -> float:
        if asked_s is not None:
            return float(asked_s)
        return float(self._worker.pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_S))

    def _gone(self) -> None:
        self._worker.release()
        if not self._forced:
            self._worker.remove_from_api()
        self._worker.agent.drop(self._worker)
