"""Label and field selectors: parsing with the server's messages, and matching."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiopslab.sim.core.apierrors import ApiError, bad_request
from aiopslab.sim.core.kinds import Kind

Obj = dict[str, Any]

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_TOKEN = re.compile(r"\s*(?:(!=|==|=|!|<|>|\(|\)|,)|([^\s!=<>(),]+))")
_OPERATORS = {"=", "==", "!=", "in", "notin", "gt", "lt", ">", "<"}
_EXPECTED = "in, notin, =, ==, !=, gt, lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """``key op values``; op is ``in``, ``notin``, ``exists``, ``!``, ``>`` or ``<``."""

    key: str
    op: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a label set satisfies it."""
        value = labels.get(self.key)
        if self.op == "exists":
            return value is not None
        if self.op == "!":
            return value is None
        if self.op == "in":
            return value is not None and value in self.values
        if self.op == "notin":
            return value is None or value not in self.values
        if value is None or not re.fullmatch(r"-?\d+", value):
            return False
        bound = int(self.values[0])
        return int(value) > bound if self.op == ">" else int(value) < bound


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold; none means everything matches."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether a label set (None is empty) is selected."""
        return all(r.matches(labels or {}) for r in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements)


def parse_labels(text: str) -> Selector:
    """``app=web,tier in (a, b),!x`` to a Selector. Raises ApiError 400."""
    try:
        return Selector(tuple(_Parser(text).requirements()))
    except ValueError as error:
        raise bad_request(str(error)) from None


def from_label_selector(selector: Obj | None) -> Selector | None:
    """An object's ``LabelSelector``; None (nothing is selected) for None, everything for ``{}``."""
    if selector is None:
        return None
    found = [Requirement(k, "in", (str(v),)) for k, v in sorted((selector.get("matchLabels") or {}).items())]
    names = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    for term in selector.get("matchExpressions") or []:
        op = names.get(term.get("operator", ""))
        if op is None:
            raise bad_request(f'"{term.get("operator", "")}" is not a valid label selector operator')
        found.append(Requirement(term.get("key", ""), op, tuple(term.get("values") or ())))
    return Selector(tuple(found))


def from_map(labels: Mapping[str, str] | None) -> Selector:
    """A plain map (a Service's selector) to a Selector."""
    return Selector(tuple(Requirement(k, "in", (v,)) for k, v in sorted((labels or {}).items())))


def selector_text(selector: Obj | None) -> str:
    """A ``LabelSelector`` in the text form of ``status.selector`` of a Scale."""
    parts = [f"{k}={v}" for k, v in ((selector or {}).get("matchLabels") or {}).items()]
    for term in (selector or {}).get("matchExpressions") or []:
        key, op, values = term["key"], term["operator"], ",".join(sorted(term.get("values") or []))
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})",
                 "Exists": key, "DoesNotExist": f"!{key}"}  # fmt: skip
        parts.append(forms[op])
    return ",".join(sorted(parts))


class _Parser:
    """Recursive descent over ``key``, ``!key``, ``key op value`` and ``key in (a, b)``."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"unable to parse requirement: found '{text[at:]}', expected: identifier")
            self.tokens.append(match.group(1) or match.group(2))
            at = match.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self.peek():
            found.append(self.requirement())
            if not self.peek():
                break
            if self.peek() != ",":
                raise ValueError(f"found '{self.peek()}', expected: ',' or 'end of string'")
            self.take()
            if not self.peek() or self.peek() == ",":
                raise ValueError(f"found '{self.peek()}', expected: identifier after ','")
        return sorted(found, key=lambda r: r.key)

    def requirement(self) -> Requirement:
        negated = self.peek() == "!"
        if negated:
            self.take()
        key = self.take()
        if not key or key in ("=", "==", "!=", "(", ")", ",", "<", ">", "!"):
            raise ValueError(
                f"unable to parse requirement: found '{key}', expected: !, identifier, or 'end of string'"
            )
        check_label_key(key)
        if negated:
            return Requirement(key, "!")
        if self.peek() in ("", ","):
            return Requirement(key, "exists")
        op = self.take()
        if op not in _OPERATORS:
            raise ValueError(f"unable to parse requirement: found '{op}', expected: {_EXPECTED}")
        values = self.values(op)
        if op in ("=", "==", "in"):
            return Requirement(key, "in", values)
        if op in ("!=", "notin"):
            return Requirement(key, "notin", values)
        op = {"gt": ">", "lt": "<"}.get(op, op)
        if not re.fullmatch(r"-?\d+", values[0]):
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise ValueError(f'values[0][{key}]: Invalid value: "{values[0]}": {why}')
        return Requirement(key, op, values)

    def values(self, op: str) -> tuple[str, ...]:
        if op not in ("in", "notin"):
            value = "" if self.peek() in ("", ",") else self.take()
            check_label_value(value, 0)
            return (value,)
        if self.peek() != "(":
            raise ValueError(f"unable to parse requirement: found '{self.peek()}', expected: '('")
        self.take()
        found: list[str] = []
        while self.peek() != ")":
            if not self.peek():
                raise ValueError("unable to parse requirement: found '', expected: ',', or ')'")
            if self.peek() == ",":
                self.take()
                continue
            found.append(self.take())
        self.take()
        for index, value in enumerate(found):
            check_label_value(value, index)
        return tuple(sorted(set(found))) or ("",)


def check_label_key(key: str) -> None:
    """Raises ValueError with the server's words when ``key`` cannot be a label key."""
    prefix, slash, name = key.rpartition("/")
    bad_prefix = slash and not _PREFIX.fullmatch(prefix)
    if "/" in prefix or bad_prefix or not _NAME.fullmatch(name) or len(name) > 63:
        text = (
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        )
        raise ValueError(f'unable to parse requirement: <nil>: Invalid value: "{key}": {text}')


