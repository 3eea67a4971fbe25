"""What an agent types, at healthy applications: each command line ends in time with the kind of answer that a real
cluster gives.

``commands.json`` holds the lines for HipsterShop (pods, nodes and files by placeholder) and the kind of answer with
its exit code; ``otel`` is the kind at the OpenTelemetry Demo, whose names then stand for the shop's, and is left out
where a line has nothing to say there. They run in one
session per application, in order, reading ones first. By default some of each kind run; AIOPSLAB_E2E=all runs all.
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

APPS = {
    "hipster-shop": ("hipster-healthy-detection-1", {}),
    "otel-demo": (
        "otel-healthy-detection-1",
        {
            "hipster-shop": "otel-demo", "cartservice": "cart", "productcatalogservice": "product-catalog",
            "currencyservice": "currency", "checkoutservice": "checkout", "paymentservice": "payment",
            "emailservice": "email", "shippingservice": "shipping", "recommendationservice": "recommendation",
            "adservice": "ad", "redis-cart": "valkey-cart",
        },
    ),
}  # fmt: skip
OF_EACH_KIND = {"hipster-shop": 3, "otel-demo": 2}
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
    "log": r'^\{"|^info: |^Defaulted container |^> frontend|\d - oteldemo\.|^\d:[MC] |\w+Async called|'
    r"^\d{4}-\d\d-\d\dT\S+Z ",
    "done": r"( (patched( \(no change\))?|restarted|scaled|annotated|configured|unchanged|created|deleted|updated"
    r"|condition met)|successfully rolled out)( from \S+ namespace)?$",
}
LABEL = '(.metadata.labels.app // .metadata.labels["app.kubernetes.io/name"])'
PODS = f"kubectl get pods -n {{}} -o json | jq -c '[.items[] | [{LABEL}, .metadata.name]]'"


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


def chosen(app: str) -> list[tuple[str, str]]:
    """Lines to run and the kinds of their answers: the first ones of each kind."""
    every = os.environ.get("AIOPSLAB_E2E") == "all"
    names = APPS[app][1]
    count: Counter[str] = Counter()
    lines = []
    for line in json.loads((Path(__file__).parent / "commands.json").read_text()):
        answer = line.get("otel" if names else "answer")
        if answer is None:
            continue
        count[answer] += 1
        if every or count[answer] <= OF_EACH_KIND[app]:
            lines.append((renamed(line["command"], names), answer))
    return lines


def renamed(command: str, names: dict[str, str]) -> str:
    """A line with another application's names."""
    for ours, theirs in names.items():
        command = command.replace(ours, theirs)
    return command


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
@pytest.mark.parametrize("app", sorted(APPS))
async def test_what_agents_type(app: str, play: Callable[..., Any], scripted: Any) -> None:
    wrong: list[str] = []
    problem, names = APPS[app]
    listing = shell(PODS.format(app))

    def type_all() -> Generator[str, str, None]:
        before = pods((yield listing))
        restarted = renamed("deploy/frontend deploy/cartservice", names)
        yield shell(f"kubectl rollout restart -n {app} {restarted} && sleep 60")
        metrics = yield f"get_metrics('{app}')"
        traces = yield f"get_traces('{app}')"
        files = {
            "{metrics_dir}": re.search(r"/home/\S+/metric_\d+_\d+", metrics)[0],  # type: ignore[index]
            "{traces_csv}": re.search(r"/home/\S+\.csv", traces)[0],  # type: ignore[index]
        }
        for line, answer in chosen(app):
            now = before
            if "{pod:" in line:
                now = pods((yield listing))
            command = fill(line, now, before, files)
            observation = yield shell(command)
            if (found := kind_of(observation)) != answer:
                wrong.append(f"{command}\n  wanted {answer}, got {found}: {observation[:300]}")

    played = await play(problem, scripted(type_all), think_time_s=2.0, max_steps=1000)
    assert played.record.outcome == "submitted", played.why
    assert not wrong, "\n".join(wrong)
    assert max(step.wall_s for step in played.steps) < 30
    assert played.record.invalid_actions == 0
