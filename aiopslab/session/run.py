"""The run of one incident, in eight steps.

    1. resolve the problem            5. the agent's turns
    2. bring up cluster and app       6. let it settle, keep the final state
    3. load, healthy baseline         7. recover, take down
    4. break something, see it bite   8. grade the record

Whatever happens, steps 7 and 8 are done: a failure of the lab makes the verdict ``unknown``, a failure of the
agent is its own, and an interrupted run leaves a cluster without the fault and a record that says so.
"""

from __future__ import annotations

import asyncio
import platform
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

from aiopslab.actions.definitions import Actions
from aiopslab.actions.lab import Lab
from aiopslab.agents.loader import check_agent, load_agent
from aiopslab.agents.protocol import tokens_of
from aiopslab.agents.solution import SolutionAgent
from aiopslab.catalog import Catalog
from aiopslab.catalog.bundles import bundle_roots
from aiopslab.catalog.manifests import ProblemTask
from aiopslab.cluster import open_cluster
from aiopslab.errors import AgentFailure, AuthorError, LabFailure
from aiopslab.grading import grade
from aiopslab.record import Result, RunRecord
from aiopslab.session import scenes
from aiopslab.session.agentport import AgentPort
from aiopslab.session.diary import Diary
from aiopslab.session.loop import Conversation
from aiopslab.session.options import RunOptions
from aiopslab.session.progress import Listener, ignore
from aiopslab.session.prompts import describe, instruct
from aiopslab.session.record import RecordWriter, new_folder
from aiopslab.session.stage import Stage, cluster_options, open_agent_side, open_stage

REPAIR_TASKS = ("mitigation", "incident")


@dataclass(frozen=True, slots=True)
class Briefing:
    """What an agent is told before its first step."""

    description: str
    instructions: str
    apis: dict[str, str]


async def run_problem(
    problem: str | ProblemTask, agent: str | Any, options: RunOptions | None = None, listener: Listener = ignore
) -> tuple[RunRecord, Path]:
    """Run one problem with one agent and judge it; returns the record and its folder.

    ``agent`` is an agent object or what ``--agent`` takes. Raises AuthorError for wrong input and passes
    cancellation on, both after cleaning up; everything else is in the record.
    """
    options = options or RunOptions()
    options.check()
    task = (
        problem if isinstance(problem, ProblemTask) else Catalog.load(list(options.bundles)).problem(problem)
    )  # 1
    name = agent if isinstance(agent, str) else type(agent).__name__
    player = load_agent(agent) if isinstance(agent, str) else agent
    check_agent(player, name)
    run = Run(task, name, options, listener)
    port = AgentPort(player)
    try:
        async with run:  # leaving it: 7, 8
            await run.prepare()  # 2, 3, 4
            await run.play(port)  # 5, 6
    finally:
        port.close()
    return run.record, run.folder


