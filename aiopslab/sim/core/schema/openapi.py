"""OpenAPI v3 documents of a group version, put together from the shipped definitions and from CRDs.

kubectl reads them for ``explain``, to see whether an operation takes ``fieldValidation``, and for merge keys;
Helm and the Python client only for the operations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Protocol

from aiopslab.sim.core.schema.nodes import OBJECT_META, REF, definition_name, definitions
from aiopslab.sim.core.version import KUBERNETES_VERSION

Obj = dict[str, Any]
LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
PATCH = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
# verb -> (HTTP method, action, on one object?, writes?)
ACTIONS: dict[str, tuple[str, str, bool, bool]] = {
    "list": ("get", "list", False, False),
    "create": ("post", "post", False, True),
    "deletecollection": ("delete", "deletecollection", False, False),
    "get": ("get", "get", True, False),
    "update": ("put", "put", True, True),
    "patch": ("patch", "patch", True, True),
    "delete": ("delete", "delete", True, False),
}
WRITE_PARAMETERS = (
    ("dryRun", "string", "Changes are validated and answered, but not stored; the only value is All."),
    ("fieldManager", "string", "Name of the actor that makes the change, at most 128 printable characters."),
    ("fieldValidation", "string", "What to do about unknown and duplicate fields: Ignore, Warn or Strict."),
)
FORCE = ("force", "boolean", "Take over fields that other managers own. Apply patches only.")
_GO_MARKS = ("x-go-value", "x-go-pointer")


class ServedKind(Protocol):
    """What ``core.kinds.Kind`` offers, as far as documents need it."""

    @property
    def group(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def plural(self) -> str: ...

    @property
    def namespaced(self) -> bool: ...

    @property
    def verbs(self) -> tuple[str, ...]: ...

    @property
    def subresources(self) -> tuple[Any, ...]: ...


def openapi_v3(group_version: str, kinds: Iterable[ServedKind], crds: Iterable[Obj] = ()) -> Obj:
    """The document of ``v1`` or ``apps/v1``: paths of ``kinds``, their schemas, custom ones from ``crds``.

    ``kinds`` may hold kinds of other group versions; they are left out. ``crds`` are CustomResourceDefinition
    objects.
    """
    group, _, version = group_version.rpartition("/")
    served = [k for k in kinds if (k.group, k.version) == (group, version)]
    custom = {name: schema for crd in crds for name, schema in _custom_schemas(crd, group, version)}
    paths: Obj = {}
    for kind in served:
        paths.update(_paths(kind, _schema_name(kind)))
    wanted = {_schema_name(kind) for kind in served} | {PATCH, STATUS, DELETE_OPTIONS, *custom}
    if custom:
        wanted |= {OBJECT_META, LIST_META}
    prefix = f"/apis/{group_version}" if group else f"/api/{group_version}"
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": KUBERNETES_VERSION},
        "paths": dict(sorted({f"{prefix}{path}": item for path, item in paths.items()}.items())),
        "components": {"schemas": _schemas(wanted, custom)},
    }


def document_hash(document: Obj | bytes | str) -> str:
    """A hash for ``serverRelativeURL``: changes exactly when the document does."""
    body = document if isinstance(document, bytes) else str(document).encode()
    return hashlib.sha256(body).hexdigest().upper()


def _schema_name(kind: ServedKind) -> str:
    name = definition_name(kind.group, kind.version, kind.kind)
    if name is not None:
        return name
    return f"{'.'.join(reversed(kind.group.split('.')))}.{kind.version}.{kind.kind}"


def _paths(kind: ServedKind, schema_name: str) -> dict[str, Obj]:
    where = f"/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"/{kind.plural}"
    collection = _operations(kind, schema_name, one=False)
    single = _operations(kind, schema_name, one=True)
    found: dict[str, Obj] = {}
    if collection:
        found[where] = collection
    if kind.namespaced and "list" in kind.verbs:
        listing = _operation(kind, "list", schema_name, scoped=False)
        found[f"/{kind.plural}"] = {"get": listing}
    if single:
        found[f"{where}/{{name}}"] = single
    for sub in kind.subresources:
        operations = {
            method: _operation(kind, verb, schema_name)
            for verb, (method, _, one, _) in ACTIONS.items()
            if verb in sub.verbs and (one or verb == "create")
        }
        if operations:
            found[f"{where}/{{name}}/{sub.name}"] = operations
    return found


def _operations(kind: ServedKind, schema_name: str, *, one: bool) -> Obj:
    return {
        method: _operation(kind, verb, schema_name)
        for verb, (method, _, single, _) in ACTIONS.items()
        if verb in kind.verbs and single == one
    }


def _operation(kind: ServedKind, verb: str, schema_name: str, *, scoped: bool = True) -> Obj:
    method, action, one, writes = ACTIONS[verb]
    parameters = [_path_parameter("name")] if one else []
    if kind.namespaced and scoped:
        parameters.append(_path_parameter("namespace"))
    if writes:
        extra = (*WRITE_PARAMETERS, FORCE) if verb == "patch" else WRITE_PARAMETERS
        parameters += [_query_parameter(*item) for item in extra]
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    operation: Obj = {
        "tags": [f"{kind.group or 'core'}_{kind.version}"],
        "operationId": f"{method}{kind.version.capitalize()}{kind.kind}{'' if scoped else 'ForAllNamespaces'}",
        "parameters": parameters,
        "responses": {"200": {"description": "OK", **_content(("application/json",), schema_name)}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk,
    }
    if verb == "patch":
        operation["requestBody"] = {**_content(PATCH_TYPES, PATCH), "required": True}
    elif writes:
        operation["requestBody"] = {**_content(("*/*",), schema_name), "required": True}
    return operation


def _content(media_types: Iterable[str], schema_name: str) -> Obj:
    return {"content": {media: {"schema": {"$ref": REF + schema_name}} for media in media_types}}


def _path_parameter(name: str) -> Obj:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}


def _query_parameter(name: str, kind: str, description: str) -> Obj:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"type": kind, "uniqueItems": True},
    }


def _schemas(wanted: Iterable[str], custom: dict[str, Obj]) -> Obj:
    """The wanted schemas and everything they refer to."""
    found: Obj = {}
    queue = sorted(wanted)
    shipped = definitions()
    while queue:
        name = queue.pop()
        if name in found:
            continue
        if name in custom:
            found[name] = custom[name]
        elif name in shipped:
            found[name] = _published(shipped[name])
        queue += sorted(set(_references(found.get(name, {}))) - found.keys())
    return dict(sorted(found.items()))


def _published(schema: Any) -> Any:
    """A shipped schema as servers publish it: references beside other keys go into ``allOf``, no Go marks."""
    if isinstance(schema, list):
        return [_published(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: _published(value) for key, value in schema.items() if key not in _GO_MARKS}
    reference = out.get("$ref")
    if isinstance(reference, str) and len(out) > 1:
        del out["$ref"]
        out["allOf"] = [{"$ref": reference}]
        if schema.get("x-go-value"):
            out.setdefault("default", {})
    return out


def _references(schema: Any) -> Iterable[str]:
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(REF)
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


def _custom_schemas(crd: Obj, group: str, version: str) -> Iterable[tuple[str, Obj]]:
    """Schemas of a CRD's kind and of its list, when it serves this group version."""
    spec = crd.get("spec", {})
    if spec.get("group") != group:
        return
    prefix = ".".join(reversed(group.split(".")))
    for item in spec.get("versions") or ():
        if item.get("name") != version or not item.get("served"):
            continue
        kind = spec["names"]["kind"]
        list_kind = spec["names"].get("listKind") or f"{kind}List"
        name = f"{prefix}.{version}.{kind}"
        yield name, _custom_schema(item, group, kind)
        yield f"{prefix}.{version}.{list_kind}", _list_schema(name, group, version, list_kind)


def _typed_fields() -> Obj:
    described = definitions()["io.k8s.api.core.v1.ConfigMap"]["properties"]
    return {name: dict(described[name]) for name in ("apiVersion", "kind")}


def _custom_schema(version: Obj, group: str, kind: str) -> Obj:
    schema = dict((version.get("schema") or {}).get("openAPIV3Schema") or {})
    metadata = _published(definitions()["io.k8s.api.core.v1.ConfigMap"]["properties"]["metadata"])
    schema["type"] = "object"
    schema["properties"] = {**(schema.get("properties") or {}), **_typed_fields(), "metadata": metadata}
    schema["x-kubernetes-group-version-kind"] = [{"group": group, "version": version["name"], "kind": kind}]
    return schema


def _list_schema(item_name: str, group: str, version: str, kind: str) -> Obj:
    return {
        "description": f"{kind} is a list of {item_name.rsplit('.', 1)[-1]}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_typed_fields(),
            "metadata": {"allOf": [{"$ref": REF + LIST_META}], "description": "Standard list metadata."},
            "items": {"type": "array", "items": {"$ref": REF + item_name}},
        },
        "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": kind}],
    }
