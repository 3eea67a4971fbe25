"""Containers: names, images, ports, mounts, resources, security contexts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.environment import check_env, check_env_from
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.probes import PROBES, check_hooks
from aiopslab.sim.core.validate.resources import check_claim_names, check_resources
from aiopslab.sim.core.validate.security import check_container_security

Obj = dict[str, Any]
PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
RESTART_POLICIES = ("Always", "Never", "OnFailure")
RESIZABLE, RESIZE_POLICIES = ("cpu", "memory"), ("NotRequired", "RestartContainer")
PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
READ_ONLY_MODES = ("Disabled", "Enabled", "IfPossible")
# What only containers may have that a pod relies on.
NOT_EPHEMERAL = ("ports", "resources", "resizePolicy", "restartPolicy", *PROBES, "lifecycle")
NO_EPHEMERAL = "cannot be set for an Ephemeral Container"
PADDED = "must not have leading or trailing whitespace"


@dataclass(slots=True)
class PodParts:
    """What of its pod a container's validity depends on. ``volumes`` maps names to source types."""

    volumes: Mapping[str, str]
    claims: tuple[str, ...] = ()
    restart_policy: str = "Always"
    grace_s: int | None = None
    host_users: bool = True
    names: set[str] = field(default_factory=set)


def check_containers(errors: Errors, spec: Obj, parts: PodParts, path: str) -> None:
    """Ordinary, init and ephemeral containers of a pod spec."""
    ordinary = spec.get("containers") or []
    if not ordinary:
        errors.required(f"{path}.containers")
    for index, container in enumerate(ordinary):
        where = f"{path}.containers[{index}]"
        _check_container(errors, container, parts, where)
        _check_unique(errors, container, parts.names, where)
        check_hooks(errors, container, where, parts.grace_s)
        _check_restart_policy(errors, container, where)
    _check_host_ports(errors, ordinary, f"{path}.containers")
    for index, container in enumerate(spec.get("initContainers") or ()):
        _check_init(errors, container, parts, f"{path}.initContainers[{index}]")
        _check_host_ports(errors, [container], f"{path}.initContainers")
    others = set(parts.names)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        _check_ephemeral(errors, container, parts, others, f"{path}.ephemeralContainers[{index}]")


def _check_restart_policy(errors: Errors, container: Obj, path: str) -> None:
    policy = container.get("restartPolicy")
    if policy is not None and policy not in RESTART_POLICIES:
        errors.not_supported(f"{path}.restartPolicy", policy, RESTART_POLICIES)


def _check_init(errors: Errors, container: Obj, parts: PodParts, path: str) -> None:
    _check_container(errors, container, parts, path)
    _check_restart_policy(errors, container, path)
    _check_unique(errors, container, parts.names, path)
    if container.get("restartPolicy") == "Always":
        check_hooks(errors, container, path, parts.grace_s)
        return
    for name in ("lifecycle", *PROBES):
        if container.get(name) is not None:
            errors.forbidden(f"{path}.{name}", "may not be set for init containers without restartPolicy=Always")


def _check_ephemeral(errors: Errors, container: Obj, parts: PodParts, others: set[str], path: str) -> None:
    _check_container(errors, container, parts, path)
    check_padding(errors, container, path)
    _check_unique(errors, container, parts.names, path)
    target = container.get("targetContainerName", "")
    if target and target not in others:
        errors.not_found(f"{path}.targetContainerName", target)
    for name in NOT_EPHEMERAL:
        if container.get(name):
            errors.forbidden(f"{path}.{name}", NO_EPHEMERAL)
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        for name in ("subPath", "subPathExpr"):
            if mount.get(name):
                errors.forbidden(f"{path}.volumeMounts[{index}].{name}", NO_EPHEMERAL)


def _check_unique(errors: Errors, container: Obj, names: set[str], path: str) -> None:
    name = container.get("name", "")
    if name in names:
        errors.duplicate(f"{path}.name", name)
    if name:
        names.add(name)


