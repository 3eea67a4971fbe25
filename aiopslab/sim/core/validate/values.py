"""Formats of single values: names, labels, ports, percentages. Functions return messages, empty when fine."""

from __future__ import annotations

import ipaddress
import re
from fractions import Fraction
from typing import Any

from aiopslab.sim.core import quantity
from aiopslab.sim.core.validate.errors import Errors

LABEL_FORM = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN_FORM = rf"{LABEL_FORM}(\.{LABEL_FORM})*"
UNDERSCORED_FORM = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*"
DNS_1035_FORM = "[a-z]([-a-z0-9]*[a-z0-9])?"
QUALIFIED_FORM = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
LABEL_VALUE_FORM = f"({QUALIFIED_FORM})?"
CONFIG_KEY_FORM = "[-._a-zA-Z0-9]+"
PERCENT_FORM = "[0-9]+%"
WILDCARD_FORM = rf"\*\.{SUBDOMAIN_FORM}"
_RELAXED_ENV = re.compile(r"[ -<>-~]+")
_PORT_NAME = re.compile("[-a-z0-9]+")
_HTTP_PATH_FORM = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_LINK_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))
LABEL_MAX, SUBDOMAIN_MAX, PORT_NAME_MAX = 63, 253, 15
INT32_MAX = 2147483647
NON_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"
_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)


def regex_error(message: str, form: str, *examples: str) -> str:
    """A message with examples and the regular expression, in the server's layout."""
    shown = "".join(f"'{example}',  or " for example in examples[:-1]) + f"'{examples[-1]}'"
    return f"{message} (e.g. {shown}, regex used for validation is '{form}')"


_SUBDOMAIN_ERROR = regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    SUBDOMAIN_FORM,
    "example.com",
)
_UNDERSCORED_ERROR = regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character",
    UNDERSCORED_FORM,
    "example.com",
)
_LABEL_ERROR = regex_error(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    LABEL_FORM,
    "my-name",
    "123-abc",
)
_DNS_1035_ERROR = regex_error(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    DNS_1035_FORM,
    "my-name",
    "abc-123",
)
_QUALIFIED_ERROR = regex_error(_QUALIFIED_TEXT, QUALIFIED_FORM, "MyName", "my.name", "123-abc")
_LABEL_VALUE_ERROR = regex_error(
    f"a valid label must be an empty string or {_QUALIFIED_TEXT.removeprefix('must ')}",
    LABEL_VALUE_FORM,
    "MyValue",
    "my_value",
    "12345",
)
_CONFIG_KEY_ERROR = regex_error(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    CONFIG_KEY_FORM,
    "key.name",
    "KEY_NAME",
    "key-name",
)
_PERCENT_ERROR = regex_error(
    "a valid percent string must be a numeric string followed by an ending '%'", PERCENT_FORM, "1%", "93%"
)
_WILDCARD_ERROR = regex_error(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must "
    "consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    WILDCARD_FORM,
    "*.example.com",
)


def _form(value: str, form: str, error: str, most: int) -> list[str]:
    found = [] if len(value) <= most else [f"must be no more than {most} characters"]
    if not re.fullmatch(form, value):
        found.append(error)
    return found


def dns_subdomain(value: str) -> list[str]:
    """RFC 1123 subdomain: names of most objects."""
    return _form(value, SUBDOMAIN_FORM, _SUBDOMAIN_ERROR, SUBDOMAIN_MAX)


def underscored_subdomain(value: str) -> list[str]:
    """A subdomain whose labels may have underscores: search paths of DNS."""
    return _form(value, UNDERSCORED_FORM, _UNDERSCORED_ERROR, SUBDOMAIN_MAX)


def dns_label(value: str) -> list[str]:
    """RFC 1123 label: namespaces, containers, volumes."""
    dotted = re.fullmatch(SUBDOMAIN_FORM, value)
    return _form(value, LABEL_FORM, "must not contain dots" if dotted else _LABEL_ERROR, LABEL_MAX)


def dns_1035_label(value: str) -> list[str]:
    """RFC 1035 label: service names where they are referred to."""
    return _form(value, DNS_1035_FORM, _DNS_1035_ERROR, LABEL_MAX)


def wildcard_subdomain(value: str) -> list[str]:
    """``*.example.com``."""
    return _form(value, WILDCARD_FORM, _WILDCARD_ERROR, SUBDOMAIN_MAX)


def path_segment(value: str) -> list[str]:
    """Names that only have to fit into a URL: RBAC objects."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in value]


def qualified_name(value: str) -> list[str]:
    """``[prefix/]name``: label and annotation keys, resources."""
    parts = value.split("/")
    found: list[str] = []
    if len(parts) > 2:
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_QUALIFIED_ERROR}{suffix}"]
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        found += [f"prefix part {text}" for text in dns_subdomain(parts[0]) if parts[0]]
    name = parts[-1]
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > LABEL_MAX:
        found.append(f"name part must be no more than {LABEL_MAX} bytes")
    if not re.fullmatch(QUALIFIED_FORM, name):
        found.append(f"name part {_QUALIFIED_ERROR}")
    return found


def label_value(value: str) -> list[str]:
    """A label's value."""
    found = [] if len(value.encode()) <= LABEL_MAX else [f"must be no more than {LABEL_MAX} bytes"]
    if not re.fullmatch(LABEL_VALUE_FORM, value):
        found.append(_LABEL_VALUE_ERROR)
    return found


def config_key(value: str) -> list[str]:
    """A key of a ConfigMap or Secret."""
    found = [] if len(value) <= SUBDOMAIN_MAX else [f"must be no more than {SUBDOMAIN_MAX} characters"]
    if not re.fullmatch(CONFIG_KEY_FORM, value):
        found.append(_CONFIG_KEY_ERROR)
    if value in (".", ".."):
        found.append(f"must not be '{value}'")
    elif value.startswith(".."):
        found.append("must not start with '..'")
    return found


