"""When cluster time passes during a command: a pure function of what the command waits for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from aiopslab.actions.sandbox.clockwork import Alarms, Clockwork, Watched
from aiopslab.actions.sandbox.processes import Sample
from aiopslab.actions.sandbox.relay import Listeners

START = 1748854800.0
ASLEEP = Sample((7,), True, 3, 0)
BUSY = Sample((7,), False, 3, 0)


async def passed(
    cluster: Any, alarms: Alarms, sample: Sample, *, budget_s: float, wall_s: float = 0.3
) -> list[float]:
    """Clock readings after each step, in seconds since the start."""
    steps: list[float] = []
    work = Clockwork(cluster, alarms, lambda now: steps.append(round(now - START, 3)))
    try:
        async with asyncio.timeout(wall_s):
            await work.run(Watched(lambda: sample, lambda: 0), START + budget_s)
    except TimeoutError:
        pass
    return steps


Ask = Callable[[Alarms, str], Awaitable[asyncio.StreamReader]]


@pytest.fixture
async def ask() -> AsyncIterator[Ask]:
    """Send one line as the shell's programs do; gives what the lab answers to."""
    listeners, writers = Listeners(), list[asyncio.StreamWriter]()

    async def send(alarms: Alarms, line: str) -> asyncio.StreamReader:
        listener = socket.create_server(("127.0.0.1", 0))
        address = listener.getsockname()
        await listeners.serve(listener, alarms.handle)
        reader, writer = await asyncio.open_connection(*address)
        writers.append(writer)
        writer.write(line.encode() + b"\n")
        await writer.drain()
        await asyncio.sleep(0.02)
        return reader

    yield send
    for writer in writers:
        writer.close()
    await listeners.close()


async def test_a_stream_gets_one_second_at_a_time_up_to_the_budget(cluster: Any) -> None:
    cluster.streams = cluster.in_flight = 1
    assert await passed(cluster, Alarms(), ASLEEP, budget_s=3.5) == [1, 2, 3, 3.5]


async def test_nothing_passes_while_something_works(cluster: Any) -> None:
    cluster.streams = 1
    assert await passed(cluster, Alarms(), BUSY, budget_s=5) == []


async def test_nothing_passes_at_once_when_nobody_asked(cluster: Any) -> None:
    assert await passed(cluster, Alarms(), ASLEEP, budget_s=5) == []


async def test_a_program_on_the_machines_clock_gets_a_second_for_a_second(cluster: Any) -> None:
    assert await passed(cluster, Alarms(), ASLEEP, budget_s=5, wall_s=2.3) == [1, 2]


async def test_an_unanswered_request_gets_time_after_a_grace(cluster: Any) -> None:
    cluster.in_flight = 1
    assert await passed(cluster, Alarms(), ASLEEP, budget_s=1, wall_s=1) == [1]


async def test_a_sleep_is_jumped_over(cluster: Any, ask: Ask) -> None:
    alarms = Alarms()
    alarms.moved(START)
    answer = await ask(alarms, "sleep 1m 30.5")
    assert await passed(cluster, alarms, ASLEEP, budget_s=500) == [90.5]
    assert await answer.readline() == b"ok\n"


async def test_a_sleep_beside_a_stream_ends_on_time(cluster: Any, ask: Ask) -> None:
    cluster.streams, alarms = 1, Alarms()
    alarms.moved(START)
    await ask(alarms, "sleep 1.5")
    assert (await passed(cluster, alarms, ASLEEP, budget_s=3))[:3] == [1, 1.5, 2.5]


async def test_a_programs_own_limit_holds_the_clock(cluster: Any, ask: Ask) -> None:
    cluster.streams, alarms = 1, Alarms()
    alarms.moved(START)
    await ask(alarms, "limit 2")
    assert await passed(cluster, alarms, ASLEEP, budget_s=50) == [1, 2]


@pytest.mark.parametrize("line", ["sleep x", "sleep", "dance", "limit", ""])
async def test_what_is_not_understood_is_said(line: str, ask: Ask) -> None:
    assert await (await ask(Alarms(), line)).readline() == b"error\n"
