"""From a raw HTTP request to an answer: who asks, may they, which handler, and the errors of all of it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from aiopslab.sim.core import apiservices
from aiopslab.sim.core.apierrors import ApiError, bad_request, internal, method_not_allowed, status_error
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.rbac import Action, forbidden_error
from aiopslab.sim.server import metricsapi, objects, paths, podstreams, reviews, subhandlers, watch
from aiopslab.sim.server.auth import ANONYMOUS
from aiopslab.sim.server.bodies import TOO_DEEP
from aiopslab.sim.server.call import Call, Server, page_not_found, text
from aiopslab.sim.server.requestinfo import RequestInfo, parse, truthy

Obj = dict[str, Any]
Handler = Callable[[Call], Awaitable[web.StreamResponse]]

log = logging.getLogger(__name__)

_VERBS: dict[str, Handler] = {
    "get": objects.get,
    "list": objects.list_,
    "watch": watch.watch,
    "create": objects.create,
    "update": objects.update,
    "patch": objects.patch,
    "delete": objects.delete,
    "deletecollection": objects.delete_collection,
}
_DEPRECATED = {
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
}
_READS = ("get", "list", "watch", "head")
UNAUTHENTICATED_PATHS = ("/healthz", "/livez", "/readyz", "/version")


class Gateway:
    """The one handler of the Kubernetes API."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request; every refusal becomes a Status."""
        info = parse(request.method, request.path, request.query)
        call = Call(self.server, request, info, ANONYMOUS)
        response: web.StreamResponse | None = None
        agent = False
        try:
            call.negotiate()
            actor = self.server.authenticator.user(request.headers)
            call.user = actor
            agent = self._enter(call)
            call.user = self.server.authenticator.impersonated(actor, request.headers)
            response = await self._answer(call)
        except ApiError as error:
            response = call.error(error)
        except web.HTTPRequestEntityTooLarge:
            limit = f"limit is {request.client_max_size}"
            response = call.error(status_error("RequestEntityTooLarge", f"Request entity too large: {limit}"))
        except (ConnectionError, web.HTTPException):
            raise
        except RecursionError:
            response = call.error(bad_request(f"the object provided is unrecognized: {TOO_DEEP}"))
        except Exception as error:
            log.exception("%s %s failed", request.method, request.path_qs)
            response = call.error(internal(f"{type(error).__name__}: {error}"))
        finally:
            if agent:
                self._leave(call, response)
        return response

    async def _answer(self, call: Call) -> web.StreamResponse:
        info = call.info
        if not info.is_resource:
            self._authorize(call, Action(info.verb, path=info.path))
            return await paths.answer(call)
        # A hidden group is treated as an unknown one: the rights come first, then the resource is not there.
        if not self.server.policy.hides(call.user, info.group):
            call.kind = call.api.kinds.find(info.group, info.version, info.resource)
        self._authorize(call, _action(info), call.kind)
        state = apiservices.state(call.api.store, info.group, info.version)
        if state == "down":
            return text("service unavailable\n", 503)
        if call.kind is None or not state:
            return page_not_found()
        if warning := _DEPRECATED.get(call.kind.resource):
            call.warnings.append(warning)
        handler = _handler(call.kind, info)
        response = await handler(call)
        if info.verb not in _READS and not truthy(call.query.get("dryRun")):
            call.api.kernel.settle()
        return response

    def _authorize(self, call: Call, action: Action, kind: Kind | None = None) -> None:
        if not call.api.admission.rbac.allows(call.user, action):
            raise forbidden_error(call.user, action, kind)

    def _enter(self, call: Call) -> bool:
        """Count a request of an agent; returns whether it is one."""
        if not self.server.policy.is_agent(call.user):
            return False
        activity = self.server.activity
        activity.serial += 1
        activity.in_flight += 1
        if is_stream(call.info, call.query):
            activity.streams += 1
        return True

    def _leave(self, call: Call, response: web.StreamResponse | None) -> None:
        activity = self.server.activity
        activity.in_flight -= 1
        if is_stream(call.info, call.query):
            activity.streams -= 1
        entry = {
            "n": len(activity.audit) + 1,
            "at": call.api.kernel.now,
            "user": call.user.username,
            "verb": call.info.verb,
            "path": call.request.path_qs,
            "code": response.status if response is not None else 499,
            "user_agent": call.request.headers.get("User-Agent", ""),
        }
        if shift_s := call.shift_s():
            entry["shift_s"] = shift_s  # the shell needs it to move the times in the output back
        activity.audit.append(entry)


def is_stream(info: RequestInfo, query: Any) -> bool:
    """Whether the answer stays open while the cluster runs on."""
    if info.verb == "watch" or info.subresource in ("exec", "attach", "portforward"):
        return True
    return info.subresource == "log" and truthy(query.get("follow"))


def _action(info: RequestInfo) -> Action:
    return Action(info.verb, info.group, info.resource, info.subresource, info.namespace, info.name)


def _handler(kind: Kind, info: RequestInfo) -> Handler:
    """The handler of a resource request. Raises 405 and lets unknown subresources be 404."""
    if kind.group == "metrics.k8s.io":
        return metricsapi.answer
    if kind.virtual:
        return reviews.handler(kind, info)
    if info.subresource:
        return _subresource_handler(kind, info)
    nameless = info.verb in ("update", "patch") and not info.name
    if info.verb not in kind.verbs or info.verb not in _VERBS or nameless:
        raise method_not_allowed(kind)
    return _VERBS[info.verb]


def _subresource_handler(kind: Kind, info: RequestInfo) -> Handler:
    found = kind.subresource(info.subresource)
    if found is None:
        return subhandlers.missing
    if info.verb not in found.verbs:
        raise method_not_allowed(kind)
    special = {**subhandlers.HANDLERS, **podstreams.HANDLERS}.get(info.subresource)
    return special or _VERBS[info.verb]
