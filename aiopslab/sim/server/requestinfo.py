"""What a request asks for, read from its method, path and query: the API server's RequestInfo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """``is_resource`` False: a plain path such as ``/version``. ``parts`` are the path's segments after the
    group and version; ``tail`` is what follows a ``proxy`` subresource."""

    path: str
    verb: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    tail: tuple[str, ...] = field(default=())


def truthy(text: str | None) -> bool:
    """A query parameter as Go's ParseBool accepts it; other texts count as false."""
    return text in ("1", "t", "T", "true", "TRUE", "True")


def parse(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """The RequestInfo of a request."""
    parts = [p for p in path.split("/") if p]
    plain = RequestInfo(path, method.lower())
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return plain
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name = rest[0], rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    verb = _VERBS.get(method, method.lower())
    if not name:
        verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb)
        if verb == "list" and truthy(query.get("watch")):
            verb = "watch"
        if verb in ("list", "watch", "deletecollection"):
            name = _named(query.get("fieldSelector", ""))
    elif verb == "get" and truthy(query.get("watch")) and not subresource:
        verb = "watch"
    return RequestInfo(path, verb, True, group, version, namespace, resource, name, subresource, tuple(rest[3:]))


def _named(field_selector: str) -> str:
    """The name that a field selector singles out: authorization sees it as the request's name."""
    for term in field_selector.split(","):
        key, _, value = term.partition("=")
        if key == "metadata.name" and value:
            return value.lstrip("=")
    return ""
