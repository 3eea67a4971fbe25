"""Agents by name, by file, by module; and a clear line for everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiopslab.agents import BUILTIN, Agent, load_agent
from aiopslab.agents.protocol import tokens_of
from aiopslab.errors import UsageError

GOOD = "class Mine:\n    async def get_action(self, state):\n        return 'x'\n"


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_built_in_agents(name: str) -> None:
    assert isinstance(load_agent(name), Agent)


def test_from_a_file_with_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_agent.py").write_text("VALUE = 1\n")
    path = tmp_path / "mine.py"
    path.write_text("import neighbour_of_agent\n" + GOOD)
    assert isinstance(load_agent(f"{path}:Mine"), Agent)


def test_from_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agent_module_here.py").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    assert isinstance(load_agent("agent_module_here:Mine"), Agent)


BAD = [
    ("trige", "", "did you mean triage"),
    ("gpt-4", "", "use one of noop, solution, triage"),
    ("{path}:Mein", GOOD, "there is no 'Mein'; it has Mine"),
    ("{path}:Mine", "x = 1\n", "no class with get_action"),
    ("{path}:Mine", "import nothing_like_that\n", "ModuleNotFoundError"),
    ("{path}:Mine", "def broken(:\n", "SyntaxError"),
    ("{path}:Mine", "class Mine:\n    pass\n", "has no get_action"),
    ("{path}:Mine", "class Mine:\n    def __init__(self, key): ...\n", "without arguments"),
    ("{path}:", GOOD, "unknown agent"),
    ("{path}x.py:Mine", GOOD, "does not exist"),
    ("no_such_module_at_all:Mine", "", "cannot be loaded"),
]


@pytest.mark.parametrize(("name", "content", "reason"), BAD)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, name: str, content: str, reason: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        load_agent(name.format(path=path))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_token_usage_is_read_in_the_usual_spellings() -> None:
    class Usage:
        prompt_tokens, completion_tokens = 5, 6

    class Holder:
        usage: object = None

    holder = Holder()
    for usage, found in (
        (None, (0, 0)),
        ({"in": 1, "out": 2}, (1, 2)),
        ({"input_tokens": 3, "output_tokens": 4}, (3, 4)),
        (Usage(), (5, 6)),
        ({"in": "many"}, (0, 0)),
        ("nonsense", (0, 0)),
    ):
        holder.usage = usage
        assert tuple(tokens_of(holder).values()) == found
