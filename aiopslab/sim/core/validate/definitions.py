"""CustomResourceDefinitions: names, versions, and whether their schemas are structural."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_same

Obj = dict[str, Any]
GROUP = "apiextensions.k8s.io"
SCOPES = ("Cluster", "Namespaced")
MIXED_CASE = "may have mixed case, but should otherwise match: "
INT_OR_STRING, PRESERVE = "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


def _definition(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    if obj["metadata"].get("name") != f"{names.get('plural', '')}.{spec.get('group', '')}":
        errors.invalid("metadata.name", obj["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group')
    _group(errors, spec.get("group", ""))
    if not spec.get("scope"):
        errors.required("spec.scope")
    elif spec["scope"] not in SCOPES:
        errors.not_supported("spec.scope", spec["scope"], SCOPES)
    _versions(errors, spec.get("versions") or [])
    for name in ("plural", "singular", "kind", "listKind"):
        if not names.get(name):
            errors.required(f"spec.names.{name}")
    _names(errors, names)
    if old is not None:
        _frozen(errors, obj, old)


def _group(errors: Errors, group: str) -> None:
    if not group:
        errors.required("spec.group")
    elif wrong := values.dns_subdomain(group):
        errors.invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        errors.invalid("spec.group", group, "should be a domain with at least one dot")


def _versions(errors: Errors, versions: list[Obj]) -> None:
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            errors.required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required")
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if wrong := values.dns_1035_label(version.get("name", "")):
            errors.invalid(f"{path}.name", version.get("name", ""), ",".join(wrong))
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema:
            _root(errors, schema, f"{path}.schema.openAPIV3Schema")
        for number, column in enumerate(version.get("additionalPrinterColumns") or []):
            _column(errors, column, f"{path}.additionalPrinterColumns[{number}]")
    found = [version.get("name") for version in versions]
    shown = [_internal(version) for version in versions]
    if len(set(found)) != len(found):
        errors.invalid("spec.versions", shown, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        errors.invalid("spec.versions", shown, "must have exactly one version marked as storage version")


def _internal(version: Obj) -> Obj:
    """A version as the server's own type prints it."""
    return {name[:1].upper() + name[1:]: value for name, value in version.items()}


def _names(errors: Errors, names: Obj) -> None:
    for name in ("plural", "singular"):
        if names.get(name) and (wrong := values.dns_1035_label(names[name])):
            errors.invalid(f"spec.names.{name}", names[name], ",".join(wrong))
    for name in ("kind", "listKind"):
        if names.get(name) and (wrong := values.dns_1035_label(names[name].lower())):
            errors.invalid(f"spec.names.{name}", names[name], MIXED_CASE + ",".join(wrong))
    for list_name in ("shortNames", "categories"):
        if list_name == "categories" and names.get("kind") and names["kind"] == names.get("listKind"):
            errors.invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
        for index, word in enumerate(names.get(list_name) or []):
            if wrong := values.dns_1035_label(word):
                errors.invalid(f"spec.names.{list_name}[{index}]", word, ",".join(wrong))


def _column(errors: Errors, column: Obj, path: str) -> None:
    for name in ("name", "type", "jsonPath"):
        if not column.get(name):
            detail = f"must be one of {','.join(COLUMN_TYPES)}" if name == "type" else ""
            errors.required(f"{path}.{name}", detail)
        elif name == "type" and column[name] not in COLUMN_TYPES:
            errors.invalid(f"{path}.type", column[name], f"must be one of {','.join(COLUMN_TYPES)}")


def _root(errors: Errors, schema: Obj, path: str) -> None:
    if not schema.get("type"):
        errors.required(f"{path}.type", "must not be empty at the root")
    elif schema["type"] != "object":
        errors.invalid(f"{path}.type", schema["type"], "must be object at the root")
    _below(errors, schema, path)


def _below(errors: Errors, schema: Obj, path: str) -> None:
    """What a structural schema demands of everything inside one that is all right itself."""
    if schema.get("properties") and schema.get("additionalProperties"):
        errors.forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    for name, inner in sorted((schema.get("properties") or {}).items()):
        _field(errors, inner, f"{path}.properties[{name}]", "object fields")
    if isinstance(schema.get("additionalProperties"), dict):
        _field(errors, schema["additionalProperties"], f"{path}.additionalProperties", "object fields")
    if isinstance(schema.get("items"), dict):
        _field(errors, schema["items"], f"{path}.items", "array items")
    elif schema.get("type") == "array":
        errors.required(f"{path}.items", "must be specified")


def _field(errors: Errors, schema: Obj, path: str, what: str) -> None:
    if not schema.get("type") and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        errors.required(f"{path}.type", f"must not be empty for specified {what}")
    _below(errors, schema, path)


def _frozen(errors: Errors, obj: Obj, old: Obj) -> None:
    new, before = obj.get("spec") or {}, old.get("spec") or {}
    check_same(errors, new.get("scope"), before.get("scope"), "spec.scope")
    names, earlier = new.get("names") or {}, before.get("names") or {}
    check_same(errors, names.get("kind"), earlier.get("kind"), "spec.names.kind")
    check_same(errors, new.get("group"), before.get("group"), "spec.group")
    check_same(errors, names.get("plural"), earlier.get("plural"), "spec.names.plural")
    served = {version.get("name") for version in new.get("versions") or []}
    for index, version in enumerate((old.get("status") or {}).get("storedVersions") or []):
        if version not in served:
            errors.invalid(f"status.storedVersions[{index}]", version, "must appear in spec.versions")


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    (GROUP, "CustomResourceDefinition"): _definition,
}
