"""Whole incidents on the embedded cluster, with its real API, Helm, kubectl and sandbox."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from aiopslab.kube.tools import find_tool
from aiopslab.record import read_record, read_snapshot, read_steps
from aiopslab.session.options import RunOptions
from aiopslab.session.run import run_problem

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_tool("helm") is None, reason="needs Helm: run `aiopslab tools`"),
]


@pytest.fixture
def live(tmp_path: Path) -> RunOptions:
    return RunOptions(seed=11, out=tmp_path / "records", baseline_s=180)


async def test_the_same_seed_and_actions_give_the_same_observations(live: RunOptions) -> None:
    """Byte for byte, also for an agent that looks at everything, repairs, and looks again."""
    folders = []
    for _ in range(2):
        record, folder = await run_problem("hipster-target-port-incident-3", "triage", live)
        assert record.result is not None
        assert (record.failure, record.result.verdict) == ("", "pass")
        folders.append(folder)
    first, second = ([dataclasses.astuple(_timeless(step)) for step in read_steps(folder)] for folder in folders)
    assert first == second
    assert read_record(folders[0]).submissions == read_record(folders[1]).submissions
    before, after = read_snapshot(folders[0], "before"), read_snapshot(folders[0], "recovery")
    assert before is not None
    assert after is not None
    assert sorted(before.objects) == sorted(after.objects)


@dataclasses.dataclass
class _Seen:
    step: int
    time_s: float
    reply: str
    observation: str


def _timeless(step: object) -> _Seen:
    return _Seen(*(getattr(step, name) for name in ("step", "time_s", "reply", "observation")))


async def test_an_agents_commands_are_audited_and_nothing_stays(live: RunOptions) -> None:
    class Looks:
        calls = iter(
            (
                "kubectl get pods -n hipster-shop; kubectl get pods -n lab-system; kubectl get networkchaos -A",
                "kubectl rollout restart deploy/frontend -n hipster-shop &&"
                " kubectl rollout status deploy/frontend -n hipster-shop --timeout=90s",
            )
        )

        async def get_action(self, state: str) -> str:
            call = next(self.calls, None)
            return f"```\nexec_shell({call!r}, 120)\n```" if call else '```\nsubmit("detection", "No")\n```'

    _, folder = await run_problem("hipster-healthy-incident-1", Looks(), live)
    looked, restarted, _ = read_steps(folder)
    assert "Forbidden" in looked.observation
    assert "doesn't have a resource type" in looked.observation
    assert "successfully rolled out" in restarted.observation
    assert "[exit code 0]" in restarted.observation
    audit = (folder / "audit.jsonl").read_text()
    assert "/namespaces/lab-system/pods" in audit
    assert not [name for name in os.listdir("/proc") if name.isdigit() and _mentions(name, folder.name)]


def _mentions(pid: str, word: str) -> bool:
    try:
        return word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
