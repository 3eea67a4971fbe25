"""Container logs, rendered from the columns of traffic when somebody reads them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiopslab.sim.core.ports import LogLine, LogQuery
from aiopslab.sim.world.background import Background
from aiopslab.sim.world.blocks import Block, Pieces
from aiopslab.sim.world.hashing import mix_int, text_key
from aiopslab.sim.world.logformats import FORMATS, Entry
from aiopslab.sim.world.programspec import LogSpec, Program
from aiopslab.sim.world.requests import Reader, RequestView, uuid_of
from aiopslab.sim.world.routes import Node
from aiopslab.sim.world.runs import Run

STDOUT = "stdout"
STEP_S = 2e-5  # lines of one instant keep their order by this much
LINE_S = 1e-6  # the least time from one line to the next, as the container runtime stamps what it reads
LINE_SPREAD = 8  # by how many times that it varies with the line
CROWD_S = 5e-3  # events this far before a window can still push a line into it
CROWD = 64  # as many events are looked at before the last ones wanted


class Source(NamedTuple):
    """Where a line comes from: a block's column, and the call and template that wrote it."""

    block: Block
    column: int
    node: int  # the operation that writes
    spec: LogSpec
    about: int  # the call the line is about; the same as ``node`` unless it is about a callee


def destination(program: Program, spec: LogSpec) -> str:
    """Where a line goes: the container's output, or by OTLP to the collector."""
    return spec.to or program.logs_to


class Logs:
    """Reads the lines of one container run."""

    def __init__(self, reader: Reader, pieces: Pieces, background: Background) -> None:
        self._reader = reader
        self._pieces = pieces
        self._background = background

    def read(self, run: Run, query: LogQuery, now: float, opened: float = -np.inf) -> list[LogLine]:
        """Lines of a run from ``opened`` up to ``now``, oldest first: an event of several lines is as many entries
        of the log."""
        if query.tail is not None and query.tail <= 0:
            return []
        low = max(opened, query.since if query.since is not None else run.started)
        high = min(query.until if query.until is not None else now, now)
        if run.ended < np.inf:
            high = min(high, run.ended + 1.0)
        early = low - CROWD_S
        found = [(at, 0, text) for at, text in run.lines if early <= at <= high]
        found += [(at, 1, text) for at, text in (*self._probes(run, early, high), *periodic(run, early, high))]
        found += [(at, 1, text) for at, text in chatter(run, early, high, self._background)]
        times, sources = self._requests(run, early, high, None if query.tail is None else query.tail + CROWD)
        found += [(at, 2, self.render(run, at, source)) for at, source in zip(times, sources, strict=True)]
        found.sort(key=lambda line: line[:2])
        lines = [line for line in stamped((at, text) for at, _, text in found) if line.at >= low]
        return lines if query.tail is None else lines[-query.tail :]

    def count(self, run: Run) -> int:
        """How many lines requests have written in a run so far."""
        return len(self._requests(run, -np.inf, np.inf, None)[0])

    def _requests(self, run: Run, low: float, high: float, tail: int | None) -> tuple[list[float], list[Source]]:
        if run.program is None:
            return [], []
        times: list[float] = []
        sources: list[Source] = []
        for blocks in self._pieces.between(low, high):
            newer = len(times)
            for block in blocks:
                for at, columns, node, spec, about in self._emissions(run, block):
                    keep = np.flatnonzero((at >= low) & (at <= high))
                    times.extend(at[keep].tolist())
                    sources.extend(Source(block, int(c), node, spec, about) for c in columns[keep])
            if tail is not None and newer >= 4 * tail + 50:
                break
        if tail is not None and len(times) > tail:
            last = heapq.nlargest(tail, range(len(times)), key=lambda i: times[i])
            times, sources = [times[i] for i in last], [sources[i] for i in last]
        return times, sources

    def _emissions(
        self, run: Run, block: Block
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64], int, LogSpec, int]]:
        for node in block.route.nodes:
            if node.program is not run.program or not (node.op.logs or any(s.warning for s in node.op.steps)):
                continue
            mine = block.run[node.index] == run.number
            if block.made is not None:
                mine &= block.made[node.index]
            columns = np.flatnonzero(mine)
            if len(columns):
                yield from self._operation(block, node, columns)

    def _operation(
        self, block: Block, node: Node, columns: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64], int, LogSpec, int]]:
        i = node.index
        base = block.start[columns]
        begin = base + block.served_at[i, columns] * 1e-3
        end = begin + block.served[i, columns] * 1e-3
        failed = block.returned[i, columns] != 0 if block.returned is not None else np.zeros(len(columns), bool)
        for order, spec in enumerate(node.op.logs):
            if destination(node.program, spec) != STDOUT:
                continue
            if spec.at == "start":
                yield begin + order * STEP_S, columns, i, spec, i
            elif spec.at in ("end", "ok", "error"):
                pick = np.ones(len(columns), bool) if spec.at == "end" else failed == (spec.at == "error")
                yield end[pick] + (order - 9) * LINE_S, columns[pick], i, spec, i
            else:
                yield from self._after(block, node, columns, spec)
        if block.error is not None:
            for child in node.children:
                step = block.route.nodes[child].step
                warning = step.warning if step is not None else None
                if warning is not None and destination(node.program, warning) == STDOUT:
                    bad = columns[(block.error[child, columns] != 0) & block.happened(child)[columns]]
                    at = block.start[bad] + (block.begin[child, bad] + block.took[child, bad]) * 1e-3
                    yield at, bad, i, warning, child

    def _after(
        self, block: Block, node: Node, columns: NDArray[np.int64], spec: LogSpec
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64], int, LogSpec, int]]:
        wanted = spec.at.partition(":")[2]
        for child in node.children:
            if block.route.nodes[child].op.name != wanted:
                continue
            good = columns[block.happened(child)[columns]]
            if block.error is not None:
                good = good[block.error[child, good] == 0]
            at = block.start[good] + (block.begin[child, good] + block.took[child, good]) * 1e-3 + STEP_S
            yield at, good, node.index, spec, child

    def render(self, run: Run, at: float, source: Source) -> str:
        """The text of one event, which may have several lines."""
        program = run.program
        assert program is not None
        view = RequestView(self._reader, source.block, source.column)
        node = source.block.route.nodes[source.node]
        spec = source.spec
        templates = {**({} if spec.bare else node.op.log_fields), **spec.fields}
        shown = view.shown(source.about, program) if source.about != source.node else view.failure(source.node)
        fields = {key: _typed(self._fill(view, value, source, shown)) for key, value in templates.items()}
        message = self._fill(view, spec.message, source, shown)
        if spec.raw:
            return message
        serial = mix_int(view.key + 31 * source.node + text_key(spec.message) % 997)
        return FORMATS[spec.format or program.log_format](
            Entry(at, spec.level, message, spec.logger or program.logger, run.ref.pod, fields, serial)
        )

    def _fill(self, view: RequestView, template: str, source: Source, error: str) -> str:
        if template.startswith("#"):
            return "#" + self._fill(view, template[1:], source, error)
        if "{error}" in template:
            return view.told(template, source.about, error)
        return view.text(template, source.node)

    def _probes(self, run: Run, low: float, high: float) -> Iterator[tuple[float, str]]:
        if run.program is None or not run.program.probe_logs:
            return
        for at, kind in run.probes:
            if low <= at <= high:
                for order, spec in enumerate(run.program.probe_logs):
                    facts = {"probe": kind, "uuid": uuid_of(text_key(run.ref, at, kind))}
                    yield at + order * STEP_S, render_static(run, spec, at + order * STEP_S, facts)


