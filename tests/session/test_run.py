"""The eight steps: in order, recorded, and undone whatever happens."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from aiopslab.errors import DeployError, UnknownIdError, UsageError
from aiopslab.record import read_record, read_slos, read_snapshot, read_steps
from aiopslab.session.limits import Limits
from aiopslab.session.options import RunOptions
from aiopslab.session.progress import Event
from aiopslab.session.run import run_problem

PROBLEM = "hipster-target-port"


def with_options(options: RunOptions, **changes: Any) -> RunOptions:
    import dataclasses

    return dataclasses.replace(options, **changes)


async def test_the_steps_happen_in_order_and_are_recorded(world: Any, options: RunOptions, scripted: Any) -> None:
    agent = scripted('```\nexec_shell("kubectl get pods")\n```', '```\nsubmit("Yes")\n```')
    record, folder = await run_problem(f"{PROBLEM}-detection-1", agent, options)
    assert world.events == [
        *("up", "deploy", "load", "agent side", "inject", "shell kubectl get pods"),
        *("recover", "unload", "undeploy", "close"),
    ]
    assert (record.outcome, record.failure, record.steps, record.invalid_actions) == ("submitted", "", 2, 0)
    assert [phase.name for phase in record.phases] == [
        *("setup", "deploy", "load", "baseline", "inject", "agent", "settle", "recover", "teardown"),
    ]
    assert read_record(folder) == record
    assert record.result is not None
    assert record.result.verdict == "pass"


async def test_times_count_from_the_injection(world: Any, options: RunOptions, scripted: Any) -> None:
    agent = scripted("```\nwait(60)\n```", '```\nsubmit("Yes")\n```')
    record, folder = await run_problem(f"{PROBLEM}-detection-1", agent, options)
    assert record.injection is not None
    assert record.injection.symptom_after_s == 0
    baseline = next(phase for phase in record.phases if phase.name == "baseline")
    assert (baseline.start_s, baseline.end_s) == (-600, 0)
    assert [step.time_s for step in read_steps(folder)] == [10, 80]  # think time, then the wait
    assert [entry.at_s for entry in record.submissions] == [80]
    before, end = read_snapshot(folder, "before"), read_snapshot(folder, "end")
    assert before is not None
    assert end is not None
    assert (before.at_s, end.at_s) == (0, 80)
    points = read_slos(folder)[0].points
    assert (points[0][0], points[-1][0]) == (-600, 75)


async def test_the_agent_is_told_everything_it_needs_and_nothing_else(
    world: Any, options: RunOptions, scripted: Any
) -> None:
    agent = scripted('```\nsubmit("detection", "No")\n```')
    await run_problem(f"{PROBLEM}-incident-1", agent, options)
    description, instructions, apis = agent.briefing
    told = "\n".join([description, instructions, *apis.values(), *agent.seen])
    assert "namespace hipster-shop" in description
    assert "5 replies" in instructions
    assert list(apis) == [
        *("get_logs", "get_metrics", "get_traces", "read_metrics", "read_traces", "exec_shell", "wait", "submit"),
    ]
    for word in (PROBLEM, "target", "inject", "simul", "chaos", "lab-system"):
        assert word not in told.lower()


async def test_the_first_input_and_every_later_one_ask_for_an_action(
    world: Any, options: RunOptions, scripted: Any
) -> None:
    agent = scripted("```\nwait(5)\n```", '```\nsubmit("No")\n```')
    await run_problem(f"{PROBLEM}-detection-1", agent, options)
    assert agent.seen[0] == "Please take the next action"
    assert agent.seen[1].startswith("5 s have passed. It is 2025-06-02T09:10:15Z.")
    assert agent.seen[1].endswith("\nPlease take the next action")


async def test_an_incident_goes_on_until_its_last_stage(world: Any, options: RunOptions, scripted: Any) -> None:
    agent = scripted(
        '```\nsubmit("detection", "Yes")\n```',
        '```\nsubmit("localization", ["cartservice"])\n```',
        '```\nsubmit("analysis", {"system_level": "x", "fault_type": "Misconfiguration"})\n```',
        '```\nsubmit("mitigation")\n```',
    )
    record, folder = await run_problem(f"{PROBLEM}-incident-1", agent, options)
    assert [entry.stage for entry in record.submissions] == ["detection", "localization", "mitigation"]
    assert record.invalid_actions == 1
    assert "Hardware, Operating System" in read_steps(folder)[2].observation


async def test_a_healthy_problem_breaks_nothing(world: Any, options: RunOptions, scripted: Any) -> None:
    record, _ = await run_problem("hipster-healthy-detection-1", scripted('```\nsubmit("No")\n```'), options)
    assert "inject" not in world.events
    assert record.injection is None
    assert record.result is not None
    assert record.result.verdict == "pass"


async def hang(state: str) -> str:
    await asyncio.sleep(3600)
    return ""


async def block(state: str) -> str:
    time.sleep(1.5)
    return ""


async def crash(state: str) -> str:
    raise ValueError("no idea\nsecond line")


async def leave(state: str) -> str:
    raise SystemExit(3)


BAD_AGENTS = [
    (crash, "agent-failure", "get_action raised ValueError: no idea"),
    (leave, "agent-failure", "get_action raised SystemExit: 3"),
    (None, "agent-failure", "returned NoneType instead of a text"),
    (42, "agent-failure", "returned int instead of a text"),
    ("x" * 10_000_001, "agent-failure", "10000001 characters"),
    (hang, "agent-failure", "did not answer within 0.3 s"),
    (block, "agent-failure", "did not answer within 0.3 s"),
    ("x" * 10_000_000, "step-limit", ""),
    ("", "step-limit", ""),
    ("no action at all", "step-limit", ""),
    ("\ud800 ```\nwait(1)\n```", "step-limit", ""),
    ('```\nsubmit({"a": {1, 2}, 3: ...})\n```', "step-limit", ""),
]


@pytest.mark.parametrize(("reply", "outcome", "failure"), BAD_AGENTS, ids=range(len(BAD_AGENTS)))
async def test_a_bad_agent_loses_and_the_lab_cleans_up(
    world: Any, options: RunOptions, scripted: Any, reply: Any, outcome: str, failure: str
) -> None:
    bounded = with_options(options, limits=Limits(reply_wall_s=0.3))
    record, folder = await run_problem(f"{PROBLEM}-detection-1", scripted(reply), bounded)
    assert record.outcome == outcome
    assert failure in record.failure
    assert record.result is not None
    assert record.result.verdict == "fail"
    assert world.events[-4:] == ["recover", "unload", "undeploy", "close"]
    assert read_record(folder).outcome == outcome


async def test_the_whole_session_has_a_limit(world: Any, options: RunOptions, scripted: Any) -> None:
    bounded = with_options(options, limits=Limits(run_wall_s=0.2))
    record, _ = await run_problem(f"{PROBLEM}-detection-1", scripted(hang), bounded)
    assert record.outcome == "time-limit"


@pytest.mark.parametrize("where", ["up", "deploy", "load", "agent side", "inject"])
async def test_a_failing_lab_is_never_the_agents_fault(
    world: Any, options: RunOptions, scripted: Any, where: str
) -> None:
    world.fail[where] = DeployError(f"{where} broke")
    record, folder = await run_problem(f"{PROBLEM}-mitigation-1", scripted("```\nsubmit()\n```"), options)
    assert (record.outcome, record.failure) == ("lab-failure", f"{where} broke")
    assert record.result is not None
    assert record.result.verdict == "unknown"
    assert "DeployError" in (folder / "trouble.txt").read_text()
    assert ("recover" in world.events) == (where == "inject")
    if where != "up":
        assert world.events[-1] == "close"


async def test_a_bug_in_the_lab_is_unknown_and_leaves_its_traceback(
    world: Any, options: RunOptions, scripted: Any
) -> None:
    world.fail["shell ls"] = ZeroDivisionError("division by zero")
    record, folder = await run_problem(f"{PROBLEM}-detection-1", scripted('```\nexec_shell("ls")\n```'), options)
    assert record.outcome == "lab-failure"
    assert "ZeroDivisionError" in record.failure
    assert "Traceback" in (folder / "trouble.txt").read_text()
    assert world.events[-4:] == ["recover", "unload", "undeploy", "close"]


async def test_an_unhealthy_baseline_is_unknown(world: Any, options: RunOptions, scripted: Any) -> None:
    world.healthy = False
    record, _ = await run_problem(f"{PROBLEM}-detection-1", scripted('```\nsubmit("Yes")\n```'), options)
    assert record.outcome == "lab-failure"
    assert "not healthy before anything was broken" in record.failure
    assert "inject" not in world.events


async def test_a_fault_that_does_not_bite_is_unknown(world: Any, options: RunOptions, scripted: Any) -> None:
    world.at["inject"] = lambda: setattr(world, "broken", False)
    record, _ = await run_problem(f"{PROBLEM}-detection-1", scripted('```\nsubmit("Yes")\n```'), options)
    assert record.outcome == "lab-failure"
    assert "the fault does not show after 300 s" in record.failure


async def test_trouble_while_cleaning_up_does_not_stop_the_rest(
    world: Any, options: RunOptions, scripted: Any
) -> None:
    world.fail |= {"recover": DeployError("stuck"), "unload": DeployError("stuck too")}
    record, folder = await run_problem(f"{PROBLEM}-detection-1", scripted('```\nsubmit("Yes")\n```'), options)
    assert world.events[-3:] == ["unload", "undeploy", "close"]
    assert record.result is not None
    assert record.result.verdict == "pass"
    assert "stuck too" in (folder / "trouble.txt").read_text()


@pytest.mark.parametrize("where", ["up", "deploy", "load", "agent side", "inject", "shell ls", "recover", "unload"])
async def test_an_interrupt_at_any_moment_recovers_and_keeps_the_record(
    world: Any, options: RunOptions, scripted: Any, where: str
) -> None:
    agent = scripted('```\nexec_shell("ls")\n```', '```\nsubmit("Yes")\n```')
    task = asyncio.ensure_future(run_problem(f"{PROBLEM}-detection-1", agent, options))
    world.at[where] = lambda: (task.cancel(), None)[1]
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.events[-1] == "close"
    assert ("recover" in world.events) == ("inject" in world.events)
    record = read_record(next(options.out.iterdir()))
    if where not in ("recover", "unload"):
        assert record.outcome == "interrupted"
    assert record.result is not None


async def test_wrong_input_is_said_before_anything_starts(world: Any, options: RunOptions, scripted: Any) -> None:
    agent = scripted("")
    with pytest.raises(UnknownIdError, match="hipster-target-port-detection-1"):
        await run_problem("hipster-target-prt-detection-1", agent, options)
    with pytest.raises(UsageError, match="get_action"):
        await run_problem(f"{PROBLEM}-detection-1", object(), options)
    with pytest.raises(UsageError, match="max_steps"):
        await run_problem(f"{PROBLEM}-detection-1", agent, with_options(options, max_steps=0))
    assert world.events == []
    assert not options.out.exists()


async def test_a_record_that_cannot_be_written_is_said(world: Any, options: RunOptions, scripted: Any) -> None:
    options.out.write_text("a file")
    with pytest.raises(UsageError, match="--out"):
        await run_problem(f"{PROBLEM}-detection-1", scripted(""), options)


async def test_two_runs_at_once_do_not_meet(world: Any, options: RunOptions, scripted: Any) -> None:
    runs = [run_problem(f"{PROBLEM}-detection-1", scripted('```\nsubmit("Yes")\n```'), options) for _ in range(2)]
    (first, a), (second, b) = await asyncio.gather(*runs)
    assert a != b
    assert first.run_id != second.run_id


async def test_listeners_hear_everything_and_cannot_do_harm(world: Any, options: RunOptions, scripted: Any) -> None:
    heard: list[Event] = []

    def listen(event: Event) -> None:
        heard.append(event)
        raise RuntimeError("a broken display")

    record, _ = await run_problem(f"{PROBLEM}-detection-1", scripted('```\nsubmit("Yes")\n```'), options, listen)
    assert record.outcome == "submitted"
    kinds = [event.kind for event in heard]
    assert (kinds[0], kinds[-1]) == ("run-started", "finished")
    assert kinds.count("phase-started") == kinds.count("phase-ended") == 9
    assert heard[0].detail["seed"] == 7
    step = next(event for event in heard if event.kind == "step")
    assert step.text == "submit(has_anomaly='Yes')"
    assert heard[-1].detail == {"outcome": "submitted", "verdict": "pass"}


async def test_the_audit_and_the_tokens_are_kept(world: Any, options: RunOptions, scripted: Any) -> None:
    world.at["shell ls"] = lambda: world.entries.append({"n": len(world.entries) + 1, "path": "/api/v1/pods"})
    agent = scripted('```\nexec_shell("ls")\n```', '```\nexec_shell("ls")\n```', '```\nsubmit("Yes")\n```')
    agent.usage = {"input_tokens": 120, "output_tokens": 7}
    record, folder = await run_problem(f"{PROBLEM}-detection-1", agent, options)
    lines = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    assert [line["n"] for line in lines] == [1, 2]
    assert record.tokens == {"in": 120, "out": 7}


async def test_long_observations_are_cut_and_kept_as_a_file(
    world: Any, options: RunOptions, scripted: Any, tmp_path: Path
) -> None:
    command = "x" * 50_000
    agent = scripted(f'```\nexec_shell("{command}")\n```', '```\nsubmit("Yes")\n```')
    _, folder = await run_problem(f"{PROBLEM}-detection-1", agent, options)
    observation = read_steps(folder)[0].observation
    assert len(observation) < 17_000
    assert "all of it is in /home/oncall/outputs/step-001.txt" in observation
    assert command in (tmp_path / "home/outputs/step-001.txt").read_text()


@pytest.mark.parametrize("agent", ["noop", "solution"])
async def test_the_do_nothing_answer_fails_and_the_recorded_one_passes(
    world: Any, options: RunOptions, agent: str
) -> None:
    for task in ("detection", "localization", "analysis"):
        record, _ = await run_problem(f"{PROBLEM}-{task}-1", agent, options)
        assert record.result is not None
        assert (task, record.result.verdict) == (task, "pass" if agent == "solution" else "fail")


async def test_only_the_real_solution_agent_is_told_the_answer(world: Any, options: RunOptions) -> None:
    from aiopslab.agents.solution import SolutionAgent

    class Cheat(SolutionAgent):
        pass

    record, _ = await run_problem(f"{PROBLEM}-localization-1", Cheat(), options)
    assert record.submissions == [] or record.submissions[0].value == []
