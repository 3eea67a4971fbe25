"""Schemas as a tree of nodes: what a field is, how lists and maps merge, which Go type stands behind it.

Built-in kinds come from a shipped subset of the Kubernetes OpenAPI definitions; custom resources bring their
own ``openAPIV3Schema``. Nodes are made lazily and kept.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, Protocol

Obj = dict[str, Any]
Shape = Literal["struct", "map", "list", "scalar", "any"]
REF = "#/components/schemas/"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
TIMES = ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime")
# Opaque to field management: owned and replaced as a whole.
OPAQUE = ("io.k8s.apimachinery.pkg.runtime.RawExtension", "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1")
CRD_NODES_MAX = 500


class KindLike(Protocol):
    """Anything that names a group, a version and a kind."""

    @property
    def group(self) -> str:
        """API group; empty for core."""

    @property
    def version(self) -> str:
        """API version such as ``v1``."""

    @property
    def kind(self) -> str:
        """Kind such as ``Pod``."""


class Gvk(NamedTuple):
    """Group, version, kind."""

    group: str
    version: str
    kind: str


class Node:
    """The schema of one value.

    ``shape``: struct (known fields), map (free keys), list, scalar, or any (no schema: maps merge, lists are
    whole). ``name`` is the definition's full name, empty for inline schemas. ``atomic`` values are owned and
    merged as one. ``keys`` are the list-map keys of server-side apply, ``merge_key`` that of strategic merge.
    """

    __slots__ = (
        "_elem",
        "_fields",
        "_props",
        "atomic",
        "default",
        "elem_schema",
        "format",
        "keys",
        "list_type",
        "merge_key",
        "name",
        "pointer",
        "preserve",
        "required",
        "shape",
        "strategies",
        "type",
        "values",
    )

    def __init__(self, schema: Obj) -> None:
        schema, name = resolve(schema)
        self.name = name
        self.type: str = schema.get("type", "")
        self.format: str = schema.get("format", "")
        self.default = schema.get("default")
        self.pointer: bool = schema.get("x-go-pointer", False)
        self.strategies = tuple(filter(None, schema.get("x-kubernetes-patch-strategy", "").split(",")))
        self.merge_key: str = schema.get("x-kubernetes-patch-merge-key", "")
        self.list_type: str = schema.get("x-kubernetes-list-type", "")
        self.keys: tuple[str, ...] = tuple(sorted(schema.get("x-kubernetes-list-map-keys", ())))
        self.preserve: bool = schema.get("x-kubernetes-preserve-unknown-fields", False)
        self.required: frozenset[str] = frozenset(schema.get("required", ()))
        self._props: dict[str, Obj] = schema.get("properties", {})
        self.values = tuple(k for k, p in self._props.items() if p.get("x-go-value"))
        self._fields: dict[str, Node | None] = {}
        self._elem: Node | None = None
        self.shape, self.elem_schema = shape_of(schema, name, self._props)
        self.atomic = self._is_atomic(schema)

    def _is_atomic(self, schema: Obj) -> bool:
        if self.shape == "list":
            return self.list_type not in ("map", "set")
        return schema.get("x-kubernetes-map-type") == "atomic" or self.name in OPAQUE

    def field(self, name: str) -> Node | None:
        """The node of a field or map entry; None when a struct has no such field."""
        if self.shape == "struct":
            if name not in self._fields:
                prop = self._props.get(name)
                self._fields[name] = Node(prop) if prop is not None else self._unknown()
            return self._fields[name]
        return self.elem if self.shape in ("map", "any") else None

    def _unknown(self) -> Node | None:
        return ANY if self.preserve else None

    @property
    def elem(self) -> Node:
        """The node of list items or map values."""
        if self._elem is None:
            self._elem = Node(self.elem_schema) if self.elem_schema else ANY
        return self._elem

    @property
    def known(self) -> Collection[str]:
        """Names of a struct's own fields."""
        return self._props.keys()

    @property
    def short_name(self) -> str:
        """``PodSpec`` of ``io.k8s.api.core.v1.PodSpec``."""
        return self.name.rsplit(".", 1)[-1]

    def item_key(self, item: Any) -> dict[str, Any]:
        """The key fields of an item of a list map, with schema defaults filled in."""
        found: dict[str, Any] = {}
        for key in self.keys:
            value = item.get(key) if isinstance(item, dict) else None
            if value is None:
                node = self.elem.field(key)
                value = node.default if node is not None else None
            if value is not None:
                found[key] = value
        return found


