"""The life of one pod on its node, from the first status to the last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.kernel import Kernel, parse_time
from aiopslab.sim.core.kubelet import status
from aiopslab.sim.core.kubelet.admission import EVICTED
from aiopslab.sim.core.kubelet.podstats import limited
from aiopslab.sim.core.kubelet.probes import PodProbes
from aiopslab.sim.core.kubelet.run import ContainerRun, Role
from aiopslab.sim.core.kubelet.starter import Starter
from aiopslab.sim.core.kubelet.stopper import Stopper
from aiopslab.sim.core.ports import LogQuery, World
from aiopslab.sim.core.store import Key, Obj

if TYPE_CHECKING:
    from aiopslab.sim.core.kubelet.agent import Kubelets, NodeAgent

MANAGER = "kubelet"
SANDBOX_FIRST_S, SANDBOX_SPREAD_S = 0.3, 0.5
MOUNT_RETRY_FIRST_S, MOUNT_RETRY_MOST_S = 0.5, 122.0
# The kubelet looks at its containers once a second, and syncs a pod that failed about every 12 s.
RELIST_FIRST_S, RELIST_SPREAD_S = 0.3, 0.7
RESYNC_FIRST_S, RESYNC_SPREAD_S = 10.0, 5.0
MOUNT_TEXT = 'MountVolume.SetUp failed for volume "{}" : {}'
DEADLINE_TEXT = "Pod was active on the node longer than the specified deadline"

FALLBACK, LAST_LINES, LAST_BYTES = "FallbackToLogsOnError", 80, 2048


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a pod fails as a whole: (reason, message), and those of condition DisruptionTarget. ``grace_s`` None is
    the pod's own."""

    failure: tuple[str, str]
    disrupted: tuple[str, str] | None = None
    grace_s: float | None = None


