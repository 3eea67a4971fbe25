"""What goes wrong from outside: ids, agents, ports, signals. Each gives one clear line, the right exit code and a
record, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from aiopslab.record import read_record
from aiopslab.session.limits import Limits

HEALTHY = "hipster-healthy-detection-1"

AGENTS = """
class Raises:
    async def get_action(self, state):
        raise RuntimeError("out of ideas")

class Burns:
    async def get_action(self, state):
        return "exec_shell('while :; do : the agent burns; done', timeout=1800)"

class Endless:
    async def get_action(self, state):
        return "x" * 10_000_001
"""
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


@pytest.mark.parametrize(
    ("words", "said"), USAGE, ids=lambda item: " ".join(item) if isinstance(item, list) else ""
)
def test_usage(words: list[str], said: str, console: Any) -> None:
    (console.folder / "agents.py").write_text(AGENTS)
    ended = console(*words)
    assert (ended.code, ended.out) == (2, ""), ended.err
    assert said in ended.last_line
    assert "Traceback" not in ended.err


FAILING = [
    ("Raises", "the agent's get_action raised RuntimeError: out of ideas"),
    ("Endless", "the agent's reply has 10000001 characters; at most 10000000 are taken"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "why"), FAILING, ids=[row[0] for row in FAILING])
def test_an_agent_that_fails(name: str, why: str, console: Any) -> None:
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


class Hangs:
    async def get_action(self, state: str) -> str:
        await asyncio.sleep(3600)
        return ""


class Silent:
    def get_action(self, state: str) -> None:
        return None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "why"),
    [
        (Hangs(), "the agent's get_action did not answer within 0.5 s"),
        (Silent(), "the agent's get_action returned NoneType instead of a text"),
    ],
    ids=["hangs", "returns nothing"],
)
async def test_an_agent_that_never_replies(agent: Any, why: str, play: Callable[..., Any]) -> None:
    played = await play(HEALTHY, agent, baseline_s=120.0, limits=Limits(reply_wall_s=0.5))
    assert (played.record.outcome, played.result.verdict) == ("agent-failure", "fail")
    assert played.record.failure == why


MALFORMED = [
    ("I am sorry, I will use the right format next time.", "exec_shell("),
    ("```\n```", ""),
    ("", ""),
    ("```\nget_logs()\n```", "namespace"),
    ('```\nexec_shell("ls\n```', ""),
    ("```\nexec_shel('ls')\n```", "exec_shell"),
    ("```\nsubmit('Perhaps')\n```", "Yes"),
    ("```\nget_logs('hipster-shop', 'Online Boutique')\n```", "frontend"),
    ("```\nread_metrics('/etc/passwd')\n```", "no file"),
    ("\ud800 ```\nget_logs(" + "(" * 5000 + "\n```", ""),
]
ROUGH = [
    ("while :; do :; done", 10, "stopped after"),
    ("sleep 100000", 20, "stopped after 20 s"),
    ("cat /dev/zero | head -c 3000000000 > /tmp/full; ls /tmp", 30, "full"),
    ("for i in 1 2 3 4 5 6 7 8; do head -c 60000000 /dev/zero > /tmp/part$i; done; sleep 3", 30, "on disk"),
    (":(){ :|:& };:; sleep 20", 20, "processes"),
    ("yes", 20, "MiB of output"),
    ("nohup sleep 5000 >/dev/null 2>&1 & setsid sleep 5001 & disown -a; echo left", 20, "left"),
    ("python3 -c 'x = bytearray(3 << 30); import time; time.sleep(9)'", 20, "emory"),
    ("cat", 10, "exit code 0"),
    ("yes | head -3", 10, "y\ny\ny\n[exit code 0]"),
]


@pytest.mark.slow
async def test_bad_replies_and_rough_commands(
    play: Callable[..., Any],
    scripted: Any,
    processes_of: Callable[[Path], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("TMPDIR", str(scratch))
    before = processes_of(scratch)

    def misbehave() -> Generator[str, str, None]:
        for reply, _ in MALFORMED:
            yield reply
        for command, timeout_s, _ in ROUGH:
            yield f"exec_shell({command!r}, timeout={timeout_s})"

    played = await play(HEALTHY, scripted(misbehave), baseline_s=120.0, max_steps=60)
    assert (played.record.outcome, played.result.verdict) == ("submitted", "pass"), played.why
    steps = played.steps
    for step, (reply, said) in zip(steps, MALFORMED, strict=False):
        assert not step.valid, reply
        assert said in step.observation and len(step.observation) > 20, (reply, step.observation)
    for step, (command, _, said) in zip(steps[len(MALFORMED) :], ROUGH, strict=False):
        assert step.valid and said in step.observation, (command, step.observation[-300:])
        assert step.wall_s < 20 and len(step.observation) < 20_000, command
    assert played.record.invalid_actions == len(MALFORMED)
    assert processes_of(scratch) == before
    ours = [path for path in scratch.iterdir() if path.name.startswith(("aiopslab", "oncall"))]
    assert ours == []  # the Kubernetes library's own go with the process


@pytest.mark.slow
def test_a_port_in_use(console: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = console("cluster", "up", "--port", str(port))
    assert (ended.code, ended.out) == (3, "")
    assert f"cannot listen on port {port}" in ended.last_line and "Traceback" not in ended.err
    assert console.leftovers() == []
    assert console("cluster", "status").code == 1


STAGES = [
    (signal.SIGINT, "  load", HEALTHY, "noop"),  # in the baseline
    (signal.SIGTERM, "  submitted mitigation", "hipster-target-port-mitigation-1", "noop"),  # while settling
]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "seen", "problem", "agent"), STAGES, ids=lambda item: str(item).strip())
def test_a_signal(number: signal.Signals, seen: str, problem: str, agent: str, console: Any) -> None:
    (console.folder / "agents.py").write_text(AGENTS)
    words = ["run", problem, "--agent", agent, "--seed", "7", "--out", "records", "--json"]
    process = console.start(*words)
    for line in process.stderr:
        if line.startswith(seen):
            break
    process.send_signal(number)
    ended = console.end(process)
    assert (ended.code, ended.out) == (130, ""), ended.err + ended.out
    assert ended.last_line == "aiopslab: interrupted"
    (folder,) = console.records.iterdir()
    record = read_record(folder)
    assert (record.outcome, record.result and record.result.verdict) == ("interrupted", "unknown")
    assert console.leftovers() == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["SIGINT", "SIGKILL"])
def test_a_signal_while_a_command_runs(number: signal.Signals, console: Any) -> None:
    (console.folder / "agents.py").write_text(AGENTS)
    words = ["run", HEALTHY, "--agent", "agents.py:Burns", "--seed", "7", "--baseline", "120", "--out", "records"]
    process = console.start(*words)
    wait_until(lambda: command_runs("the agent burns"))
    process.send_signal(number)
    ended = console.end(process)
    assert ended.code == (130 if number == signal.SIGINT else -number), ended.err
    wait_until(lambda: not command_runs("the agent burns"))
    if number == signal.SIGINT:
        assert console.leftovers() == []
    wait_until(lambda: not console.processes())  # killed itself, the lab takes everything with it


def command_runs(text: str) -> bool:
    """Whether the command line of a running process holds ``text``."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in path.read_bytes():
                return True
    return False


def wait_until(holds: Callable[[], bool], wall_s: float = 30.0) -> None:
    """Wait for something to come true."""
    deadline = time.monotonic() + wall_s
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)
