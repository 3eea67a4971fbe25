"""Every form of reply that real agents were seen to use is read as meant, or refused with the exact reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiopslab.actions.parser import ParsedAction, Refusal, parse
from aiopslab.actions.spec import ActionSpec, Param

ROWS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "replies.json").read_text())


def _spec(name: str, params: list[Param], example: str, *, extra_ignored: bool = False) -> ActionSpec:
    return ActionSpec(name, tuple(params), "", example, extra_ignored)


ACTIONS = {
    spec.name: spec
    for spec in (
        _spec(
            "get_logs",
            [Param("namespace", "text"), Param("service", "text", "")],
            'get_logs("hipster-shop", "frontend")',
        ),
        _spec(
            "get_metrics",
            [Param("namespace", "text"), Param("duration", "minutes", 5)],
            'get_metrics("hipster-shop", 5)',
        ),
        _spec(
            "get_traces",
            [Param("namespace", "text"), Param("duration", "minutes", 5)],
            'get_traces("hipster-shop", 5)',
        ),
        _spec("read_metrics", [Param("file_path", "text")], 'read_metrics("/home/oncall/metrics")'),
        _spec("read_traces", [Param("file_path", "text")], 'read_traces("/home/oncall/t.csv")'),
        _spec(
            "exec_shell",
            [Param("command", "text"), Param("timeout", "seconds", 30)],
            'exec_shell("kubectl get pods -n hipster-shop")',
        ),
        _spec("wait", [Param("seconds", "seconds")], "wait(60)"),
        _spec("submit", [Param("answer", "any", None)], 'submit("Yes")', extra_ignored=True),
    )
}


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['id']} {row['kind']}" for row in ROWS])
def test_form(row: dict[str, Any]) -> None:
    parsed = parse(row["reply"], ACTIONS)
    if "refused" in row:
        assert isinstance(parsed, Refusal)
        assert row["refused"] in parsed.reason
    else:
        assert parsed == ParsedAction(row["action"], row["args"], row.get("note", ""))


def test_a_refusal_shows_a_call_of_the_tasks_own_names_and_how_to_finish() -> None:
    refusal = parse("I am done.", ACTIONS)
    assert isinstance(refusal, Refusal)
    assert 'exec_shell("kubectl get pods -n hipster-shop")' in refusal.reason
    assert 'submit("Yes")' in refusal.reason


def test_nothing_is_dropped_without_a_word() -> None:
    parsed = parse("```\nwait(1)\nsubmit()\n```", ACTIONS)
    assert isinstance(parsed, ParsedAction)
    assert parsed.name == "wait"
    assert "submit() was not run" in parsed.note


def test_an_enormous_reply_is_refused_by_its_size() -> None:
    refusal = parse("x" * 10_000_000, ACTIONS)
    assert isinstance(refusal, Refusal)
    assert "10000000 characters" in refusal.reason


@settings(max_examples=150, deadline=None)
@given(st.text())
def test_no_text_makes_the_parser_fail(reply: str) -> None:
    assert isinstance(parse(reply, ACTIONS), ParsedAction | Refusal)


PIECES = st.sampled_from(
    [
        "```",
        "\n",
        "exec_shell(",
        '"',
        "'",
        ")",
        "kubectl",
        " ",
        "\\",
        "submit",
        "(",
        "{",
        "Action:",
        "<think>",
        ",",
        "x=",
        "1",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join))
def test_no_heap_of_ruins_makes_the_parser_fail(reply: str) -> None:
    assert isinstance(parse(reply, ACTIONS), ParsedAction | Refusal)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="`~<\0"), min_size=1))
def test_a_command_arrives_as_it_was_written(command: str) -> None:
    assert parse(f"Thought: x\n```\nexec_shell({command!r})\n```", ACTIONS) == ParsedAction(
        "exec_shell", {"command": command, "timeout": 30}
    )
