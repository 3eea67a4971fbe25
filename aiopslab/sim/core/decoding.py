"""From a decoded body to an object that can be written: type errors, unknown and duplicate fields."""

from __future__ import annotations

from typing import Any

import orjson

from aiopslab.sim.core import schema
from aiopslab.sim.core.apierrors import ApiError, bad_request, status_error
from aiopslab.sim.core.crd import CustomResources
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.options import WriteOptions
from aiopslab.sim.core.patch import go_text, patch_rejected
from aiopslab.sim.core.patching import as_api_error
from aiopslab.sim.core.schema.applied import applied_error
from aiopslab.sim.core.ssa import ApplyConflict

Obj = dict[str, Any]
SCHEME = "pkg/api/legacyscheme/scheme.go:30"


def check_body(kind: Kind, obj: Obj, opts: WriteOptions, custom: CustomResources) -> Obj:
    """A POST or PUT body without unknown fields.

    Strict raises 400 on unknown fields and on ``opts.repeated``; Warn (also the default) adds them to
    ``opts.warnings``; Ignore drops them silently. Wrong types always raise.
    """
    error = schema.type_errors(obj, kind)
    if error is not None:
        raise bad_request(_unhandled(kind, error))
    problems = [*opts.repeated, *schema.unknown_fields(obj, kind)]
    if problems and opts.field_validation == "Strict":
        raise bad_request(_unhandled(kind, schema.strict_error(problems)))
    if opts.field_validation != "Ignore":
        opts.warnings.extend(problems)
    return _known(kind, obj, custom)


def check_patched(
    kind: Kind, new: Obj, body: Any, patch_type: str, opts: WriteOptions, custom: CustomResources
) -> Obj:
    """The result of a patch without unknown fields; raises 422 that quotes the patch. See ``check_body``."""
    strategic = patch_type == "strategic"
    if strategic:  # merged into the typed object, whose kind is not a matter of the patch
        new["apiVersion"], new["kind"] = kind.api_version, kind.kind
    elif kind.crd is None and (new.get("apiVersion"), new.get("kind")) != (kind.api_version, kind.kind):
        why = f'no kind "{new.get("kind")}" is registered for version "{new.get("apiVersion")}" in scheme "{SCHEME}"'
        raise as_api_error(patch_rejected(orjson.dumps(new, option=orjson.OPT_SORT_KEYS).decode(), why))
    error = schema.conversion_error(new, kind) if strategic else schema.type_errors(new, kind)
    shown = go_text(body) if strategic else orjson.dumps(new, option=orjson.OPT_SORT_KEYS).decode()
    if error is not None:
        raise as_api_error(patch_rejected(shown, error))
    problems = [*opts.repeated, *schema.unknown_fields(new, kind)]
    if problems and opts.field_validation == "Strict":
        raise as_api_error(patch_rejected(shown, schema.strict_error(problems)))
    if opts.field_validation != "Ignore":
        opts.warnings.extend(problems)
    return _known(kind, new, custom)


def check_applied(kind: Kind, applied: Obj, opts: WriteOptions) -> None:
    """Refuse a server-side apply body that does not fit the kind's schema, strictly or with a warning."""
    if opts.repeated and opts.field_validation == "Strict":
        twice = schema.yaml_error(opts.repeated)
        raise bad_request(f"error strict decoding YAML: error converting YAML to JSON: {twice}")
    if opts.field_validation != "Ignore":
        opts.warnings.extend(opts.repeated)
    problems = schema.unknown_fields(applied, kind)
    if kind.crd is None:
        why = applied_error(applied, kind)
        if problems:
            first = problems[0].removeprefix('unknown field "').rstrip('"')
            why = f"{first if first.startswith('.') else f'.{first}'}: field not declared in schema"
        if why:
            message = f"failed to create typed patch object {_typed_name(kind, applied)}: {why}"
            raise status_error("", message, code=500)
        if error := schema.type_errors(applied, kind):
            raise bad_request(_unhandled(kind, error))
        return
    if not problems:
        return
    if opts.field_validation == "Strict":
        raise bad_request(_unhandled(kind, schema.strict_error(problems)))
    if opts.field_validation != "Ignore":
        opts.warnings.extend(problems)


def _typed_name(kind: Kind, applied: Obj) -> str:
    group = f"{kind.group}/{kind.version}, Kind={kind.kind}"
    name, namespace = applied["metadata"].get("name", ""), applied["metadata"].get("namespace", "")
    return f"({namespace}/{name}; {group})" if namespace else f"(/{name}; {group})"


def apply_conflict(error: ApplyConflict) -> ApiError:
    """Server-side apply met other managers' fields: 409 with a cause per field."""
    return status_error("Conflict", error.message, {"causes": error.causes})


def _known(kind: Kind, obj: Obj, custom: CustomResources) -> Obj:
    if kind.crd is not None:
        return custom.prune(kind, obj)[0]
    return schema.typed(obj, kind)


def _unhandled(kind: Kind, why: str) -> str:
    return f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'
