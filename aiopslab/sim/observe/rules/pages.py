"""``/api/v1/rules`` and ``/api/v1/alerts``: the shapes of Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha1
from typing import Any

from aiopslab.sim.core.kernel import rfc3339_micro
from aiopslab.sim.observe.matchers import Matcher
from aiopslab.sim.observe.params import Params, bad_data
from aiopslab.sim.observe.rules.manager import GroupState, RuleManager
from aiopslab.sim.observe.rules.states import Alert, RuleState

NEVER = "0001-01-01T00:00:00Z"
# A vector query over some thousand series takes about this long; the server's own clock is not the cluster's.
EVALUATION_S = 0.0004
Selectors = list[list[Matcher]]


def alerts_page(manager: RuleManager) -> dict[str, Any]:
    """All active alerts."""
    found = [alert for group in manager.active() for rule in group.rules for alert in _alerts(rule)]
    return {"alerts": found}


def rules_page(manager: RuleManager, params: Params, selector: Callable[[str], list[Matcher]]) -> dict[str, Any]:
    """Groups and rules, chosen by the request's parameters. Raises ApiFailure."""
    kind = params.get("type").lower()
    if kind not in ("", "alert", "record"):
        raise bad_data(f'invalid parameter "type": not supported value "{kind}"')
    exclude = _flag(params, "exclude_alerts")
    chosen = [selector(text) for text in params.all("match[]")]
    names = set(params.all("rule_name[]"))
    groups, files = set(params.all("rule_group[]")), set(params.all("file[]"))
    found = []
    for state in manager.active():
        if (groups and state.group.name not in groups) or (files and state.group.file not in files):
            continue
        rules = [rule for rule in state.rules if _wanted(rule, kind, names, chosen)]
        if rules or not (kind or names or chosen):
            found.append(_group(state, rules, exclude))
    return _paged(found, params)


def _flag(params: Params, name: str) -> bool:
    text = params.get(name)
    if text in ("", "false", "0", "f", "F", "False", "FALSE"):
        return False
    if text in ("true", "1", "t", "T", "True", "TRUE"):
        return True
    problem = f'strconv.ParseBool: parsing "{text}": invalid syntax'
    raise bad_data(f'invalid parameter "{name}": error converting {name}: {problem}')


def _wanted(state: RuleState, kind: str, names: set[str], selectors: Selectors) -> bool:
    rule = state.rule
    if kind and (kind == "alert") != rule.alert:
        return False
    if names and rule.name not in names:
        return False
    return not selectors or any(all(m.matches(rule.labels.get(m.name, "")) for m in found) for found in selectors)


def _paged(groups: list[dict[str, Any]], params: Params) -> dict[str, Any]:
    limit, token = params.count("group_limit"), params.get("group_next_token")
    if token and not limit:
        problem = "group_limit needs to be set in order to paginate over the groups"
        raise bad_data(f'invalid parameter "group_limit": {problem}')
    if token:
        places = [place for place, group in enumerate(groups) if _token(group) == token]
        if not places:
            raise bad_data(f"invalid group_next_token '{token}'. were rule groups changed?")
        groups = groups[places[0] :]
    if not limit or limit >= len(groups):
        return {"groups": groups}
    return {"groups": groups[:limit], "groupNextToken": _token(groups[limit])}


def _token(group: dict[str, Any]) -> str:
    return sha1(f"{group['file']};{group['name']}".encode(), usedforsecurity=False).hexdigest()


def _group(state: GroupState, rules: list[RuleState], exclude: bool) -> dict[str, Any]:
    group = state.group
    return {
        "name": group.name,
        "file": group.file,
        "rules": [_rule(rule, exclude) for rule in rules],
        "interval": group.interval_ms / 1000,
        "limit": group.limit,
        "evaluationTime": EVALUATION_S * len(state.rules),
        "lastEvaluation": _time(state.last_ms),
    }


def _rule(state: RuleState, exclude: bool) -> dict[str, Any]:
    rule = state.rule
    common: dict[str, Any] = {
        "name": rule.name,
        "query": rule.expr,
        "labels": rule.labels,
        "health": state.health,
        **({"lastError": state.error} if state.error else {}),
        "evaluationTime": EVALUATION_S,
        "lastEvaluation": _time(state.evaluated_ms),
    }
    if not rule.alert:
        return {**common, "type": "recording"}
    return {
        "state": state.state,
        "duration": rule.for_ms / 1000,
        "keepFiringFor": rule.keep_firing_ms / 1000,
        "annotations": rule.annotations,
        **({} if exclude else {"alerts": _alerts(state)}),
        **common,
        "type": "alerting",
    }


def _alerts(state: RuleState) -> list[dict[str, Any]]:
    return [_alert(state.alerts[key]) for key in sorted(state.alerts)]


def _alert(alert: Alert) -> dict[str, Any]:
    since = alert.lingering_since_ms
    return {
        "labels": dict(alert.labels),
        "annotations": alert.annotations,
        "state": alert.state,
        "activeAt": _time(alert.active_at_ms),
        **({"keepFiringSince": _time(since)} if since is not None else {}),
        "value": _exponent(alert.value),
    }


def _time(ms: int | None) -> str:
    return NEVER if ms is None else rfc3339_micro(ms / 1000)


def _exponent(value: float) -> str:
    """Shortest digits with an exponent, as Go prints ``'e', -1``."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return next(text for n in range(18) if float(text := f"{value:.{n}e}") == value)
