"""Volumes of a pod."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.containers import check_field_ref
from aiopslab.sim.core.validate.errors import Errors

Obj = dict[str, Any]
FILE_MODE_MAX = 0o777
MODE_DETAIL = "must be a number between 0 and 0777 (octal), both inclusive"
FILE_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
# What each simple source cannot do without.
REQUIRED = {
    "persistentVolumeClaim": ("claimName",),
    "secret": ("secretName",),
    "configMap": ("name",),
    "hostPath": ("path",),
    "nfs": ("server", "path"),
    "csi": ("driver",),
}


def check_volumes(errors: Errors, volumes: list[Obj], path: str) -> list[str]:
    """Check volumes; returns the names that mounts may use."""
    names: list[str] = []
    for index, volume in enumerate(volumes):
        where, name = f"{path}[{index}]", volume.get("name", "")
        before = len(errors)
        _check_source(errors, volume, where)
        if not name:
            errors.required(f"{where}.name")
        else:
            errors.invalid_each(f"{where}.name", name, values.dns_label(name))
        if name in names:
            errors.duplicate(f"{where}.name", name)
        if len(errors) == before:
            names.append(name)
    return names


def _check_source(errors: Errors, volume: Obj, path: str) -> None:
    sources = [name for name in volume if name != "name"]
    if not sources:
        errors.required(path, "must specify a volume type")
        return
    for extra in sources[1:]:
        errors.forbidden(f"{path}.{extra}", "may not specify more than 1 volume type")
    name = sources[0]
    source = volume[name] or {}
    for field in REQUIRED.get(name, ()):
        if not source.get(field):
            errors.required(f"{path}.{name}.{field}")
    _check_mode(errors, source, f"{path}.{name}", "defaultMode")
    if name in ("secret", "configMap"):
        _check_items(errors, source.get("items") or [], f"{path}.{name}.items")
    elif name == "emptyDir" and source.get("sizeLimit") is not None and values.amount(source["sizeLimit"]) < 0:
        errors.forbidden(f"{path}.emptyDir.sizeLimit", "SizeLimit field must be a valid resource quantity")
    elif name == "projected":
        _check_projected(errors, source.get("sources") or [], f"{path}.projected.sources")
    elif name == "downwardAPI":
        _check_files(errors, source.get("items") or [], f"{path}.downwardAPI")


def _check_mode(errors: Errors, holder: Obj, path: str, field: str) -> None:
    mode = holder.get(field)
    if isinstance(mode, int) and not 0 <= mode <= FILE_MODE_MAX:
        errors.invalid(f"{path}.{field}", mode, MODE_DETAIL)


def _check_items(errors: Errors, items: list[Obj], path: str) -> None:
    for index, item in enumerate(items):
        where = f"{path}[{index}]"
        if not item.get("key"):
            errors.required(f"{where}.key")
        _check_file_path(errors, item.get("path", ""), f"{where}.path")
        _check_mode(errors, item, where, "mode")


def _check_file_path(errors: Errors, target: str, field: str) -> None:
    if not target:
        errors.required(field)
    elif target.startswith("/"):
        errors.invalid(field, target, "must be a relative path")
    elif ".." in target.split("/"):
        errors.invalid(field, target, "must not contain '..'")


def _check_files(errors: Errors, items: list[Obj], path: str) -> None:
    for index, item in enumerate(items):
        where = f"{path}[{index}]"
        _check_file_path(errors, item.get("path", ""), f"{where}.path")
        if (field := item.get("fieldRef")) is not None:
            check_field_ref(errors, field, f"{where}.fieldRef", FILE_FIELDS)


def _check_projected(errors: Errors, sources: list[Obj], path: str) -> None:
    for index, source in enumerate(sources):
        where = f"{path}[{index}]"
        for name in ("secret", "configMap"):
            part = source.get(name)
            if part is None:
                continue
            if not part.get("name"):
                errors.required(f"{where}.{name}.name")
            _check_items(errors, part.get("items") or [], f"{where}.{name}.items")
        if (token := source.get("serviceAccountToken")) is not None:
            expiration = token.get("expirationSeconds", 3600)
            if expiration < 600:
                detail = "may not specify a duration less than 10 minutes"
                errors.invalid(f"{where}.serviceAccountToken.expirationSeconds", expiration, detail)
            _check_file_path(errors, token.get("path", ""), f"{where}.serviceAccountToken.path")
        if (files := source.get("downwardAPI")) is not None:
            _check_files(errors, files.get("items") or [], f"{where}.downwardAPI.items")
