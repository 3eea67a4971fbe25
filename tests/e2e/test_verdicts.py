"""Problems both ways: the recorded solution is right, doing nothing is wrong wherever something is.

By default one problem of each pair of application and fault is solved in one of its tasks, and every fourth of all
problems ignored; AIOPSLAB_E2E=all plays every id both ways.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiopslab.catalog import Catalog
from aiopslab.grading import grade

CATALOG = Catalog.load([])
EVERYTHING = os.environ.get("AIOPSLAB_E2E") == "all"


def ids(chosen: list[str], first: int) -> Iterator[str]:
    """An id of each of some problems, with tasks and variants in turn from ``first`` on; all ids of all problems when
    everything is played."""
    for number, (name, problem) in enumerate(CATALOG.problems.items()):
        turn = number + first
        if EVERYTHING:
            yield from problem.task_ids()
        elif name in chosen:
            task, variants = problem.tasks[turn % len(problem.tasks)], len(problem.variants)
            yield f"{problem.id}-{task}-{turn % variants + 1}"


PAIRS = {(problem.app, problem.fault): name for name, problem in CATALOG.problems.items()}
SOLVED = list(ids(list(PAIRS.values()), first=0))
IGNORED = list(ids(list(CATALOG.problems)[::4], first=1))
INVESTIGATED = ["hipster-scale-zero-incident-3", "hipster-network-delay-localization-2"]
if EVERYTHING:
    INVESTIGATED = [task_id for task_id in SOLVED if "-incident-" in task_id or "-network-delay-" in task_id]


@pytest.mark.slow
@pytest.mark.parametrize("task_id", SOLVED)
async def test_the_recorded_solution_is_right(task_id: str, play: Callable[..., Any]) -> None:
    played = await play(task_id, "solution")
    assert (played.record.outcome, played.result.verdict) == ("submitted", "pass"), played.why
    assert played.result.score == 1.0
    assert played.record.invalid_actions == 0
    assert grade(played.folder) == played.result


@pytest.mark.slow
@pytest.mark.parametrize("task_id", IGNORED)
async def test_doing_nothing_is_right_only_when_nothing_is_wrong(task_id: str, play: Callable[..., Any]) -> None:
    played = await play(task_id, "noop")
    assert played.record.outcome == "submitted", played.why
    healthy = CATALOG.problem(task_id).fault is None
    assert played.result.verdict == ("pass" if healthy else "fail"), played.why
    assert all(check.detail for check in played.result.checks)


@pytest.mark.slow
@pytest.mark.parametrize("task_id", INVESTIGATED)
async def test_an_investigation_by_rules_finds_it(task_id: str, play: Callable[..., Any]) -> None:
    played = await play(task_id, "triage")
    assert (played.record.outcome, played.result.verdict) == ("submitted", "pass"), played.why
