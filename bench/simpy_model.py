"""The same request model as a discrete-event simulation in SimPy: how long it takes beside the columns of the world.

    python bench/simpy_model.py [--json] [--seconds N]

The model is read from the same data: the shop's programs, the routes compiled from them, the tasks of its users, the
distributions of own and wire time. Each user is a process; each call takes a worker of its server (Resource), spends
its own time in parts around the calls that it makes, and leaves a record with begin and end, as the world keeps one.
What SimPy does not do here, and the world does in its time: CPU limits and throttling, errors, counters, log lines,
span ids. So the comparison favours SimPy. Times are CPU times of one core. Both medians of the start page are printed:
they must agree, or it is not the same model.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import simpy
import world

from aiopslab.sim.world.engine import WIRE_PLAIN, WIRE_RPC
from aiopslab.sim.world.hashing import QUANTILES, lognormal_table
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.programspec import Program, Task, Users
from aiopslab.sim.world.routes import Node, Route, RouteTable

RAMP_S = 30.0


class Shop:
    """The servers and the users of one simulation; ``records`` are (program, operation, begin, end) in seconds."""

    def __init__(self, seed: int) -> None:
        self.env = simpy.Environment()
        self.records: list[tuple[str, str, float, float]] = []
        self.requests = 0
        self._random = random.Random(seed)
        self._programs = Programs.load([world.ROOT])
        (generator,) = (p for p in self._programs.named("loadgenerator") if p.users is not None)
        assert generator.users is not None
        self.users: Users = generator.users
        self.entry: Program = self._programs.sibling(generator, self.users.program)
        self._routes = RouteTable(self._programs, frozenset())
        self._workers: dict[str, simpy.Resource] = {}
        self._tables: dict[str, list[float]] = {}
        self._wires = {False: lognormal_table(WIRE_RPC).tolist(), True: lognormal_table(WIRE_PLAIN).tolist()}

    def user(self, number: int, rate: float) -> Iterator[Any]:
        """One user: a task, its requests one after another, a pause."""
        yield self.env.timeout(1.0 + number / rate)
        carts = dict.fromkeys(self.users.sets, 0)
        weights = [task.weight for task in self.users.tasks]
        task = next(t for t in self.users.tasks if t.name == self.users.on_start)
        while True:
            yield from self._task(task, carts)
            yield self.env.timeout(self._random.uniform(*self.users.think_s))
            (task,) = self._random.choices(self.users.tasks, weights)

    def _task(self, task: Task, sets: dict[str, int]) -> Iterator[Any]:
        for request in task.requests:
            route = self._routes.route(self.entry, request.route)
            self.requests += 1
            yield from self._call(route, route.nodes[0], dict(sets))
            for name in request.adds:
                size = self._programs.vocabulary_size(self.entry, name)
                sets[name] |= 1 << self._random.randrange(size)
            for name in request.clears:
                sets[name] = 0

    def _call(self, route: Route, node: Node, sets: dict[str, int]) -> Iterator[Any]:
        """One call: half of the wire time, a worker, own time around the calls inside, the other half."""
        env, begin = self.env, self.env.now
        wire = 0.0 if node.local else self._draw(self._wires[node.program.serves == "redis"]) * 0.5e-3
        if wire:
            yield env.timeout(wire)
        worker = None if node.local else self._server(node.program).request()
        if worker is not None:
            yield worker
        gap = self._own(node) * 1e-3 / (len(node.groups) + 1)
        for group in node.groups:
            yield env.timeout(gap)
            calls = [route.nodes[i] for i in group if self._wanted(route.nodes[i], sets)]
            if len(calls) == 1:
                yield from self._call(route, calls[0], sets)
            elif calls:
                yield env.all_of([env.process(self._call(route, call, sets)) for call in calls])
        yield env.timeout(gap)
        if worker is not None:
            self._server(node.program).release(worker)
        if wire:
            yield env.timeout(wire)
        self.records.append((node.program.name, node.op.name, begin, env.now))

    def _wanted(self, node: Node, sets: dict[str, int]) -> bool:
        step = node.step
        if step is None or step.when is not None:
            return step is None  # no flag is set in a healthy shop
        return step.each not in sets or node.repeat < sets[step.each].bit_count()

    def _server(self, program: Program) -> simpy.Resource:
        if program.key not in self._workers:
            replicas = world.REPLICAS.get(program.name, 1)
            self._workers[program.key] = simpy.Resource(self.env, replicas * program.workers)
        return self._workers[program.key]

    def _own(self, node: Node) -> float:
        key = f"{node.program.key} {node.op.name}"
        if key not in self._tables:
            self._tables[key] = lognormal_table(node.op.time).tolist()
        return self._draw(self._tables[key])

    def _draw(self, table: list[float]) -> float:
        return table[int(self._random.random() * QUANTILES)]


def once(seconds: float, seed: int = 7) -> dict[str, float]:
    """CPU seconds per ten minutes, requests and calls per second, median of the start page in ms."""
    shop = Shop(seed)
    for number in range(world.USERS):
        shop.env.process(shop.user(number, float(world.USERS)))
    shop.env.run(until=RAMP_S)
    before, requests = len(shop.records), shop.requests
    start = time.process_time()
    shop.env.run(until=RAMP_S + seconds)
    spent = time.process_time() - start
    pages = [end - begin for _, op, begin, end in shop.records[before:] if op == "GET /"]
    return {
        "total": spent * world.SECONDS / seconds,
        "requests/s": (shop.requests - requests) / seconds,
        "calls/s": (len(shop.records) - before) / seconds,
        "start page p50 ms": 1e3 * float(np.median(pages)),
    }


def main() -> None:
    """Print both, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0, help="simulated seconds of the SimPy run")
    options = parser.parse_args()
    columns, events = world.once(), once(options.seconds)
    found = {
        "world_s": columns["total"],
        "simpy_s": events["total"],
        "ratio": events["total"] / columns["total"],
        "world_start_page_ms": columns["start page p50 ms"],
        "simpy_start_page_ms": events["start page p50 ms"],
        "simpy_requests_per_s": events["requests/s"],
        "simpy_calls_per_s": events["calls/s"],
    }
    if options.json:
        json.dump({"simpy_model": found}, sys.stdout)
        print()
        return
    print(f"ten minutes of the shop at {events['requests/s']:.0f} requests/s, {events['calls/s']:.0f} calls/s")
    print(f"  world (everything kept)   {columns['total']:9.2f} s")
    how = f"SimPy ({options.seconds:.0f} s, scaled)"
    print(f"  {how:25} {events['total']:9.2f} s, {found['ratio']:.0f} times as long")
    print(f"  median of the start page  {columns['start page p50 ms']:.1f} ms and {events['start page p50 ms']:.1f} ms")


if __name__ == "__main__":
    main()
