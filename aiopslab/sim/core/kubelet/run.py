"""One container of a pod as the kubelet sees it: state, restarts, back-off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from aiopslab.sim.core.kernel import rfc3339
from aiopslab.sim.core.ports import ContainerRef
from aiopslab.sim.core.store import Obj

BACKOFF_FIRST_S = 10.0
BACKOFF_MOST_S = 300.0

Role = Literal["init", "sidecar", "app", "ephemeral"]


@dataclass(slots=True)
class Backoff:
    """Doubling delays. A quiet time of twice the longest delay starts over."""

    delay_s: float = 0.0
    at: float = 0.0

    def waiting_until(self, event_at: float) -> float:
        """When the next try may happen; ``event_at`` (the end of the last run) or earlier means now."""
        if not self.delay_s or self._expired(event_at):
            return event_at
        return event_at + self.delay_s

    def next(self, event_at: float) -> None:
        """A try begins: the wait after it will be longer."""
        if not self.delay_s or self._expired(event_at):
            self.delay_s = BACKOFF_FIRST_S
        else:
            self.delay_s = min(self.delay_s * 2, BACKOFF_MOST_S)
        self.at = event_at

    def _expired(self, event_at: float) -> bool:
        return event_at - self.at > 2 * BACKOFF_MOST_S


@dataclass(slots=True)
class ContainerRun:
    """A container of one pod. ``state`` and ``last_state`` are in the form of the API."""

    spec: Obj
    role: Role
    waiting: str
    state: Obj = field(init=False)
    last_state: Obj = field(default_factory=dict)
    restarts: int = 0
    image: str = ""
    image_id: str = ""
    container_id: str = ""
    ref: ContainerRef | None = None
    busy: bool = False  # a pull or a start is under way
    stopping: bool = False  # SIGTERM was sent
    retry_at: float = 0.0
    pull_backoff: Backoff = field(default_factory=Backoff)
    crash_backoff: Backoff = field(default_factory=Backoff)
    started: bool = False
    ready: bool = False

    def __post_init__(self) -> None:
        self.state = {"waiting": {"reason": self.waiting}}

    @property
    def name(self) -> str:
        """The container's name."""
        return self.spec["name"]

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return "running" in self.state

    @property
    def terminated(self) -> Obj | None:
        """How it ended, while it is not waiting for a restart."""
        return self.state.get("terminated")

    @property
    def field_path(self) -> str:
        """What events about this container point at."""
        part = {"app": "containers", "ephemeral": "ephemeralContainers"}.get(self.role, "initContainers")
        return f"spec.{part}{{{self.name}}}"

    def wait(self, reason: str, message: str = "") -> None:
        """Waiting, with the reason that clients show; the last run moves to ``lastState``."""
        if "terminated" in self.state:
            self.last_state = self.state
        self.state = {"waiting": {"message": message, "reason": reason} if message else {"reason": reason}}

    def run(self, now: float) -> None:
        """Running since now."""
        if "terminated" in self.state:
            self.last_state = self.state
        self.state = {"running": {"startedAt": rfc3339(now)}}
        self.busy = self.stopping = False

    def end(self, now: float, exit_code: int, reason: str, message: str = "") -> None:
        """The run is over."""
        started = (self.state.get("running") or {}).get("startedAt") or rfc3339(now)
        ended: Obj = {
            "containerID": self.container_id,
            "exitCode": exit_code,
            "finishedAt": rfc3339(now),
            "reason": reason,
            "startedAt": started,
        }
        if message:
            ended["message"] = message
        self.state = {"terminated": ended}
        self.started = self.ready = self.busy = self.stopping = False

    def finished_for_good(self, restart_policy: str) -> bool:
        """Whether it has ended and will not be restarted under the pod's policy."""
        if self.terminated is None:
            return False
        return not self.restarts_after(self.terminated["exitCode"], restart_policy)

    def restarts_after(self, exit_code: int, restart_policy: str) -> bool:
        """Whether an exit with this code leads to another run."""
        if self.role == "sidecar":
            return True
        if self.role == "ephemeral":
            return False
        if self.role == "init":
            return exit_code != 0 and restart_policy != "Never"
        return restart_policy == "Always" or (restart_policy == "OnFailure" and exit_code != 0)
