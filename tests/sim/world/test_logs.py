"""Container logs as the runtime keeps them: events of several lines, times of lines."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from aiopslab.sim.core.ports import LogLine, LogQuery

SHOP = "shop"


def lines(lab: Any, pod: str, **query: Any) -> list[LogLine]:
    found = lab.world.logs(lab.refs[pod], LogQuery(**query))
    assert found is not None
    return list(found)


@pytest.fixture(scope="module")
def broken(lab_class: Any) -> Any:
    """The shop after a minute without its catalogue and half without its data store."""
    lab = lab_class()
    lab.shop()
    lab.users(20)
    lab.advance(40)
    for name, port in (("productcatalogservice", 3550), ("redis-cart", 6379)):
        lab.remove(lab.pods(name)[0])
        lab.slice(name, port, [])
        lab.advance(30)
    lab.remove(lab.pods("loadgenerator")[0])
    lab.advance(20)  # nothing is under way any more
    return lab


def test_stack_traces_are_printed_line_by_line(broken: Any) -> None:
    python = [line.text for line in lines(broken, broken.pods("recommendationservice")[0])]
    first = next(i for i, text in enumerate(python) if text.startswith("Exception calling application: "))
    event = python[first : first + 60]
    assert event[1] == "\tstatus = StatusCode.UNAVAILABLE" and event[2].startswith("\tdetails = ")
    assert event[4:6] == [">", "Traceback (most recent call last):"]
    assert '  File "/recommendationservice/recommendation_server.py", line 71, in ListRecommendations' in event
    last = event.index("grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:")
    assert event[last + 4] == ">"
    dotnet = [line.text for line in lines(broken, broken.pods("cartservice")[0])]
    first = dotnet.index("info: Grpc.AspNetCore.Server.ServerCallHandler[7]")
    assert dotnet[first + 1].startswith("      Error status code 'FailedPrecondition' with detail 'Can't access cart")
    assert dotnet[first + 4].startswith("         at cartservice.cartstore.RedisCartStore.")
    assert dotnet[first + 4].endswith("' raised.")


def test_every_line_has_its_own_time_whatever_window_is_read(broken: Any) -> None:
    for name in ("recommendationservice", "cartservice", "frontend"):
        pod = broken.pods(name)[0]
        whole = lines(broken, pod)
        assert all(a.at < b.at for a, b in pairwise(whole))
        for place in range(0, len(whole), 1 + len(whole) // 6):
            assert lines(broken, pod, since=whole[place].at) == whole[place:]
            event = lines(broken, pod, until=whole[place].at)  # to its end
            assert event == whole[: len(event)] and len(event) > place
            assert lines(broken, pod, tail=place) == whole[len(whole) - place :]


def test_an_event_counts_once_by_its_first_line(broken: Any) -> None:
    pod = broken.pods("cartservice")[0]
    shown = [line.text for line in lines(broken, pod)]
    first = [t for t in shown if "Async called with" in t or t.startswith("info: Grpc.")]
    assert broken.world._logs.count(broken.world.runs.find(broken.refs[pod])) == len(first)
    carts = broken.world.spans.search("frontend", limit=10_000)
    calls = [s for spans in carts for s in spans if s.kind == "CLIENT" and "CartService" in s.operation]
    failed = sum(s.status_message.startswith("Can't access cart storage.") for s in calls)
    assert failed == sum(t.startswith("info: Grpc.") for t in shown) > 0


def test_exceptions_are_recorded_in_spans_as_they_are_printed(broken: Any) -> None:
    spans = [s for t in broken.world.spans.search("recommendationservice", limit=10_000) for s in t]
    pod = broken.pods("recommendationservice")[0]
    printed = [line.text for line in lines(broken, pod)]
    for kind in ("SERVER", "CLIENT"):
        failed = [s for s in spans if s.service == "recommendationservice" and s.kind == kind and s.status == "ERROR"]
        assert len(failed) == sum(text.startswith("Exception calling application: ") for text in printed) > 0
        for span in failed:
            (event,) = span.events
            assert event.name == "exception"
            assert event.attributes["exception.type"] == "grpc._channel._InactiveRpcError"
            assert "StatusCode.UNAVAILABLE" in event.attributes["exception.message"]
            assert event.attributes["exception.stacktrace"].startswith("Traceback (most recent call last):\n")
            assert span.start_us <= event.at_us <= span.start_us + span.duration_us + 1
    assert not any(s.events for s in spans if s.status == "UNSET")


@pytest.mark.parametrize("readings", [1, 9])
def test_the_kubelet_rotates_files(make_lab: Any, readings: int) -> None:
    lab = make_lab()
    lab.shop()
    lab.users(40, 40)
    limit = lab.world.log_files.max_bytes = 200_000
    pod, began = lab.pods("frontend")[0], lab.now
    for _ in range(readings):
        lab.advance(180 / readings)
        shown = lines(lab, pod)
    whole = lines(lab, pod, rotated=True)
    assert shown == whole[len(whole) - len(shown) :]
    # Reckoned afresh: every 10 s a look at what was written since the last rotation.
    size, first, place = 0, 0, 0
    for check in range(1, 19):
        while place < len(whole) and whole[place].at < began + 10 * check:
            size += len(whole[place].text.encode()) + 41
            place += 1
        if size >= limit:
            size, first = 0, place
    assert first > 0 and abs(len(whole) - first - len(shown)) <= 40  # sizes of lines are means
    assert lines(lab, pod, since=began) == shown  # what was rotated away is gone for every reader
    assert lines(lab, pod, tail=3) == shown[-3:]


def test_files_are_followed_past_what_is_forgotten(make_lab: Any) -> None:
    lab = make_lab()
    lab.world._pieces._retention_s = 60.0
    lab.shop()
    lab.users(40, 40)
    lab.world.log_files.max_bytes = 200_000
    other = make_lab()
    other.shop()
    other.users(40, 40)
    other.world.log_files.max_bytes = 200_000
    lab.advance(300)
    other.advance(300)
    pod = lab.pods("frontend")[0]
    assert lab.world.log_files.opened(lab.world.runs.find(lab.refs[pod]), lab.now) == (
        other.world.log_files.opened(other.world.runs.find(other.refs[pod]), other.now)
    ) > lab.now - 200  # fmt: skip