class PodWorker:
    """State machine of one pod. All waiting is done with timers named after the pod's uid."""

    def __init__(self, agent: Kubelets, node: NodeAgent, pod: Obj) -> None:
        self.agent, self.node = agent, node
        self.kernel: Kernel = agent.kernel
        self.world: World = agent.world
        self.key = Key("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        self.uid: str = pod["metadata"]["uid"]
        self._last = pod
        self.pod_ip = ""
        self.sandbox_ready = False
        self.ended = False  # reached Succeeded or Failed, or is on its way there
        self._verdict: Verdict | None = None  # why it will be Failed when its containers have ended
        self.failure: tuple[str, str] | None = None
        self.disrupted: tuple[str, str] | None = None
        self._started_at = self.kernel.timestamp()
        self.limited = limited(pod)
        self._mount_tries = 0
        first = "PodInitializing" if pod["spec"].get("initContainers") else "ContainerCreating"
        self.runs = [
            ContainerRun(container, role, "PodInitializing" if role == "init" else first)
            for role, container in containers_of(pod)
        ]
        self.probes = PodProbes(self)
        self.starter = Starter(self)
        self.stopper = Stopper(self)

    @property
    def pod(self) -> Obj:
        """The pod as stored now, or as it was last."""
        current = self.agent.store.get(self.key)
        if current is not None and current["metadata"]["uid"] == self.uid:
            self._last = current
        return self._last

    @property
    def policy(self) -> str:
        """``restartPolicy``."""
        return self.pod["spec"].get("restartPolicy", "Always")

    def timer(self, what: str) -> str:
        """Name of a timer of this pod."""
        return f"kubelet/{self.uid}/{what}"

    def after(self, delay_s: float, what: str, call: Callable[[], None]) -> None:
        """Start a timer of this pod."""
        self.kernel.call_after(delay_s, self.timer(what), call)

    def unit(self, *what: object) -> float:
        """A number in [0, 1) that depends on this pod and ``what``."""
        return self.kernel.ids.unit("kubelet", self.uid, *what)

    def event(
        self,
        type_: str,
        reason: str,
        message: str,
        run: ContainerRun | None = None,
        annotations: dict[str, str] | None = None,
    ) -> None:
        """An event about the pod, or about one of its containers."""
        self.agent.api.event(
            self.pod,
            type_,
            reason,
            message,
            "kubelet",
            host=self.node.name,
            field_path=run.field_path if run is not None else "",
            annotations=annotations,
        )

    # Start ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The pod was bound to this node."""
        refusal = self.node.refusal(self.pod)
        if refusal is not None:
            self._reject(*refusal)
            return
        self.changed()
        deadline_s = self.pod["spec"].get("activeDeadlineSeconds")
        if deadline_s is not None:
            self.after(deadline_s, "deadline", self._deadline_passed)
        self._mount()

    def _reject(self, reason: str, message: str) -> None:
        self.failure = (reason, f"Pod was rejected: {message}")
        self.ended = True
        self.event("Warning", reason, message)
        status = {"phase": "Failed", "reason": reason, "message": self.failure[1], "startTime": self._started_at}
        self.agent.write_status(self, status)

    def _mount(self) -> None:
        problems = self.agent.volumes.problems(self.pod)
        if not problems:
            delay_s = SANDBOX_FIRST_S + SANDBOX_SPREAD_S * self.unit("sandbox")
            self.after(delay_s, "sandbox", self._sandbox)
            return
        for problem in problems:
            self.event("Warning", "FailedMount", MOUNT_TEXT.format(problem.volume, problem.text))
        delay_s = min(MOUNT_RETRY_FIRST_S * 2.0**self._mount_tries, MOUNT_RETRY_MOST_S)
        self._mount_tries += 1
        self.after(delay_s, "mount", self._mount)

    def _sandbox(self) -> None:
        spec, meta = self.pod["spec"], self.pod["metadata"]
        if spec.get("hostNetwork"):
            self.pod_ip = self.node.host_ip
        else:
            self.pod_ip = self.node.addresses.take(meta["namespace"], meta["name"], self.uid)
        if not self.pod_ip:
            text = "Failed to create pod sandbox: failed to allocate for range 0: no IP addresses available"
            self.event("Warning", "FailedCreatePodSandBox", text)
            self.after(self.resync_s("sandbox"), "sandbox", self._sandbox)
            return
        self.sandbox_ready = True
        self.sync()

    def resync_s(self, *what: object) -> float:
        """Seconds until the kubelet looks at a failed pod again."""
        return RESYNC_FIRST_S + RESYNC_SPREAD_S * self.unit("resync", *what)

    def relist_s(self, *what: object) -> float:
        """Seconds until the kubelet notices what a container did."""
        return RELIST_FIRST_S + RELIST_SPREAD_S * self.unit("relist", *what)

    # Sync -------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Start what can be started now: init containers one by one, then the others in order."""
        if self.ended or self.stopper.ending or not self.sandbox_ready:
            return
        for run in self.runs:
            if run.role in ("app", "ephemeral"):
                continue
            if run.role == "init" and run.terminated is not None and run.terminated["exitCode"] == 0:
                continue
            if run.role == "sidecar" and run.running and run.started:
                continue
            if "waiting" in run.state and not run.busy and run.retry_at <= self.kernel.now:
                self.starter.begin(run)
            if not (run.role == "sidecar" and run.running and run.started):
                return
        for run in self.runs:
            if run.role not in ("app", "ephemeral"):
                continue
            if "waiting" in run.state and not run.busy and run.retry_at <= self.kernel.now:
                if run.state["waiting"]["reason"] == "PodInitializing":
                    run.wait("ContainerCreating")
                self.starter.begin(run)
            if run.busy:
                return

    def update(self) -> None:
        """The pod object changed: deletion, a new image, an ephemeral container, a readiness gate."""
        pod = self.pod
        if pod["metadata"].get("deletionTimestamp"):
            self.stopper.end_pod(float(pod["metadata"].get("deletionGracePeriodSeconds", 30)))
            return
        if self.ended:
            return
        known = {run.name: run for run in self.runs}
        for role, container in containers_of(pod):
            run = known.get(container["name"])
            if run is None:
                self.runs.append(ContainerRun(container, role, "ContainerCreating"))
            elif run.spec["image"] != container["image"]:
                run.spec = container
                self.stopper.replace(run)
            else:
                run.spec = container
        self.changed()
        self.sync()

    def changed(self) -> None:
        """Write the status; nothing is written when it is the same as before."""
        if self._verdict is not None and not any(run.running for run in self.runs):
            self.failure, self.disrupted = self._verdict.failure, self._verdict.disrupted
            status.settle(self.runs)
        view = status.PodView(
            runs=self.runs,
            host_ip=self.node.host_ip,
            pod_ip=self.pod_ip,
            started_at=self._started_at,
            sandbox_ready=self.sandbox_ready,
            now=self.kernel.timestamp(),
            failure=self.failure,
            disrupted=self.disrupted,
        )
        self.agent.write_status(self, status.build(self.pod, view))

    # Ends -------------------------------------------------------------------------------------------------

    def exited(self, run: ContainerRun, exit_code: int, reason: str = "", message: str = "") -> None:
        """A container has ended, by itself or because it was told to."""
        if run.terminated is not None:
            return
        if run.ref is not None:
            self.world.ended(run.ref, self.kernel.now)
        self.kernel.cancel(self.timer(f"exit/{run.name}"))
        self.probes.remove(run)
        message = message or self._last_words(run, exit_code)
        run.end(self.kernel.now, exit_code, reason or ("Completed" if exit_code == 0 else "Error"), message)
        if self.stopper.ending:
            self.stopper.container_ended()
            return
        self._finish_if_done()
        self.changed()
        if self.ended:
            self.stopper.stop_all()
        else:
            self.after(
                self.relist_s(run.name, run.restarts), f"relist/{run.name}", lambda: self._after_exit(run)
            )

    def _last_words(self, run: ContainerRun, exit_code: int) -> str:
        """The end of the log of a failed container that asks for it: at most 80 lines and 2048 bytes."""
        if not exit_code or run.ref is None or run.spec.get("terminationMessagePolicy") != FALLBACK:
            return ""
        lines = self.world.logs(run.ref, LogQuery(tail=LAST_LINES)) or []
        return "".join(f"{line.text}\n" for line in lines)[-LAST_BYTES:]

    def _after_exit(self, run: ContainerRun) -> None:
        if self.ended or self.stopper.ending or run.terminated is None:
            return
        if run.restarts_after(run.terminated["exitCode"], self.policy):
            self.starter.restart(run, parse_time(run.terminated["finishedAt"]))
        self.sync()

    def _finish_if_done(self) -> None:
        """Whether the pod as a whole is over: all main containers, or an init container for good."""
        apps = [run for run in self.runs if run.role == "app"]
        init_failed = any(
            run.role == "init"
            and run.finished_for_good(self.policy)
            and run.terminated
            and run.terminated["exitCode"]
            for run in self.runs
        )
        if init_failed or all(run.finished_for_good(self.policy) for run in apps):
            self.ended = True
            self.probes.clear()

    def restart_unhealthy(self, run: ContainerRun, kind: str, grace_s: float | None) -> None:
        """A liveness or startup probe failed often enough."""
        self.stopper.kill(run, f"Container {run.name} failed {kind} probe, will be restarted", grace_s)

    def _deadline_passed(self) -> None:
        self.event("Normal", "DeadlineExceeded", DEADLINE_TEXT)
        self.fail(Verdict(("DeadlineExceeded", DEADLINE_TEXT)))

    def fail(self, verdict: Verdict) -> None:
        """Stop all containers, then let the pod be Failed, as deadlines and evictions do."""
        if self.ended or self.stopper.ending:
            return
        self._verdict = verdict
        self.ended = True
        self.cancel_timers()
        self.probes.clear()
        self.stopper.stop_all(verdict.grace_s, again=True)

    def release(self) -> None:
        """Nothing of the pod is left on the node."""
        self.probes.clear()
        self.node.addresses.release(self.pod_ip, self.uid)
        self.sandbox_ready = False
        if self._verdict is not None and self._verdict.failure[0] == EVICTED:
            self.world.forget(self.uid)  # the containers of evicted pods are removed at once, with their logs

    def cancel_timers(self) -> None:
        """Forget everything that was still to happen."""
        for what in ("mount", "sandbox", "deadline", "probes", "gone"):
            self.kernel.cancel(self.timer(what))
        for run in self.runs:
            for what in ("pull", "start", "exit", "relist", "retry", "backoff", "stop"):
                self.kernel.cancel(self.timer(f"{what}/{run.name}"))

    def remove_from_api(self) -> None:
        """The last act of a graceful deletion."""
        try:
            self.agent.delete_now(self.key, self.uid)
        except ApiError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise


def containers_of(pod: Obj) -> list[tuple[Role, Obj]]:
    """All containers of a pod with their roles, in the order of start."""
    spec = pod["spec"]
    found: list[tuple[Role, Obj]] = []
    for container in spec.get("initContainers") or ():
        found.append(("sidecar" if container.get("restartPolicy") == "Always" else "init", container))
    found += [("app", container) for container in spec["containers"]]
    found += [("ephemeral", container) for container in spec.get("ephemeralContainers") or ()]
    return found
