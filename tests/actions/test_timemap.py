"""Times of the machine's clock in an output become the cluster's."""

from __future__ import annotations

import pytest

from aiopslab.actions.sandbox.timemap import TimeMap

MACHINE = 1796076000.0  # 2026-11-30T22:00:00Z
CLUSTER = 1748854800.0  # 2025-06-02T09:00:00Z


@pytest.fixture
def times() -> TimeMap:
    found = TimeMap()
    found.note(MACHINE, CLUSTER)
    found.note(MACHINE + 10, CLUSTER + 600)
    return found


@pytest.mark.parametrize(
    ("shown", "meant"),
    [
        ("2026-11-30T22:00:03Z", "2025-06-02T09:00:00Z"),
        ("2026-11-30T22:00:12Z", "2025-06-02T09:10:00Z"),
        ("at 2026-11-30T22:00:12.345678Z.", "at 2025-06-02T09:10:00.000000Z."),
        ("2026-11-30 22:00:12.5 +0000 UTC", "2025-06-02 09:10:00.0 +0000 UTC"),
        ("Mon, 30 Nov 2026 22:00:12 GMT", "Mon, 02 Jun 2025 09:10:00 GMT"),
        ("LAST DEPLOYED: Mon Nov 30 22:00:03 2026", "LAST DEPLOYED: Mon Jun  2 09:00:00 2025"),
        ('E1130 22:00:12.123456      42 memcache.go:1] "x"', 'E0602 09:10:00.000000      42 memcache.go:1] "x"'),
        # cluster times, and times that are neither, stay
        ("2025-06-02T09:05:00Z", "2025-06-02T09:05:00Z"),
        ("2019-01-01T00:00:00Z", "2019-01-01T00:00:00Z"),
        ("Mon, 02 Jun 2025 09:05:00 +0000", "Mon, 02 Jun 2025 09:05:00 +0000"),
        ("2026-13-45T99:00:00Z", "2026-13-45T99:00:00Z"),
    ],
)
def test_a_programs_own_time_is_the_clusters_time_of_that_moment(times: TimeMap, shown: str, meant: str) -> None:
    assert times.restore(shown) == meant


def test_times_that_the_server_moved_are_moved_back(times: TimeMap) -> None:
    shift = MACHINE + 12.25 - (CLUSTER + 600)  # so that kubectl computes the age from the machine's clock
    text = "Start Time: Mon, 30 Nov 2026 21:59:12 +0000"  # truncated from 21:59:12.25
    assert times.restore(text, [shift]) == "Start Time: Mon, 02 Jun 2025 09:09:00 +0000"


def test_nothing_is_touched_before_the_clock_is_known() -> None:
    assert TimeMap().restore("2026-11-30T22:00:03Z") == "2026-11-30T22:00:03Z"
