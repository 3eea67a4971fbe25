"""One request on its way through the server, and how answers are written."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from aiopslab.sim.core.api import Api
from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.options import WriteOptions
from aiopslab.sim.core.ports import Principal, World
from aiopslab.sim.server import bodies, negotiate, params
from aiopslab.sim.server.auth import Authenticator
from aiopslab.sim.server.policy import Activity, Policy, shift_times
from aiopslab.sim.server.requestinfo import RequestInfo, truthy

Obj = dict[str, Any]


@dataclass(slots=True)
class Server:
    """What all requests share. ``world`` None: no container runtime (logs and exec are refused). ``waiting`` are the
    events that open watches wait for."""

    api: Api
    authenticator: Authenticator
    policy: Policy
    world: World | None = None
    activity: Activity = field(default_factory=Activity)
    closing: bool = False
    waiting: set[asyncio.Event] = field(default_factory=set)

    def close(self) -> None:
        """End all streams."""
        self.closing = True
        for event in self.waiting:
            event.set()


@dataclass(slots=True)
class Call:
    """A request with what was found out about it. ``user`` is who counts (after impersonation)."""

    server: Server
    request: web.Request
    info: RequestInfo
    user: Principal
    kind: Kind | None = None
    warnings: list[str] = field(default_factory=list)
    shape: negotiate.Representation = field(default_factory=negotiate.Representation)

    @property
    def api(self) -> Api:
        """The cluster's API."""
        return self.server.api

    @property
    def query(self) -> Mapping[str, str]:
        """Query parameters."""
        return self.request.query

    @property
    def served(self) -> Kind:
        """The kind that the path names; resource handlers run only when there is one."""
        assert self.kind is not None
        return self.kind

    @property
    def namespace(self) -> str:
        """The store's namespace of the addressed object: empty for cluster-scoped kinds."""
        return self.info.namespace if self.served.namespaced else ""

    def negotiate(self) -> None:
        """Settle the form of the answer. Raises 406 for resources; plain paths always have JSON."""
        pretty = truthy(self.query.get("pretty"))
        try:
            self.shape = negotiate.negotiate(self.request.headers.get("Accept", ""), pretty)
        except ApiError:
            if self.info.is_resource:
                raise

    def write_options(self, verb: str, patch_type: str = "") -> WriteOptions:
        """Options of this write; its warnings end up in the answer's headers."""
        agent = self.request.headers.get("User-Agent", "")
        options = params.write_options(self.query, self.user, agent, verb, patch_type=patch_type)
        options.warnings = self.warnings
        options.served = self.kind
        return options

    async def read(self, kind_name: str) -> bodies.Body:
        """The object in the body."""
        return bodies.read_object(
            await self.request.read(), self.request.headers.get("Content-Type", ""), kind_name
        )

    def headers(self, content_type: str) -> dict[str, str]:
        """Headers that every answer has."""
        return {"Content-Type": content_type, "Cache-Control": "no-cache, private"}

    def shift_s(self) -> float:
        """See ``Policy.shift_s``."""
        headers = self.request.headers
        command, session = headers.get("Kubectl-Command", ""), headers.get("Kubectl-Session", "")
        return self.server.policy.shift_s(self.user, command, self.api.kernel.now, session)

    def finish(self, body: bytes, code: int, content_type: str) -> web.Response:
        """An answer with warnings and, where asked for, shifted times."""
        shift_s = self.shift_s()
        if shift_s:
            body = shift_times(body, shift_s)
        response = web.Response(body=body, status=code, headers=self.headers(content_type))
        for warning in dict.fromkeys(self.warnings):
            response.headers.add("Warning", f"299 - {orjson.dumps(warning).decode()}")
        return response

    def respond(self, body: Any, code: int = 200) -> web.Response:
        """An object or Status in the negotiated form."""
        return self.finish(negotiate.encode(body, self.shape), code, self.shape.content_type)

    def error(self, error: ApiError) -> web.Response:
        """A Status in the negotiated form."""
        shape = negotiate.Representation(self.shape.media, pretty=self.shape.pretty)
        response = self.finish(negotiate.encode(error.status, shape), error.code, shape.content_type)
        retry = (error.status.get("details") or {}).get("retryAfterSeconds")
        if retry:
            response.headers["Retry-After"] = str(retry)
        return response


def text(body: str, code: int = 200) -> web.Response:
    """A plain-text answer."""
    return web.Response(body=body.encode(), status=code, headers={"Content-Type": "text/plain; charset=utf-8"})


def page_not_found() -> web.Response:
    """What the server's router says of paths that nothing serves."""
    return text("404 page not found\n", 404)
