"""What an agent types, at a healthy shop: each command line ends in time with the kind of answer that a real
cluster gives.

``commands.json`` holds the lines (pods, nodes and files by placeholder) and the kind of answer with its exit code;
they run in one session, in order, reading ones first. By default some of each kind run; AIOPSLAB_E2E=all runs all.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

NAMESPACE = "hipster-shop"
OF_EACH_KIND = 1000 if os.environ.get("AIOPSLAB_E2E") == "all" else 3
ENDING = re.compile(r"\[(?:exit code (\d+)|(stopped after)[^\]]*)\]\nPlease take the next action$")
KINDS = {
    "not-found": r"\(NotFound\)",
    "forbidden": r"\(Forbidden\)|is forbidden: User",
    "bad-request": r"\(BadRequest\)",
    "exists": r"\(AlreadyExists\)",
    "no-program": r"executable file not found in \$PATH|no such file or directory: unknown",
    "none-found": r"^No resources found",
    "invalid": r"is invalid: ",
    "error": r"^error: ",
    "shell": r"^/bin/bash: ",
    "described": r"^Name: +\S",
    "table": r"(^|\n)(NAME|LAST SEEN|REVISION|Resources|NAMESPACE)\s",
    "object": r"^(apiVersion: |\{\n)|\napiVersion: ",
    "log": r'^\{"|^info: |^\d:[MC] |\w+Async called|^\d{4}-\d\d-\d\dT\S+Z ',
    "done": r"( (patched( \(no change\))?|restarted|scaled|annotated|configured|unchanged|created|deleted|updated"
    r"|condition met)|successfully rolled out)( from \S+ namespace)?$",
}
PODS = "kubectl get pods -n hipster-shop -o json | jq -c '[.items[] | [.metadata.labels.app, .metadata.name]]'"


def kind_of(observation: str) -> str:
    """The kind of an answer and its exit code, ``kind:code``."""
    ending = ENDING.search(observation)
    if ending is None:
        return "refused"
    if ending[2]:
        return "cut"
    output = observation[: ending.start()].rstrip("\n")
    if output == "(no output)":
        return f"nothing:{ending[1]}"
    found = (name for name, pattern in KINDS.items() if re.search(pattern, output))
    return f"{next(found, 'text')}:{ending[1]}"


def chosen() -> list[dict[str, str]]:
    """The lines to run: the first ones of each kind of answer."""
    count: Counter[str] = Counter()
    lines = []
    for line in json.loads((Path(__file__).parent / "commands.json").read_text()):
        count[line["answer"]] += 1
        if count[line["answer"]] <= OF_EACH_KIND:
            lines.append(line)
    return lines


def shell(command: str) -> str:
    """A reply that runs ``command``."""
    return f"```\nexec_shell({command!r}, timeout=60)\n```"


def pods(observation: str) -> dict[str, str]:
    """App to pod name, from the answer to ``PODS``."""
    return dict(json.loads(observation.splitlines()[0]))


def fill(command: str, now: dict[str, str], before: dict[str, str], files: dict[str, str]) -> str:
    """``command`` with its placeholders filled in."""
    command = re.sub(r"\{pod:([^}]*)\}", lambda match: now.get(match[1], match[1]), command)
    command = re.sub(r"\{oldpod:([^}]*)\}", lambda match: before.get(match[1], match[1]), command)
    for name, value in {**files, "{node}": "worker-1"}.items():
        command = command.replace(name, value)
    return command


@pytest.mark.slow
async def test_what_agents_type(play: Callable[..., Any], scripted: Any) -> None:
    wrong: list[str] = []

    def type_all() -> Generator[str, str, None]:
        before = pods((yield shell(PODS)))
        yield shell(f"kubectl rollout restart -n {NAMESPACE} deploy/frontend deploy/cartservice && sleep 60")
        metrics = yield f"get_metrics('{NAMESPACE}')"
        traces = yield f"get_traces('{NAMESPACE}')"
        files = {
            "{metrics_dir}": re.search(r"/home/\S+/metric_\d+_\d+", metrics)[0],  # type: ignore[index]
            "{traces_csv}": re.search(r"/home/\S+\.csv", traces)[0],  # type: ignore[index]
        }
        for line in chosen():
            now = before
            if "{pod:" in line["command"]:
                now = pods((yield shell(PODS)))
            command = fill(line["command"], now, before, files)
            observation = yield shell(command)
            if (found := kind_of(observation)) != line["answer"]:
                wrong.append(f"{command}\n  wanted {line['answer']}, got {found}: {observation[:300]}")

    played = await play("hipster-healthy-detection-1", scripted(type_all), think_time_s=2.0, max_steps=1000)
    assert played.record.outcome == "submitted", played.why
    assert not wrong, "\n".join(wrong)
    assert max(step.wall_s for step in played.steps) < 30
    assert played.record.invalid_actions == 0
