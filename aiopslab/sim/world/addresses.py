"""Addresses as programs are given them: ``host:port``, URLs and connection strings in environment variables."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

DEFAULT_PORTS = {"http": 80, "https": 443, "postgres": 5432, "postgresql": 5432, "redis": 6379}
KEYWORD_PORT = 5432  # of connection strings such as ``Host=db;Database=shop``
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_KEYWORD = re.compile(r"(?:^|;)\s*(host|server|port)\s*=\s*([^;]+)", re.IGNORECASE)


def is_address(text: str) -> bool:
    """Whether a host is written as an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def address_in(env: Mapping[str, str], call: str) -> str:
    """``host:port`` that ``call`` names in an environment: a variable, or a text with a colon in which
    ``${NAME}`` is filled in. Empty when a variable is missing."""
    if ":" not in call:
        return plain_address(env.get(call, ""))
    names = _VARIABLE.findall(call)
    if any(not env.get(name) for name in names):
        return ""
    return plain_address(_VARIABLE.sub(lambda match: env[match[1]], call))


def plain_address(target: str) -> str:
    """``host:port`` of an address, a URL or a connection string; empty stays empty."""
    if not target:
        return ""
    if "=" in target and "://" not in target:
        found = {name.lower(): value.strip() for name, value in _KEYWORD.findall(target)}
        host = found.get("host") or found.get("server", "")
        return f"{host}:{found.get('port', KEYWORD_PORT)}" if host else ""
    scheme, marker, rest = target.partition("://")
    plain = (rest if marker else target).partition("/")[0].rpartition("@")[2]
    return plain if ":" in plain else f"{plain}:{DEFAULT_PORTS.get(scheme if marker else '', 80)}"
