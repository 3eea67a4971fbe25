"""Discovery documents, in the aggregated and in the legacy form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.kinds import Kind, Kinds
from aiopslab.sim.core.version import KUBERNETES_VERSION

Obj = dict[str, Any]
Visible = Callable[[str], bool]
Fresh = Callable[[str, str], bool]

SERVER_VERSION: Obj = {
    "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
    "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
    "gitVersion": KUBERNETES_VERSION, "gitCommit": "0000000000000000000000000000000000000000", "gitTreeState": "clean",
    "buildDate": "2026-05-13T10:12:41Z", "goVersion": "go1.25.4", "compiler": "gc", "platform": "linux/amd64",
}  # fmt: skip
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
# APIResourceList of custom resources gives verbs in the order of their handlers.
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


def aggregated_type(accept: str) -> str:
    """The Content-Type of the aggregated form when ``accept`` asks for one that is served, else ``""``."""
    for clause in accept.split(","):
        parts = {p.strip() for p in clause.split(";")}
        if {"g=apidiscovery.k8s.io", "as=APIGroupDiscoveryList"} <= parts:
            for version in ("v2", "v2beta1"):
                if f"v={version}" in parts:
                    return _AGGREGATED.format(version)
        elif "application/json" in parts or "*/*" in parts:
            return ""
    return ""


def aggregated(kinds: Kinds, groups: list[str], fresh: Fresh, version: str) -> Obj:
    """APIGroupDiscoveryList of these groups; what is not fresh is marked as stale."""

    def one(group: str, name: str) -> Obj:
        resources = [_aggregated_resource(k) for k in _of(kinds, group, name)]
        return {"version": name, "resources": resources, "freshness": "Current" if fresh(group, name) else "Stale"}

    items = [{"metadata": _meta(g), "versions": [one(g, v) for v in kinds.versions(g)]} for g in groups]
    return {
        "kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}", "metadata": {},
        "items": items,
    }  # fmt: skip


def _meta(group: str) -> Obj:
    return {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None}


def _aggregated_resource(kind: Kind) -> Obj:
    resource: Obj = {
        "resource": kind.plural,
        "responseKind": _gvk(kind.group, kind.version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        resource["shortNames"] = list(kind.short_names)
    if kind.categories:
        resource["categories"] = list(kind.categories)
    if kind.subresources:
        resource["subresources"] = [
            {"subresource": s.name, "responseKind": _gvk(*s.response), "verbs": list(s.verbs)}
            for s in kind.subresources
        ]
    return resource


def _gvk(group: str, version: str, kind: str) -> Obj:
    return {"group": group, "version": version, "kind": kind}


def core_versions(host: str) -> Obj:
    """``/api`` in the legacy form."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def groups(kinds: Kinds, visible: Visible) -> Obj:
    """``/apis`` in the legacy form."""
    listed = [group_body(kinds, g) for g in kinds.groups() if g and visible(g)]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def group(kinds: Kinds, name: str) -> Obj:
    """``/apis/GROUP``."""
    return {"kind": "APIGroup", "apiVersion": "v1", **group_body(kinds, name)}


def group_body(kinds: Kinds, name: str) -> Obj:
    """An entry of APIGroupList."""
    versions = [{"groupVersion": f"{name}/{v}", "version": v} for v in kinds.versions(name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def resources(kinds: Kinds, name: str, version: str) -> Obj:
    """APIResourceList of a group version."""
    listed: list[Obj] = []
    for kind in _of(kinds, name, version):
        listed.append(_resource(kind))
        listed += [_subresource(kind, s) for s in kind.subresources]
    group_version = f"{name}/{version}" if name else version
    body: Obj = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}
    if not name:
        body.pop("apiVersion")
    return body


def _resource(kind: Kind) -> Obj:
    verbs = [v for v in _CUSTOM_VERBS if v in kind.verbs] if kind.crd is not None else list(kind.verbs)
    resource: Obj = {
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
        "verbs": verbs,
    }  # fmt: skip
    if kind.short_names:
        resource["shortNames"] = list(kind.short_names)
    if kind.categories:
        resource["categories"] = list(kind.categories)
    if not kind.virtual:
        resource["storageVersionHash"] = kind.storage_hash
    return resource


def _subresource(kind: Kind, subresource: Any) -> Obj:
    group_name, version, response_kind = subresource.response
    entry: Obj = {
        "name": f"{kind.plural}/{subresource.name}", "singularName": "", "namespaced": kind.namespaced,
    }  # fmt: skip
    if (group_name, version) != (kind.group, kind.version):
        if group_name:
            entry["group"] = group_name
        entry["version"] = version
    return entry | {"kind": response_kind, "verbs": list(subresource.verbs)}


def _of(kinds: Kinds, group_name: str, version: str) -> list[Kind]:
    return [k for k in kinds.served() if k.group == group_name and k.version == version]