def check_padding(errors: Errors, container: Obj, path: str) -> None:
    """Images of pods, unlike those of templates, have no blanks around them."""
    image = container.get("image", "")
    if image.strip() != image:
        errors.invalid(f"{path}.image", image, PADDED)


def _check_container(errors: Errors, container: Obj, parts: PodParts, path: str) -> None:
    name = container.get("name", "")
    if not name:
        errors.required(f"{path}.name")
    else:
        errors.invalid_each(f"{path}.name", name, values.dns_label(name))
    if not container.get("image"):
        errors.required(f"{path}.image")
    policy = container.get("terminationMessagePolicy", "")
    if not policy:
        errors.required(f"{path}.terminationMessagePolicy")
    elif policy not in MESSAGE_POLICIES:
        errors.not_supported(f"{path}.terminationMessagePolicy", policy, MESSAGE_POLICIES)
    _check_ports(errors, container.get("ports") or [], f"{path}.ports")
    check_env(errors, container.get("env") or [], f"{path}.env")
    check_env_from(errors, container.get("envFrom") or [], f"{path}.envFrom")
    _check_mounts(errors, container, parts.volumes, f"{path}.volumeMounts")
    _check_devices(errors, container, parts.volumes, f"{path}.volumeDevices")
    check_pull_policy(errors, container.get("imagePullPolicy", ""), f"{path}.imagePullPolicy")
    resources = container.get("resources") or {}
    check_resources(errors, resources, f"{path}.resources")
    check_claim_names(errors, resources.get("claims") or [], parts.claims, f"{path}.resources.claims")
    _check_resize(errors, container.get("resizePolicy") or [], parts.restart_policy, f"{path}.resizePolicy")
    context = container.get("securityContext") or {}
    check_container_security(errors, context, f"{path}.securityContext", host_users=parts.host_users)


def check_pull_policy(errors: Errors, policy: str, path: str) -> None:
    """When an image is pulled."""
    if not policy:
        errors.required(path)
    elif policy not in PULL_POLICIES:
        errors.not_supported(path, policy, PULL_POLICIES)


def _check_ports(errors: Errors, ports: list[Obj], path: str) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"{path}[{index}]", port.get("name", "")
        if name:
            problems = values.port_name(name)
            errors.invalid_each(f"{where}.name", name, problems)
            if not problems and name in names:
                errors.duplicate(f"{where}.name", name)
            names.add(name)
        number = port.get("containerPort", 0)
        if not number:
            errors.required(f"{where}.containerPort")
        else:
            errors.invalid_each(f"{where}.containerPort", number, values.port_number(number))
        if port.get("hostPort"):
            errors.invalid_each(f"{where}.hostPort", port["hostPort"], values.port_number(port["hostPort"]))
        protocol = port.get("protocol", "")
        if not protocol:
            errors.required(f"{where}.protocol")
        elif protocol not in PROTOCOLS:
            errors.not_supported(f"{where}.protocol", protocol, PROTOCOLS)


def _check_host_ports(errors: Errors, containers: list[Obj], path: str) -> None:
    taken: set[tuple[str, str, int]] = set()
    for index, container in enumerate(containers):
        for at, port in enumerate(container.get("ports") or ()):
            host_port = port.get("hostPort")
            if not host_port:
                continue
            key = (port.get("protocol", ""), port.get("hostIP", ""), host_port)
            if key in taken:
                errors.duplicate(f"{path}[{index}].ports[{at}].hostPort", "/".join(map(str, key)))
            taken.add(key)