class Run:
    """One run. ``prepare``, then ``play``, inside ``async with``."""

    def __init__(self, task: ProblemTask, agent: str, options: RunOptions, listener: Listener = ignore) -> None:
        self.task, self._options = task, options
        open_cluster(options.cluster, cluster_options(options))  # flags that do not fit leave no record behind
        run_id, self.folder = new_folder(options.out, task.id)
        self.record = RunRecord(
            run_id=run_id,
            problem=task.id,
            task=task.task,
            app=task.app.id,
            namespace=task.app.namespace,
            agent=agent,
            seed=options.seed,
            cluster=options.cluster,
            versions={"aiopslab": _version(), "python": platform.python_version()},
            config={},
            started_at=0.0,
            wall_started_at=time.time(),
            expected=task.expected,
            slos=list(task.app.slos),
        )
        self._diary = Diary(RecordWriter(self.folder, self.record), listener)
        self._stack = AsyncExitStack()
        self._stage: Stage | None = None
        self._lab: Lab | None = None
        self._actions: Actions | None = None

    @property
    def briefing(self) -> Briefing:
        """What the agent is told; there is one once the run is prepared."""
        assert self._actions is not None, "prepare() comes first"
        example = self._actions.specs["exec_shell"].example
        return Briefing(
            description=describe(self.task.task, self.task.app),
            instructions=instruct(example, self._options.max_steps),
            apis=self._actions.apis,
        )

    async def __aenter__(self) -> Run:
        return self

    async def prepare(self) -> None:
        """Bring up everything, let it run healthy, break it. Raises LabFailure."""
        task, diary, options = self.task, self._diary, self._options
        diary.tell(
            "run-started",
            f"{task.id}, seed {options.seed}",
            run_id=self.record.run_id,
            problem=task.id,
            seed=options.seed,
            cluster=options.cluster,
            folder=str(self.folder),
        )
        async with diary.during("setup", f"starting the {options.cluster} cluster") as ending:
            stage = self._stage = await self._stack.enter_async_context(open_stage(options))
            diary.cluster = stage.cluster
            self.record.started_at = await diary.now()
            self.record.config = options.as_config(stage.cluster.clock.mode)
            if task.task not in REPAIR_TASKS:
                self.record.config["settle_s"] = 0.0
            version = stage.cluster.info.server_version or await stage.kube.server_version()
            self.record.versions["kubernetes"] = version
            ending.text = f"{options.cluster} cluster is up (Kubernetes {version})"
        await scenes.deploy(stage, diary, task.app)
        await scenes.start_load(stage, diary, task)
        hidden = [*bundle_roots(list(options.bundles)), self.folder]
        agent_side = open_agent_side(stage, task.app, hidden, options.unsafe_shell)
        self._lab = await self._stack.enter_async_context(agent_side)
        self._actions = Actions(self._lab, task.task)
        await scenes.baseline(stage, diary, task.app, self.record.config["baseline_s"])
        await scenes.inject(stage, diary, task)

    async def play(self, port: AgentPort, max_steps: int | None = None, *, brief: bool = True) -> None:
        """Let the agent act, then let its last change settle. The agent's failures end up in the record.

        ``brief``: call the agent's ``init_context`` first.
        """
        assert self._stage is not None and self._lab is not None and self._actions is not None, (
            "prepare() comes first"
        )
        record, options = self.record, self._options
        record.config["max_steps"] = max_steps or options.max_steps
        async with self._diary.during("agent", f"{record.agent} is at work") as ending:
            try:
                if brief:
                    await self._brief(port)
                if type(port.agent) is SolutionAgent:  # no other agent is told, not even one that derives from it
                    port.agent.learn(self.task.answer, self.task.solution)
                talk = Conversation(self._lab, self._actions, options, self._diary)
                record.outcome = await talk.run(port, record.config["max_steps"])
            except AgentFailure as failure:
                record.outcome, record.failure = "agent-failure", str(failure)
            finally:
                record.tokens = tokens_of(port.agent)
            ending.text = record.failure or f"{record.outcome} after {record.steps} steps"
        await self._diary.collect_audit()
        await scenes.settle(self._stage, self._diary, self.task.app, record.config["settle_s"])

    async def _brief(self, port: AgentPort) -> None:
        briefing = self.briefing
        timeout_s = self._options.limits.reply_wall_s
        await port.prepare(briefing.description, briefing.instructions, briefing.apis, timeout_s)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Recover, take down, grade. Swallows failures of the lab, which the record keeps."""
        swallow = self._classify(error)
        await scenes.finish(self._close())
        return swallow

    def _classify(self, error: BaseException | None) -> bool:
        if error is None:
            return True
        record = self.record
        if isinstance(error, LabFailure | AuthorError):
            record.outcome, record.failure = "lab-failure", str(error)
        elif isinstance(error, Exception):
            record.outcome, record.failure = "lab-failure", f"the lab has a bug: {type(error).__name__}: {error}"
        else:
            record.outcome, record.failure = "interrupted", "the run was interrupted"
            return False
        self._diary.writer.note_trouble("".join(traceback.format_exception(error)))
        return not isinstance(error, AuthorError)

    async def _close(self) -> None:
        """Steps 7 and 8. No failure in one part keeps the next from happening."""
        stage = self._stage
        if stage is not None:
            await self._attempt(lambda: scenes.recover(stage, self._diary, self.task.app))
            await self._attempt(lambda: scenes.tear_down(stage, self._diary, self.task.app))
        await self._diary.now()
        self._diary.cluster = None
        await self._attempt(self._stack.aclose)
        self._diary.save()
        await self._attempt(self._judge)
        result = self.record.result
        verdict = result.verdict if result else "unknown"
        self._diary.tell(
            "finished", f"{self.record.outcome}: {verdict}", outcome=self.record.outcome, verdict=verdict
        )

    async def _judge(self) -> None:
        result: Result = await asyncio.to_thread(grade, self.folder)
        self.record.result = result
        self._diary.save()

    async def _attempt(self, act: Callable[[], Awaitable[Any]]) -> None:
        try:
            await act()
        except Exception as error:
            self._diary.writer.note_trouble("".join(traceback.format_exception(error)))
            self._diary.tell("note", f"while cleaning up: {error}")


def _version() -> str:
    try:
        return metadata.version("aiopslab")
    except metadata.PackageNotFoundError:
        return "unknown"
