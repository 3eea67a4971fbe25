"""Containers: names, images, ports, environment, mounts, probes, resources."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.resources import check_resources

Obj = dict[str, Any]
PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
PROBE_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
# Paths that exist on a pod, though not all of them may be used in an environment variable.
POD_FIELDS = (
    *ENV_FIELDS, "metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName",
    "spec.hostNetwork", "status.phase",
)  # fmt: skip
RESOURCE_FIELDS = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
KEYED = ("metadata.annotations", "metadata.labels")


def check_containers(errors: Errors, spec: Obj, volumes: Iterable[str], path: str) -> None:
    """Ordinary, init and ephemeral containers of a pod spec."""
    ordinary = spec.get("containers") or []
    known = set(volumes)
    if not ordinary:
        errors.required(f"{path}.containers")
    names: set[str] = set()
    for index, container in enumerate(ordinary):
        where = f"{path}.containers[{index}]"
        _check_container(errors, container, known, where)
        _check_unique(errors, container, names, where)
        _check_hooks(errors, container, where, probes=True)
        if container.get("restartPolicy") not in (None, "Always", "OnFailure", "Never"):
            policies = ("Always", "Never", "OnFailure")
            errors.not_supported(f"{where}.restartPolicy", container["restartPolicy"], policies)
    _check_host_ports(errors, ordinary, f"{path}.containers")
    for index, container in enumerate(spec.get("initContainers") or ()):
        where = f"{path}.initContainers[{index}]"
        _check_container(errors, container, known, where)
        _check_unique(errors, container, names, where)
        sidecar = container.get("restartPolicy") == "Always"
        if sidecar:
            _check_hooks(errors, container, where, probes=True)
        else:
            for field in ("lifecycle", *PROBES):
                if container.get(field) is not None:
                    detail = "may not be set for init containers without restartPolicy=Always"
                    errors.forbidden(f"{where}.{field}", detail)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        where = f"{path}.ephemeralContainers[{index}]"
        _check_container(errors, container, known, where)
        _check_unique(errors, container, names, where)


def _check_unique(errors: Errors, container: Obj, names: set[str], path: str) -> None:
    name = container.get("name", "")
    if name in names:
        errors.duplicate(f"{path}.name", name)
    names.add(name)


def _check_container(errors: Errors, container: Obj, volumes: set[str], path: str) -> None:
    name, image = container.get("name", ""), container.get("image", "")
    if not name:
        errors.required(f"{path}.name")
    else:
        errors.invalid_each(f"{path}.name", name, values.dns_label(name))
    if not image:
        errors.required(f"{path}.image")
    elif image.strip() != image:
        errors.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    policy = container.get("terminationMessagePolicy", "")
    if not policy:
        errors.required(f"{path}.terminationMessagePolicy")
    elif policy not in MESSAGE_POLICIES:
        errors.not_supported(f"{path}.terminationMessagePolicy", policy, MESSAGE_POLICIES)
    _check_ports(errors, container.get("ports") or [], f"{path}.ports")
    check_env(errors, container.get("env") or [], f"{path}.env")
    _check_env_from(errors, container.get("envFrom") or [], f"{path}.envFrom")
    _check_mounts(errors, container.get("volumeMounts") or [], volumes, f"{path}.volumeMounts")
    pull = container.get("imagePullPolicy", "")
    if not pull:
        errors.required(f"{path}.imagePullPolicy")
    elif pull not in PULL_POLICIES:
        errors.not_supported(f"{path}.imagePullPolicy", pull, PULL_POLICIES)
    check_resources(errors, container.get("resources") or {}, f"{path}.resources")
    _check_security(errors, container.get("securityContext") or {}, f"{path}.securityContext")


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


def check_env(errors: Errors, env: list[Obj], path: str) -> None:
    """Environment variables."""
    for index, variable in enumerate(env):
        where, name = f"{path}[{index}]", variable.get("name", "")
        if not name:
            errors.required(f"{where}.name")
        else:
            errors.invalid_each(f"{where}.name", name, values.env_name(name))
        if variable.get("valueFrom") is not None:
            _check_env_source(errors, variable, f"{where}.valueFrom")


def _check_env_source(errors: Errors, variable: Obj, path: str) -> None:
    source = variable["valueFrom"]
    given = 0
    if (field := source.get("fieldRef")) is not None:
        given += 1
        check_field_ref(errors, field, f"{path}.fieldRef", ENV_FIELDS)
    if (resource := source.get("resourceFieldRef")) is not None:
        given += 1
        _check_resource_ref(errors, resource, f"{path}.resourceFieldRef")
    for name in ("configMapKeyRef", "secretKeyRef"):
        reference = source.get(name)
        if reference is None:
            continue
        given += 1
        if not reference.get("name"):
            errors.required(f"{path}.{name}.name")
        key = reference.get("key", "")
        if not key:
            errors.required(f"{path}.{name}.key")
        else:
            errors.invalid_each(f"{path}.{name}.key", key, values.config_key(key))
    if not given:
        detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        errors.invalid(path, "", detail)
    elif variable.get("value"):
        errors.invalid(path, "", "may not be specified when `value` is not empty")
    elif given > 1:
        errors.invalid(path, "", "may not have more than one field specified at a time")


def check_field_ref(errors: Errors, reference: Obj, path: str, supported: Iterable[str]) -> None:
    """A ``fieldRef`` of the downward API; ``supported`` are the paths that its use allows."""
    field = reference.get("fieldPath", "")
    if not reference.get("apiVersion"):
        errors.required(f"{path}.apiVersion")
        return
    if not field:
        errors.required(f"{path}.fieldPath")
        return
    base, bracket, _ = field.partition("['")
    if bracket and base in KEYED:
        return
    if field not in POD_FIELDS:
        detail = f"error converting fieldPath: field label not supported: {field}"
        errors.invalid(f"{path}.fieldPath", field, detail)
    elif field not in supported:
        errors.not_supported(f"{path}.fieldPath", field, sorted(supported))


def _check_resource_ref(errors: Errors, reference: Obj, path: str) -> None:
    resource = reference.get("resource", "")
    if not resource:
        errors.required(f"{path}.resource")
    elif resource not in RESOURCE_FIELDS and not resource.partition(".")[2].startswith("hugepages-"):
        errors.not_supported(f"{path}.resource", resource, RESOURCE_FIELDS)


def _check_env_from(errors: Errors, sources: list[Obj], path: str) -> None:
    for index, source in enumerate(sources):
        where = f"{path}[{index}]"
        if source.get("prefix"):
            errors.invalid_each(f"{where}.prefix", source["prefix"], values.env_name(source["prefix"]))
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            if not source[name].get("name"):
                errors.required(f"{where}.{name}.name")
        if not given:
            errors.invalid(where, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            errors.invalid(where, "", "may not have more than one field specified at a time")


def _check_mounts(errors: Errors, mounts: list[Obj], volumes: set[str], path: str) -> None:
    taken: set[str] = set()
    for index, mount in enumerate(mounts):
        where, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.required(f"{where}.name")
        if name not in volumes:
            errors.not_found(f"{where}.name", name)
        if not target:
            errors.required(f"{where}.mountPath")
        elif target in taken:
            errors.invalid(f"{where}.mountPath", target, "must be unique")
        taken.add(target)
        for field in ("subPath", "subPathExpr"):
            inner = mount.get(field, "")
            if inner.startswith("/"):
                errors.invalid(f"{where}.{field}", inner, "must be a relative path")
            elif ".." in inner.split("/"):
                errors.invalid(f"{where}.{field}", inner, "must not contain '..'")


def _check_security(errors: Errors, context: Obj, path: str) -> None:
    for field in ("runAsUser", "runAsGroup"):
        value = context.get(field)
        if value is not None and not 0 <= value <= values.INT32_MAX:
            errors.invalid(f"{path}.{field}", value, "must be between 0 and 2147483647, inclusive")
    if context.get("allowPrivilegeEscalation") is False and context.get("privileged"):
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.invalid(path, context, detail)


def _check_hooks(errors: Errors, container: Obj, path: str, *, probes: bool) -> None:
    lifecycle = container.get("lifecycle") or {}
    for name in ("postStart", "preStop"):
        if lifecycle.get(name) is not None:
            _check_handler(errors, lifecycle[name], f"{path}.lifecycle.{name}")
    for name in PROBES if probes else ():
        if container.get(name) is not None:
            _check_probe(errors, container[name], f"{path}.{name}")
            successes = container[name].get("successThreshold", 1)
            if name != "readinessProbe" and successes != 1:
                errors.invalid(f"{path}.{name}.successThreshold", successes, "must be 1")


def _check_probe(errors: Errors, probe: Obj, path: str) -> None:
    _check_handler(errors, probe, path)
    values.check_non_negative(errors, probe, path, *PROBE_NUMBERS)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        errors.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")


def _check_handler(errors: Errors, handler: Obj, path: str) -> None:
    checks = (
        ("exec", _check_exec),
        ("httpGet", _check_http),
        ("tcpSocket", _check_tcp),
        ("grpc", _check_grpc),
        ("sleep", _check_sleep),
    )
    given = 0
    for name, check in checks:
        if handler.get(name) is None:
            continue
        given += 1
        if given > 1:
            errors.forbidden(f"{path}.{name}", "may not specify more than 1 handler type")
        else:
            check(errors, handler[name], f"{path}.{name}")
    if not given:
        errors.required(path, "must specify a handler type")


def _check_exec(errors: Errors, action: Obj, path: str) -> None:
    if not action.get("command"):
        errors.required(f"{path}.command")


def _check_http(errors: Errors, action: Obj, path: str) -> None:
    if not action.get("path"):
        errors.required(f"{path}.path")
    values.check_port_or_name(errors, f"{path}.port", action.get("port"))
    if action.get("scheme") not in ("HTTP", "HTTPS"):
        errors.not_supported(f"{path}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS"))


def _check_tcp(errors: Errors, action: Obj, path: str) -> None:
    values.check_port_or_name(errors, f"{path}.port", action.get("port"))


def _check_grpc(errors: Errors, action: Obj, path: str) -> None:
    number = action.get("port", 0)
    errors.invalid_each(f"{path}.port", number, values.port_number(number))


def _check_sleep(errors: Errors, action: Obj, path: str) -> None:
    seconds = action.get("seconds", 0)
    if seconds < 0:
        errors.invalid(path, seconds, "must be greater than 0 and less than terminationGracePeriodSeconds")
