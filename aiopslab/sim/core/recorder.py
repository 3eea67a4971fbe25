"""Events of the cluster's own components, with the clients' aggregation: equal events count up, many
similar ones are combined, all expire after an hour."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiopslab.sim.core.kernel import Kernel, rfc3339_micro
from aiopslab.sim.core.store import Key

Obj = dict[str, Any]

EVENT_TTL_S = 3600.0
SIMILAR_MAX = 10  # more than this many differing messages within the interval are combined
SIMILAR_INTERVAL_S = 600.0
# Spam filter per source and object: a burst, then one token per refill interval.
BURST_EVENTS = 25
NAMES_MAX = 20_000  # remembered events; above it those that have expired are forgotten
REFILL_S = 300.0


@dataclass(slots=True)
class EventSource:
    """Which component reports, where (``host``), and for new-style events the ``action``. ``annotations`` are put on
    the event."""

    component: str
    host: str = ""
    action: str = ""
    annotations: dict[str, str] | None = None


@dataclass(slots=True)
class _Similar:
    since: float
    messages: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Recorder:
    """Writes core/v1 Events into the store."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._names: dict[tuple[str, ...], str] = {}
        self._similar: dict[tuple[str, ...], _Similar] = {}
        self._buckets: dict[tuple[str, ...], _Bucket] = {}
        self._names_max = NAMES_MAX

    def record(self, involved: Obj, what: tuple[str, str, str], source: EventSource, field_path: str) -> None:
        """``what`` is ``(type, reason, message)``."""
        type_, reason, message = what
        meta = involved["metadata"]
        base = (source.component, source.host, meta.get("uid") or meta["name"], field_path, type_, reason)
        message = self._combined(base, message)
        namespace = meta.get("namespace") or "default"
        if not self._allowed((source.component, source.host, meta.get("uid") or meta["name"])):
            return
        known = self._names.get((*base, message))
        current = self._kernel.store.get(Key("events", namespace, known)) if known else None
        if current is not None:
            self._count_up(current, source)
            return
        event = self._new(involved, (type_, reason, message), source, field_path)
        if len(self._names) >= self._names_max:
            self._forget_expired()
        self._names[(*base, message)] = event["metadata"]["name"]
        self._put(event)

    def _forget_expired(self) -> None:
        alive = {e["metadata"]["name"] for e in self._kernel.store.list("events")}
        self._names = {key: name for key, name in self._names.items() if name in alive}
        now = self._kernel.now
        self._similar = {k: s for k, s in self._similar.items() if now - s.since <= SIMILAR_INTERVAL_S}
        self._buckets = {k: b for k, b in self._buckets.items() if now - b.at < BURST_EVENTS * REFILL_S}
        # Looking through all events must stay rare when all of them are still there.
        self._names_max = max(NAMES_MAX, 2 * len(self._names))

    def _combined(self, base: tuple[str, ...], message: str) -> str:
        now = self._kernel.now
        similar = self._similar.get(base)
        if similar is None or now - similar.since > SIMILAR_INTERVAL_S:
            similar = self._similar[base] = _Similar(now)
        similar.messages.add(message)
        if len(similar.messages) > SIMILAR_MAX:
            similar.since = now
            return f"(combined from similar events): {message}"
        return message

    def _allowed(self, key: tuple[str, ...]) -> bool:
        now = self._kernel.now
        bucket = self._buckets.setdefault(key, _Bucket(BURST_EVENTS, now))
        bucket.tokens = min(BURST_EVENTS, bucket.tokens + (now - bucket.at) / REFILL_S)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _count_up(self, event: Obj, source: EventSource) -> None:
        kernel = self._kernel
        if source.action:
            count = (event.get("series") or {}).get("count", 1) + 1
            series = {"count": count, "lastObservedTime": rfc3339_micro(kernel.now)}
            self._put({**event, "series": series})
        else:
            self._put({**event, "count": event.get("count", 1) + 1, "lastTimestamp": kernel.timestamp()})

    def _new(self, involved: Obj, what: tuple[str, str, str], source: EventSource, field_path: str) -> Obj:
        kernel, meta = self._kernel, involved["metadata"]
        namespace = meta.get("namespace") or "default"
        name = self._name(namespace, meta["name"], (*what, source.component, field_path))
        now = kernel.timestamp()
        reference = {
            "kind": involved.get("kind", ""), "namespace": meta.get("namespace", ""), "name": meta["name"],
            "uid": meta.get("uid", ""), "apiVersion": involved.get("apiVersion", ""),
            "resourceVersion": meta.get("resourceVersion", ""), "fieldPath": field_path,
        }  # fmt: skip
        event: Obj = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": name, "namespace": namespace, "creationTimestamp": now,
                "uid": kernel.ids.uid("event", namespace, name),
            },
            "involvedObject": {k: v for k, v in reference.items() if v},
            "reason": what[1],
            "message": what[2],
            "type": what[0],
            "reportingComponent": source.component,
            "reportingInstance": source.host,
        }  # fmt: skip
        if source.annotations:
            event["metadata"]["annotations"] = source.annotations
        if source.action:
            event |= {
                "action": source.action, "eventTime": rfc3339_micro(kernel.now), "firstTimestamp": None,
                "lastTimestamp": None, "source": {},
                "reportingInstance": source.host or f"{source.component}-control-plane",
            }  # fmt: skip
            return event
        origin = {"component": source.component, "host": source.host}
        return event | {
            "source": {k: v for k, v in origin.items() if v}, "firstTimestamp": now, "lastTimestamp": now,
            "count": 1, "eventTime": None,
        }  # fmt: skip

    def _name(self, namespace: str, base: str, salt: tuple[str, ...]) -> str:
        """``web.17a5b3c2d1e0f987``: the time in nanoseconds, its last digits chosen by content."""
        attempt = 0
        while True:
            offset = self._kernel.ids.number(1_000_000, "event", namespace, base, *salt, attempt)
            name = f"{base}.{int(self._kernel.now * 1000) * 1_000_000 + offset:016x}"
            if self._kernel.store.get(Key("events", namespace, name)) is None:
                return name
            attempt += 1

    def _put(self, event: Obj) -> None:
        meta = event["metadata"]
        key = Key("events", meta["namespace"], meta["name"])
        self._kernel.store.put(key, event)
        expire_event(self._kernel, key)


def expire_event(kernel: Kernel, key: Key) -> None:
    """Let the event go an hour from now; each write of it starts the hour again."""
    kernel.call_after(EVENT_TTL_S, f"event-ttl/{key.namespace}/{key.name}", lambda: _drop(kernel, key))


def _drop(kernel: Kernel, key: Key) -> None:
    kernel.store.remove(key)
