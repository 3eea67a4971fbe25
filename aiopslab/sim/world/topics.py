"""Message topics: what producers sent, how far each consumer group is, and the consumers' work.

A topic is a log with one partition; of a group's members one takes the messages, in order, one at a time. A message
that waits is a group's lag. The consumer's work is simulated like any request and belongs to the sender's trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.world.blocks import Block, Origin
from aiopslab.sim.world.counters import GroupCounters
from aiopslab.sim.world.edges import EdgeTable, blank
from aiopslab.sim.world.engine import Batch, Engine, Strain
from aiopslab.sim.world.hashing import mix, text_key
from aiopslab.sim.world.loadgen import select
from aiopslab.sim.world.programspec import Consumer, Program
from aiopslab.sim.world.routes import RouteTable
from aiopslab.sim.world.runs import Run, Runs

CHUNK = 256  # messages whose work is simulated at one go
POLL_MS_MAX = 1e9


@dataclass(slots=True, eq=False)
class Sent:
    """Messages of one call of one block: Unix seconds of arrival at the broker, sorted, and the requests that sent
    them."""

    block: Block
    node: int
    at: NDArray[np.float64]
    columns: NDArray[np.int64]
    copy: NDArray[np.int64]  # tells messages of one call apart


@dataclass(slots=True, eq=False)
class Group:
    """How far a consumer group is. ``taken`` counts messages since the topic began."""

    key: tuple[str, str, str]  # namespace, topic, group
    taken: int = 0
    free_at: float = 0.0  # when its member has finished the last message
    batch: int = 0  # entry of the log it stands in
    place: int = 0  # message in that entry
    members: int = 0


@dataclass(slots=True)
class Topic:
    """One topic of one namespace."""

    log: list[Sent] = field(default_factory=list)
    end: int = 0  # messages so far


class Topics:
    """All topics of a cluster, by namespace."""

    def __init__(self, runs: Runs, engine: Engine) -> None:
        self._runs = runs
        self._engine = engine
        self._topics: dict[tuple[str, str], Topic] = {}
        self._groups: dict[tuple[str, str, str], Group] = {}

    def publish(self, blocks: Iterable[Block], routes: RouteTable, edges: EdgeTable) -> None:
        """Append the messages that these blocks sent."""
        fresh: dict[tuple[str, str], list[Sent]] = {}
        for block in blocks:
            for i in block.route.messages:
                good = block.reached(i)
                if block.error is not None:
                    good = good & (block.error[i] == 0)
                columns = np.flatnonzero(good)
                if len(columns):
                    sent = _messages(block, i, columns, _copies(block, i, columns, routes, edges))
                    namespace = self._runs[int(block.run[i, columns[0]])].ref.namespace
                    fresh.setdefault((namespace, block.route.nodes[i].op.topic), []).append(sent)
        for key, found in fresh.items():
            topic = self._topics.setdefault(key, Topic())
            topic.log += found
            topic.end += sum(len(sent.at) for sent in found)

    @property
    def busy(self) -> bool:
        """Whether messages wait."""
        ends = {key: topic.end for key, topic in self._topics.items()}
        return any(group.taken < ends.get(group.key[:2], 0) for group in self._groups.values())

    def consume(
        self, routes: RouteTable, edges: EdgeTable, strain: Strain, span: tuple[float, float]
    ) -> list[Block]:
        """The work of all consumers that begins in ``span`` (Unix seconds)."""
        start, end = span
        for group in self._groups.values():
            group.members = 0
        done: list[Block] = []
        for run in list(self._runs.alive()):
            for consumer in run.program.consumes if run.program is not None else ():
                group = self._join(run, consumer)
                group.free_at = max(group.free_at, start)
                if group.members == 1 and run.listening_at <= end:
                    done += self._work(run, consumer, group, (routes, edges, strain), end)
        self._prune()
        return done

    def _prune(self) -> None:
        """Forget messages that every group has taken."""
        for key, topic in self._topics.items():
            groups = [g for g in self._groups.values() if g.key[:2] == key]
            passed = min((g.batch for g in groups), default=0)
            del topic.log[:passed]
            for group in groups:
                group.batch -= passed

    def groups(self, now: float) -> list[GroupCounters]:
        """Every group that ever had a member, as its broker tells at ``now``; nothing while the broker is down."""
        served = {
            (run.ref.namespace, op.topic)
            for run in self._runs.alive()
            if run.program is not None and run.listening(now)
            for op in run.program.ops.values()
            if op.topic
        }
        found = []
        for (namespace, name, group), state in sorted(self._groups.items()):
            if (namespace, name) in served:
                end = self._topics.get((namespace, name), Topic()).end
                found.append(GroupCounters(namespace, name, group, end, state.taken, state.members))
        return found

    def _join(self, run: Run, consumer: Consumer) -> Group:
        key = (run.ref.namespace, consumer.topic, consumer.group)
        group = self._groups.setdefault(key, Group(key))
        group.members += 1
        return group

    def _work(
        self,
        run: Run,
        consumer: Consumer,
        group: Group,
        state: tuple[RouteTable, EdgeTable, Strain],
        end: float,
    ) -> list[Block]:
        routes, edges, _ = state
        program = run.program
        topic = self._topics.get(group.key[:2])
        if program is None or topic is None or group.taken == topic.end:
            return []
        broker = routes.programs.sibling(program, consumer.broker)
        edge = edges.edge(routes, routes.edge(program, consumer.call, broker))
        if edge.backend[run.number] < 0 or edge.hangs[run.number]:
            return []
        group.free_at = max(group.free_at, run.listening_at)
        done: list[Block] = []
        while group.batch < len(topic.log):
            sent = topic.log[group.batch]
            waiting = slice(group.place, min(group.place + CHUNK, len(sent.at)))
            block, taken = self._take(run, program, consumer, (group, sent, waiting), state, end)
            group.taken += taken
            group.place += taken
            if block is not None:
                done.append(block)
            if taken < waiting.stop - waiting.start:
                break
            if group.place == len(sent.at):
                group.batch, group.place = group.batch + 1, 0
        return done

    def _take(
        self,
        run: Run,
        program: Program,
        consumer: Consumer,
        what: tuple[Group, Sent, slice],
        state: tuple[RouteTable, EdgeTable, Strain],
        end: float,
    ) -> tuple[Block | None, int]:
        group, sent, waiting = what
        routes, edges, strain = state
        columns, copy = sent.columns[waiting], sent.copy[waiting]
        salt = np.uint64(text_key(*group.key, sent.node))
        keys = mix((sent.block.key[columns] ^ salt) + copy.astype(np.uint64))
        own = blank(1)
        own.backend[0] = run.number
        batch = Batch(
            routes.route(program, consumer.op),
            keys,
            np.zeros(len(keys), np.int32),
            own,
            -1,
            POLL_MS_MAX,
            {name: values[columns] for name, values in sent.block.variables.items()},
        )
        block = self._engine.simulate(batch, routes, edges, strain)
        block.client = block.connection = None
        took = block.took[0].astype(np.float64) * 1e-3
        before = np.cumsum(took) - took
        block.start = np.maximum.accumulate(np.maximum(sent.at[waiting], group.free_at) - before) + before
        block.origin = Origin(sent.block, sent.node, columns, "link" if consumer.links else "message")
        taken = int(np.searchsorted(block.start, end))
        if not taken:
            return None, 0
        if taken < len(keys):
            block = select(block, np.arange(taken))
        group.free_at = float(block.start[-1] + took[taken - 1])
        sent.block.followers.append(block)
        return block, taken


def _copies(
    block: Block, node: int, columns: NDArray[np.int64], routes: RouteTable, edges: EdgeTable
) -> NDArray[np.int64]:
    """How many messages each call sends."""
    at = block.route.nodes[node]
    if at.step is None or not at.step.copies:
        return np.ones(len(columns), np.int64)
    more = edges.flag(routes, block.route.nodes[at.parent].program, at.step.copies, {})
    return 1 + more[block.run[at.parent, columns]].astype(np.int64)


def _messages(block: Block, node: int, columns: NDArray[np.int64], counts: NDArray[np.int64]) -> Sent:
    each = np.repeat(columns, counts)
    copy = np.arange(len(each)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = block.start[each] + (block.served_at[node, each] + block.served[node, each]) * 1e-3 + copy * 1e-4
    order = np.argsort(at, kind="stable")
    return Sent(block, node, at[order], each[order], copy[order])
