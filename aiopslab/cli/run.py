"""``aiopslab run PROBLEM --agent A``: one judged incident."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from aiopslab.cli.flags import Json
from aiopslab.cli.launch import RunFlags, launch
from aiopslab.cli.output import console, print_json
from aiopslab.cli.summary import exit_code, summary


def run(
    problem: str,
    *,
    agent: Annotated[str, Parameter(help="A built-in name, file.py:Class or module:Class.")],
    flags: RunFlags | None = None,
    json: Json = False,
) -> int:
    """Run one problem with an agent and judge it.

    Exit code: 0 pass, 1 fail, 2 usage, 3 unknown because the lab failed, 130 interrupted.

    Parameters
    ----------
    problem
        A task id, as listed by ``aiopslab list``.
    """
    from aiopslab.cli.progress import Display
    from aiopslab.cli.report import print_report

    with Display(console(stderr=True)) as display:
        finished = launch(problem, agent, flags or RunFlags(), display)
    if json:
        print_json(summary(finished.record, finished.result, finished.folder))
    else:
        print_report(finished.record, finished.result, finished.folder)
    return exit_code(finished.result.verdict)
