"""Environment of a container: service links, envFrom, env with references and ``$(VAR)`` expansion."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from fractions import Fraction

from aiopslab.sim.core.quantity import parse
from aiopslab.sim.core.store import Key, Obj

Lookup = Callable[[Key], Obj | None]
_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KIND_NAMES = {"configmaps": ("configmap", "ConfigMap"), "secrets": ("secret", "Secret")}


class ConfigError(Exception):
    """A container that cannot be configured. ``str`` is what follows ``Error: `` in the event."""


def environment(pod: Obj, container: Obj, node: Obj, lookup: Lookup, services: list[Obj]) -> dict[str, str]:
    """All variables of a container. Raises ConfigError when a required object or key is missing."""
    env = {"PATH": DEFAULT_PATH, "HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"]}
    env |= service_links(services)
    for source in container.get("envFrom") or ():
        env |= _env_from(pod, source, lookup)
    for entry in container.get("env") or ():
        value = _value(pod, container, node, entry, lookup, env)
        if value is not None:
            env[entry["name"]] = value
    return env


def expand(text: str, env: dict[str, str]) -> str:
    """``$(NAME)`` by its value; unknown names stay, ``$$`` is a dollar sign."""

    def swap(match: re.Match[str]) -> str:
        if match.group() == "$$":
            return "$"
        return env.get(match.group(1), match.group())

    return _REFERENCE.sub(swap, text)


def service_links(services: list[Obj]) -> dict[str, str]:
    """Docker-links style variables of Services that have a cluster address."""
    env: dict[str, str] = {}
    for service in services:
        address = service["spec"].get("clusterIP")
        ports = service["spec"].get("ports") or []
        if not address or address == "None" or not ports:
            continue
        prefix = service["metadata"]["name"].upper().replace("-", "_")
        env[f"{prefix}_SERVICE_HOST"] = address
        env[f"{prefix}_SERVICE_PORT"] = str(ports[0]["port"])
        for port in ports:
            if port.get("name"):
                name = port["name"].upper().replace("-", "_")
                env[f"{prefix}_SERVICE_PORT_{name}"] = str(port["port"])
        for index, port in enumerate(ports):
            protocol, number = port.get("protocol", "TCP"), port["port"]
            url = f"{protocol.lower()}://{address}:{number}"
            if index == 0:
                env[f"{prefix}_PORT"] = url
            base = f"{prefix}_PORT_{number}_{protocol}"
            env |= {base: url, f"{base}_PROTO": protocol.lower(), f"{base}_PORT": str(number)}
            env[f"{base}_ADDR"] = address
    return env


def data_of(obj: Obj) -> dict[str, str]:
    """Entries of a ConfigMap or Secret as text; Secret values are decoded, binary ones as Latin-1."""
    if obj["kind"] == "Secret":
        decoded = {name: base64.b64decode(value) for name, value in (obj.get("data") or {}).items()}
        return {name: value.decode("utf-8", "replace") for name, value in decoded.items()}
    binary = {
        name: base64.b64decode(value).decode("latin-1")
        for name, value in (obj.get("binaryData") or {}).items()
    }
    return {**(obj.get("data") or {}), **binary}


def field_value(pod: Obj, path: str) -> str:
    """The downward API: ``metadata.name``, ``status.podIP``, ``metadata.labels['x']`` and so on."""
    match = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if match:
        return (pod["metadata"].get(match[1]) or {}).get(match[2], "")
    if path in ("metadata.labels", "metadata.annotations"):
        values = pod["metadata"].get(path.rpartition(".")[2]) or {}
        return "\n".join(f'{name}="{value}"' for name, value in sorted(values.items()))
    status = pod.get("status") or {}
    if path == "status.podIPs":
        return ",".join(entry["ip"] for entry in status.get("podIPs") or ())
    if path == "status.hostIPs":
        return ",".join(entry["ip"] for entry in status.get("hostIPs") or ())
    value: object = pod
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)


def resource_value(pod: Obj, container: Obj, node: Obj, reference: Obj) -> str:
    """``limits.cpu`` and the like, divided by the divisor and rounded up; node allocatable when no limit."""
    named = reference.get("containerName")
    if named:
        everyone = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
        container = next((c for c in everyone if c["name"] == named), container)
    section, _, resource = reference["resource"].partition(".")
    resources = container.get("resources") or {}
    value = (resources.get(section) or {}).get(resource)
    if value is None and section == "limits":
        value = ((node.get("status") or {}).get("allocatable") or {}).get(resource)
    divisor = parse(reference.get("divisor") or "1") or Fraction(1)
    quotient = parse(value if value is not None else "0") / divisor
    return str(-(-quotient.numerator // quotient.denominator))


def _env_from(pod: Obj, source: Obj, lookup: Lookup) -> dict[str, str]:
    prefix = source.get("prefix", "")
    for field, resource in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
        reference = source.get(field)
        if reference is None:
            continue
        found = _object(pod, resource, reference, lookup)
        return {prefix + name: value for name, value in data_of(found).items()} if found is not None else {}
    return {}


def _value(
    pod: Obj, container: Obj, node: Obj, entry: Obj, lookup: Lookup, env: dict[str, str]
) -> str | None:
    source = entry.get("valueFrom")
    if not source:
        return expand(entry.get("value", ""), env)
    if "fieldRef" in source:
        return field_value(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return resource_value(pod, container, node, source["resourceFieldRef"])
    for field, resource in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
        if field in source:
            return _keyed(pod, resource, source[field], lookup)
    return None


def _keyed(pod: Obj, resource: str, reference: Obj, lookup: Lookup) -> str | None:
    found = _object(pod, resource, reference, lookup)
    if found is None:
        return None
    value = data_of(found).get(reference["key"])
    if value is None and not reference.get("optional"):
        kind = _KIND_NAMES[resource][1]
        where = f"{pod['metadata']['namespace']}/{reference['name']}"
        raise ConfigError(f"couldn't find key {reference['key']} in {kind} {where}")
    return value


def _object(pod: Obj, resource: str, reference: Obj, lookup: Lookup) -> Obj | None:
    found = lookup(Key(resource, pod["metadata"]["namespace"], reference.get("name", "")))
    if found is None and not reference.get("optional"):
        raise ConfigError(f'{_KIND_NAMES[resource][0]} "{reference.get("name", "")}" not found')
    return found