def check_label_value(value: str, index: int) -> None:
    """Raises ValueError with the server's words when ``value`` cannot be a label value."""
    if value and (len(value) > 63 or not _NAME.fullmatch(value)):
        text = (
            "must be no more than 63 bytes"
            if len(value) > 63
            else "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
            "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        )
        raise ValueError(f'unable to parse requirement: values[{index}][]: Invalid value: "{value}": {text}')


# Field selectors -----------------------------------------------------------------------------------------

_POD_FIELDS = (
    "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
    "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
)  # fmt: skip
_EVENT_FIELDS = (
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
    "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
    "reportingComponent", "source", "type",
)  # fmt: skip
FIELDS: dict[str, tuple[str, ...]] = {
    "pods": _POD_FIELDS,
    "events": _EVENT_FIELDS,
    "nodes": ("spec.unschedulable",),
    "secrets": ("type",),
    "namespaces": ("status.phase",),
    "services": ("spec.clusterIP", "spec.type"),
    "batch/jobs": ("status.successful",),
    "apps/replicasets": ("status.replicas",),
    "replicationcontrollers": ("status.replicas",),
}
# Resources whose conversion names its unsupported label in its own words.
_NAMED_LABEL = {"pods", "nodes", "events", "secrets", "namespaces", "replicationcontrollers", "services"}


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """``path = value`` or ``path != value``."""

    path: str
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All terms must hold."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, obj: Obj) -> bool:
        """Whether an object is selected. Absent fields count as ``""``."""
        return all((field_value(obj, t.path) == t.value) == t.equal for t in self.terms)

    def only(self, path: str) -> str | None:
        """The value that ``path`` must equal, or None."""
        return next((t.value for t in self.terms if t.path == path and t.equal), None)

    def __bool__(self) -> bool:
        return bool(self.terms)


def field_value(obj: Obj, path: str) -> str:
    """A field in the text form that selectors compare."""
    if path == "source":
        return (obj.get("source") or {}).get("component", "") or obj.get("reportingComponent", "")
    if path == "status.successful":
        return str((obj.get("status") or {}).get("succeeded", 0))
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if path in ("spec.unschedulable", "spec.hostNetwork"):
        return "true" if value else "false"
    if path == "status.podIPs":
        return (value or [{}])[0].get("ip", "")
    if path == "status.replicas":
        return str(value or 0)
    return "" if value is None else str(value)


def parse_fields(text: str, kind: Kind) -> FieldSelector:
    """``metadata.name=x,status.phase!=Failed``. Raises ApiError 400 for unsupported fields."""
    terms = []
    allowed = ("metadata.name", *(("metadata.namespace",) if kind.namespaced else ()), *_supported(kind))
    for part in filter(None, re.split(r"(?<!\\),", text)):
        match = re.match(r"(.*?)(?<!\\)(!=|==|=)(.*)", part)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        path, op, value = match.groups()
        if path not in allowed and not (kind.resource == "nodes" and path == "metadata.namespace"):
            raise _unsupported(path, kind)
        terms.append(FieldTerm(path, re.sub(r"\\(.)", r"\1", value), op != "!="))
    return FieldSelector(tuple(terms))


def _supported(kind: Kind) -> tuple[str, ...]:
    if kind.crd is not None:
        return tuple(f["jsonPath"].lstrip(".") for f in kind.crd.get("selectableFields") or [])
    return FIELDS.get(kind.resource, ())


def _unsupported(path: str, kind: Kind) -> ApiError:
    if kind.crd is not None:
        return bad_request(f"field label not supported: {path}")
    if kind.resource in _NAMED_LABEL:
        return bad_request(f"field label not supported: {path}")
    if kind.resource in FIELDS:
        return bad_request(f'field label "{path}" not supported for {kind.kind}')
    return bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')
