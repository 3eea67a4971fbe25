"""Packets, pauses and stalls follow from their causes."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.sim.world.packets import Shape, exchanged
from aiopslab.sim.world.pauses import collections, paused
from aiopslab.sim.world.programspec import Resources
from aiopslab.sim.world.queueing import FREE, Load, blocked, waiting


def shape(pieces: float = 1.0) -> Shape:
    one = np.ones(1)
    return Shape(100 * one, 900 * one, one, pieces * one, pieces * one, np.ones((1, 1)), one, np.ones(1, np.int64))


def calls(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Run 0 calls run 1."""
    return np.array([[0], [count]]), np.array([[count], [0]])


def test_every_packet_that_is_sent_is_received():
    served, sent = calls(500)
    counts = exchanged(shape(), served, sent, 10.0)
    assert counts[1].sum() == pytest.approx(counts[3].sum())
    assert counts[0].sum() == counts[2].sum() == 500 * 1000


@pytest.mark.parametrize(("rate", "acks"), [(0.1, 1.0), (1000.0, 0.0)])
def test_acknowledgements_ride_on_busy_connections(rate, acks):
    served, sent = calls(1000)
    received = exchanged(shape(), served, sent, 1000 / rate)[1, 1]
    assert received / 1000 == pytest.approx(1.0 + acks, abs=0.01)


def test_an_answer_in_two_pieces_is_acknowledged_at_once():
    served, sent = calls(1000)
    counts = exchanged(shape(2.0), served, sent, 1.0)
    assert counts[3, 1] == 2000
    assert counts[1, 1] == 2000


@given(st.floats(0, 1), st.floats(0, 1e5), st.floats(0.1, 500), st.integers(1, 20))
def test_collections_do_not_depend_on_how_time_is_cut(phase, start, length, parts):
    resources = Resources(gc_cpu_ms=50, gc_every_s=15)
    cuts = np.linspace(start, start + length, parts + 1)
    pieces = sum(collections(resources, phase, a, b) for a, b in pairwise(cuts))
    assert pieces == collections(resources, phase, cuts[0], cuts[-1])
    assert abs(pieces - length / 15) <= 1


def test_collections_pause_only_under_a_quota_that_they_exceed():
    resources = Resources(gc_cpu_ms=60, gc_every_s=15, gc_threads=4)
    assert paused(FREE, resources, None) is FREE
    assert paused(FREE, resources, 1.0) is FREE
    found = paused(FREE, resources, 0.2)
    assert found.throttled_s == pytest.approx(2 * 0.095 / 15 * 4)


def load(wakes: float, cores: float = 4.0, stress: float = 1.0) -> Load:
    return Load(0.02, wakes, 1e-3, 1e-3, stress, 0.2, 64, cores, wakes)


@given(st.floats(0, 1e4), st.floats(1, 1e4))
def test_a_busier_program_sleeps_longer_beside_a_stressor(wakes, more):
    low, high = blocked(load(wakes), 0.8), blocked(load(wakes + more), 0.8)
    assert 0.0 <= low <= high < 1.0


def test_a_stressor_is_throttled_for_what_its_quota_lacks():
    found = waiting(load(0.0))
    assert found.exhausted == pytest.approx(1 - 0.2 / 1.02)
    assert found.throttled_s == pytest.approx(found.exhausted)
    assert waiting(load(1.0, stress=0.0)).exhausted == 0.0
    assert math.isfinite(waiting(load(5.0, cores=1.0)).queue_ms)
