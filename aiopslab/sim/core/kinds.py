"""Which kinds the cluster serves: names, verbs, subresources. Built-in ones and those of CRDs.

``Kinds`` is the one table that discovery, routing, the API and clients' short names go by. A kind's
``resource`` is the string of ``store.Key``: ``pods``, ``apps/deployments``, ``chaos-mesh.org/networkchaos``.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from aiopslab.sim.core.kindtable import ALIASES, BUILTIN

Obj = dict[str, Any]

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
# The order in which groups are announced; groups of CRDs follow.
GROUP_ORDER = (
    "", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
    "autoscaling", "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io",
    "storage.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io",
    "coordination.k8s.io", "node.k8s.io", "discovery.k8s.io",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object with its own path. ``response`` is ``(group, version, kind)`` of its bodies."""

    name: str
    response: tuple[str, str, str]
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """One served kind in one version.

    ``storage`` is the resource under which objects are kept; it differs from ``resource`` only where two
    groups show the same objects (events). ``virtual`` kinds have no stored objects (reviews, metrics).
    ``crd`` is the ``spec.versions[]`` entry for kinds that a CustomResourceDefinition made.
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    subresources: tuple[Subresource, ...] = ()
    storage: str = ""
    virtual: bool = False
    list_kind: str = ""
    crd: Obj | None = field(default=None, compare=False, hash=False)

    @property
    def resource(self) -> str:
        """The store's name for it."""
        return self.storage or (f"{self.group}/{self.plural}" if self.group else self.plural)

    @property
    def api_version(self) -> str:
        """``apps/v1``, or ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """``deployments.apps``, or ``pods`` for the core group: how errors name a resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """``Deployment.apps``, or ``Pod``: how errors name a kind."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def list_name(self) -> str:
        """``PodList``."""
        return self.list_kind or f"{self.kind}List"

    @property
    def storage_hash(self) -> str:
        """``storageVersionHash`` of discovery: the first 8 bytes of SHA-256 of ``group/version/kind``."""
        text = f"{self.group}/{self.version}/{self.kind}".encode()
        return base64.b64encode(hashlib.sha256(text).digest()[:8]).decode()

    def subresource(self, name: str) -> Subresource | None:
        """The subresource of that name, or None."""
        return next((s for s in self.subresources if s.name == name), None)

    @property
    def has_status(self) -> bool:
        """Whether ``status`` is written only through its subresource."""
        return self.subresource("status") is not None


class Kinds:
    """The table of served kinds. ``set_group`` and ``remove`` change it as CRDs come and go."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._served: dict[tuple[str, str, str], Kind] = {}  # (group, version, plural)
        self._stored: dict[str, Kind] = {}
        self._by_gvk: dict[tuple[str, str], Kind] = {}
        self._listeners: list[Callable[[], None]] = []
        self.generation = 0
        for kind in kinds or builtin_kinds():
            self._add(kind, stored=not kind.storage)

    def by_resource(self, resource: str) -> Kind:
        """The kind that objects of ``resource`` are stored as. Raises KeyError for unknown resources."""
        return self._stored[resource]

    def by_gvk(self, api_version: str, kind: str) -> Kind | None:
        """The kind of an object's ``apiVersion`` and ``kind``, or None when it is not served."""
        return self._by_gvk.get((api_version, kind))

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind behind a URL, or None."""
        return self._served.get((group, version, plural))

    def known(self, resource: str) -> bool:
        """Whether objects of ``resource`` can be stored."""
        return resource in self._stored

    def served(self) -> list[Kind]:
        """All kinds in the order of discovery: group, version, plural."""
        order = {group: index for index, group in enumerate(GROUP_ORDER)}

        def rank(kind: Kind) -> tuple[int, str, str, str]:
            return order.get(kind.group, len(order)), kind.group, kind.version, kind.plural

        return sorted(self._served.values(), key=rank)

    def groups(self) -> list[str]:
        """Served groups in order, the core group (``""``) first."""
        return list(dict.fromkeys(kind.group for kind in self.served()))

    def versions(self, group: str) -> list[str]:
        """Versions of a group, preferred first."""
        found = {kind.version for kind in self._served.values() if kind.group == group}
        return sorted(found, key=version_rank)

    def set_custom(self, versions: list[tuple[Kind, bool, bool]]) -> None:
        """Serve the versions of one CRD: ``(kind, served, stored)``. Replaces earlier ones of it."""
        if versions:
            self.remove_custom(versions[0][0].resource)
        for kind, served, stored in versions:
            if served:
                self._add(kind, stored)
            elif stored:
                self._stored[kind.resource] = kind
        self._changed()

    def remove_custom(self, resource: str) -> None:
        """Stop serving a custom resource."""
        self._stored.pop(resource, None)
        for key, kind in list(self._served.items()):
            if kind.resource == resource and kind.crd is not None:
                del self._served[key]
                self._by_gvk.pop((kind.api_version, kind.kind), None)
        self._changed()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever the table changes."""
        self._listeners.append(listener)

    def add(self, kind: Kind) -> None:
        """Serve one more built-in kind (an add-on such as the metrics API)."""
        self._add(kind, stored=True)
        self._changed()

    def _add(self, kind: Kind, stored: bool) -> None:
        self._served[(kind.group, kind.version, kind.plural)] = kind
        self._by_gvk[(kind.api_version, kind.kind)] = kind
        if stored:
            self._stored[kind.resource] = kind

    def _changed(self) -> None:
        self.generation += 1
        for listener in self._listeners:
            listener()


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sort key that puts ``v2`` before ``v1`` before ``v2beta1`` before other names."""
    rest = version[1:] if version.startswith("v") else ""
    for stage, mark in ((1, "beta"), (2, "alpha")):
        major, found, minor = rest.partition(mark)
        if found and major.isdigit() and (minor.isdigit() or not minor):
            return stage, -int(major), -int(minor or 0), ""
    return (0, -int(rest), 0, "") if rest.isdigit() else (3, 0, 0, version)


def builtin_kinds() -> list[Kind]:
    """The kinds of a cluster without add-ons, from ``kindtable``."""
    return [_parse(line) for line in BUILTIN.strip().splitlines() if not line.startswith("#")]


def metrics_kinds() -> list[Kind]:
    """``metrics.k8s.io/v1beta1``, served when the cluster has a metrics server."""
    verbs = ("get", "list")
    return [
        Kind("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes", "", (), False, (), verbs, virtual=True),
        Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", "", (), True, (), verbs, virtual=True),
    ]


def _parse(line: str) -> Kind:
    """A row of ``kindtable``: ``group/version plural Kind flags`` with ``key=value`` flags."""
    gv, plural, kind, *flags = line.split()
    group, _, version = gv.rpartition("/")
    group = "" if group == "core" else ALIASES.get(group, group)
    options = dict(flag.partition("=")[::2] for flag in flags)
    split = {k: tuple(ALIASES.get(v, v).split(",")) for k, v in options.items() if v}
    return Kind(
        group=group, version=version, kind=kind, plural=plural, singular=kind.lower(),
        short_names=split.get("short", ()),
        namespaced="cluster" not in options,
        categories=split.get("cat", ()),
        verbs=split.get("verbs", VERBS),
        subresources=tuple(_subresource(s, group, version, kind) for s in split.get("sub", ())),
        storage=ALIASES.get(options.get("storage", ""), options.get("storage", "")),
        virtual="virtual" in options,
    )  # fmt: skip


_SUBRESOURCES: dict[str, tuple[tuple[str, str, str] | None, tuple[str, ...]]] = {
    "status": (None, ("get", "patch", "update")),
    "approval": (None, ("get", "patch", "update")),
    "finalize": (None, ("update",)),
    "resize": (None, ("get", "patch", "update")),
    "ephemeralcontainers": (None, ("get", "patch", "update")),
    "scale": (("autoscaling", "v1", "Scale"), ("get", "patch", "update")),
    "log": (None, ("get",)),
    "exec": (("", "v1", "PodExecOptions"), ("create", "get")),
    "attach": (("", "v1", "PodAttachOptions"), ("create", "get")),
    "portforward": (("", "v1", "PodPortForwardOptions"), ("create", "get")),
    "eviction": (("policy", "v1", "Eviction"), ("create",)),
    "binding": (("", "v1", "Binding"), ("create",)),
    "token": (("authentication.k8s.io", "v1", "TokenRequest"), ("create",)),
    "proxy": (("", "v1", "ProxyOptions"), ("create", "delete", "get", "patch", "update")),
}


def _subresource(name: str, group: str, version: str, kind: str) -> Subresource:
    response, verbs = _SUBRESOURCES[name]
    if name == "proxy":
        response = ("", "v1", f"{kind}ProxyOptions")
    return Subresource(name, response or (group, version, kind), verbs)


def custom_subresource(name: str, kind: tuple[str, str, str]) -> Subresource:
    """``status`` or ``scale`` of a custom resource; ``kind`` is its ``(group, version, kind)``."""
    return _subresource(name, *kind)
