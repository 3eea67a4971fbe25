"""Whatever goes wrong is one line on stderr and the right exit code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from aiopslab.cli.app import explain
from aiopslab.errors import AgentFailure, ClusterError, ManifestError, UnknownIdError, UsageError

ERRORS = [
    (UsageError("no such flag"), 2, "no such flag"),
    (ManifestError("app.toml:\n  bad"), 2, "app.toml: bad"),
    (UnknownIdError("problem", "hipster-x", ["hipster-y"]), 2, "Did you mean hipster-y?"),
    (AgentFailure("it returned None"), 1, "it returned None"),
    (ClusterError("the API does not answer"), 3, "the API does not answer"),
    (ZeroDivisionError("division"), 3, "internal error: ZeroDivisionError: division (AIOPSLAB_DEBUG=1"),
    (KeyboardInterrupt(), 130, "interrupted"),
]


@pytest.mark.parametrize(("error", "code", "text"), ERRORS, ids=lambda item: type(item).__name__)
def test_each_family_has_its_code_and_one_line(error: BaseException, code: int, text: str) -> None:
    found_code, line = explain(error)
    assert found_code == code
    assert text in line
    assert "\n" not in line


@pytest.mark.parametrize(
    "words",
    [
        ["lst"],
        ["list", "--jsn"],
        ["list", "planets"],
        ["show"],
        ["show", "no-such-problem"],
        ["grade"],
        ["grade", "/nowhere"],
        ["run"],
        ["run", "no-such-problem-detection-1", "--agent", "noop"],
        ["list", "--bundle", "/nowhere"],
        ["check", "no-such-problem"],
        ["new", "planet", "earth"],
        ["cluster", "sideways"],
        ["cluster", "up", "--bare", "--app", "hipster-shop"],
        ["cluster", "up", "--nodes", "0"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_exit_2_and_one_line(cli: Callable[..., Any], words: list[str]) -> None:
    ended = cli(*words)
    assert ended.code == 2
    assert ended.out == ""
    assert len(ended.err.splitlines()) == 1
    assert ended.err.startswith("aiopslab: ")


def test_debug_shows_where(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOPSLAB_DEBUG", "1")
    with pytest.raises(UsageError):
        cli("grade", "/nowhere")


def test_help_and_version(cli: Callable[..., Any]) -> None:
    top = cli("--help")
    assert top.code == 0
    for verb in ("list", "show", "run", "grade", "check", "shell", "cluster", "new", "tools"):
        assert verb in top.out
        assert cli(verb, "--help").code == 0
    assert cli("--version").out.strip()


def test_listing_imports_nothing_heavy() -> None:
    heavy = ("numpy", "kubernetes", "aiohttp", "prometheus_api_client", "aiopslab.session", "aiopslab.sim")
    code = (
        "import sys\nfrom aiopslab.cli.app import execute\nexecute(['list'])\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stderr.strip() == "[]"


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m aiopslab list --json | head -c 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=30
    )
    assert done.stderr == ""
