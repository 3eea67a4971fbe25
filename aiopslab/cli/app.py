"""The tree of verbs, and what happens around each of them: errors, signals, exit codes.

0  pass, or done          1  verdict fail, or a check that failed
2  usage                  3  unknown: the lab failed          130  interrupted
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from types import FrameType
from typing import Any

from cyclopts import App, CycloptsError

from aiopslab.errors import AgentFailure, AIOpsLabError, AuthorError, LabFailure

EXIT_OK, EXIT_FAIL, EXIT_USAGE, EXIT_UNKNOWN, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
DEBUG_VARIABLE = "AIOPSLAB_DEBUG"

_VERBS = {
    "list": ("list_", "What there is: problems, apps, faults, workloads or agents."),
    "show": ("show", "One problem, app, fault or workload in full."),
    "run": ("run", "Run one problem with an agent and judge it."),
    "grade": ("grade", "Judge stored records again."),
    "check": ("check", "Prove a problem both ways: doing nothing fails, the recorded solution passes."),
    "shell": ("shell", "Take the agent's seat yourself."),
    "new": ("new", "Start a problem, fault or app from a template."),
    "tools": ("tools", "Which kubectl, helm and bwrap are used; fetch what is missing."),
}


def version() -> str:
    """The installed version."""
    return metadata.version("aiopslab")


def build() -> App:
    """The command tree. Verbs are import paths, so that building it and ``--help`` stay fast."""
    app = App(
        name="aiopslab",
        help="A Kubernetes chaos lab that puts AI agents on call.",
        version=version,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    for verb, (module, text) in _VERBS.items():
        app.command(f"aiopslab.cli.{module}:{module}", name=verb, help=text)
    cluster = App(name="cluster", help="A cluster to play with, in the background, on the wall clock.")
    cluster.command("aiopslab.cli.cluster:up", help="Start it.")
    cluster.command("aiopslab.cli.cluster:down", help="End it.")
    cluster.command("aiopslab.cli.cluster:status", help="Say whether it runs, and where.")
    cluster.command("aiopslab.cli.cluster:doctor", help="What this machine lacks for each kind of cluster.")
    app.command(cluster)
    return app


def execute(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Errors are one line on stderr."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = build()(list(arguments), exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except BaseException as error:
        if isinstance(error, SystemExit):
            return error.code if isinstance(error.code, int) else EXIT_OK
        if os.environ.get(DEBUG_VARIABLE) and not isinstance(error, BrokenPipeError):
            raise
        return _report(error)
    return code if isinstance(code, int) else EXIT_OK


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _report(error: BaseException) -> int:
    code, text = explain(error)
    if text:
        print(f"aiopslab: {text}", file=sys.stderr)
    return code


def explain(error: BaseException) -> tuple[int, str]:
    """Exit code and one line for whatever ended a command."""
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED, "interrupted"
    if isinstance(error, BrokenPipeError):  # the reader has gone (`| head`): nothing to tell it
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - lives until the process ends
        return EXIT_OK, ""
    families: list[tuple[Any, int]] = [
        (CycloptsError, EXIT_USAGE),
        (AuthorError, EXIT_USAGE),
        (AgentFailure, EXIT_FAIL),
        (LabFailure, EXIT_UNKNOWN),
        (AIOpsLabError, EXIT_UNKNOWN),
    ]
    for family, code in families:
        if isinstance(error, family):
            return code, one_line(error)
    kind = type(error).__name__
    return EXIT_UNKNOWN, f"internal error: {kind}: {one_line(error)} ({DEBUG_VARIABLE}=1 shows where)"


def one_line(error: BaseException) -> str:
    """The error's text without line breaks; its type when it has none."""
    return " ".join(str(error).split()) or type(error).__name__
