"""Handlers of scale, eviction, binding, token, finalize, ephemeral containers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from aiopslab.sim.core import subresources
from aiopslab.sim.core.apierrors import bad_request, no_such_path, not_found
from aiopslab.sim.core.patching import patched
from aiopslab.sim.server import bodies, objects, params
from aiopslab.sim.server.call import Call

Obj = dict[str, Any]


async def missing(call: Call) -> web.Response:
    """A subresource that the kind does not have."""
    if call.served.crd is not None:
        raise not_found(call.served, call.info.name)
    raise no_such_path()


async def scale(call: Call) -> web.Response:
    """GET, PUT and PATCH of ``scale``."""
    kind, info, api = call.served, call.info, call.api
    obj = api.get(kind.resource, call.namespace, info.name)
    if info.verb == "get":
        return call.respond(subresources.scale_of(kind, obj))
    if info.verb == "update":
        options = call.write_options("update")
        body = (await call.read("Scale")).obj
        return call.respond(subresources.update_scale(api, kind, obj, body, options))
    content_type = call.request.headers.get("Content-Type", "")
    patch_type, patch, _ = bodies.read_patch(await call.request.read(), content_type, subresources.SCALE)
    options = call.write_options("patch", patch_type)
    return call.respond(subresources.patch_scale(api, kind, obj, (patch_type, patch), options))


async def eviction(call: Call) -> web.Response:
    """POST of an Eviction."""
    body = (await call.read("Eviction")).obj
    own = (body.get("metadata") or {}).get("name", "")
    if own and own != call.info.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = params.delete_options(call.query, body.get("deleteOptions") or {}, call.user)
    subresources.evict(call.api, call.namespace, call.info.name, options)
    return _success(call)


async def binding(call: Call) -> web.Response:
    """POST of a Binding."""
    body = (await call.read("Binding")).obj
    options = call.write_options("create")
    subresources.bind(call.api, call.namespace, call.info.name, body, options)
    return _success(call)


async def token(call: Call) -> web.Response:
    """POST of a TokenRequest."""
    body = (await call.read("TokenRequest")).obj
    answer = subresources.request_token(call.api, call.namespace, call.info.name, body)
    return call.respond(answer, 201)


async def ephemeral_containers(call: Call) -> web.Response:
    """GET, PUT and PATCH of ``ephemeralcontainers``: the whole pod, of which only those may change."""
    api, kind = call.api, call.served
    if call.info.verb == "get":
        return await objects.get(call)
    pod = api.get("pods", call.namespace, call.info.name)
    if call.info.verb == "update":
        options = call.write_options("update")
        new = (await call.read("Pod")).obj
    else:
        content_type = call.request.headers.get("Content-Type", "")
        patch_type, patch, _ = bodies.read_patch(await call.request.read(), content_type, kind)
        options = call.write_options("patch", patch_type)
        new = patched(kind, pod, "merge" if patch_type == "apply" else patch_type, patch)
    name = call.info.name
    return call.respond(api.update("pods", call.namespace, name, new, options, "ephemeralcontainers"))


async def finalize(call: Call) -> web.Response:
    """PUT of ``finalize``: a namespace's ``spec.finalizers``."""
    return await objects.update(call)


def _success(call: Call) -> web.Response:
    return call.respond(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
    )


HANDLERS: dict[str, Callable[[Call], Awaitable[web.StreamResponse]]] = {
    "scale": scale,
    "eviction": eviction,
    "binding": binding,
    "token": token,
    "ephemeralcontainers": ephemeral_containers,
    "finalize": finalize,
}
