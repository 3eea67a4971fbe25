"""The life of one rule: what it recorded last, which alerts are active, and the samples that follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aiopslab.sim.observe.matchers import NAME, Labels, make_labels
from aiopslab.sim.observe.rules.files import Rule
from aiopslab.sim.observe.rules.templates import TemplateError, expand

# Names of the series that tell of alerts.
ALERTS, FOR_STATE = "ALERTS", "ALERTS_FOR_STATE"
Sample = tuple[Labels, float]


class RuleProblem(Exception):
    """A result that a rule cannot use. ``str`` is the rule's ``lastError``."""


@dataclass(slots=True)
class Alert:
    """One active alert. Times in milliseconds."""

    labels: Labels  # with alertname
    annotations: dict[str, str]
    value: float
    active_at_ms: int
    firing: bool = False
    last_true_ms: int = 0
    lingering_since_ms: int | None = None  # keep_firing_for holds it though its condition is over

    @property
    def state(self) -> str:
        """``pending`` or ``firing``."""
        return "firing" if self.firing else "pending"


@dataclass(slots=True)
class RuleState:
    """A rule with what its last evaluations left behind."""

    rule: Rule
    alerts: dict[Labels, Alert] = field(default_factory=dict)
    shown: set[Labels] = field(default_factory=set)  # series of the last evaluation
    error: str = ""
    evaluated_ms: int | None = None

    @property
    def health(self) -> str:
        """``unknown`` before the first evaluation, then ``ok`` or ``err``."""
        return "unknown" if self.evaluated_ms is None else "err" if self.error else "ok"

    @property
    def state(self) -> str:
        """The worst state of an alerting rule's alerts."""
        if any(alert.firing for alert in self.alerts.values()):
            return "firing"
        return "pending" if self.alerts else "inactive"

    def step(self, rows: list[Sample], t_ms: int, limit: int = 0) -> list[Sample]:
        """Take one result; returns the samples to store. Raises RuleProblem."""
        if 0 < limit < len(rows):
            self.alerts.clear()
            what = "alerts" if self.rule.alert else "series"
            raise RuleProblem(f"exceeded limit of {limit} with {len(rows)} {what}")
        return list(self._alerting(rows, t_ms) if self.rule.alert else self._recording(rows))

    def ended(self, samples: list[Sample]) -> list[Labels]:
        """Series of the evaluation before that ``samples`` no longer has, sorted; remembers the new ones."""
        now = {labels for labels, _ in samples}
        gone = sorted(self.shown - now)
        self.shown = now
        return gone

    def _recording(self, rows: list[Sample]) -> Iterator[Sample]:
        seen: set[Labels] = set()
        for labels, value in rows:
            own = make_labels({**dict(labels), **self.rule.labels, NAME: self.rule.name})
            if own in seen:
                raise RuleProblem("vector contains metrics with the same labelset after applying rule labels")
            seen.add(own)
            yield own, value

    def _alerting(self, rows: list[Sample], t_ms: int) -> Iterator[Sample]:
        seen: set[Labels] = set()
        for labels, value in rows:
            self._hold(labels, value, t_ms, seen)
        for labels in sorted(self.alerts):
            alert = self.alerts[labels]
            if labels not in seen and not self._lingers(alert, t_ms):
                del self.alerts[labels]
                continue
            if not alert.firing and t_ms - alert.active_at_ms >= self.rule.for_ms:
                alert.firing = True
            base = dict(alert.labels)
            yield make_labels({**base, NAME: ALERTS, "alertstate": alert.state}), 1.0
            yield make_labels({**base, NAME: FOR_STATE}), alert.active_at_ms / 1000

    def _hold(self, labels: Labels, value: float, t_ms: int, seen: set[Labels]) -> None:
        """An element of the result keeps its alert, or starts one."""
        known = {name: text for name, text in labels if name != NAME}
        own = {**known, **self._filled(self.rule.labels, known, value), "alertname": self.rule.name}
        key = make_labels(own)
        if key in seen:
            raise RuleProblem("vector contains metrics with the same labelset after applying alert labels")
        seen.add(key)
        alert = self.alerts.get(key)
        if alert is None:
            alert = self.alerts[key] = Alert(key, {}, value, t_ms)
        alert.annotations = self._filled(self.rule.annotations, known, value)
        alert.value, alert.last_true_ms, alert.lingering_since_ms = value, t_ms, None

    def _lingers(self, alert: Alert, t_ms: int) -> bool:
        if not alert.firing or not self.rule.keep_firing_ms:
            return False
        if alert.lingering_since_ms is None:
            alert.lingering_since_ms = t_ms
        return t_ms - alert.lingering_since_ms < self.rule.keep_firing_ms

    def _filled(self, templates: Mapping[str, str], labels: Mapping[str, str], value: float) -> dict[str, str]:
        return {name: _expanded(text, labels, value) for name, text in templates.items()}


def _expanded(text: str, labels: Mapping[str, str], value: float) -> str:
    try:
        return expand(text, labels, value)
    except TemplateError as problem:
        return f"<error expanding template: {problem}>"
