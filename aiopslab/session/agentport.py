"""Asks an agent for its replies without ever being held up, or brought down, by it.

The agent's coroutine runs on an event loop of another thread: its own (``AgentPort``), or one that a caller
names. It may block, hang, raise or call ``exit``; the run goes on.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

from aiopslab.errors import AgentFailure


class AgentPort:
    """The run's side of an agent. ``close`` leaves nothing running that can be stopped."""

    def __init__(self, agent: Any, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """``loop``: the running loop (of another thread) that the agent belongs to; None makes one."""
        self.agent = agent
        self._own = loop is None
        self._loop = loop if loop is not None else asyncio.new_event_loop()
        if self._own:
            thread = threading.Thread(target=self._serve, name="agent", daemon=True)
            thread.start()

    async def prepare(self, description: str, instructions: str, apis: dict[str, str], timeout_s: float) -> None:
        """Call the agent's ``init_context`` if it has one. Raises AgentFailure."""
        method = getattr(self.agent, "init_context", None)
        if callable(method):
            await self._call(lambda: method(description, instructions, apis), "init_context", timeout_s)

    async def ask(self, state: str, timeout_s: float, max_chars: int) -> str:
        """The agent's reply to ``state``. Raises AgentFailure when there is none that can be read."""
        reply = await self._call(lambda: self.agent.get_action(state), "get_action", timeout_s)
        if not isinstance(reply, str):
            raise AgentFailure(f"the agent's get_action returned {type(reply).__name__} instead of a text")
        if len(reply) > max_chars:
            raise AgentFailure(f"the agent's reply has {len(reply)} characters; at most {max_chars} are taken")
        return reply

    def close(self) -> None:
        """End the agent's own loop. A thread that the agent blocks dies with the process."""
        if self._own:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            pending = asyncio.all_tasks(self._loop)
            for task in pending:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _call(self, call: Callable[[], Any], name: str, timeout_s: float) -> Any:
        async def run() -> tuple[Any, BaseException | None]:
            try:
                value = call()
                return (await value if inspect.isawaitable(value) else value), None
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                return None, error

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            async with asyncio.timeout(timeout_s):  # not wait_for, which may swallow a cancellation
                value, error = await asyncio.wrap_future(future)
        except TimeoutError:
            future.cancel()
            raise AgentFailure(f"the agent's {name} did not answer within {timeout_s:g} s") from None
        if error is not None:
            raise AgentFailure(f"the agent's {name} raised {_shown(error)}") from error
        return value


def _shown(error: BaseException) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
