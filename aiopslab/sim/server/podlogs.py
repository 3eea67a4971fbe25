"""``pods/log``: which container run is meant, its lines, and following them as the cluster goes on."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from aiopslab.sim.core.apierrors import Cause, bad_request, internal, invalid
from aiopslab.sim.core.kernel import parse_time
from aiopslab.sim.core.ports import ContainerRef, LogLine, LogQuery, World
from aiopslab.sim.core.store import Key
from aiopslab.sim.server import params
from aiopslab.sim.server.call import Call
from aiopslab.sim.server.requestinfo import truthy

Obj = dict[str, Any]

POLL_S = 0.02  # wall time between looks at the log while following
CONTAINER_FIELDS = ("containers", "initContainers", "ephemeralContainers")
STATUS_FIELDS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


@dataclass(slots=True)
class LogOptions:
    """PodLogOptions. ``since`` is Unix seconds."""

    container: str
    follow: bool
    previous: bool
    timestamps: bool
    tail: int | None
    since: float | None
    limit_bytes: int | None


def running_refs(pod: Obj) -> tuple[ContainerRef, ...]:
    """The containers of a pod that run now."""
    meta, status = pod["metadata"], pod.get("status") or {}
    running = [s for f in STATUS_FIELDS for s in status.get(f) or [] if "running" in (s.get("state") or {})]
    return tuple(
        ContainerRef(meta["namespace"], meta["name"], meta["uid"], s["name"], s.get("restartCount", 0))
        for s in running
    )


def log_options(call: Call) -> LogOptions:
    """Parsed and checked. Raises 400 or 422."""
    query, now = call.query, call.api.kernel.now
    tail = params.integer(query.get("tailLines", ""))
    limit = params.integer(query.get("limitBytes", ""))
    seconds = params.integer(query.get("sinceSeconds", ""))
    since_time = query.get("sinceTime", "")
    causes = []
    if tail is not None and tail < 0:
        causes.append(_at_least("tailLines", tail, 0))
    if limit is not None and limit < 1:
        causes.append(_at_least("limitBytes", limit, 1))
    if seconds is not None and since_time:
        why = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
        causes.append(Cause("FieldValueForbidden", why, "sinceSeconds"))
    elif seconds is not None and seconds < 1:
        causes.append(_at_least("sinceSeconds", seconds, 1))
    if causes:
        raise invalid(("PodLogOptions", ""), call.info.name, causes)
    since = now - seconds if seconds is not None else _time(since_time)
    return LogOptions(
        query.get("container", ""), truthy(query.get("follow")), truthy(query.get("previous")),
        truthy(query.get("timestamps")), tail, since, limit,
    )  # fmt: skip


def _at_least(field: str, value: int, least: int) -> Cause:
    bound = "greater than or equal to 0" if least == 0 else "greater than 0"
    return Cause("FieldValueInvalid", f"Invalid value: {value}: must be {bound}", field)


def _time(text: str) -> float | None:
    if not text:
        return None
    try:
        return parse_time(text)
    except ValueError:
        raise bad_request(
            f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'
        ) from None


def container_name(pod: Obj, wanted: str) -> str:
    """The container that a request means: the given one, or the only one. Raises 400."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    names = [[c["name"] for c in spec.get(f) or []] for f in CONTAINER_FIELDS]
    if wanted:
        if not any(wanted in group for group in names):
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    main, init, ephemeral = names
    if len(main) == 1 and not init and not ephemeral:
        return str(main[0])
    text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]"
    if init:
        text += f" or one of the init containers: [{' '.join(init)}]"
    if ephemeral:
        text += f" or one of the ephemeral containers: [{' '.join(ephemeral)}]"
    raise bad_request(text)


def container_status(pod: Obj, container: str) -> Obj | None:
    """The status entry of a container, of whatever sort."""
    status = pod.get("status") or {}
    entries = (s for f in STATUS_FIELDS for s in status.get(f) or [])
    return next((s for s in entries if s["name"] == container), None)


def run_of(pod: Obj, container: str, previous: bool) -> ContainerRef:
    """The container run whose log is meant. Raises 400 when there is none."""
    meta = pod["metadata"]
    name, status = meta["name"], container_status(pod, container)
    state = (status or {}).get("state") or {}
    last = ((status or {}).get("lastState") or {}).get("terminated")
    attempt = (status or {}).get("restartCount", 0)
    if previous:
        if not last:
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        attempt -= 0 if "waiting" in state else 1
    elif not last and ("waiting" in state or not state):
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {_waiting(state)}')
    return ContainerRef(meta["namespace"], name, meta["uid"], container, max(attempt, 0))