def stamped(events: Iterable[tuple[float, str]]) -> Iterator[LogLine]:
    """The lines of events, in order, each with the time at which the container runtime read it: a program writes
    an event at one go, so nothing comes between its lines, and no two lines have the same time."""
    last = -np.inf
    for at, text in events:
        for part in text.split("\n"):
            at = max(at, last)
            yield LogLine(at, part)
            last = at + LINE_S * (1 + len(part) % LINE_SPREAD)


def periodic(run: Run, low: float, high: float) -> Iterator[tuple[float, str]]:
    """Lines that a program writes at regular times, counted from its start."""
    if run.program is None or not run.program.periodic_logs or run.listening_at == np.inf:
        return
    period = run.program.period_s
    first = max(1, int((low - run.listening_at) // period))
    for number in range(first, int(max(0.0, high - run.listening_at) // period) + 1):
        for order, spec in enumerate(run.program.periodic_logs):
            at = run.listening_at + number * period + 0.05 * order
            if low <= at <= high:
                yield at, render_static(run, spec, at, {"serial": str(20 + number)})


def chatter(run: Run, low: float, high: float, background: Background) -> Iterator[tuple[float, str]]:
    """Harmless lines that a program writes now and then while it serves."""
    if run.program is None or not run.program.chatter_logs or run.listening_at == np.inf:
        return
    specs, what = run.program.chatter_logs, f"{run.ref.namespace}/{run.ref.pod}/{run.ref.container}"
    since = max(low, run.listening_at)
    for at, number in background.moments(what, run.program.chatter_per_h, since, high):
        when = datetime.fromtimestamp(at, UTC)
        facts = {
            "serial": str(number % 90 + 10),
            "us_time": f"{when:%m/%d/%Y %H:%M:%S +00:00}",
            "java_time": f"{when:%b %d, %Y} {when.hour % 12 or 12}:{when:%M:%S %p}",  # java.util.logging's
        }
        yield at, render_static(run, specs[number % len(specs)], at, facts)


def render_static(run: Run, spec: LogSpec, at: float, facts: dict[str, str]) -> str:
    """A line that no request wrote: start-up, shutdown, probes."""
    program = run.program
    assert program is not None
    key = text_key(run.ref, spec.message, int(at * 1000))
    values = {
        "pod": run.ref.pod,
        "port": str(run.port),
        "log_time": f"{datetime.fromtimestamp(at, UTC):%Y/%m/%d %H:%M:%S}",
        "uuid": uuid_of(key),
        **facts,
        **{f"env.{name}": value for name, value in run.spec.env.items()},
    }

    def fill(template: str) -> str:
        for name, value in values.items():
            template = template.replace("{" + name + "}", value)
        return template

    if spec.raw:
        return fill(spec.message)
    fields = {name: _typed(fill(value)) for name, value in spec.fields.items()}
    return FORMATS[spec.format or program.log_format](
        Entry(at, spec.level, fill(spec.message), spec.logger or program.logger, run.ref.pod, fields, key)
    )


def _typed(value: str) -> str | int:
    """Numbers and truth values marked with ``#`` become such."""
    if value in ("#true", "#false"):
        return value == "#true"
    if value.startswith("#") and value[1:].lstrip("-").isdigit():
        return int(value[1:])
    return value
