"""Watches: initial state or replay, then changes as they happen, bookmarks, errors in the stream."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any

import orjson
from aiohttp import web

from aiopslab.sim.core.apierrors import expired
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.store import Change, Expired
from aiopslab.sim.server import params
from aiopslab.sim.server.call import Call
from aiopslab.sim.server.policy import shift_times
from aiopslab.sim.server.render import Renderer

Obj = dict[str, Any]

DEFAULT_TIMEOUT_S = 2400
BOOKMARK_INTERVAL_S = 60
BACKLOG_CHANGES_MAX = 50_000  # a reader this far behind is cut off, as a real server does


class Watcher:
    """The changes of one resource that one client wants to see, as ``(type, object)`` pairs."""

    def __init__(self, kind: Kind, namespace: str | None, options: params.ListOptions) -> None:
        self._kind = kind
        self._namespace = namespace
        self._options = options
        self._pending: deque[Change] = deque()
        self.woken = asyncio.Event()
        self.overrun = False

    def notice(self, change: Change) -> None:
        """Store listener."""
        if self.concerns(change):
            if len(self._pending) >= BACKLOG_CHANGES_MAX:
                self.overrun = True
            else:
                self._pending.append(change)
            self.woken.set()

    def concerns(self, change: Change) -> bool:
        """Whether a change is of the watched resource and namespace."""
        key = change.key
        return key.resource == self._kind.resource and self._namespace in (None, key.namespace)

    def take(self) -> list[tuple[str, Obj]]:
        """Events since the last call."""
        found = []
        while self._pending:
            event = self.event(self._pending.popleft())
            if event is not None:
                found.append(event)
        self.woken.clear()
        return found

    def event(self, change: Change) -> tuple[str, Obj] | None:
        """A change as this client sees it: entering or leaving the selection is ADDED or DELETED."""
        now = change.type != "DELETED" and self._selects(change.obj)
        before = change.old is not None and self._selects(change.old)
        if now:
            return ("MODIFIED" if before else "ADDED"), change.obj
        if not before:
            return None
        if change.type == "DELETED":
            return "DELETED", change.obj
        assert change.old is not None
        version = change.obj["metadata"]["resourceVersion"]
        return "DELETED", {**change.old, "metadata": {**change.old["metadata"], "resourceVersion": version}}

    def _selects(self, obj: Obj) -> bool:
        labels = obj["metadata"].get("labels")
        return self._options.labels.matches(labels) and self._options.fields.matches(obj)


async def watch(call: Call) -> web.StreamResponse:
    """GET with ``watch=true``. Everything is given back when the client leaves."""
    kind = call.served
    options = params.list_options(call.query, kind, watch=True)
    namespace = call.info.namespace if kind.namespaced and call.info.namespace else None
    watcher = Watcher(kind, namespace, options)
    # The initial events and the subscription belong together: nothing may change in between.
    first = _first_events(call, watcher, options, namespace)
    unsubscribe = call.api.store.subscribe(watcher.notice)
    stream = _Stream(call, Renderer(kind, call.shape, call.api.kernel.now, call.query.get("includeObject", "")))
    call.server.waiting.add(watcher.woken)
    try:
        await stream.start()
        await stream.send(first)
        if options.initial_events:
            await stream.bookmark(initial_end=True)
        await _follow(call, watcher, options, stream)
    except ConnectionError:
        pass  # the client left
    finally:
        call.server.waiting.discard(watcher.woken)
        unsubscribe()
    return stream.response


def _first_events(
    call: Call, watcher: Watcher, options: params.ListOptions, namespace: str | None
) -> list[tuple[str, Obj]]:
    store = call.api.store
    version = options.version
    if version and version != "0" and not options.initial_events:
        if int(version) > store.revision:
            params.check_version(version, "", store.revision)
        try:
            changes = list(store.since(int(version)))
        except Expired as error:
            return [("ERROR", expired(str(error)).status)]
        events = [watcher.event(c) for c in changes if watcher.concerns(c)]
        return [e for e in events if e is not None]
    objs = call.api.list(call.served.resource, namespace, labels=options.labels, fields=options.fields)
    return [("ADDED", o) for o in objs]


async def _follow(call: Call, watcher: Watcher, options: params.ListOptions, stream: _Stream) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + (options.timeout_s if options.timeout_s else DEFAULT_TIMEOUT_S)
    next_bookmark = loop.time() + BOOKMARK_INTERVAL_S
    while not stream.failed:
        await stream.send(watcher.take())
        now = loop.time()
        if now >= end or call.server.closing or watcher.overrun:
            return
        if options.bookmarks and now >= next_bookmark:
            await stream.bookmark(initial_end=False)
            next_bookmark = now + BOOKMARK_INTERVAL_S
        wait_s = min(end, next_bookmark if options.bookmarks else end) - now
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(watcher.woken.wait(), max(wait_s, 0.001))


class _Stream:
    """Writes events as JSON lines."""

    def __init__(self, call: Call, renderer: Renderer) -> None:
        self._call = call
        self._renderer = renderer
        self.failed = False
        headers = call.headers("application/json")
        self.response = web.StreamResponse(headers=headers)

    async def start(self) -> None:
        for warning in dict.fromkeys(self._call.warnings):
            self.response.headers.add("Warning", f"299 - {orjson.dumps(warning).decode()}")
        self.response.enable_chunked_encoding()
        await self.response.prepare(self._call.request)

    async def send(self, events: list[tuple[str, Obj]]) -> None:
        if not events:
            return
        self._renderer.set_now(self._call.api.kernel.now)
        lines = []
        for type_, obj in events:
            self.failed = self.failed or type_ == "ERROR"
            shown = obj if type_ == "ERROR" else self._renderer.event(obj)
            lines.append(orjson.dumps({"type": type_, "object": shown}, option=orjson.OPT_APPEND_NEWLINE))
        await self._write(b"".join(lines))

    async def bookmark(self, initial_end: bool) -> None:
        obj = self._renderer.bookmark(self._call.api.store.revision, initial_end)
        await self._write(orjson.dumps({"type": "BOOKMARK", "object": obj}, option=orjson.OPT_APPEND_NEWLINE))

    async def _write(self, body: bytes) -> None:
        shift_s = self._call.shift_s()
        await self.response.write(shift_times(body, shift_s) if shift_s else body)