def _waiting(state: Obj) -> str:
    reason = (state.get("waiting") or {}).get("reason", "ContainerCreating")
    texts = {"ImagePullBackOff": "trying and failing to pull image", "ErrImagePull": "image can't be pulled"}
    return texts.get(reason, reason)


async def log(call: Call) -> web.StreamResponse:
    """GET of ``log``."""
    pod = call.api.get("pods", call.namespace, call.info.name)
    options = log_options(call)
    container = container_name(pod, options.container)
    if not pod["spec"].get("nodeName"):
        return web.Response(status=204)
    ref = run_of(pod, container, options.previous)
    world = call.server.world
    if world is None:
        raise internal("no container runtime")
    if options.follow:
        return await _follow(call, world, ref, options)
    now = call.api.kernel.now
    world.run_until(now)
    lines = world.logs(ref, LogQuery(options.since, now, options.tail))
    if lines is None:
        lost = (container_status(pod, container) or {}).get("containerID") or ref.container
        raise bad_request(f"unable to retrieve container logs for {lost}")
    body = render(lines, options.timestamps)
    if options.limit_bytes is not None:
        body = body[: options.limit_bytes]
    return web.Response(body=body, headers=call.headers("text/plain"))


def render(lines: list[LogLine], timestamps: bool) -> bytes:
    """Log lines as text, with RFC 3339 times of nine decimals when asked for."""
    if not timestamps:
        return "".join(f"{line.text}\n" for line in lines).encode()
    return "".join(f"{nanos(line.at)} {line.text}\n" for line in lines).encode()


def nanos(at: float) -> str:
    """Unix seconds as ``2025-06-02T09:00:00.123456789Z``."""
    whole = int(at)
    fraction = min(round((at - whole) * 1e9), 999_999_999)
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{fraction:09d}Z"


class Follower:
    """Hands out the lines of one container run once each, as they appear."""

    def __init__(self, call: Call, world: World, ref: ContainerRef, options: LogOptions) -> None:
        self._call, self._world, self._ref = call, world, ref
        self._tail = options.tail
        self._since = options.since
        self._given_at_since = 0
        self._looked_at = -1.0
        self._started = False  # from then on, what is in a file that was rotated away in between comes too

    def new_lines(self) -> list[LogLine]:
        """Lines since the last call. Nothing is looked up while the clock stands still."""
        now = self._call.api.kernel.now
        if now == self._looked_at:
            return []
        self._looked_at = now
        self._world.run_until(now)
        lines = self._world.logs(self._ref, LogQuery(self._since, now, self._tail, self._started)) or []
        first, self._tail, self._started = not self._started, None, True
        lines = lines[self._given_at_since :]
        if not lines:  # what was not wanted at first is not wanted later
            self._since = max(self._since or 0.0, math.nextafter(now, math.inf)) if first else self._since
        else:
            last = lines[-1].at
            same = sum(1 for line in lines if line.at == last)
            self._given_at_since = same + (self._given_at_since if last == self._since else 0)
            self._since = last
        return lines

    def ended(self) -> bool:
        """Whether this run of the container can write no more."""
        ref = self._ref
        pod = self._call.api.store.get(Key("pods", ref.namespace, ref.pod))
        if pod is None or pod["metadata"]["uid"] != ref.pod_uid:
            return True
        status = container_status(pod, ref.container) or {}
        return status.get("restartCount", 0) != ref.attempt or "running" not in (status.get("state") or {})


async def _follow(call: Call, world: World, ref: ContainerRef, options: LogOptions) -> web.StreamResponse:
    response = web.StreamResponse(headers=call.headers("text/plain"))
    response.enable_chunked_encoding()
    await response.prepare(call.request)
    follower = Follower(call, world, ref, options)
    left = options.limit_bytes
    try:
        while not call.server.closing:
            ended = follower.ended()
            body = render(follower.new_lines(), options.timestamps)
            if left is not None:
                body = body[:left]
                left -= len(body)
            if body:
                await response.write(body)
            if ended or left == 0:
                break
            await asyncio.sleep(POLL_S)
    except ConnectionError:
        pass  # the client left
    return response
