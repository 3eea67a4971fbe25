"""Probes and lifecycle hooks of containers."""

from __future__ import annotations

import re
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors

Obj = dict[str, Any]
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
PROBE_HANDLERS, HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc"), ("exec", "httpGet", "tcpSocket", "sleep")
SCHEMES = ("HTTP", "HTTPS")
HEADER_FORM = "[-A-Za-z0-9]+"
_HEADER_ERROR = values.regex_error(
    "a valid HTTP header must consist of alphanumeric characters or '-'", HEADER_FORM, "X-Header-Name"
)


def check_hooks(errors: Errors, container: Obj, path: str, grace_s: int | None) -> None:
    """``lifecycle`` and the three probes of a container that runs until it is stopped."""
    lifecycle = container.get("lifecycle") or {}
    for name in ("postStart", "preStop"):
        if lifecycle.get(name) is not None:
            where = f"{path}.lifecycle.{name}"
            _check_handler(errors, lifecycle[name], where, HOOK_HANDLERS)
            _check_sleep(errors, lifecycle[name].get("sleep"), f"{where}.sleep", grace_s)
    for name in PROBES:
        if container.get(name) is not None:
            _check_probe(errors, name, container[name], f"{path}.{name}")


def _check_probe(errors: Errors, name: str, probe: Obj, path: str) -> None:
    _check_handler(errors, probe, path, PROBE_HANDLERS)
    values.check_non_negative(errors, probe, path, *NUMBERS)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        errors.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if name == "readinessProbe":
        if grace is not None:
            detail = "must not be set for readinessProbes"
            errors.invalid(f"{path}.terminationGracePeriodSeconds", grace, detail)
    elif (successes := probe.get("successThreshold", 1)) != 1:
        errors.invalid(f"{path}.successThreshold", successes, "must be 1")


def _check_sleep(errors: Errors, sleep: Obj | None, path: str, grace_s: int | None) -> None:
    if sleep is None or grace_s is None:
        return
    seconds = sleep.get("seconds", 0)
    if not 0 <= seconds <= grace_s:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
        errors.invalid(path, seconds, detail)


def _check_handler(errors: Errors, handler: Obj, path: str, known: tuple[str, ...]) -> None:
    given = [name for name in known if handler.get(name) is not None]
    for extra in given[1:]:
        errors.forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    if not given:
        errors.required(path, "must specify a handler type")
        return
    where, action = f"{path}.{given[0]}", handler[given[0]]
    if given[0] == "exec" and not action.get("command"):
        errors.required(f"{where}.command")
    elif given[0] == "httpGet":
        _check_http(errors, action, where)
    elif given[0] == "tcpSocket":
        values.check_port_or_name(errors, f"{where}.port", action.get("port"))
    elif given[0] == "grpc":
        number = action.get("port", 0)
        errors.invalid_each(f"{where}.port", number, values.port_number(number))


def _check_http(errors: Errors, action: Obj, path: str) -> None:
    if not action.get("path"):
        errors.required(f"{path}.path")
    values.check_port_or_name(errors, f"{path}.port", action.get("port"))
    if action.get("scheme") not in SCHEMES:
        errors.not_supported(f"{path}.scheme", action.get("scheme", ""), SCHEMES)
    for header in action.get("httpHeaders") or ():
        if not re.fullmatch(HEADER_FORM, header.get("name", "")):
            errors.invalid(f"{path}.httpHeaders", header.get("name", ""), _HEADER_ERROR)