def _check_mounts(errors: Errors, container: Obj, volumes: Mapping[str, str], path: str) -> None:
    devices = container.get("volumeDevices") or []
    taken: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.required(f"{where}.name")
        if name not in volumes:
            errors.not_found(f"{where}.name", name)
        if not target:
            errors.required(f"{where}.mountPath")
        if target in taken:
            errors.invalid(f"{where}.mountPath", target, "must be unique")
        taken.add(target)
        if any(device.get("name") == name for device in devices):
            errors.invalid(f"{where}.name", name, "must not already exist in volumeDevices")
        if any(device.get("devicePath") == target for device in devices):
            errors.invalid(f"{where}.mountPath", target, "must not already exist as a path in volumeDevices")
        _check_sub_paths(errors, mount, where, path, in_image=volumes.get(name) == "image")
        _check_propagation(errors, mount, container, path)


def _check_sub_paths(errors: Errors, mount: Obj, path: str, mounts: str, *, in_image: bool) -> None:
    """``subPath`` and ``subPathExpr``. The server's messages about their form do not say which mount is meant."""
    for name in ("subPath", "subPathExpr"):
        inner = mount.get(name, "")
        if inner and in_image:
            errors.invalid(f"{path}.{name}", inner, "not allowed in image volume sources")
        if name == "subPathExpr" and inner and mount.get("subPath"):
            errors.invalid(f"{path}.{name}", inner, "subPathExpr and subPath are mutually exclusive")
        values.check_descending(errors, f"{mounts}.{name}", inner)


def _check_propagation(errors: Errors, mount: Obj, container: Obj, path: str) -> None:
    mode, read_only = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    if mode is not None and mode not in PROPAGATIONS:
        errors.not_supported(f"{path}.mountPropagation", mode, PROPAGATIONS)
    if mode == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        detail = "Bidirectional mount propagation is available only to privileged containers"
        errors.forbidden(f"{path}.mountPropagation", detail)
    if read_only is not None and read_only not in READ_ONLY_MODES:
        errors.not_supported(f"{path}.recursiveReadOnly", read_only, READ_ONLY_MODES)
    elif read_only in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            errors.forbidden(f"{path}.recursiveReadOnly", "may only be specified when readOnly is true")
        if mode not in (None, "None"):
            detail = "may only be specified when mountPropagation is None or not specified"
            errors.forbidden(f"{path}.recursiveReadOnly", detail)


def _check_devices(errors: Errors, container: Obj, volumes: Mapping[str, str], path: str) -> None:
    mounts = container.get("volumeMounts") or []
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        where, name, target = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        if not name:
            errors.required(f"{where}.name")
        if name in names:
            errors.invalid(f"{where}.name", name, "must be unique")
        if name not in volumes:
            errors.not_found(f"{where}.name", name)
        elif volumes[name] not in ("persistentVolumeClaim", "ephemeral"):
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.invalid(f"{where}.name", name, detail)
        if not target:
            errors.required(f"{where}.devicePath")
        if target in paths:
            errors.invalid(f"{where}.devicePath", target, "must be unique")
        if ".." in target.split("/"):
            errors.invalid(f"{where}.devicePath", target, "can not contain backsteps ('..')")
        if any(mount.get("name") == name for mount in mounts):
            errors.invalid(f"{where}.name", name, "must not already exist in volumeMounts")
        if any(mount.get("mountPath") == target for mount in mounts):
            errors.invalid(f"{where}.devicePath", target, "must not already exist as a path in volumeMounts")
        names.add(name)
        paths.add(target)


def _check_resize(errors: Errors, policies: list[Obj], restart_policy: str, path: str) -> None:
    seen: set[str] = set()
    for index, item in enumerate(policies):
        name, policy = item.get("resourceName", ""), item.get("restartPolicy", "")
        if name in seen:
            errors.duplicate(f"{path}[{index}]", name)
        seen.add(name)
        for value, known in ((name, RESIZABLE), (policy, RESIZE_POLICIES)):
            if not value:
                errors.required(path)
            elif value not in known:
                errors.not_supported(path, value, known)
        if restart_policy == "Never" and policy != "NotRequired":
            errors.invalid(path, policy, "must be 'NotRequired' when `restartPolicy` is 'Never'")
