"""The Kubernetes API as an aiohttp application."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from aiohttp import web

from aiopslab.sim.core.api import Api
from aiopslab.sim.core.ports import Principal, World
from aiopslab.sim.server.auth import Authenticator
from aiopslab.sim.server.call import Server
from aiopslab.sim.server.gateway import Gateway
from aiopslab.sim.server.http2 import NegotiatingSite
from aiopslab.sim.server.policy import Policy

BODY_BYTES_MAX = 3 << 20
SERVER = web.AppKey("server", Server)


def build_app(
    api: Api, world: World | None, tokens: Mapping[str, Principal], policy: Policy | None = None
) -> web.Application:
    """An application that serves ``api``. ``tokens`` are static bearer tokens and whom they stand for.

    ``app[SERVER]`` gives the shared state: ``.activity`` for the control socket, ``.closing`` to end streams.
    Run it with ``handler_cancellation=True``, so that a client that leaves ends its handler.
    """
    server = Server(api, Authenticator(api, tokens), policy or Policy(), world)
    app = web.Application(client_max_size=BODY_BYTES_MAX)
    app[SERVER] = server
    app.router.add_route("*", "/{path:.*}", Gateway(server).handle)
    app.on_response_prepare.append(_anonymous)
    app.on_shutdown.append(_close_streams)
    return app


async def _anonymous(request: web.Request, response: web.StreamResponse) -> None:
    """A Kubernetes API server does not say what it is made of."""
    response.headers.pop("Server", None)


async def _close_streams(app: web.Application) -> None:
    app[SERVER].close()


async def serve(
    app: web.Application, ssl_context: ssl.SSLContext, port: int, host: str = "127.0.0.1"
) -> tuple[web.AppRunner, int]:
    """Listen for HTTP/2 and HTTP/1.1; port 0 picks a free one.

    Returns the runner (``cleanup()`` ends it) and the port.
    """
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = NegotiatingSite(runner, host, port, ssl_context)
    await site.start()
    return runner, runner.addresses[0][1]
