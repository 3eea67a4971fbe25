"""The control socket: what the lab may ask of the embedded cluster beyond the Kubernetes API.

HTTP over a unix socket in the cluster's private folder. Agents never see it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from aiohttp import web

# One call may simulate at most a day; a typo must not spin for hours.
ADVANCE_S_MAX = 86_400.0


class Cluster(Protocol):
    """What the control handlers need of the running process."""

    mode: str

    def state(self) -> dict[str, Any]:
        """``{now, mode, seed, pid}``"""

    def advance(self, seconds: float) -> float:
        """Move virtual time; returns the new time."""

    def hold(self) -> None:
        """Store writes without acting on them."""

    def release(self) -> None:
        """Act on everything that was held."""

    def activity(self) -> dict[str, int]:
        """``{in_flight, streams, serial}`` of agent identities."""

    def audit(self, since: int) -> list[dict[str, Any]]:
        """Requests of agent identities from number ``since`` on."""


class Refused(Exception):
    """A control request that cannot be carried out; the text goes to the caller."""


def control_app(cluster: Cluster, stop: asyncio.Event) -> web.Application:
    """The aiohttp application of the control socket."""

    async def state(request: web.Request) -> dict[str, Any]:
        return cluster.state()

    async def advance(request: web.Request) -> dict[str, Any]:
        seconds = (await request.json()).get("seconds")
        if cluster.mode != "stepped":
            raise Refused("the clock of this cluster is the wall clock; it cannot be advanced")
        if not isinstance(seconds, int | float) or not 0 <= seconds <= ADVANCE_S_MAX:
            raise Refused(f"seconds must be a number between 0 and {ADVANCE_S_MAX:.0f}, got {seconds!r}")
        return {"now": cluster.advance(float(seconds))}

    async def hold(request: web.Request) -> dict[str, Any]:
        cluster.hold()
        return {}

    async def release(request: web.Request) -> dict[str, Any]:
        cluster.release()
        return {}

    async def activity(request: web.Request) -> dict[str, int]:
        return cluster.activity()

    async def audit(request: web.Request) -> list[dict[str, Any]]:
        return cluster.audit(int(request.query.get("since", "0")))

    async def shutdown(request: web.Request) -> dict[str, Any]:
        stop.set()
        return {}

    app = web.Application()
    for method, path, handler in (
        ("GET", "/state", state),
        ("POST", "/advance", advance),
        ("POST", "/hold", hold),
        ("POST", "/release", release),
        ("GET", "/activity", activity),
        ("GET", "/audit", audit),
        ("POST", "/shutdown", shutdown),
    ):
        app.router.add_route(method, path, _json(handler))
    return app


def _json(handler: Callable[[web.Request], Awaitable[Any]]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        try:
            return web.json_response(await handler(request))
        except (Refused, ValueError) as error:
            return web.json_response({"error": str(error)}, status=400)

    return answer
