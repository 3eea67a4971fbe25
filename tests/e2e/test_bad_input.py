"""What goes wrong from outside: ids, agents, ports, signals. Each gives one clear line, the right exit code and a
record, and leaves nothing behind.
"""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from aiopslab.record import read_record
from aiopslab.session.limits import Limits

HEALTHY = "hipster-healthy-detection-1"

AGENTS = '''
class Raises:
    async def get_action(self, state):
        raise RuntimeError("out of ideas")

class Waits:
    async def get_action(self, state):
        return "exec_shell('sleep 100000', timeout=1800)"

class Silent:
    def get_action(self, state):
        return None

class Endless:
    async def get_action(self, state):
        return "x" * 10_000_001
'''
USAGE = [
    (["run", "hipster-target-prot-incident-1", "--agent", "noop"], "Did you mean hipster-target-port-incident-1"),
    (["run", HEALTHY, "--agent", "nope"], "did you mean noop"),
    (["run", HEALTHY, "--agent", "agents.py:Raise"], "Raises"),
    (["run", HEALTHY, "--agent", "absent.py:Raises"], "absent.py does not exist"),
    (["run", HEALTHY, "--agent", "noop", "--max-steps", "0"], "must be at least 1, not 0"),
    (["run", HEALTHY, "--agent", "noop", "--cluster", "kubeconfig"], "--kubeconfig"),
    (["run", HEALTHY, "--agent", "noop", "--bundle", "nowhere"], "nowhere"),
    (["show", "hipster-target"], "Did you mean"),
    (["grade", "nowhere"], "nowhere"),
]


@pytest.mark.parametrize(("words", "said"), USAGE, ids=lambda item: " ".join(item) if isinstance(item, list) else "")
def test_usage(words: list[str], said: str, console: Any) -> None:
    (console.folder / "agents.py").write_text(AGENTS)
    ended = console(*words)
    assert (ended.code, ended.out) == (2, ""), ended.err
    assert said in ended.last_line
    assert "Traceback" not in ended.err


FAILING = [
    ("Raises", {}, "the agent's get_action raised RuntimeError: out of ideas"),
    ("Silent", {}, "the agent's get_action returned NoneType instead of a text"),
    ("Endless", {}, "the agent's reply has 10000001 characters; at most 10000000 are taken"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options", "why"), FAILING, ids=[row[0] for row in FAILING])
def test_an_agent_that_fails(name: str, options: dict[str, Any], why: str, console: Any) -> None:
    (console.folder / "agents.py").write_text(AGENTS)
    words = ["--agent", f"agents.py:{name}", "--seed", "5", "--baseline", "120", "--out", "records"]
    ended = console("run", HEALTHY, *words, "--json")
    assert ended.code == 1, ended.err
    told = json.loads(ended.out)
    assert (told["verdict"], told["outcome"], told["failure"]) == ("fail", "agent-failure", why)
    record = read_record(Path(told["record"]))
    assert (record.failure, record.seed) == (why, 5)
    assert "Traceback" not in ended.err
    assert console.leftovers() == []