def resolve(schema: Obj) -> tuple[Obj, str]:
    """Follow ``$ref`` (or a single ``allOf``); keys beside the reference win. Returns (schema, definition name)."""
    ref = schema.get("$ref")
    if ref is None and len(schema.get("allOf", ())) == 1 and "$ref" in schema["allOf"][0]:
        ref = schema["allOf"][0]["$ref"]
    if not isinstance(ref, str):
        return schema, ""
    name = ref.removeprefix(REF)
    return {**definitions()[name], **schema, "$ref": ref}, name


def shape_of(schema: Obj, name: str, props: dict[str, Obj]) -> tuple[Shape, Obj | None]:
    """The shape of a resolved schema and the schema of its elements, if it has some."""
    if name in (QUANTITY, INT_OR_STRING) or schema.get("x-kubernetes-int-or-string"):
        return "scalar", None
    if props:
        return "struct", None
    kind = schema.get("type", "")
    if kind == "array":
        return "list", schema.get("items", {})
    if kind == "object":
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict):
            return "map", extra
        if schema.get("x-kubernetes-preserve-unknown-fields") or extra or name in OPAQUE:
            return "any", None
        return "struct", None
    return ("scalar", None) if kind else ("any", None)


ANY = Node({"x-kubernetes-preserve-unknown-fields": True})


@cache
def definitions() -> dict[str, Obj]:
    """All shipped definitions by full name, e.g. ``io.k8s.api.core.v1.Pod``. Do not change them."""
    packed = files(__package__).joinpath("schema.json.gz").read_bytes()
    found: dict[str, Obj] = json.loads(gzip.decompress(packed))
    return found


@cache
def _names() -> dict[tuple[str, str, str], str]:
    found: dict[tuple[str, str, str], str] = {}
    for name, definition in definitions().items():
        for gvk in definition.get("x-kubernetes-group-version-kind", ()):
            key = (gvk["group"], gvk["version"], gvk["kind"])
            # DeleteOptions and the like carry many kinds; the first, own one wins.
            found.setdefault(key, name)
    return found


def definition_name(group: str, version: str, kind: str) -> str | None:
    """Full definition name of a kind, or None."""
    return _names().get((group, version, kind))


def definition(group: str, version: str, kind: str) -> Obj | None:
    """The OpenAPI schema of a built-in kind, or None when it is not shipped."""
    name = definition_name(group, version, kind)
    return definitions()[name] if name else None


@cache
def node(group: str, version: str, kind: str) -> Node | None:
    """The node of a built-in kind, or None."""
    name = definition_name(group, version, kind)
    return Node({"$ref": REF + name}) if name else None


def node_for(kind: KindLike) -> Node | None:
    """``node`` of anything that has group, version and kind.

    A kind with an attribute ``crd`` (the ``spec.versions[]`` entry of its CustomResourceDefinition) gets the
    node of that schema, kept as long as the entry is used.
    """
    crd = getattr(kind, "crd", None)
    if crd is None:
        return node(kind.group, kind.version, kind.kind)
    kept = _crd_nodes.get(id(crd))
    if kept is None or kept[0] is not crd:
        if len(_crd_nodes) >= CRD_NODES_MAX:
            _crd_nodes.clear()
        kept = (crd, crd_node(crd.get("schema", {}).get("openAPIV3Schema")))
        _crd_nodes[id(crd)] = kept
    return kept[1]


def gvk_of(obj: Obj) -> Gvk:
    """Group, version and kind that an object names."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return Gvk(group, version, str(obj.get("kind", "")))


def node_of(obj: Obj) -> Node:
    """The node of an object by its own apiVersion and kind; custom resources without schema get ``ANY_OBJECT``."""
    return node(*gvk_of(obj)) or ANY_OBJECT


def crd_node(open_api_schema: Obj | None) -> Node:
    """The node of a custom resource version's ``openAPIV3Schema`` (keep the result; it is not cached)."""
    schema = dict(open_api_schema or {"x-kubernetes-preserve-unknown-fields": True})
    schema["type"] = "object"
    schema["properties"] = {
        **schema.get("properties", {}),
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": REF + OBJECT_META, "x-go-value": True},
    }
    return Node(schema)


ANY_OBJECT = crd_node(None)
_crd_nodes: dict[int, tuple[Obj, Node]] = {}
