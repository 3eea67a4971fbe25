"""How a run is to be done; every value has a default."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aiopslab.errors import UsageError
from aiopslab.session.limits import Limits

# Cluster seconds by clock mode: on the wall clock they are lived through, on the stepped one they are free.
BASELINE_S = {"stepped": 600.0, "wall": 60.0}
FULL_NOISE_BASELINE_S = 420.0
# A gRPC client that failed often redials after up to 144 s, and rates look back a minute: the window must hold both.
SETTLE_S = {"stepped": 420.0, "wall": 180.0}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run. Times in seconds of cluster time.

    ``baseline_s`` and ``settle_s`` None take the default of the clock's mode. ``out`` is the folder in which
    the run's record folder is made. ``kubeconfig`` and the URLs belong to ``cluster="kubeconfig"``, ``noise`` to
    the embedded cluster: what it does by itself though nothing is wrong. With ``full`` that can be a rollout
    restart in the first minutes, so it needs a baseline of ``FULL_NOISE_BASELINE_S``.
    """

    seed: int = 0
    cluster: str = "embedded"
    clock: Literal["stepped", "wall"] = "stepped"
    max_steps: int = 30
    baseline_s: float | None = None
    settle_s: float | None = None
    think_time_s: float = 10.0
    bundles: tuple[Path, ...] = ()
    kubeconfig: Path | None = None
    prometheus_url: str = ""
    jaeger_url: str = ""
    noise: Literal["off", "light", "full"] = "off"
    out: Path = Path("records")
    unsafe_shell: bool = False
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Raise UsageError for values that make no sense."""
        if self.max_steps < 1:
            raise UsageError(f"max_steps must be at least 1, not {self.max_steps}")
        for name in ("baseline_s", "settle_s", "think_time_s"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 7 * 86400:
                raise UsageError(f"{name} must be between 0 and a week in seconds, not {value}")
        baseline_s = BASELINE_S[self.clock] if self.baseline_s is None else self.baseline_s
        if self.noise == "full" and baseline_s < FULL_NOISE_BASELINE_S:
            raise UsageError(
                f"full noise needs a baseline of at least {FULL_NOISE_BASELINE_S:.0f} s, not {baseline_s:g}: "
                "its restarts belong to the healthy minutes. Use a longer baseline or light noise"
            )

    def as_config(self, mode: str) -> dict[str, Any]:
        """What the record keeps; ``mode`` is the cluster clock's."""
        return {
            "clock": mode,
            "max_steps": self.max_steps,
            "baseline_s": BASELINE_S[mode] if self.baseline_s is None else self.baseline_s,
            "settle_s": SETTLE_S[mode] if self.settle_s is None else self.settle_s,
            "think_time_s": self.think_time_s if mode == "stepped" else 0.0,
            "noise": self.noise if self.cluster == "embedded" else "",
            "unsafe_shell": self.unsafe_shell,
            "bundles": [str(path) for path in self.bundles],
        }
