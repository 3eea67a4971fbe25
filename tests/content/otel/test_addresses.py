"""Addresses as programs are given them, and sets of words as bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.sim.world.addresses import address_in
from aiopslab.sim.world.engine import nth_member

ENV = {
    "PLAIN": "cart:8080",
    "URL": "http://email:8080/path",
    "BARE": "http://email",
    "DSN": "postgres://user:secret@db/shop?sslmode=disable",
    "KEYWORDS": "Host=db;Username=user;Password=secret;Database=shop",
    "KEYWORDS_PORT": "Server=db;Port=6000",
    "HOST": "flagd",
    "PORT": "8013",
    "EMPTY": "",
}


@pytest.mark.parametrize(
    ("call", "address"),
    [
        ("PLAIN", "cart:8080"),
        ("URL", "email:8080"),
        ("BARE", "email:80"),
        ("DSN", "db:5432"),
        ("KEYWORDS", "db:5432"),
        ("KEYWORDS_PORT", "db:6000"),
        ("EMPTY", ""),
        ("NIX", ""),
        ("${HOST}:${PORT}", "flagd:8013"),
        ("${HOST}:${NIX}", ""),
        ("badhost:1234", "badhost:1234"),
    ],
)
def test_an_address(call: str, address: str) -> None:
    assert address_in(ENV, call) == address


@given(st.sets(st.integers(0, 62)), st.integers(0, 5))
def test_members_of_a_set(members: set[int], place: int) -> None:
    bits = np.array([sum(1 << m for m in members)], np.int64)
    ordered = sorted(members)
    assert nth_member(bits, place)[0] == (ordered[place] if place < len(ordered) else 0)
