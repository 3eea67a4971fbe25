"""AIOpsLab's programming interface, as its paper uses it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiopslab import Orchestrator
from aiopslab.errors import DeployError, LabFailure, UnknownIdError, UsageError
from aiopslab.record import read_record

PROBLEM = "hipster-target-port-detection-1"


@pytest.fixture
def orch(world: Any, tmp_path: Path) -> Orchestrator:
    return Orchestrator(results_dir=tmp_path / "records", seed=7)


def test_the_papers_program(world: Any, orch: Orchestrator, scripted: Any) -> None:
    agent = scripted("```\nwait(5)\n```", '```\nsubmit("Yes")\n```')
    desc, instructions, apis = orch.init_problem(PROBLEM)
    agent.init_context(desc, instructions, apis)
    orch.register_agent(agent, name="my-agent")
    result = asyncio.run(orch.start_problem(max_steps=30))
    assert set(result) >= {"history", "final_state", "results", "framework_overhead"}
    assert [item["role"] for item in result["history"]] == ["assistant", "env"] * 2
    assert result["results"]["Detection Accuracy"] == "Correct"
    assert result["verdict"] == "pass"
    assert read_record(Path(result["record"])).agent == "my-agent"
    assert world.events[-1] == "close"


def test_the_agent_may_be_registered_first(orch: Orchestrator, scripted: Any) -> None:
    orch.register_agent(scripted('```\nsubmit("Yes")\n```'), name="early")
    orch.init_problem(PROBLEM)
    result = asyncio.run(orch.start_problem())
    assert read_record(Path(result["record"])).agent == "early"


def test_the_caller_briefs_its_agent_and_nobody_else_does(orch: Orchestrator, scripted: Any) -> None:
    agent = scripted('```\nsubmit("Yes")\n```')
    orch.register_agent(agent)
    orch.init_problem(PROBLEM)
    asyncio.run(orch.start_problem())
    assert agent.briefing is None


@pytest.mark.parametrize(("name", "verdict"), [("noop", "fail"), ("solution", "pass")])
def test_an_agent_that_says_it_needs_a_briefing_gets_one(orch: Orchestrator, name: str, verdict: str) -> None:
    from aiopslab.agents import load_agent

    orch.register_agent(load_agent(name), name=name)
    orch.init_problem("hipster-target-port-localization-1")
    assert asyncio.run(orch.start_problem())["verdict"] == verdict


async def test_it_works_inside_a_running_loop_and_the_agent_stays_on_it(orch: Orchestrator, scripted: Any) -> None:
    loops = []

    async def reply(state: str) -> str:
        loops.append(asyncio.get_running_loop())
        return '```\nsubmit("Yes")\n```'

    orch.register_agent(scripted(reply))
    orch.init_problem(PROBLEM)
    await orch.start_problem(max_steps=2)
    assert loops == [asyncio.get_running_loop()]


def test_problems_follow_each_other(world: Any, orch: Orchestrator, scripted: Any) -> None:
    for _ in range(2):
        orch.register_agent(scripted('```\nsubmit("Yes")\n```'))
        orch.init_problem(PROBLEM)
        assert asyncio.run(orch.start_problem())["verdict"] == "pass"


def test_a_problem_that_is_not_played_is_taken_down(world: Any, orch: Orchestrator) -> None:
    orch.init_problem(PROBLEM)
    orch.init_problem(PROBLEM)
    assert world.events.count("close") == 1
    assert world.events.count("recover") == 1


def test_mistakes_are_said(world: Any, orch: Orchestrator, scripted: Any) -> None:
    with pytest.raises(UnknownIdError):
        orch.init_problem("nope")
    with pytest.raises(UsageError, match="init_problem comes before"):
        asyncio.run(orch.start_problem())
    with pytest.raises(UsageError, match="get_action"):
        orch.register_agent(object())
    with pytest.raises(UsageError, match="colour"):
        Orchestrator(colour="blue")
    orch.init_problem(PROBLEM)
    with pytest.raises(UsageError, match="register_agent comes before"):
        asyncio.run(orch.start_problem())
    orch.register_agent(scripted(""))
    with pytest.raises(UsageError, match="max_steps"):
        asyncio.run(orch.start_problem(max_steps=0))


def test_a_set_up_that_fails_is_taken_down_and_said(world: Any, orch: Orchestrator) -> None:
    world.fail["load"] = DeployError("no users")
    with pytest.raises(DeployError, match="no users"):
        orch.init_problem(PROBLEM)
    assert world.events[-1] == "close"


def test_a_lab_that_fails_on_the_way_is_said(world: Any, orch: Orchestrator, scripted: Any) -> None:
    world.fail["shell ls"] = DeployError("gone")
    orch.register_agent(scripted('```\nexec_shell("ls")\n```'))
    orch.init_problem(PROBLEM)
    with pytest.raises(LabFailure, match="gone"):
        asyncio.run(orch.start_problem())


def test_importing_the_package_is_cheap() -> None:
    import aiopslab

    assert aiopslab.__all__ == ["Orchestrator"]
    with pytest.raises(AttributeError, match="Orkestrator"):
        aiopslab.Orkestrator  # noqa: B018
