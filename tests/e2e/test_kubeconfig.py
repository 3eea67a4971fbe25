"""The same session against a cluster that is only a kubeconfig and two URLs, on the machine's clock."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# A wall clock must be lived through: one run by default, a repair and the others with AIOPSLAB_E2E=all.
RUNS = [
    ("hipster-scale-zero-localization-1", "solution", "pass"),
    ("hipster-target-port-incident-1", "solution", "pass"),
    ("hipster-network-delay-detection-1", "noop", "fail"),
    ("hipster-healthy-detection-1", "triage", "pass"),
]
if os.environ.get("AIOPSLAB_E2E") != "all":
    RUNS = RUNS[:1]


@pytest.mark.slow
@pytest.mark.waits
async def test_the_same_verdicts_on_any_cluster(console: Any, play: Callable[..., Any]) -> None:
    up = console("cluster", "up", "--seed", "5", "--json")
    assert up.code == 0, up.err
    state = json.loads(up.out)
    again = console("cluster", "up")
    assert again.code == 2 and "already running" in again.last_line
    reached = {name: state[name] for name in ("prometheus_url", "jaeger_url")}
    reached["kubeconfig"] = Path(state["kubeconfig"])
    for problem, agent, verdict in RUNS:
        played = await play(problem, agent, cluster="kubeconfig", baseline_s=15.0, settle_s=200.0, **reached)
        assert played.result.verdict == verdict, played.why
        assert played.record.config["clock"] == "wall"
        assert {"deploy", "baseline", "inject", "agent", "recover", "teardown"} <= {
            p.name for p in played.record.phases
        }
    shown = json.loads(console("cluster", "status", "--json").out)
    assert (shown["running"], shown["pid"]) == (True, state["pid"])
    assert console("cluster", "down").code == 0
    assert console("cluster", "status").code == 1
    assert console.leftovers() == []
