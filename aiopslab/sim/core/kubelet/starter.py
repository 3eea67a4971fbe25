"""Starting containers: image, configuration, create, start, and the back-offs between tries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiopslab.sim.core.controllers.pods import quantity
from aiopslab.sim.core.kubelet.env import ConfigError, environment, expand
from aiopslab.sim.core.kubelet.images import Pull, duration, image_id, wrong_reference
from aiopslab.sim.core.kubelet.run import ContainerRun
from aiopslab.sim.core.kubelet.volumes import shared_mounts, tmpfs_sizes
from aiopslab.sim.core.ports import ContainerRef, ContainerSpec
from aiopslab.sim.core.store import Obj

if TYPE_CHECKING:
    from aiopslab.sim.core.kubelet.worker import PodWorker

CREATE_FIRST_S, CREATE_SPREAD_S = 0.02, 0.06
START_FIRST_S, START_SPREAD_S = 0.1, 0.2
START_ERROR_CODE = 128


class Starter:
    """Starts the containers of one pod."""

    def __init__(self, worker: PodWorker) -> None:
        self._worker, self._kernel = worker, worker.kernel

    def begin(self, run: ContainerRun) -> None:
        """Get the image, then create and start. Returns at once; ``run.busy`` tells that it goes on."""
        images, image = self._worker.node.images, run.spec["image"]
        if wrong := wrong_reference(image):
            self._worker.event("Warning", "InspectFailed", wrong, run)
            self._worker.event("Warning", "Failed", "Error: InvalidImageName", run)
            self._hold(run, "InvalidImageName", wrong)
            return
        policy = run.spec.get("imagePullPolicy", "IfNotPresent")
        present = images.has(image, self._kernel.now)
        if policy == "Never" and not present:
            text = f'Container image "{image}" is not present with pull policy of Never'
            self._worker.event("Warning", "ErrImageNeverPull", text, run)
            self._worker.event("Warning", "Failed", "Error: ErrImageNeverPull", run)
            self._hold(run, "ErrImageNeverPull", text)
        elif policy == "Always" or not present:
            self._pull(run, image)
        else:
            text = f'Container image "{image}" already present on machine and can be accessed by the pod'
            self._worker.event("Normal", "Pulled", text, run)
            self._create(run)

    def restart(self, run: ContainerRun, finished_at: float) -> None:
        """Run again now, or after the crash back-off."""
        until = run.crash_backoff.waiting_until(finished_at)
        if until <= self._kernel.now:
            self._run_again(run, finished_at)
            return
        meta = self._worker.pod["metadata"]
        where = f"{run.name} in pod {meta['name']}_{meta['namespace']}({meta['uid']})"
        text = f"back-off {duration(run.crash_backoff.delay_s)} restarting failed container={run.name}"
        run.wait("CrashLoopBackOff", f"{text} pod={meta['name']}_{meta['namespace']}({meta['uid']})")
        run.retry_at = until
        self._worker.changed()
        self._remind(run, f"Back-off restarting failed container {where}")
        self._worker.after(
            until - self._kernel.now, f"retry/{run.name}", lambda: self._run_again(run, finished_at)
        )

    def _run_again(self, run: ContainerRun, finished_at: float) -> None:
        if self._stopped():
            return
        self._kernel.cancel(self._worker.timer(f"backoff/{run.name}"))
        run.crash_backoff.next(finished_at)
        run.restarts += 1
        run.retry_at = 0.0
        self.begin(run)

    def _remind(self, run: ContainerRun, text: str) -> None:
        """The BackOff event of each sync while the container waits."""
        if self._stopped() or run.state.get("waiting", {}).get("reason") != "CrashLoopBackOff":
            return
        self._worker.event("Warning", "BackOff", text, run)
        delay_s = self._worker.resync_s(run.name, run.restarts)
        self._worker.after(delay_s, f"backoff/{run.name}", lambda: self._remind(run, text))

    def _stopped(self) -> bool:
        return self._worker.ended or self._worker.stopper.ending

    # Images -----------------------------------------------------------------------------------------------

    def _pull(self, run: ContainerRun, image: str) -> None:
        self._worker.event("Normal", "Pulling", f'Pulling image "{image}"', run)
        pull = self._worker.node.images.pull(image, self._kernel.now)
        run.busy = True
        self._worker.after(pull.waited_s, f"pull/{run.name}", lambda: self._pulled(run, image, pull))

    def _pulled(self, run: ContainerRun, image: str, pull: Pull) -> None:
        run.busy = False
        if self._stopped():
            return
        if pull.error:
            self._pull_failed(run, image, pull.error)
            return
        run.pull_backoff.delay_s = 0.0
        times = f"{duration(pull.took_s)} ({duration(pull.waited_s)} including waiting)"
        size = self._worker.node.images.size_bytes(image)
        text = f'Successfully pulled image "{image}" in {times}. Image size: {size} bytes.'
        self._worker.event("Normal", "Pulled", text, run)
        self._worker.node.status.report()
        self._create(run)

    def _pull_failed(self, run: ContainerRun, image: str, error: str) -> None:
        now = self._kernel.now
        self._worker.event("Warning", "Failed", f'Failed to pull image "{image}": {error}', run)
        self._worker.event("Warning", "Failed", "Error: ErrImagePull", run)
        run.pull_backoff.next(now)
        run.retry_at = now + run.pull_backoff.delay_s
        run.wait("ErrImagePull", error)
        self._worker.changed()
        delay_s = self._worker.relist_s("pull", run.name, run.retry_at)
        self._worker.after(delay_s, f"backoff/{run.name}", lambda: self._back_off_pull(run, image, error))
        self._worker.sync()

    def _back_off_pull(self, run: ContainerRun, image: str, error: str) -> None:
        """Each sync during the image back-off reports it; when it is over, the pull is tried again."""
        if self._stopped() or run.spec["image"] != image:
            return
        if run.retry_at <= self._kernel.now:
            run.retry_at = 0.0
            self.begin(run)
            return
        text = f'Back-off pulling image "{image}"'
        self._worker.event("Normal", "BackOff", text, run)
        self._worker.event("Warning", "Failed", "Error: ImagePullBackOff", run)
        run.wait("ImagePullBackOff", f"{text}: ErrImagePull: {error}")
        self._worker.changed()
        delay_s = self._worker.resync_s("pull", run.name, self._kernel.now)
        self._worker.after(delay_s, f"backoff/{run.name}", lambda: self._back_off_pull(run, image, error))

    # Create and start -------------------------------------------------------------------------------------

    def _create(self, run: ContainerRun) -> None:
        try:
            self._check_user(run)
            spec = self._container_spec(run)
        except ConfigError as error:
            self._worker.event("Warning", "Failed", f"Error: {error}", run)
            self._hold(run, "CreateContainerConfigError", str(error))
            return
        run.busy = True
        delay_s = CREATE_FIRST_S + CREATE_SPREAD_S * self._worker.unit("create", run.name, run.restarts)
        self._worker.after(delay_s, f"start/{run.name}", lambda: self._created(run, spec))

    def _check_user(self, run: ContainerRun) -> None:
        """Raise ConfigError for a root user where ``runAsNonRoot`` forbids one."""
        pod = self._worker.pod
        settings = {**(pod["spec"].get("securityContext") or {}), **(run.spec.get("securityContext") or {})}
        if not settings.get("runAsNonRoot"):
            return
        meta = pod["metadata"]
        where = f'(pod: "{meta["name"]}_{meta["namespace"]}({meta["uid"]})", container: {run.name})'
        if settings.get("runAsUser") == 0:
            raise ConfigError(f"container's runAsUser breaks non-root policy {where}")
        if settings.get("runAsUser") is None and self._worker.node.images.runs_as_root(run.spec["image"]):
            raise ConfigError(f"container has runAsNonRoot and image will run as root {where}")

    def _created(self, run: ContainerRun, spec: ContainerSpec) -> None:
        self._worker.event("Normal", "Created", "Container created", run)
        delay_s = START_FIRST_S + START_SPREAD_S * self._worker.unit("start", run.name, run.restarts)
        self._worker.after(delay_s, f"start/{run.name}", lambda: self._start(run, spec))

    def _hold(self, run: ContainerRun, reason: str, message: str) -> None:
        """Cannot go on now; the next sync tries again."""
        run.wait(reason, message)
        delay_s = self._worker.resync_s("hold", run.name, self._kernel.now)
        run.retry_at = self._kernel.now + delay_s
        self._worker.changed()
        self._worker.after(delay_s, f"retry/{run.name}", self._worker.sync)

    def _start(self, run: ContainerRun, spec: ContainerSpec) -> None:
        run.busy = False
        if self._stopped():
            return
        ids, uid = self._kernel.ids, self._worker.uid
        run.ref = spec.ref
        run.image, run.image_id = spec.image, image_id(ids, spec.image)
        digest = [ids.hex(size, "container", uid, run.name, run.restarts, size) for size in (40, 24)]
        run.container_id = f"containerd://{''.join(digest)}"
        result = self._worker.world.start(spec, self._kernel.now)
        if result.error:
            self._worker.event("Warning", "Failed", f"Error: {result.error}", run)
            run.wait("RunContainerError", result.error)
            self._worker.exited(run, START_ERROR_CODE, "StartError", result.error)
            return
        self._worker.event("Normal", "Started", "Container started", run)
        run.run(self._kernel.now)
        self._worker.probes.add(run)
        if result.exit_after_s is not None:
            self._worker.after(
                result.exit_after_s,
                f"exit/{run.name}",
                lambda: self._worker.exited(run, result.exit_code, result.reason),
            )
        self._worker.changed()
        self._post_start(run)
        self._worker.sync()

    def _post_start(self, run: ContainerRun) -> None:
        """An exec hook that fails kills the container; other handlers are taken as done."""
        hook = (run.spec.get("lifecycle") or {}).get("postStart") or {}
        command = (hook.get("exec") or {}).get("command")
        if not command or run.ref is None:
            return
        result = self._worker.world.exec(run.ref, list(command), b"", self._kernel.now)
        if result.exit_code or result.error:
            self._worker.event("Warning", "FailedPostStartHook", "PostStartHook failed", run)
            self._worker.stopper.kill(run, "FailedPostStartHook", None)

    def _container_spec(self, run: ContainerRun) -> ContainerSpec:
        worker, agent = self._worker, self._worker.agent
        pod = worker.node.located(worker.pod, worker.pod_ip)
        node = agent.node_object(worker.node.name)
        env = environment(pod, run.spec, node, agent.store.get, agent.linked_services(pod))
        limits = (run.spec.get("resources") or {}).get("limits") or {}
        argv = [*(run.spec.get("command") or ()), *(run.spec.get("args") or ())]
        return ContainerSpec(
            ref=ContainerRef(worker.key.namespace, worker.key.name, worker.uid, run.name, run.restarts),
            image=run.spec["image"],
            command=tuple(expand(part, env) for part in argv),
            env=env,
            files=agent.volumes.files(pod, run.spec, node),
            labels=dict(pod["metadata"].get("labels") or {}),
            node=worker.node.name,
            pod_ip=worker.pod_ip,
            cpu_limit_cores=_limit(limits, "cpu"),
            memory_limit_bytes=int(quantity(limits["memory"])) if limits.get("memory") else None,
            tty=bool(run.spec.get("tty")),
            stdin=bool(run.spec.get("stdin")),
            shared=shared_mounts(pod, run.spec),
            in_memory=tmpfs_sizes(pod, run.spec, node),
        )


def _limit(limits: Obj, name: str) -> float | None:
    return quantity(limits[name]) if limits.get(name) else None
