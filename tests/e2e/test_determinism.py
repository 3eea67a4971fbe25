"""Same problem, seed and actions: the same observations, byte for byte, also in two runs at once."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Generator
from typing import Any

import msgspec
import pytest

PROBLEM = "hipster-target-port-incident-1"
MACHINE_TIMES = ("wall_s", "wall_started_at", "setup_wall_s")
COMMANDS = [
    "date; date +%s; kubectl get pods -n hipster-shop -o wide",
    "kubectl describe pod -n hipster-shop -l app=frontend",
    "kubectl get events -n hipster-shop --sort-by=.lastTimestamp",
    "kubectl get all,endpointslices -n hipster-shop -o yaml",
    "kubectl logs -n hipster-shop deploy/checkoutservice --tail=50 --timestamps",
    "kubectl rollout restart -n hipster-shop deploy/emailservice",
    "kubectl rollout status -n hipster-shop deploy/emailservice",
    "kubectl get deploy emailservice -n hipster-shop -o yaml | grep restartedAt; date -u +%FT%TZ",
    "timeout 20 kubectl get pods -n hipster-shop -w; sleep 30; kubectl top pods -n hipster-shop",
    "kubectl run probe --rm -i --restart=Never --image=busybox -n hipster-shop -- nslookup frontend",
    "curl -s $PROMETHEUS_URL/api/v1/query -d 'query=sum by (pod) (container_memory_working_set_bytes)'",
    "for p in $(kubectl get pods -n hipster-shop -o name); do\n"
    "  kubectl logs -n hipster-shop $p --tail=1 > $$.${p#*/} &\ndone\nwait\ncat $$.*",
]


def look_around() -> Generator[str, str, None]:
    """Reads, waits, streams and changes."""
    for command in COMMANDS:
        yield f"exec_shell({command!r}, timeout=120)"
    yield "get_logs('hipster-shop', 'frontend')"
    yield "get_metrics('hipster-shop', 2)"
    yield "get_traces('hipster-shop', 2)"


def seen(played: Any) -> list[dict[str, Any]]:
    """The trajectory without what depends on the machine."""
    steps = [msgspec.to_builtins(step) for step in played.steps]
    return [{k: v for k, v in step.items() if k not in MACHINE_TIMES} for step in steps]


def audit(played: Any) -> list[dict[str, Any]]:
    """The audit without what kubectl leaves to chance: how long a watch is to last, the order of a selector."""
    entries = [json.loads(line) for line in (played.folder / "audit.jsonl").read_text().splitlines()]
    for entry in entries:
        words = re.split(r"[?&]|%2C|Selector=", entry["path"])
        entry["path"] = sorted(word for word in words if not word.startswith("timeout"))
    return entries


@pytest.mark.slow
async def test_two_runs_at_once_observe_the_same(play: Callable[..., Any], scripted: Any) -> None:
    first, second = await asyncio.gather(*(play(PROBLEM, scripted(look_around), seed=11) for _ in range(2)))
    for one, other in zip(seen(first), seen(second), strict=True):
        assert one["observation"].splitlines() == other["observation"].splitlines()
        assert one == other
    assert audit(first) == audit(second) != []
    assert first.result == second.result
    assert first.folder != second.folder


@pytest.mark.slow
async def test_an_investigation_repeats_itself_and_another_seed_differs(play: Callable[..., Any]) -> None:
    first, second, third = await asyncio.gather(*(play(PROBLEM, "triage", seed=seed) for seed in (12, 12, 13)))
    assert seen(first) == seen(second)
    assert seen(first) != seen(third)
    assert first.result == second.result
    assert {first.result.verdict, third.result.verdict} == {"pass"}
