"""``run``, ``check`` and ``shell`` over a session that needs no cluster: what they ask of it, and print."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiopslab.cli.shell import reply_for
from aiopslab.errors import AgentFailure, ClusterError, UsageError
from aiopslab.record import Check, Phase, Result, RunRecord, Snapshot, write_record
from aiopslab.session.progress import Event

INCIDENT = "hipster-target-port-incident-1"
CHECKS = [
    Check(name="cause", ok=True, detail="It is gone."),
    Check(name="slo:success", ok=None, detail="No data."),
]
OBJECTS = {"services": [{"metadata": {"name": "catalog", "namespace": "shop"}, "spec": {"ports": [1]}}]}


class Session:
    """Stands in for ``run_problem``: remembers what it was asked, and ends as it is told."""

    def __init__(self, record: Callable[..., RunRecord], folder: Path) -> None:
        self._record, self._folder = record, folder
        self.asked: list[tuple[Any, Any, Any]] = []
        self.verdicts: dict[str, str] = {}
        self.error: BaseException | None = None
        self.recovered: dict[str, Any] = OBJECTS

    async def run_problem(
        self, problem: str, agent: Any, options: Any, listener: Any
    ) -> tuple[RunRecord, Path]:
        self.asked.append((problem, agent, options))
        folder = self._folder / f"r{len(self.asked)}"
        detail = {"seed": options.seed, "problem": problem, "cluster": options.cluster, "folder": str(folder)}
        listener(Event("run-started", "", "", detail=detail))
        if self.error is not None:
            raise self.error
        for phase in ("setup", "baseline", "agent"):
            listener(Event("phase-started", phase, f"{phase} goes on"))
            listener(Event("phase-ended", phase, f"{phase} is done", detail={"wall_s": 0.1, "ok": True}))
        if not isinstance(agent, str):
            await self._talk(agent)
        record = self._record()
        record.seed = options.seed
        for name, start_s in (("baseline", -600.0), ("inject", 0.0)):
            record.phases.append(Phase(name=name, start_s=start_s, end_s=0.0, wall_s=1.0))
        verdict = self.verdicts.get(str(agent), "pass")
        record.result = Result(verdict=verdict, score=float(verdict == "pass"), checks=CHECKS)
        write_record(folder, record)
        for name, objects in (("before", OBJECTS), ("recovery", self.recovered)):
            path = folder / "snapshots" / f"{name}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(msgspec.json.encode(Snapshot(at_s=0.0, objects=objects)))
        return record, folder

    async def _talk(self, agent: Any) -> None:
        agent.init_context(
            "Look after the shop.", "", {"submit": "submit(answer)", "get_logs": "get_logs(n, s)"}
        )
        self.replies = [await agent.get_action("Please take the next action") for _ in range(2)]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, new_record: Callable[..., RunRecord]) -> Session:
    fake = Session(new_record, tmp_path)
    monkeypatch.setattr("aiopslab.session.run.run_problem", fake.run_problem)
    return fake


def test_json_is_one_object_and_nothing_else(cli: Callable[..., Any], session: Session) -> None:
    ended = cli("run", INCIDENT, "--agent", "noop", "--seed", "11", "--json")
    assert ended.code == 0
    assert (ended.json["verdict"], ended.json["seed"], ended.json["score"]) == ("pass", 11, 1.0)
    assert Path(ended.json["record"]).is_dir()
    assert "seed 11" in ended.err


def test_the_report_and_the_progress(cli: Callable[..., Any], session: Session) -> None:
    ended = cli("run", INCIDENT, "--agent", "noop")
    assert "PASS" in ended.out
    assert "It is gone." in ended.out
    assert "baseline is done" in ended.err


@pytest.mark.parametrize(("verdict", "code"), [("pass", 0), ("fail", 1), ("unknown", 3)])
def test_the_verdict_is_the_exit_code(
    cli: Callable[..., Any], session: Session, verdict: str, code: int
) -> None:
    session.verdicts["noop"] = verdict
    assert cli("run", INCIDENT, "--agent", "noop").code == code


ENDS = [
    (UsageError("agent file x.py does not exist"), 2),
    (AgentFailure("it raised"), 1),
    (ClusterError("it went away"), 3),
]


@pytest.mark.parametrize(("error", "code"), ENDS, ids=lambda item: type(item).__name__)
def test_errors_of_the_session(
    cli: Callable[..., Any], session: Session, error: Exception, code: int
) -> None:
    session.error = error
    ended = cli("run", INCIDENT, "--agent", "x.py:X")
    assert ended.code == code
    assert ended.err.splitlines()[-1] == f"aiopslab: {error}"


def test_an_interrupt_says_where_the_record_is(cli: Callable[..., Any], session: Session) -> None:
    session.error = KeyboardInterrupt()
    ended = cli("run", INCIDENT, "--agent", "noop", "--json")
    assert ended.code == 130
    assert ended.out == ""
    assert "the record so far is in" in ended.err


def test_flags_reach_the_session(cli: Callable[..., Any], session: Session, tmp_path: Path) -> None:
    words = [
        "--max-steps",
        "5",
        "--baseline",
        "30",
        "--think-time",
        "2.5",
        "--clock",
        "wall",
        "--unsafe-shell",
        "--seed",
        "3",
    ]
    out = ["--out", str(tmp_path / "o"), "--bundle", str(tmp_path)]
    assert cli("run", INCIDENT, "--agent", "noop", *words, *out).code == 0
    options = session.asked[0][2]
    assert (options.max_steps, options.baseline_s, options.think_time_s) == (5, 30.0, 2.5)
    assert (options.clock, options.seed, options.unsafe_shell) == ("wall", 3, True)
    assert (options.out, options.bundles) == (tmp_path / "o", (tmp_path,))


def test_a_cluster_of_ones_own(cli: Callable[..., Any], session: Session) -> None:
    words = ["--kubeconfig", "k", "--prometheus-url", "http://p", "--jaeger-url", "http://j"]
    assert cli("run", INCIDENT, "--agent", "noop", "--cluster", "kubeconfig", *words).code == 0
    options = session.asked[0][2]
    assert (str(options.kubeconfig), options.prometheus_url, options.jaeger_url) == (
        "k",
        "http://p",
        "http://j",
    )
    alone = cli("run", INCIDENT, "--agent", "noop", *words[:2])
    assert alone.code == 2
    assert "--cluster kubeconfig" in alone.err


def test_seeds_differ_when_none_is_given(cli: Callable[..., Any], session: Session) -> None:
    for _ in range(2):
        cli("run", INCIDENT, "--agent", "noop")
    first, second = (asked[2].seed for asked in session.asked)
    assert first != second


def test_check_of_a_sound_problem(cli: Callable[..., Any], session: Session) -> None:
    session.verdicts["noop"] = "fail"
    ended = cli("check", INCIDENT, "--seed", "4", "--json")
    assert ended.code == 0
    assert [(problem, agent) for problem, agent, _ in session.asked] == [
        (INCIDENT, "noop"),
        (INCIDENT, "solution"),
    ]
    assert {options.seed for *_, options in session.asked} == {4}
    names = [row["name"] for row in ended.json["checks"][INCIDENT]]
    assert names == [
        "healthy before",
        "symptom after",
        "doing nothing fails",
        "the solution passes",
        "clean after recovery",
    ]
    assert cli("check", INCIDENT).out.rstrip().endswith("sound")


def test_check_finds_a_problem_that_solves_itself(cli: Callable[..., Any], session: Session) -> None:
    ended = cli("check", INCIDENT)
    assert ended.code == 1
    assert "✗ doing nothing fails" in ended.out
    assert "not sound" in ended.out


def test_check_finds_what_recovery_left_behind(cli: Callable[..., Any], session: Session) -> None:
    session.verdicts["noop"] = "fail"
    session.recovered = copy.deepcopy(OBJECTS)
    session.recovered["services"][0]["spec"]["ports"] = [2]
    ended = cli("check", INCIDENT)
    assert ended.code == 1
    assert "different: services/catalog" in ended.out


def test_check_of_a_whole_problem_takes_every_variant(cli: Callable[..., Any], session: Session) -> None:
    session.verdicts["noop"] = "fail"
    folder = Path(__file__).parents[2] / "problems" / "hipster-target-port"
    for wanted in ("hipster-target-port", str(folder)):
        session.asked.clear()
        assert cli("check", wanted).code == 0
        ids = sorted({problem for problem, *_ in session.asked})
        assert len(ids) >= 2
        assert all(name.startswith("hipster-target-port-incident-") for name in ids)


def test_shell_turns_lines_into_replies(
    cli: Callable[..., Any], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = iter(["help", "", "kubectl get pods -A", 'submit("Yes")'])
    monkeypatch.setattr("aiopslab.cli.shell.ask", lambda: next(lines))
    ended = cli("shell", INCIDENT)
    assert ended.code == 0
    assert session.replies == ["```\nexec_shell('kubectl get pods -A')\n```", '```\nsubmit("Yes")\n```']
    assert "Look after the shop." in ended.out
    assert "get_logs(n, s)" in ended.out
    assert session.asked[0][2].limits.reply_wall_s > 86_400


@pytest.mark.parametrize("last", ["exit", None])
def test_leaving_the_shell_ends_the_run(
    cli: Callable[..., Any], session: Session, monkeypatch: pytest.MonkeyPatch, last: str | None
) -> None:
    monkeypatch.setattr("aiopslab.cli.shell.ask", lambda: last)
    ended = cli("shell", INCIDENT)
    assert ended.code == 130
    assert "the record so far is in" in ended.err


def test_a_piped_line_is_read_without_a_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aiopslab.cli.shell import ask

    path = tmp_path / "typed"
    path.write_text("kubectl get pods\nexit\n")
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert [ask(), ask(), ask()] == ["kubectl get pods", "exit", None]


REPLIES = [
    ("kubectl get pods", "exec_shell('kubectl get pods')"),
    ("echo it's", 'exec_shell("echo it\'s")'),
    ('submit(["a"])', 'submit(["a"])'),
    ('get_logs("n", "s")', 'get_logs("n", "s")'),
    ("foo(1)", "exec_shell('foo(1)')"),
    ("(cd / && ls)", "exec_shell('(cd / && ls)')"),
]


@pytest.mark.parametrize(("line", "call"), REPLIES)
def test_replies(line: str, call: str) -> None:
    assert reply_for(line, {"submit": "", "get_logs": ""}) == f"```\n{call}\n```"
