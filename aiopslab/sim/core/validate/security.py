"""Security contexts of pods and containers."""

from __future__ import annotations

import re
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.internals import internal

Obj = dict[str, Any]
PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
PROC_MOUNTS = ("Default", "Unmasked")
ID_RANGE = "must be between 0 and 2147483647, inclusive"
SYSCTL_FORM = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
SYSCTL_MAX, APPARMOR_MAX = 253, 4095
NET_SYSCTLS, IPC_SYSCTLS = ("net.",), ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
# Fields with few values, and those in the server's order.
CHOICES = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("MountOption", "Recursive"),
}


def check_container_security(errors: Errors, context: Obj, path: str, *, host_users: bool) -> None:
    """``securityContext`` of a container."""
    _check_ids(errors, context, path, "runAsUser", "runAsGroup")
    mount = context.get("procMount")
    if mount is not None and mount not in PROC_MOUNTS:
        errors.not_supported(f"{path}.procMount", mount, PROC_MOUNTS)
    if mount == "Unmasked" and host_users:
        errors.invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    _check_seccomp(errors, context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        cannot = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            errors.invalid(path, internal("SecurityContext", context), f"{cannot} `privileged` to true")
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            shown = internal("SecurityContext", context)
            errors.invalid(path, shown, f"{cannot} `capabilities.Add` CAP_SYS_ADMIN")
    _check_apparmor(errors, context.get("appArmorProfile"), f"{path}.appArmorProfile")


def check_pod_security(errors: Errors, spec: Obj, path: str) -> None:
    """``securityContext`` of a pod and what it says about the host's namespaces."""
    context, where = spec.get("securityContext") or {}, f"{path}.securityContext"
    _check_ids(errors, context, where, "fsGroup", "runAsUser", "runAsGroup")
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= values.INT32_MAX:
            errors.invalid(f"{where}.supplementalGroups[{index}]", group, ID_RANGE)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.invalid(f"{where}.shareProcessNamespace", True, detail)
    _check_sysctls(errors, spec, context.get("sysctls") or [], f"{where}.sysctls")
    _check_choice(errors, context, where, "fsGroupChangePolicy")
    _check_seccomp(errors, context.get("seccompProfile"), f"{where}.seccompProfile")
    _check_apparmor(errors, context.get("appArmorProfile"), f"{where}.appArmorProfile")
    _check_choice(errors, context, where, "supplementalGroupsPolicy")
    _check_choice(errors, context, where, "seLinuxChangePolicy")


def check_host_users(errors: Errors, spec: Obj, path: str) -> None:
    """User namespaces and the host's other namespaces exclude each other."""
    if spec.get("hostUsers") is not False:
        return
    for field, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field):
            errors.forbidden(f"{path}.{shown}", "when `pod.Spec.HostUsers` is false")


def _check_ids(errors: Errors, context: Obj, path: str, *fields: str) -> None:
    for field in fields:
        value = context.get(field)
        if value is not None and not 0 <= value <= values.INT32_MAX:
            errors.invalid(f"{path}.{field}", value, ID_RANGE)


def _check_choice(errors: Errors, context: Obj, path: str, field: str) -> None:
    if context.get(field) is not None and context[field] not in CHOICES[field]:
        errors.not_supported(f"{path}.{field}", context[field], CHOICES[field])


def _check_sysctls(errors: Errors, spec: Obj, sysctls: list[Obj], path: str) -> None:
    seen: set[str] = set()
    for index, item in enumerate(sysctls):
        where, name = f"{path}[{index}].name", item.get("name", "")
        if not name:
            errors.required(where)
        elif len(name) > SYSCTL_MAX or not re.fullmatch(SYSCTL_FORM, name):
            detail = f"must have at most {SYSCTL_MAX} characters and match regex ^{SYSCTL_FORM}$"
            errors.invalid(where, name, detail)
        elif name in seen:
            errors.duplicate(where, name)
        dotted = name.replace("/", ".")
        for field, prefixes in (("hostNetwork", NET_SYSCTLS), ("hostIPC", IPC_SYSCTLS)):
            if spec.get(field) and dotted.startswith(prefixes):
                errors.invalid(where, name, f"may not be specified when '{field}' is true")
        seen.add(name)


def _check_seccomp(errors: Errors, profile: Obj | None, path: str) -> None:
    if profile is None:
        return
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        errors.required(f"{path}.type", "type is required when seccompProfile is set")
    elif kind not in PROFILES:
        errors.not_supported(f"{path}.type", kind, PROFILES)
    if kind == "Localhost" and local is None:
        errors.required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    elif kind == "Localhost":
        values.check_descending(errors, f"{path}.localhostProfile", local or "")
    elif local is not None:
        detail = "can only be set when seccomp type is Localhost"
        errors.invalid(f"{path}.localhostProfile", internal("SeccompProfile", profile), detail)


def _check_apparmor(errors: Errors, profile: Obj | None, path: str) -> None:
    if profile is None:
        return
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        errors.required(f"{path}.type", "type is required when appArmorProfile is set")
    elif kind not in PROFILES:
        errors.not_supported(f"{path}.type", kind, PROFILES)
    elif kind != "Localhost":
        if local is not None:
            errors.invalid(f"{path}.localhostProfile", local, "can only be set when AppArmor type is Localhost")
    elif not (local or "").strip():
        errors.required(f"{path}.localhostProfile", "must be set when AppArmor type is Localhost")
    elif local is not None and local != local.strip():
        errors.invalid(f"{path}.localhostProfile", local, "must not be padded with whitespace")
