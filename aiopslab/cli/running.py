"""Running the lab's async code from a command: one event loop, and signals that end it in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end. SIGINT or SIGTERM cancels it once, so that it cleans up; then KeyboardInterrupt.

    Later signals are ignored while it cleans up, so that an impatient second Ctrl-C leaves nothing behind.
    """
    return asyncio.run(_cancelled_by_signals(work))


async def _cancelled_by_signals(work: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            task.cancel()

    for number in _SIGNALS:
        with suppress(NotImplementedError):  # not on every platform's loop
            loop.add_signal_handler(number, interrupt)
    try:
        result = await task
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number in _SIGNALS:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
    if interrupted:
        raise KeyboardInterrupt
    return result
