"""Access, rules, subject and token reviews: questions that are POSTed and answered, never stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from aiopslab.sim.core import schema
from aiopslab.sim.core.apierrors import Cause, bad_request, invalid, method_not_allowed
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.ports import Principal
from aiopslab.sim.core.rbac import Action
from aiopslab.sim.server import objects
from aiopslab.sim.server.call import Call
from aiopslab.sim.server.requestinfo import RequestInfo

Obj = dict[str, Any]
Handler = Callable[[Call], Awaitable[web.StreamResponse]]


def handler(kind: Kind, info: RequestInfo) -> Handler:
    """The handler of a kind without stored objects. Raises 405."""
    found = _HANDLERS.get(kind.kind)
    if found is None or info.verb not in kind.verbs:
        raise method_not_allowed(kind)
    return found


async def access(call: Call) -> web.Response:
    """SelfSubjectAccessReview, SubjectAccessReview and LocalSubjectAccessReview."""
    review = await _read(call)
    spec = review.get("spec") or {}
    user = call.user
    if call.served.kind != "SelfSubjectAccessReview":
        user = Principal(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""))
        if not user.username and not user.groups:
            raise _invalid(call, "spec.user", '"": at least one of user or group must be specified')
    action = _asked(call, spec)
    why = call.api.admission.rbac.why(user, action)
    hidden = bool(action.group) and call.server.policy.hides(user, action.group)
    allowed = why is not None and not hidden
    status: Obj = {"allowed": allowed}
    if allowed and why:
        status["reason"] = why
    return call.respond({**review, "status": status}, 201)


async def rules(call: Call) -> web.Response:
    """SelfSubjectRulesReview: everything that the asker may do in a namespace."""
    review = await _read(call)
    namespace = (review.get("spec") or {}).get("namespace", "")
    if not namespace:
        raise _invalid(call, "spec.namespace", '"": namespace must be specified', "FieldValueInvalid")
    resource_rules, path_rules = [], []
    for rule in call.api.admission.rbac.rules(call.user, namespace):
        if rule.get("nonResourceURLs"):
            path_rules.append({"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]})
        if rule.get("resources"):
            keys = ("verbs", "apiGroups", "resources", "resourceNames")
            resource_rules.append({k: rule[k] for k in keys if rule.get(k)})
    status = {"resourceRules": resource_rules, "nonResourceRules": path_rules, "incomplete": False}
    return call.respond({**review, "status": status}, 201)


async def whoami(call: Call) -> web.Response:
    """SelfSubjectReview."""
    review = await _read(call)
    return call.respond({**review, "status": {"userInfo": user_info(call.user)}}, 201)


async def token(call: Call) -> web.Response:
    """TokenReview."""
    review = await _read(call)
    spec = review.get("spec") or {}
    found = call.server.authenticator.by_token(spec.get("token", ""))
    if found is None:
        status: Obj = {"user": {}, "error": "invalid bearer token"}
    else:
        status = {"authenticated": True, "user": user_info(found)}
    return call.respond({**review, "status": status}, 201)


async def component_statuses(call: Call) -> web.Response:
    """The deprecated componentstatuses: none are known."""
    listed = {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": []}
    return call.respond(listed)


def user_info(user: Principal) -> Obj:
    """UserInfo of a principal."""
    info: Obj = {"username": user.username}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = user.extra
    return info


async def _read(call: Call) -> Obj:
    obj = (await call.read(call.served.kind)).obj
    objects.check_type(obj, call.served)
    if error := schema.type_errors(obj, call.served):
        raise bad_request(f'{call.served.kind} in version "v1" cannot be handled as a {call.served.kind}: {error}')
    meta = dict(obj.get("metadata") or {})
    meta.setdefault("creationTimestamp", None)
    return {**obj, "metadata": meta}


def _asked(call: Call, spec: Obj) -> Action:
    asked: Obj | None = spec.get("resourceAttributes")
    path: Obj | None = spec.get("nonResourceAttributes")
    if (asked is None) == (path is None):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise _invalid(call, "spec.resourceAttributes", f"null: {why}" if asked is None else why)
    if path is not None:
        return Action(path.get("verb", ""), path=path.get("path", ""))
    asked = asked or {}
    resource = asked.get("resource", "")
    return Action(
        asked.get("verb", ""), asked.get("group", ""), resource, asked.get("subresource", ""),
        asked.get("namespace", ""), asked.get("name", ""),
    )  # fmt: skip


def _invalid(call: Call, field: str, what: str, reason: str = "FieldValueInvalid") -> Exception:
    cause = Cause(reason, f"Invalid value: {what}", field)
    return invalid(("", call.served.group), "", [cause])


_HANDLERS: dict[str, Handler] = {
    "SelfSubjectAccessReview": access,
    "SubjectAccessReview": access,
    "LocalSubjectAccessReview": access,
    "SelfSubjectRulesReview": rules,
    "SelfSubjectReview": whoami,
    "TokenReview": token,
    "ComponentStatus": component_statuses,
}
