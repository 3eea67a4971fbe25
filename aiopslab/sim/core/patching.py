"""From a patch body to the object that it asks for."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core import patch
from aiopslab.sim.core.apierrors import ApiError, bad_request, status_error
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.patch import PatchError, clone

Obj = dict[str, Any]


def as_api_error(error: PatchError) -> ApiError:
    """A patch function's refusal as an API error."""
    details: Obj | None = {"causes": list(error.causes)} if error.causes else {}
    if error.code in (400, 415):
        details = None
    return status_error(error.reason, error.message, details, error.code)


def patched(kind: Kind, old: Obj, patch_type: str, body: Any) -> Obj:
    """``old`` after a ``json``, ``merge`` or ``strategic`` patch. Raises ApiError."""
    try:
        if patch_type == "json":
            return patch.json_patch(old, body)
        if patch_type == "merge":
            return patch.merge_patch(clone(old), body)
        return patch.strategic_merge(clone(old), body, kind)
    except PatchError as error:
        raise as_api_error(error) from None


def applied_object(kind: Kind, body: Any, namespace: str, name: str) -> Obj:
    """A checked copy of a server-side apply body, with name and namespace filled in. Raises ApiError."""
    if not isinstance(body, dict):
        raise bad_request(
            "error decoding YAML: json: cannot unmarshal into Go value of type map[string]interface {}"
        )
    applied: Obj = clone(body)
    version, kind_name = applied.get("apiVersion", ""), applied.get("kind", "")
    group, _, short = version.rpartition("/")
    if not version or not kind_name:
        raise bad_request(f"invalid object type: {group}/{short}, Kind={kind_name}")
    if (version, kind_name) != (kind.api_version, kind.kind):
        raise bad_request(
            f"invalid object type: {group}/{short}, Kind={kind_name}, "
            f"expected {kind.group}/{kind.version}, Kind={kind.kind}"
        )
    if not isinstance(applied.get("metadata") or {}, dict):
        raise bad_request("metadata is invalid: it must be an object")
    meta = applied["metadata"] = dict(applied.get("metadata") or {})
    if meta.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    meta.pop("managedFields", None)
    own = meta.get("name") or ""
    if own and own != name:
        raise bad_request(f"the name of the object ({own}) does not match the name on the URL ({name})")
    if meta.get("namespace") and meta["namespace"] != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    meta["name"] = name
    if kind.namespaced:
        meta["namespace"] = namespace
    return applied