def env_name(value: str) -> list[str]:
    """Name of an environment variable."""
    if _RELAXED_ENV.fullmatch(value):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def port_number(value: Any) -> list[str]:
    """1 to 65535."""
    return [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]


def port_name(value: str) -> list[str]:
    """An IANA service name."""
    found = [] if len(value) <= PORT_NAME_MAX else [f"must be no more than {PORT_NAME_MAX} characters"]
    if not _PORT_NAME.fullmatch(value):
        found.append("must contain only alphanumeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        found.append("must contain at least one letter (a-z)")
    if "--" in value:
        found.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return found


def ip_address(value: str) -> list[str]:
    """IPv4 or IPv6, in a form that nobody can read as another address."""
    try:
        found = ipaddress.ip_address(_without_zeros(value))
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    if _without_zeros(value) != value:
        return ["must not have leading 0s"]
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return ["must not be an IPv4-mapped IPv6 address"]
    return []


def ip_range(value: str) -> list[str]:
    """A CIDR, in a form that nobody can read as another range."""
    address, slash, length = value.partition("/")
    bare = f"{_without_zeros(address)}/{length.lstrip('0') or '0'}"
    try:
        if not slash or not length.isdigit():
            raise ValueError(value)
        found = ipaddress.ip_interface(bare)
    except ValueError:
        return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    if bare != value:
        return ["must not have leading 0s in IP or prefix length"]
    if isinstance(found.ip, ipaddress.IPv6Address) and found.ip.ipv4_mapped is not None:
        return ["must not have an IPv4-mapped IPv6 address"]
    if found.ip != found.network.network_address:
        return ["must not have bits set beyond the prefix length"]
    return []


def network(value: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """A CIDR, None if it is none."""
    try:
        return ipaddress.ip_network(value, strict=False)
    except ValueError:
        return None


def _without_zeros(address: str) -> str:
    """An IPv4 address without leading zeros in its numbers; any other text as it is."""
    if not re.fullmatch(r"\d+(\.\d+){3}", address):
        return address
    return ".".join(number.lstrip("0") or "0" for number in address.split("."))


def special_address(value: str) -> list[str]:
    """Why an endpoint may not have an IP address: it means the host itself, or nobody in particular."""
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return []
    found = []
    if address.is_unspecified:
        found.append(f"may not be unspecified ({value})")
    if address.is_loopback:
        found.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        found.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if any(address in network for network in _LINK_LOCAL_MULTICAST if network.version == address.version):
        found.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return found


def is_percent(value: Any) -> bool:
    """``25%``."""
    return isinstance(value, str) and re.fullmatch(PERCENT_FORM, value) is not None


def percent_or_int(value: Any) -> int:
    """The number of an int-or-percent; 0 when it is not one."""
    if is_percent(value):
        return int(value[:-1])
    return value if isinstance(value, int) else 0


def check_int_or_percent(errors: Errors, field: str, value: Any, *, at_most_all: bool = False) -> None:
    """Not negative, a percentage if text, and not above 100% if asked."""
    if isinstance(value, str):
        if not is_percent(value):
            errors.invalid(field, value, _PERCENT_ERROR)
        elif at_most_all and percent_or_int(value) > 100:
            errors.invalid(field, value, "must not be greater than 100%")
    elif value is not None and value < 0:
        errors.invalid(field, value, NON_NEGATIVE)


def check_non_negative(errors: Errors, holder: dict[str, Any], path: str, *names: str) -> None:
    """Each named number of ``holder`` is absent or at least 0."""
    for name in names:
        value = holder.get(name)
        if value is not None and value < 0:
            errors.invalid(f"{path}.{name}", value, NON_NEGATIVE)


def check_descending(errors: Errors, field: str, target: str) -> None:
    """A path that stays below where it starts."""
    if target.startswith("/"):
        errors.invalid(field, target, "must be a relative path")
    if ".." in target.split("/"):
        errors.invalid(field, target, "must not contain '..'")


def check_domain_path(errors: Errors, field: str, value: str) -> None:
    """``acme.io/foo``: names of controllers that others provide."""
    domain, _, path = value.partition("/")
    if not domain or not path:
        errors.invalid(field, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    errors.invalid_each(field, domain, dns_subdomain(domain))
    if not re.fullmatch(_HTTP_PATH_FORM, path):
        errors.invalid(field, path, f"Invalid path (regex used for validation is '{_HTTP_PATH_FORM}')")


def check_domain_name(errors: Errors, field: str, value: str) -> None:
    """A fully qualified name of at least two labels; it may end with a dot."""
    name = value.removesuffix(".")
    if not value:
        errors.required(field)
    elif wrong := dns_subdomain(name):
        errors.invalid(field, name, ",".join(wrong))
    elif "." not in name:
        errors.invalid(field, name, "should be a domain with at least two segments separated by dots")
    else:
        for label in name.split("."):
            if wrong := dns_label(label):
                errors.invalid(field, label, ",".join(wrong))
                return


def check_port_or_name(errors: Errors, field: str, value: Any) -> None:
    """A port number or a port's name."""
    if isinstance(value, str):
        errors.invalid_each(field, value, port_name(value))
    else:
        errors.invalid_each(field, value or 0, port_number(value or 0))


def amount(value: Any) -> Fraction:
    """A quantity that decoding has already accepted."""
    return quantity.parse(value)


def shown_amount(value: Any) -> str:
    """A quantity as error messages show it."""
    return quantity.canonical(value)
