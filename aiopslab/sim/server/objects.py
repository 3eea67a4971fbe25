"""The verbs on objects and collections."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from aiopslab.sim.core import decoding
from aiopslab.sim.core.apierrors import ApiError, bad_request, method_not_allowed
from aiopslab.sim.core.conversion import inward
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.options import WriteOptions
from aiopslab.sim.core.store import Key
from aiopslab.sim.server import bodies, params
from aiopslab.sim.server.call import Call
from aiopslab.sim.server.render import Renderer

Obj = dict[str, Any]

# Kinds whose DELETE answers with the object even when it is gone.
_RETURNED = {
    "pods", "services", "persistentvolumeclaims", "persistentvolumes", "podtemplates", "resourcequotas",
    "serviceaccounts",
}  # fmt: skip


async def get(call: Call) -> web.Response:
    """GET of one object."""
    obj = call.api.get(call.served.resource, call.namespace, call.info.name)
    return call.respond(_renderer(call).one(obj))


async def list_(call: Call) -> web.Response:
    """GET of a collection, whole or page by page."""
    kind, api = call.served, call.api
    options = params.list_options(call.query, kind, watch=False)
    revision = api.store.revision
    params.check_version(options.version, options.match, revision)
    namespace = call.info.namespace if kind.namespaced and call.info.namespace else None
    objs = api.list(kind.resource, namespace, labels=options.labels, fields=options.fields)
    if options.start is not None:
        start = options.start
        objs = [o for o in objs if (o["metadata"].get("namespace", ""), o["metadata"]["name"]) > start]
    meta: Obj = {"resourceVersion": str(revision)}
    if options.limit and len(objs) > options.limit:
        rest = len(objs) - options.limit
        objs = objs[: options.limit]
        meta["continue"] = params.write_continue(revision, objs[-1])
        if not options.labels and not options.fields:
            meta["remainingItemCount"] = rest
    return call.respond(_renderer(call).many(objs, meta))


async def create(call: Call) -> web.Response:
    """POST to a collection."""
    kind = call.served
    if call.info.name:
        raise method_not_allowed(kind)
    options = call.write_options("create")
    obj = await _read(call, kind, options)
    created = call.api.create(kind.resource, call.namespace, inward(obj, kind), options)
    return call.respond(_renderer(call).one(created), 201)


async def update(call: Call) -> web.Response:
    """PUT of an object or of one of its parts."""
    kind, info = call.served, call.info
    options = call.write_options("update")
    obj = inward(await _read(call, kind, options), kind)
    existed = call.api.store.get(Key(kind.resource, call.namespace, info.name)) is not None
    updated = call.api.update(kind.resource, call.namespace, info.name, obj, options, info.subresource)
    return call.respond(_renderer(call).one(updated), 200 if existed else 201)


async def patch(call: Call) -> web.Response:
    """PATCH of an object or of one of its parts."""
    kind, info = call.served, call.info
    content_type = call.request.headers.get("Content-Type", "")
    raw = call.server.policy.incoming(call.user, await call.request.read(), call.api.kernel.now)
    patch_type, body, repeated = bodies.read_patch(raw, content_type, kind)
    options = call.write_options("patch", patch_type)
    options.repeated = repeated
    existed = call.api.store.get(Key(kind.resource, call.namespace, info.name)) is not None
    patched = call.api.patch(kind.resource, call.namespace, info.name, patch_type, body, options, info.subresource)
    return call.respond(_renderer(call).one(patched), 200 if existed else 201)


async def delete(call: Call) -> web.Response:
    """DELETE of one object."""
    kind = call.served
    raw = await call.request.read()
    body = bodies.read_options(raw, call.request.headers.get("Content-Type", ""))
    options = params.delete_options(call.query, body, call.user)
    obj, gone = call.api.delete(kind.resource, call.namespace, call.info.name, options)
    if not gone or kind.resource in _RETURNED:
        return call.respond(_renderer(call).one(obj))
    details = {
        "name": obj["metadata"]["name"],
        "group": kind.group,
        "kind": kind.plural,
        "uid": obj["metadata"].get("uid"),
    }
    status = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {k: v for k, v in details.items() if v},
    }  # fmt: skip
    return call.respond(status)


async def delete_collection(call: Call) -> web.Response:
    """DELETE of everything that the selectors choose; answers with the list."""
    kind, api = call.served, call.api
    raw = await call.request.read()
    body = bodies.read_options(raw, call.request.headers.get("Content-Type", ""))
    options = params.delete_options(call.query, body, call.user)
    chosen = params.list_options(call.query, kind, watch=False)
    namespace = call.info.namespace if kind.namespaced and call.info.namespace else None
    objs = api.list(kind.resource, namespace, labels=chosen.labels, fields=chosen.fields)
    for obj in objs:
        meta = obj["metadata"]
        try:
            api.delete(kind.resource, meta.get("namespace", ""), meta["name"], options)
        except ApiError as error:
            if error.code != 404:
                raise
    meta = {"resourceVersion": str(api.store.revision)}
    return call.respond(_renderer(call).many(objs, meta))


async def _read(call: Call, kind: Kind, options: WriteOptions) -> Obj:
    body = await call.read(kind.kind)
    obj, options.repeated = body.obj, body.repeated
    check_type(obj, kind)
    return decoding.check_body(kind, obj, options, call.api.custom)


def check_type(obj: Obj, kind: Kind) -> None:
    """Fill in missing apiVersion and kind; refuse those of another kind."""
    version = obj.setdefault("apiVersion", kind.api_version) or kind.api_version
    name = obj.setdefault("kind", kind.kind) or kind.kind
    obj["apiVersion"], obj["kind"] = version, name
    if (version, name) == (kind.api_version, kind.kind):
        return
    group, _, short = version.rpartition("/")
    if name != kind.kind and kind.crd is None and group == kind.group:
        internal = f"{kind.group.split('.')[0] or 'core'}.{kind.kind}"
        raise bad_request(
            f'{name} in version "{short}" cannot be handled as a {kind.kind}: converting ({short}.{name}) to '
            f"({internal}): unknown conversion"
        )
    if name == kind.kind:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        )
    why = f'no kind "{name}" is registered for version "{version}"'
    raise bad_request(f'{name} in version "{short}" cannot be handled as a {kind.kind}: {why}')


def _renderer(call: Call) -> Renderer:
    return Renderer(call.served, call.shape, call.api.kernel.now, call.query.get("includeObject", ""))
