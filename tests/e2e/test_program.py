"""The Python program that the AIOpsLab paper prints, and the results that its readers expect."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aiopslab import Orchestrator


class OnCall:
    """Looks once, then says that the incident is over."""

    def __init__(self) -> None:
        self.states: list[str] = []

    async def get_action(self, state: str) -> str:
        self.states.append(state)
        if len(self.states) == 1:
            return 'Thought: look first.\nAction:\n```\nexec_shell("kubectl get pods -n hipster-shop")\n```'
        return "```\nsubmit()\n```"


@pytest.mark.slow
@pytest.mark.parametrize("agent_first", [False, True])
def test_the_printed_program(agent_first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    agent = OnCall()
    orch = Orchestrator()
    if agent_first:
        orch.register_agent(agent, name="my-agent")
    desc, instructions, apis = orch.init_problem("hipster-target-port-mitigation-1")
    if not agent_first:
        orch.register_agent(agent, name="my-agent")
    result = asyncio.run(orch.start_problem(max_steps=30))

    assert "hipster-shop" in desc and "exec_shell" in instructions
    assert {"get_logs", "get_metrics", "get_traces", "exec_shell", "submit"} <= set(apis)
    assert "target" not in desc + instructions + "".join(apis.values())
    assert "productcatalogservice-" in agent.states[1]
    assert [item["role"] for item in result["history"]] == ["assistant", "env"] * 2
    assert result["final_state"] == result["history"][-1]["content"]
    assert {"TTM", "steps", "in_tokens", "out_tokens", "success"} <= set(result["results"])
    assert (result["results"]["success"], result["verdict"]) == (False, "fail")
    assert result["framework_overhead"] > 0
    record = Path(result["record"])
    assert record.parent == Path("records") and (record / "record.json").is_file()
