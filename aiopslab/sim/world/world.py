"""The world behind the cluster: ``core.ports.World`` over programs, traffic and effects.

Traffic is simulated in pieces. Within a piece the cluster's state is constant: a change of the state first lets
the old one act up to now.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.ports import (
    Answer,
    ContainerExit,
    ContainerRef,
    ContainerSpec,
    ExecResult,
    LogLine,
    LogQuery,
    NodeUse,
    ProbeResult,
    StartResult,
    Usage,
)
from aiopslab.sim.core.store import Change, Key, Obj, Store
from aiopslab.sim.world import oom, probes
from aiopslab.sim.world.addresses import plain_address
from aiopslab.sim.world.answers import Reply, reply, served_file
from aiopslab.sim.world.background import Background
from aiopslab.sim.world.blocks import Block, Pieces
from aiopslab.sim.world.connections import Attempt, Connections, Surroundings, split_address
from aiopslab.sim.world.counters import CounterSnapshot
from aiopslab.sim.world.dialects import Errors
from aiopslab.sim.world.edges import Edge, EdgeTable, blank
from aiopslab.sim.world.effects import Effects, read_effects
from aiopslab.sim.world.engine import Batch, Engine, Strain
from aiopslab.sim.world.exporting import Exporter, memory_bytes, working_set
from aiopslab.sim.world.flags import Flags
from aiopslab.sim.world.hashing import text_key, unit_int
from aiopslab.sim.world.images import Registry
from aiopslab.sim.world.interrupt import interrupt
from aiopslab.sim.world.loadgen import UserLoad
from aiopslab.sim.world.logfiles import LogFiles
from aiopslab.sim.world.logs import STDOUT, Logs, destination, render_static
from aiopslab.sim.world.metering import Meter, SpanMetrics
from aiopslab.sim.world.naming import Name, Names
from aiopslab.sim.world.nodeuse import NodeUses
from aiopslab.sim.world.oneshots import OneShots
from aiopslab.sim.world.processes import deaf, missing_variable, not_startable, one_shot, replaced, start_result
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.programspec import LogSpec, Program
from aiopslab.sim.world.queueing import FREE
from aiopslab.sim.world.requests import Reader, RequestView
from aiopslab.sim.world.retransmissions import Retransmissions
from aiopslab.sim.world.routes import RouteTable
from aiopslab.sim.world.runs import Run, Runs, optional_addresses
from aiopslab.sim.world.spans import SpanStore
from aiopslab.sim.world.storage import forget, mirror
from aiopslab.sim.world.topics import Topics
from aiopslab.sim.world.userland import bridge, bytestream
from aiopslab.sim.world.userland.acl import KeySpace
from aiopslab.sim.world.view import View, build_view, matters, split_name
from aiopslab.sim.world.wrk2 import Load, Wrk2Runs, is_wrk2, match_route

PIECE_MAX_S = 30.0
RETENTION_S = 3 * 3600.0
SAMPLE_S = 15.0  # age at which a container has its first usage sample
GENERIC_STOP_S = 0.1
ASK_TIMEOUT_MS = 60_000.0


class SimWorld:
    """All containers of one cluster. ``store`` is read only; ``seed`` decides every random choice."""

    def __init__(
        self, kernel: Kernel, store: Store, programs: Programs, seed: int, background: Background | None = None
    ) -> None:
        self.images = Registry(programs)
        self.programs = programs
        self.runs = Runs()
        self.errors = Errors()
        self._kernel = kernel
        self._store = store
        self._seed = seed
        self._at = kernel.now
        self._connections = Connections(self.runs, self.errors, seed)
        self._engine = Engine(programs, self.runs, self.errors)
        self._topics = Topics(self.runs, self._engine)
        self._oneshots = OneShots(self)
        self._meter = Meter(self.runs, seed)
        self._metrics = SpanMetrics(self.runs, self.errors)
        self._resent = Retransmissions(self.runs)
        self._pieces = Pieces(RETENTION_S)
        self._reader = Reader(programs, self.runs, self.errors)
        background = background or Background()
        self._logs = Logs(self._reader, self._pieces, background)
        self.log_files = LogFiles(self._logs, self._pieces, self.runs, kernel.now)
        self.spans = SpanStore(self._reader, self._pieces, lambda: self._at)
        self._exporter = Exporter(self.runs, self._meter, self._metrics, store, kernel.now, background)
        self._nodes = NodeUses(self.runs, self._meter, store, self._exporter)
        self._routes = RouteTable(programs, frozenset())
        self._view = View()
        self._effects = Effects()
        self._edges: EdgeTable | None = None
        self._load_edges: dict[int, Edge] = {}
        self._loads: dict[int, Load] = {}
        self._wrk2 = Wrk2Runs(self, programs, self._loads, self._entry, seed)
        self._exits: list[ContainerExit] = []
        self._stale = True
        self._due = math.inf  # when the state next changes by itself: a start-up ends, a channel dials again
        store.subscribe(self._changed)

    # --- life of containers -------------------------------------------------------------------------

    def start(self, spec: ContainerSpec, now: float) -> StartResult:
        """Implements ``World.start``."""
        self.run_until(now)
        bulk = self._nodes.volumes.mount(spec)
        program = self.programs.match(spec.image)
        if program is not None and replaced(spec, program):
            if problem := not_startable(spec, program):
                return StartResult(error=problem)
            program = None
        result = start_result(spec, program)
        run = self.runs.add(spec, program, now, listens=result.exit_after_s is None)
        run.bulk.update(bulk)
        self._stale = True
        if program is not None:
            self._begin_log(run, result)
            if program.users is not None and result.exit_after_s is None:
                self._loads[run.number] = UserLoad(run, self.programs, self._seed, len(self._loads))
        elif is_wrk2(spec.image):
            self._refresh()
            self._stale = True
            return self._wrk2.begin(run, self._at)
        elif result == StartResult() and (command := one_shot(spec)):
            return self._oneshots.begin(run, command, self._at)
        return result

    def stop(self, ref: ContainerRef, now: float, grace_s: float) -> tuple[float, int]:
        """Implements ``World.stop``."""
        self.run_until(now)
        run = self.runs.find(ref)
        if run is None or not run.alive:
            return 0.0, 0
        run.stopping = True
        if run.program is None:
            return (grace_s, 137) if deaf(run.spec) else (min(GENERIC_STOP_S, grace_s), 0)
        self._write(run, run.program.stop_logs, now)
        stop = run.program.stop
        if stop.after_s is None or stop.after_s > grace_s:
            return grace_s, 137
        return stop.after_s, stop.code

    def ended(self, ref: ContainerRef, now: float) -> None:
        """Implements ``World.ended``."""
        self.run_until(now)
        run = self.runs.find(ref)
        if run is not None and run.alive:
            self._end(run, now)

    def kill(self, ref: ContainerRef, now: float, reason: str = "Error") -> None:
        """SIGKILL from outside the kubelet: a chaos experiment, the kernel's OOM killer."""
        self.run_until(now)
        run = self.runs.find(ref)
        if run is not None and run.alive:
            self._end(run, now)
            self._exits.append(ContainerExit(ref, 137, reason))

    def forget(self, pod_uid: str) -> None:
        """Implements ``World.forget``."""
        self.runs.forget(pod_uid)
        self._exporter.forget(pod_uid)
        self._nodes.volumes.forget(pod_uid)

    def exits(self, now: float) -> list[ContainerExit]:
        """Implements ``World.exits``."""
        self._out_of_memory(now)
        found, self._exits = self._exits, []
        return found + self._oneshots.poll(now)

    def refresh_files(self, ref: ContainerRef, files: dict[str, str], now: float) -> None:
        """Implements ``World.refresh_files``."""
        run = self.runs.find(ref)
        if run is not None:
            run.spec.files.update(files)
            if run.files is not None:
                run.files.update({path: text.encode() for path, text in files.items()})

    def probe(self, ref: ContainerRef, probe: dict[str, Any], now: float) -> ProbeResult:
        """Implements ``World.probe``."""
        run = self.runs.find(ref)
        if run is None or not run.alive:
            return ProbeResult(False, "container is not running")
        self._meter.usage(run).probes += 1
        if "exec" in probe:
            done = self.exec(ref, list(probe["exec"].get("command") or []), b"", now)
            return ProbeResult(done.exit_code == 0, (done.stdout + done.stderr).decode(errors="replace").strip())
        waiting = self._meter.waiting.get(run.number, FREE)
        draw = unit_int(text_key(self._seed, "probe", ref, now)) if waiting.hit > 0 else 1.0
        backlog = self._meter.usage(run).backlog_s / (run.spec.cpu_limit_cores or 1.0)
        target = probes.Target(run, self._effects.from_outside(run.pod_key), waiting, backlog * 1e3, draw)
        result = probes.answer(probe, target, now)
        if run.program is not None and run.program.probe_logs and run.listening(now):
            run.probes.append((now, probes.visitor(probe)))
        return result

    # --- reading ------------------------------------------------------------------------------------

    def usage(self, ref: ContainerRef, now: float) -> Usage | None:
        """Implements ``World.usage``."""
        self.run_until(now)
        run = self.runs.find(ref)
        if run is None or not run.alive or now < run.started + SAMPLE_S:
            return None
        usage = self._meter.usage(run)
        rss, cache = memory_bytes(run, now, usage, self._effects)
        return Usage(usage.cores, working_set(rss, cache))

    def logs(self, ref: ContainerRef, query: LogQuery) -> list[LogLine] | None:
        """Implements ``World.logs``."""
        self.run_until(self._kernel.now)
        run = self.runs.find(ref)
        if run is None:
            return None
        opened = -math.inf if query.rotated else self.log_files.opened(run, self._at)
        return self._logs.read(run, query, self._at, opened)

    def counters(self, now: float) -> CounterSnapshot:
        """All counters at ``now``."""
        self.run_until(now)
        snapshot = self._exporter.snapshot(now, self._effects, self._connections, self._resent)
        snapshot.groups = self._topics.groups(now)
        snapshot.nodes.stored_bytes = self._nodes.stored(snapshot.nodes.names)
        return snapshot

    def node_use(self, node: str, now: float) -> NodeUse | None:
        """Implements ``World.node_use``; traffic is not simulated for it unless nobody has asked for a while."""
        if now - self._at >= SAMPLE_S:
            self.run_until(now)
        self._refresh()
        return self._nodes.read(node, now, self._effects)

    def exec(self, ref: ContainerRef, argv: list[str], stdin: bytes, now: float) -> ExecResult:
        """Implements ``World.exec`` with ``world/userland``."""
        self.run_until(now)
        run = self.runs.find(ref)
        if run is None or not run.alive:
            return ExecResult(exit_code=126, error="container is not running")
        return bridge.run(self, run, argv, stdin, now)

    def listens(self, ref: ContainerRef, port: int, now: float) -> bool:
        """Implements ``World.listens``."""
        self.run_until(now)
        run = self.runs.find(ref)
        return run is not None and run.listening(now) and run.port == port

    def converse(self, ref: ContainerRef, port: int, received: bytes, now: float) -> Answer:
        """Implements ``World.converse`` with ``world/userland/bytestream``."""
        if not self.listens(ref, port, now):
            return Answer(consumed=len(received), close=True)
        run = self.runs.find(ref)
        assert run is not None
        return bytestream.answer(self, run, received)

    # --- what commands inside containers ask ----------------------------------------------------------

    def cpu_seconds(self, run: Run) -> float:
        """CPU time of a run so far."""
        return self._meter.usage(run).cpu_s

    def signal(self, run: Run, pid: int, signal: int, now: float) -> None:
        """A signal sent inside a container. Programs that handle SIGTERM end; SIGKILL from inside does
        not reach process 1, as in a real PID namespace."""
        stop = run.program.stop if run.program is not None else None
        if pid == 1 and signal in (2, 15) and stop is not None and stop.after_s is not None and run.alive:
            self._end(run, now)
            self._exits.append(ContainerExit(run.ref, stop.code, "Completed" if stop.code == 0 else "Error"))

    def pod(self, run: Run) -> Obj:
        """The pod of a container; empty when it is gone."""
        return self._store.get(Key("pods", *run.pod_key)) or {}

    def resolve(self, run: Run, host: str) -> Name:
        """What looking a name up inside a container ends with."""
        self._refresh()
        found = self._around().names.lookup(run, host)
        self._connections.lookups.note(host, found)
        return found

    def dial(self, run: Run, host: str, port: int) -> Attempt:
        """What a fresh TCP connection from a container meets now."""
        self._refresh()
        return self._connections.attempt(run, host, port, self._around())

    def ask(self, source: Run, backend: Run, method: str, path: str) -> Reply:
        """One HTTP request that a command sends to a program. It is simulated like any other and shows in all
        signals; a path that the program does not know is answered with 404."""
        self._refresh()
        program = backend.program
        assert self._edges is not None and program is not None
        if path.partition("?")[0] in program.health_paths:
            return Reply(200, 1.0, b"ok\n")
        found = match_route(program, self.programs, method, path) if program.serves == "http" else None
        if found is None and served_file(backend, path) is not None:
            found = match_route(program, self.programs, "GET", "/")
        if found is None:
            return reply(backend, None, path, (404, 1.0), self._at)
        edge = blank(1)
        edge.backend[0] = backend.number
        key = np.array([text_key(self._seed, "ask", source.ref, path, self._at)], np.uint64)
        variables = {n: np.array([v], np.int64) for n, v in found[1].items()}
        batch = Batch(
            self._routes.route(program, found[0]),
            key,
            np.zeros(1, np.int32),
            edge,
            source.number,
            ASK_TIMEOUT_MS,
            variables,
        )
        strain = Strain(self.runs, self._meter.waiting, self._meter.backlog_ms(), self._at)
        block = self._engine.simulate(batch, self._routes, self._edges, strain)
        block.start[:] = self._at
        self._pieces.add(self._at, [block])
        self._metrics.add([block], self._routes, self._at)
        outcome = RequestView(self._reader, block, 0).status, float(block.took[0, 0])
        return reply(backend, batch.route.op, path, outcome, self._at)

    def key_space(self, run: Run) -> KeySpace:
        """The keys that a data store holds: those of commands, and what the users' requests have put there."""
        mirror(run, [load for load in self._loads.values() if isinstance(load, UserLoad)])
        return run.keyspace

    # --- traffic ------------------------------------------------------------------------------------

    def run_until(self, now: float) -> None:
        """Implements ``World.run_until``."""
        while self._at < now:
            self._refresh()
            longest = PIECE_MAX_S if self._loads or self._topics.busy else math.inf
            end = min(now, self._at + longest, self._due)
            self._piece(self._at, end)
            self._at = end
            if self._loads:  # calls of this piece may have dialled in vain
                self._due = min(self._due, self._connections.next_retry(end))
                self._stale |= self._connections.overdue(end)
            self._leaked(end)
            self._generators(end)

    def _piece(self, start: float, end: float) -> None:
        blocks, spans = self._traffic(start, end)
        self._pieces.add(start, [*blocks, *spans])
        self._metrics.add([*blocks, *spans], self._routes, end)
        self._meter.record(blocks, self._routes, start, end)
        if blocks and self._edges is not None:
            self._meter.leak(blocks, self._routes, self._edges)
        if self._edges is not None:
            self._resent.record(blocks, self._routes, self._edges, self._load_edges)

    def _traffic(self, start: float, end: float) -> tuple[list[Block], list[Block]]:
        """The requests of a piece, and the spans that users have of their own."""
        if not self._loads and not self._topics.busy:
            return [], []
        assert self._edges is not None
        strain = Strain(self.runs, self._meter.strain(self._effects), self._meter.backlog_ms(), self._at)
        found: list[Block] = []
        spans: list[Block] = []
        for number, load in self._loads.items():
            plan, batches = load.plan(self._routes, self._load_edges[number], end)
            blocks = [self._engine.simulate(b, self._routes, self._edges, strain) for b in batches]
            found += load.settle(plan, blocks, end)  # type: ignore[arg-type]
            spans += load.spans if isinstance(load, UserLoad) else []
        self._topics.publish(found, self._routes, self._edges)
        return found + self._topics.consume(self._routes, self._edges, strain, (start, end)), spans

    def _refresh(self) -> None:
        """Bring view, effects and edges up to date for the time reached."""
        if not self._stale and self._due > self._at:
            return
        self._stale = False
        self._view = build_view(self._store, self.runs)
        self._effects = read_effects(self._store)
        traced = frozenset(r.program.key for r in self.runs.alive() if r.traced and r.program is not None)
        self._routes.recompile(traced, optional_addresses(self.runs))
        self._meter.strain(self._effects)
        around = self._around()
        self._edges = EdgeTable(self.runs, self._connections, self.errors, around)
        self._heed_flags(self._edges)
        self._load_edges = {n: self._load_edge(load, around) for n, load in self._loads.items()}
        self._due = min((r.listening_at for r in self.runs.alive() if r.listening_at > self._at), default=math.inf)
        if self._loads:
            self._due = min(self._due, self._connections.next_retry(self._at))
        self._due = min(self._due, self._wrk2.due)

    def _heed_flags(self, edges: EdgeTable) -> None:
        """Let flags act that no request carries: busy cores, how many users there are."""
        burning: dict[int, float] = {}
        for run in self.runs.alive():
            for burn in run.program.burns if run.program is not None else ():
                assert run.program is not None
                value = float(edges.flag(self._routes, run.program, burn.flag, {})[run.number])
                if value > 0:
                    burning[run.number] = burning.get(run.number, 0.0) + burn.cores
        self._meter.burning = burning
        for load in self._loads.values():
            if isinstance(load, UserLoad) and load.run.program is not None and load.run.program.flags:
                flags = edges.flags_of(self._routes, load.run.program, load.run.number) or Flags("")
                count = flags.value(load.spec.count_flag, {}, -1.0)
                traffic = flags.value(load.spec.traffic_flag, {}, 1.0) > 0
                load.heed(count if count >= 0 else None, traffic, self._at)
                load.evaluate(partial(flags.value, context={}))

    def _around(self) -> Surroundings:
        return Surroundings(self._view, self._effects, self._at, Names(self._view, self._effects))

    def _load_edge(self, load: Load, around: Surroundings) -> Edge:
        edge = blank(load.lanes)
        for lane in range(load.lanes):
            target = (load.run, load.address, load.entry, around)
            edge.set(lane, self._connections.resolve(*target, lane=lane, library="http"))
        return edge

    def _changed(self, change: Change) -> None:
        if matters(change):
            self.run_until(self._kernel.now)
            self._stale = True

    # --- details ------------------------------------------------------------------------------------

    def _end(self, run: Run, now: float) -> None:
        self._wrk2.ended(run, now)
        forget(run, [load for load in self._loads.values() if isinstance(load, UserLoad)])
        if interrupt(self._metrics.open_requests(), run.number, now, self.errors):
            self._metrics.rehold()
        self.runs.end(run, now)
        self._exporter.ended(run)
        self._nodes.volumes.ended(run)
        self._connections.drop(run)
        self._stale = True

    def _entry(self, run: Run, url: str) -> Program | None:
        """The program behind a URL: what its pods run now, else the one that has the host's name."""
        host, port = split_address(plain_address(url))
        attempt = self._connections.attempt(run, host, port, self._around())
        if attempt.backend is not None:
            found = attempt.backend.program
        else:
            name, namespace = split_name(host, run.ref.namespace)
            here = {r.program.scope for r in self.runs.alive() if r.program and r.ref.namespace == namespace}
            known = self.programs.named(name)
            found = next((p for p in known if p.scope in here), known[0] if known else None)
        return found if found is not None and found.serves == "http" else None

    def _begin_log(self, run: Run, result: StartResult) -> None:
        program = run.program
        assert program is not None
        missing = missing_variable(run.spec, program)
        if missing:
            run.lines += [
                (run.started + 0.05, line.replace("{name}", missing))
                for line in program.missing_env_log.split("\n")
            ]
        elif result.exit_after_s is None:
            self._write(run, program.start_logs, run.started + 0.6 * program.startup_s)

    def _write(self, run: Run, specs: list[LogSpec], at: float) -> None:
        for order, spec in enumerate(specs):
            if run.program is None or destination(run.program, spec) != STDOUT:
                continue
            when = at + order * 1.3e-4
            run.lines.append((when, render_static(run, spec, when, {})))

    def _leaked(self, now: float) -> None:
        for run in oom.outgrown(list(self.runs.alive()), lambda one: self._meter.usage(one).leaked_mib):
            self._meter.usage(run).ooms += 1
            self._end(run, now)
            self._exits.append(ContainerExit(run.ref, 137, "OOMKilled"))

    def _generators(self, now: float) -> None:
        """Load generators that go on to their next test or come to an end."""
        before = self._wrk2.due
        for run, code in self._wrk2.step(now):
            self._end(run, now)
            self._exits.append(ContainerExit(run.ref, code, ""))
        self._stale |= before <= now

    def _out_of_memory(self, now: float) -> None:
        for run in oom.squeezed_out(list(self.runs.alive()), self._effects):
            self._meter.usage(run).ooms += 1
            self.kill(run.ref, now, "OOMKilled")
