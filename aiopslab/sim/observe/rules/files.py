"""Rule files in Prometheus' format, checked when they are read."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from aiopslab.errors import ManifestError
from aiopslab.sim.observe.promql.durations import parse_duration
from aiopslab.sim.observe.promql.errors import ParseError
from aiopslab.sim.observe.promql.parser import parse
from aiopslab.sim.observe.rules.templates import TemplateError, expand

DEFAULT_INTERVAL_MS = 60_000
# Where the server says that it read its rule files.
SHOWN_FOLDER = "/etc/config/rules"


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    expr: str | int | float
    record: str = ""
    alert: str = ""
    hold: str = msgspec.field(name="for", default="")
    keep_firing_for: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    rules: list[_Rule] = []
    interval: str = ""
    limit: int = 0
    labels: dict[str, str] = {}


class _AnyLabel(dict[str, str]):
    """Labels of an alert that nobody knows yet: each is there and is a number."""

    def get(self, key: str, default: object = None) -> str:
        return "0"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    groups: list[_Group] = []


@dataclass(frozen=True, slots=True)
class Rule:
    """A recording rule (``alert`` is empty) or an alerting rule. ``name`` is what it records or raises."""

    name: str
    alert: bool
    expr: str
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    for_ms: int = 0
    keep_firing_ms: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after the other every ``interval_ms``."""

    name: str
    file: str
    interval_ms: int
    limit: int
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class RuleFile:
    """The groups of one file. They hold while ``namespace`` exists, or always when it is empty."""

    groups: tuple[Group, ...]
    namespace: str = ""


def read_rules(path: Path, *, namespace: str = "", semantics: int = 3) -> RuleFile:
    """Read one rule file. Raises ManifestError naming the file, the group and what is wrong with it."""
    try:
        found = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")) or {}, _File, strict=False)
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as problem:
        raise ManifestError(f"{path}: {problem}") from None
    names = [group.name for group in found.groups]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ManifestError(f"{path}: group {doubled[0]!r} is there twice; give each group a name of its own")
    shown = f"{SHOWN_FOLDER}/{path.parent.name}.yaml" if namespace else str(path)
    return RuleFile(tuple(_group(path, shown, group, semantics) for group in found.groups), namespace)


def load_rules(bundles: Iterable[Path]) -> list[RuleFile]:
    """Every ``apps/*/rules.yaml`` of the bundle folders. Each belongs to the namespace that ``app.toml`` beside it
    names."""
    return [
        read_rules(path, namespace=_namespace(path.parent))
        for bundle in bundles
        for path in sorted(bundle.glob("apps/*/rules.yaml"))
    ]


def _namespace(folder: Path) -> str:
    """The app's namespace; without a readable manifest the folder's name, which is what it defaults to."""
    try:
        manifest = tomllib.loads((folder / "app.toml").read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return folder.name
    return str(manifest.get("namespace", folder.name))


def _group(path: Path, shown: str, group: _Group, semantics: int) -> Group:
    where = f"{path}: group {group.name!r}"
    interval = _duration(where, "interval", group.interval) or DEFAULT_INTERVAL_MS
    rules = [_rule(f"{where}, rule {n}", rule, group.labels, semantics) for n, rule in enumerate(group.rules, 1)]
    return Group(group.name, shown, interval, group.limit, tuple(rules))


def _rule(where: str, rule: _Rule, common: dict[str, str], semantics: int) -> Rule:
    if bool(rule.record) == bool(rule.alert):
        raise ManifestError(f"{where}: give exactly one of record and alert")
    if rule.record and (rule.annotations or rule.hold or rule.keep_firing_for):
        raise ManifestError(f"{where}: a recording rule has no annotations, for or keep_firing_for")
    expr = str(rule.expr).strip()
    try:
        parse(expr, semantics)
        if rule.alert:
            for text in (*rule.labels.values(), *rule.annotations.values()):
                expand(text, _AnyLabel(), 0.0)
    except (ParseError, TemplateError) as problem:
        raise ManifestError(f"{where}: {problem}") from None
    return Rule(
        rule.record or rule.alert,
        bool(rule.alert),
        expr,
        {**common, **rule.labels},
        dict(rule.annotations),
        _duration(where, "for", rule.hold),
        _duration(where, "keep_firing_for", rule.keep_firing_for),
    )


def _duration(where: str, name: str, text: Any) -> int:
    try:
        return parse_duration(str(text)) if text else 0
    except ValueError as problem:
        raise ManifestError(f"{where}: {name}: {problem}; write it as 30s, 5m or 1h") from None
