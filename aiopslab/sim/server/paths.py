"""Paths that are no resources: discovery, OpenAPI, version, health, metrics."""

from __future__ import annotations

import hashlib
from typing import Any

from aiohttp import web

from aiopslab.sim.core import apiservices
from aiopslab.sim.core.apierrors import no_such_path
from aiopslab.sim.core.crd import CRDS
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.schema.openapi import openapi_v3
from aiopslab.sim.server import discovery
from aiopslab.sim.server.call import Call, page_not_found, text

Obj = dict[str, Any]

OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
HEALTH = ("healthz", "readyz", "livez")
CHECKS = (
    "ping", "log", "etcd", "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers", "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced", "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/apiservice-registration-controller", "autoregister-completion",
)  # fmt: skip
DOCUMENTS_MAX = 200
_DOCUMENTS: dict[tuple[str, int], Obj] = {}


async def answer(call: Call) -> web.StreamResponse:
    """GET of a plain path."""
    parts = [p for p in call.info.path.split("/") if p]
    if call.info.verb not in ("get", "head"):
        raise no_such_path()
    if not parts:
        return call.respond({"paths": _root_paths(call)})
    head, rest = parts[0], parts[1:]
    if head in ("api", "apis"):
        return _discovery(call, head, rest)
    if head == "openapi" and rest[:1] == ["v3"]:
        return _openapi(call, rest[1:])
    if head == "openapi" and rest == ["v2"]:
        return call.finish(_v2_document(), 200, OPENAPI_V2)
    if head in HEALTH:
        return _health(call, head, rest)
    if head == "version" and not rest:
        return call.respond(discovery.SERVER_VERSION)
    if head == "metrics" and not rest:
        return text(f"apiserver_storage_objects {sum(map(call.api.store.count, call.api.store.resources()))}\n")
    raise no_such_path()


def _health(call: Call, head: str, rest: list[str]) -> web.Response:
    """``ok``, or with ``verbose`` every check by name. A path below names one check."""
    checks = [*CHECKS[:3], *(["informer-sync"] if head == "readyz" else []), *CHECKS[3:]]
    checks += ["shutdown"] if head == "readyz" else []
    if rest and "/".join(rest) not in checks:
        return page_not_found()
    if "verbose" not in call.query or rest:
        return text("ok")
    return text("".join(f"[+]{check} ok\n" for check in checks) + f"{head} check passed\n")


def _v2_document() -> bytes:
    """An OpenAPI v2 document without paths, in protobuf: clients ask for it when v3 does not know a kind,
    and then only look whether anything is there."""
    info = _field(1, b"Kubernetes") + _field(2, discovery.SERVER_VERSION["gitVersion"].encode())
    return _field(1, b"2.0") + _field(2, info) + _field(8, b"")


def _field(number: int, value: bytes) -> bytes:
    """A length-delimited protobuf field shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(value)]) + value


def _visible(call: Call, group: str) -> bool:
    """Whether a group is served to this user: one behind a Service is while its APIService exists."""
    if call.server.policy.hides(call.user, group):
        return False
    return any(apiservices.state(call.api.store, group, version) for version in call.api.kinds.versions(group))


def _is_fresh(call: Call, group: str, version: str) -> bool:
    return apiservices.state(call.api.store, group, version) != "down"


def _root_paths(call: Call) -> list[str]:
    groups = [g for g in call.api.kinds.groups() if g and _visible(call, g)]
    nested = [f"/apis/{g}/{v}" for g in groups for v in call.api.kinds.versions(g)]
    fixed = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]
    return sorted([*fixed, *(f"/apis/{g}" for g in groups), *nested])


def _discovery(call: Call, head: str, rest: list[str]) -> web.Response:
    kinds = call.api.kinds
    if not rest:
        content_type = discovery.aggregated_type(call.request.headers.get("Accept", ""))
        if content_type:
            version = "v2beta1" if "v2beta1" in content_type else "v2"
            shown = [g for g in kinds.groups() if (g == "") == (head == "api") and _visible(call, g)]
            body = discovery.aggregated(kinds, shown, lambda g, v: _is_fresh(call, g, v), version)
            response = call.respond(body)
            response.headers["Content-Type"] = content_type
            return response
        if head == "api":
            return call.respond(discovery.core_versions(call.request.host))
        return call.respond(discovery.groups(kinds, lambda g: _visible(call, g)))
    if head == "api":
        return call.respond(discovery.resources(kinds, "", "v1")) if rest == ["v1"] else page_not_found()
    group = rest[0]
    if group not in kinds.groups() or not _visible(call, group):
        return page_not_found()
    if len(rest) == 1:
        return call.respond(discovery.group(kinds, group))
    if rest[1] not in kinds.versions(group):
        return page_not_found()
    if not _is_fresh(call, group, rest[1]):
        return text("service unavailable\n", 503)
    return call.respond(discovery.resources(kinds, group, rest[1]))


def _openapi(call: Call, rest: list[str]) -> web.Response:
    kinds = call.api.kinds
    documents = {
        f"api/{k.version}" if not k.group else f"apis/{k.group}/{k.version}": (k.group, k.version)
        for k in kinds.served() if _visible(call, k.group)
    }  # fmt: skip
    if not rest:
        index = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_hash(call, *gv)}"}
            for path, gv in documents.items()
        }
        return call.respond({"paths": index})
    found = documents.get("/".join(rest))
    if found is None:
        return page_not_found()
    group, version = found
    group_version = f"{group}/{version}" if group else version
    key = (group_version, kinds.generation)
    if key not in _DOCUMENTS:
        if len(_DOCUMENTS) >= DOCUMENTS_MAX:
            _DOCUMENTS.clear()
        _DOCUMENTS[key] = openapi_v3(group_version, _of(call, group, version), _definitions(call, group))
    response = call.respond(_DOCUMENTS[key])
    response.headers["Cache-Control"] = "public, immutable"
    return response


def _of(call: Call, group: str, version: str) -> list[Kind]:
    return [k for k in call.api.kinds.served() if (k.group, k.version) == (group, version)]


def _definitions(call: Call, group: str) -> list[Obj]:
    return [d for d in call.api.list(CRDS) if d["spec"]["group"] == group]


def _hash(call: Call, group: str, version: str) -> str:
    described = [(k.kind, k.crd) for k in _of(call, group, version)]
    return hashlib.sha256(repr(described).encode()).hexdigest()[:32].upper()
