"""Environment variables of containers, and what the downward API gives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors

Obj = dict[str, Any]
ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
# Paths that exist on a pod, though not all of them may be used in an environment variable.
POD_FIELDS = (
    *ENV_FIELDS, "metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName",
    "status.phase",
)  # fmt: skip
RESOURCE_FIELDS = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
KEYED = ("metadata.annotations", "metadata.labels")
ONE_SOURCE = "may not have more than one field specified at a time"
_SUBSCRIPTED = re.compile(r"(.+)\['(.+)'\]")
_CPU_DIVISORS = ("1m", "1")
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def check_env(errors: Errors, env: list[Obj], path: str) -> None:
    """Environment variables."""
    for index, variable in enumerate(env):
        where, name = f"{path}[{index}]", variable.get("name", "")
        if not name:
            errors.required(f"{where}.name")
        else:
            errors.invalid_each(f"{where}.name", name, values.env_name(name))
        if variable.get("valueFrom") is not None:
            _check_source(errors, variable, f"{where}.valueFrom")


def _check_source(errors: Errors, variable: Obj, path: str) -> None:
    source = variable["valueFrom"]
    if (field := source.get("fieldRef")) is not None:
        check_field_ref(errors, field, f"{path}.fieldRef", ENV_FIELDS)
    if (resource := source.get("resourceFieldRef")) is not None:
        check_resource_ref(errors, resource, f"{path}.resourceFieldRef")
    for name in ("configMapKeyRef", "secretKeyRef"):
        if (reference := source.get(name)) is not None:
            _check_key(errors, reference, f"{path}.{name}")
    given = sum(1 for part in source.values() if part is not None)
    if not given:
        detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        errors.invalid(path, "", detail)
    elif variable.get("value"):
        errors.invalid(path, "", "may not be specified when `value` is not empty")
    elif given > 1:
        errors.invalid(path, "", ONE_SOURCE)


def _check_key(errors: Errors, reference: Obj, path: str) -> None:
    name, key = reference.get("name", ""), reference.get("key", "")
    errors.invalid_each(f"{path}.name", name, values.dns_subdomain(name))
    if not key:
        errors.required(f"{path}.key")
    else:
        errors.invalid_each(f"{path}.key", key, values.config_key(key))


def check_field_ref(errors: Errors, reference: Obj, path: str, supported: Iterable[str]) -> None:
    """A ``fieldRef`` of the downward API; ``supported`` are the paths that its use allows."""
    field = reference.get("fieldPath", "")
    if not reference.get("apiVersion"):
        errors.required(f"{path}.apiVersion")
        return
    if not field:
        errors.required(f"{path}.fieldPath")
        return
    problem, subscripted = "", _SUBSCRIPTED.fullmatch(field)
    if reference["apiVersion"] != "v1":
        problem = f"unsupported pod version: {reference['apiVersion']}"
    elif subscripted and subscripted[1] not in KEYED:
        problem = f"field label does not support subscript: {field}"
    elif not subscripted and field not in POD_FIELDS:
        problem = f"field label not supported: {field}"
    if problem:
        errors.invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {problem}")
    elif subscripted:
        key = subscripted[2].lower() if subscripted[1] == "metadata.annotations" else subscripted[2]
        errors.invalid_each(path, key, values.qualified_name(key))
    elif field not in supported:
        errors.not_supported(f"{path}.fieldPath", field, sorted(supported))


def check_resource_ref(errors: Errors, reference: Obj, path: str, *, in_volume: bool = False) -> None:
    """A ``resourceFieldRef`` of the downward API; in a volume it names a container."""
    resource = reference.get("resource", "")
    kind = resource.partition(".")[2]
    if in_volume and not reference.get("containerName"):
        errors.required(f"{path}.containerName")
    elif not resource:
        errors.required(f"{path}.resource")
    elif resource not in RESOURCE_FIELDS and not resource.startswith(("limits.hugepages-", "requests.hugepages-")):
        errors.not_supported(f"{path}.resource", resource, RESOURCE_FIELDS)
    divisor = values.shown_amount(reference.get("divisor", "0"))
    if divisor == "0":
        return
    what = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(kind)
    if kind.startswith("hugepages-"):
        what = "hugepages"
    known = _CPU_DIVISORS if what == "cpu" else _BYTE_DIVISORS
    if what and divisor not in known:
        listed = " and ".join(known) if what == "cpu" else ", ".join(known)
        detail = f"only divisor's values {listed} are supported with the {what} resource"
        errors.invalid(f"{path}.divisor", resource, detail)


def check_env_from(errors: Errors, sources: list[Obj], path: str) -> None:
    """Whole ConfigMaps and Secrets as variables."""
    for index, source in enumerate(sources):
        where = f"{path}[{index}]"
        if source.get("prefix"):
            errors.invalid_each(f"{where}.prefix", source["prefix"], values.env_name(source["prefix"]))
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            target = source[name].get("name", "")
            if not target:
                errors.required(f"{where}.{name}.name")
            else:
                errors.invalid_each(f"{where}.{name}.name", target, values.dns_subdomain(target.rstrip("-") + "a"))
        # The server's messages do not say which of the sources is meant.
        if not given:
            errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            errors.invalid(path, "", ONE_SOURCE)
