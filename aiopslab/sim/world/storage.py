"""What simulated users have in a data store, as keys that commands can read and remove.

The truth is each user's set (a bit per word); the keys are made from it when somebody looks, and a key that a
command removed takes the set with it. A store that ends has lost what it held: nothing here writes to disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aiopslab.sim.world.hashing import text_key
from aiopslab.sim.world.loadgen import UserLoad
from aiopslab.sim.world.programspec import Stored
from aiopslab.sim.world.requests import uuid_of
from aiopslab.sim.world.runs import Run


def mirror(run: Run, loads: list[UserLoad]) -> None:
    """Bring the keys of a store and the users' sets together."""
    space = run.keyspace
    for load, name, stored in _held(run, loads):
        sets, words = load.sets[name], load.words(name)
        for lane in range(load.lanes):
            key = stored.key.replace("{session}", session_of(load, lane))
            if key in space.shared and key not in space:
                sets[lane] = 0
                space.shared.discard(key)
            if not sets[lane]:
                if key in space.shared:
                    space.shared.discard(key)
                    space.pop(key, None)
                continue
            members = [word for bit, word in enumerate(words) if int(sets[lane]) >> bit & 1]
            space.shared.add(key)
            space[key] = {stored.field: f"{session_of(load, lane)} " + ",".join(members)}


def forget(run: Run, loads: list[UserLoad]) -> None:
    """A store has ended."""
    for load, name, _ in _held(run, loads):
        load.sets[name][:] = 0


def session_of(load: UserLoad, lane: int) -> str:
    """The session id of one user, the same as in the requests' texts."""
    return uuid_of(text_key("session", load.run.ref, lane))


def _held(run: Run, loads: Iterable[UserLoad]) -> Iterator[tuple[UserLoad, str, Stored]]:
    """The sets of users that a store holds."""
    for load in loads:
        if run.program is None or load.entry.scope != run.program.scope:
            continue
        for name, stored in load.spec.stored.items():
            if stored.program == run.program.name:
                yield load, name, stored
