"""AIOpsLab's programming interface: register an agent, set up a problem, let the agent at it.

The run lives on a thread of its own, with its own event loop; so ``init_problem`` can be an ordinary
function, also inside a running loop, and the agent keeps to the caller's loop.
"""

from __future__ import annotations

import asyncio
import atexit
import dataclasses
import random
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from aiopslab.agents.loader import check_agent
from aiopslab.catalog import Catalog
from aiopslab.errors import LabFailure, UsageError
from aiopslab.record import read_steps
from aiopslab.session.agentport import AgentPort
from aiopslab.session.options import RunOptions
from aiopslab.session.progress import Listener, ignore
from aiopslab.session.run import Run

T = TypeVar("T")


class Orchestrator:
    """Runs problems one after the other.

    ``results_dir`` is where record folders go. Other keywords are those of ``RunOptions`` (``cluster``,
    ``seed``, ``clock``, ``think_time_s``, ``bundles``, ...). Without ``seed`` one is drawn for each problem
    and kept in the record.
    """

    def __init__(
        self, results_dir: Path | str | None = None, *, listener: Listener = ignore, **options: Any
    ) -> None:
        if results_dir is not None:
            options["out"] = Path(results_dir)
        known = {field.name for field in dataclasses.fields(RunOptions)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise UsageError(f"Orchestrator has no option {', '.join(unknown)}; it has {', '.join(sorted(known))}")
        self._options, self._listener = options, listener
        self.agent: Any = None
        self.agent_name = ""
        self.execution_start_time: float | None = None
        self.execution_end_time: float | None = None
        self._began = 0.0
        self._run: Run | None = None
        self._thread: _LoopThread | None = None

    def register_agent(self, agent: Any, name: str = "agent") -> None:
        """Take the agent that will play; before or after ``init_problem``."""
        check_agent(agent, name)
        self.agent, self.agent_name = agent, name
        if self._run is not None:
            self._run.record.agent = name

    def init_problem(self, problem_id: str) -> tuple[str, str, dict[str, str]]:
        """Set the problem up; returns its description, the instructions, and the actions' documentation by
        name.

        Raises AuthorError for an unknown id and LabFailure when the set-up fails; then everything is taken
        down again.
        """
        self._discard()
        options = RunOptions(**{"seed": random.SystemRandom().randrange(2**31), **self._options})
        options.check()
        task = Catalog.load(list(options.bundles)).problem(problem_id)
        self._began = time.monotonic()
        thread = self._thread = _LoopThread()
        run = self._run = Run(task, self.agent_name or "agent", options, self._listener)
        atexit.register(self._discard)
        try:
            thread.call(run.prepare())
        except BaseException as error:
            thread.call(run.__aexit__(type(error), error, error.__traceback__))
            self._run = None
            self._discard()
            raise
        briefing = run.briefing
        return briefing.description, briefing.instructions, briefing.apis

    async def start_problem(self, max_steps: int = 30) -> dict[str, Any]:
        """Let the agent act, judge it, take everything down.

        Returns ``history`` (``{"role", "content"}`` items), ``final_state``, ``results`` (AIOpsLab's keys and
        ours), ``framework_overhead`` (seconds of wall time that were not the agent's session), and
        ``verdict``, ``score``, ``checks``, ``record``.
        """
        run, thread = self._run, self._thread
        if run is None or thread is None:
            raise UsageError("init_problem comes before start_problem")
        if self.agent is None:
            raise UsageError("register_agent comes before start_problem")
        if max_steps < 1:
            raise UsageError(f"max_steps must be at least 1, not {max_steps}")
        port = AgentPort(self.agent, asyncio.get_running_loop())
        self.execution_start_time = time.time()
        try:
            await asyncio.wrap_future(thread.start(self._play(run, port, max_steps)))
        finally:
            self.execution_end_time = time.time()
            self._run = None
            await asyncio.to_thread(self._discard)
        if run.record.outcome == "lab-failure":
            raise LabFailure(f"{run.record.failure} (record: {run.folder})")
        return self._report(run)

    async def _play(self, run: Run, port: AgentPort, max_steps: int) -> None:
        # Callers brief their agents themselves, as AIOpsLab's do; agents that say that nobody did are briefed here.
        brief = getattr(port.agent, "briefed", True) is False
        async with run:
            await run.play(port, max_steps, brief=brief)

    def _report(self, run: Run) -> dict[str, Any]:
        record, result = run.record, run.record.result
        assert result is not None
        history: list[dict[str, str]] = []
        for step in read_steps(run.folder):
            history += [{"role": "assistant", "content": step.reply}, {"role": "env", "content": step.observation}]
        session_s = sum(phase.wall_s for phase in record.phases if phase.name == "agent")
        return {
            "history": history,
            "final_state": history[-1]["content"] if history else "",
            "results": dict(result.metrics),
            "framework_overhead": time.monotonic() - self._began - session_s,
            "verdict": result.verdict,
            "score": result.score,
            "checks": [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in result.checks],
            "record": str(run.folder),
        }

    def _discard(self) -> None:
        """Take down a problem that was set up and not played, and the thread."""
        run, thread, self._run, self._thread = self._run, self._thread, None, None
        if thread is None:
            return
        if run is not None:
            interrupt = asyncio.CancelledError()
            thread.call(run.__aexit__(type(interrupt), interrupt, None))
        thread.close()
        atexit.unregister(self._discard)


class _LoopThread:
    """An event loop on a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="run", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``work`` there; the future is the caller's to wait for, and cancelling it cancels the work."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` there and wait. A KeyboardInterrupt here cancels it, waits for its clean-up, and goes
        on.
        """
        ended = threading.Event()

        async def run() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = self.start(run())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            ended.wait()
            raise

    def close(self) -> None:
        """End the loop and the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()
