"""Recording and alert rules: what they record, when alerts fire and end, what the API shows, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from aiopslab.errors import ManifestError
from aiopslab.sim.observe.prometheus import Source, prometheus_app
from aiopslab.sim.observe.promql.evaluate import Engine
from aiopslab.sim.observe.rules.files import load_rules, read_rules
from aiopslab.sim.observe.rules.manager import RuleManager
from aiopslab.sim.observe.rules.templates import TemplateError, expand
from aiopslab.sim.observe.series import SeriesStore

ROOT = Path(__file__).resolve().parents[3]
START = 1_748_854_800
RULES = """
groups:
- name: shop
  interval: 15s
  rules:
  - record: job:load:sum
    expr: sum by (job) (load)
    labels: {kind: recorded}
  - alert: LoadHigh
    expr: job:load:sum > 5
    for: 30s
    keep_firing_for: 45s
    labels: {severity: page}
    annotations: {summary: '{{ $labels.job }} at {{ $value | printf "%.1f" }}'}
"""


class Server:
    """A store with one gauge, rules over it, and the means to let time pass."""

    def __init__(
        self, path: Path, text: str = RULES, *, began: Callable[[str], float | None] | None = None
    ) -> None:
        path.write_text(text)
        self.store = SeriesStore()
        self.now = float(START)
        self.rules = RuleManager(
            self.store, Engine(self.store), [read_rules(path, namespace="n" if began else "")], START, began
        )
        self.source = Source(self.store, now=lambda: self.now, rules=self.rules)

    def load(self, value: float, seconds: int, *, ask: bool = True) -> None:
        """The gauge has a value for some time, sampled each 15 s."""
        ids = [self.store.series({"__name__": "load", "job": job}) for job in ("a", "b")]
        for _ in range(seconds // 15):
            self.now += 15
            self.store.append(round(self.now * 1000), ids, [value, 1.0])
            if ask:
                self.rules.catch_up(self.now + 14.9)
        self.rules.catch_up(self.now + 14.9)

    def range(self, query: str) -> dict[str, list[tuple[float, float]]]:
        found = Engine(self.store).instant(query, round((self.now + 14.9) * 1000)).value
        shown: dict[str, list[tuple[float, float]]] = {}
        for row, labels in enumerate(found.labels):  # type: ignore[union-attr]
            part = slice(int(found.low[row, 0]), int(found.high[row, 0]))  # type: ignore[union-attr]
            name = ",".join(f"{k}={v}" for k, v in labels if k != "__name__")
            shown[name] = list(
                zip((found.times[part] // 1000 - START).tolist(), found.values[part].tolist(), strict=True)  # type: ignore[union-attr]
            )
        return shown

    async def get(self, path: str) -> Any:
        async with TestClient(TestServer(prometheus_app(self.source))) as client:
            answer = await client.get(path)
            return await answer.json() if "json" in answer.content_type else await answer.text()


def play(server: Server, *, ask: bool) -> None:
    server.load(1, 60, ask=ask)
    server.load(9, 90, ask=ask)
    server.load(1, 150, ask=ask)


def test_an_alert_waits_fires_lingers_and_ends(tmp_path: Path) -> None:
    server = Server(tmp_path / "r.yaml")
    play(server, ask=True)
    alerts = server.range("ALERTS[10m]")
    labels = "job=a,kind=recorded,severity=page"
    pending = alerts[f"alertname=LoadHigh,alertstate=pending,{labels}"]
    firing = alerts[f"alertname=LoadHigh,alertstate=firing,{labels}"]
    assert len(pending) == 2 and len(firing) == 4 + 3  # 30 s of waiting; four true, three lingering evaluations
    assert firing[0][0] - pending[0][0] == 30
    (since,) = server.range("ALERTS_FOR_STATE[10m]").values()
    assert {value for _, value in since} == {START + pending[0][0] + since[0][1] % 1}
    assert server.range("job:load:sum[10m]").keys() == {"job=a,kind=recorded", "job=b,kind=recorded"}


def test_evaluations_that_nobody_waited_for_are_made_up(tmp_path: Path) -> None:
    asked, silent = Server(tmp_path / "a.yaml"), Server(tmp_path / "a.yaml")
    play(asked, ask=True)
    play(silent, ask=False)
    for query in ("ALERTS[10m]", "ALERTS_FOR_STATE[10m]", "job:load:sum[10m]"):
        assert asked.range(query) == silent.range(query)


def test_rules_that_read_each_other_are_taken_time_by_time(tmp_path: Path) -> None:
    text = """
groups:
- {name: late, interval: 15s, rules: [{alert: Seen, expr: 'count_over_time(ALERTS{alertname="Up"}[5m]) > 2'}]}
- {name: early, interval: 15s, rules: [{alert: Up, expr: 'load{job="a"} > 5'}]}
"""
    server = Server(tmp_path / "r.yaml", text)
    server.load(9, 120, ask=False)
    assert any("alertname=Seen" in name for name in server.range("ALERTS[10m]"))


async def test_the_api_shows_rules_and_alerts(tmp_path: Path) -> None:
    server = Server(tmp_path / "r.yaml")
    server.load(9, 90)
    (alert,) = (await server.get("/api/v1/alerts"))["data"]["alerts"]
    assert alert["state"] == "firing" and alert["value"] == "9e+00"
    assert alert["annotations"] == {"summary": "a at 9.0"}
    assert alert["labels"] == {"alertname": "LoadHigh", "job": "a", "kind": "recorded", "severity": "page"}
    (group,) = (await server.get("/api/v1/rules"))["data"]["groups"]
    assert (group["name"], group["interval"], group["limit"]) == ("shop", 15, 0)
    record, alerting = group["rules"]
    assert record["type"] == "recording" and record["query"] == "sum by (job) (load)" and record["health"] == "ok"
    assert alerting["type"] == "alerting" and alerting["state"] == "firing" and alerting["alerts"] == [alert]
    assert alerting["duration"] == 30 and alerting["keepFiringFor"] == 45
    assert alerting["annotations"]["summary"].startswith("{{")
    (group,) = (await server.get("/api/v1/rules?type=alert&exclude_alerts=true"))["data"]["groups"]
    assert [rule["name"] for rule in group["rules"]] == ["LoadHigh"] and "alerts" not in group["rules"][0]
    for query in ("rule_name[]=no", "match[]={severity='no'}", "rule_group[]=no", "file[]=no"):
        assert (await server.get(f"/api/v1/rules?{query}"))["data"]["groups"] == []
    assert len((await server.get("/api/v1/rules?match[]={severity='page'}"))["data"]["groups"]) == 1
    refused = await server.get("/api/v1/rules?type=x")
    assert refused["error"] == 'invalid parameter "type": not supported value "x"'


async def test_groups_come_in_pages(tmp_path: Path) -> None:
    text = "groups: [{name: a, rules: []}, {name: b, rules: []}, {name: c, rules: []}]"
    server = Server(tmp_path / "r.yaml", text)
    server.load(1, 15)
    first = (await server.get("/api/v1/rules?group_limit=2"))["data"]
    assert [g["name"] for g in first["groups"]] == ["a", "b"]
    rest = (await server.get(f"/api/v1/rules?group_limit=2&group_next_token={first['groupNextToken']}"))["data"]
    assert [g["name"] for g in rest["groups"]] == ["c"] and "groupNextToken" not in rest
    assert (await server.get("/api/v1/rules?group_limit=1&group_next_token=x"))["errorType"] == "bad_data"


def test_a_result_that_cannot_be_used_is_an_error_of_the_rule(tmp_path: Path) -> None:
    text = """
groups:
- name: g
  interval: 15s
  limit: 1
  rules: [{record: x, expr: load}]
- name: h
  interval: 15s
  rules: [{record: y, expr: load, labels: {job: ""}}]
"""
    server = Server(tmp_path / "r.yaml", text)
    server.load(1, 30)
    first, second = (group.rules[0] for group in server.rules.groups)
    assert first.error == "exceeded limit of 1 with 2 series" and first.health == "err"
    assert "same labelset" in second.error


def test_rules_of_an_app_hold_while_its_namespace_exists(tmp_path: Path) -> None:
    since: dict[str, float] = {}
    server = Server(tmp_path / "r.yaml", began=since.get)
    server.load(9, 60)
    assert server.rules.active() == [] and server.range("job:load:sum[10m]") == {}
    since["n"] = server.now
    server.load(9, 60)
    times = [at for at, _ in server.range("job:load:sum[10m]")["job=a,kind=recorded"]]
    assert len(times) >= 4 and min(times) > 60
    since.clear()
    server.load(9, 15)
    assert server.rules.active() == []
    assert Engine(server.store).instant("job:load:sum", round((server.now + 15) * 1000)).value.labels == []  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups: [{name: a}, {name: a}]", "twice"),
        ("groups: [{name: a, rules: [{expr: up}]}]", "exactly one"),
        ("groups: [{name: a, rules: [{record: a, alert: b, expr: up}]}]", "exactly one"),
        ("groups: [{name: a, rules: [{record: a, expr: 'up{'}]}]", "unexpected end of input"),
        ("groups: [{name: a, rules: [{alert: a, expr: up, for: soon}]}]", "for: not a valid duration"),
        ("groups: [{name: a, rules: [{record: a, expr: up, for: 1m}]}]", "has no annotations"),
        ("groups: [{name: a, rules: [{alert: a, expr: up, labels: {x: '{{ $nope }}'}}]}]", "undefined value"),
        ("groups: [{name: a, speed: 3}]", "speed"),
        ("groups: 3", "array"),
        ("[", "r.yaml"),
    ],
)
def test_a_bad_file_is_refused_with_its_name(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(ManifestError, match=message) as caught:
        read_rules(tmp_path / "r.yaml")
    assert "r.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("plain", "plain"),
        ("{{ $labels.pod }}/{{ .Labels.absent }}", "web-0/"),
        ("{{ $value }}|{{ .Value }}", "1234.5|1234.5"),
        ("{{ $value | humanize }}", "1.234k"),
        ("{{ humanize1024 2048 }}", "2ki"),
        ("{{ 0.125 | humanizePercentage }}", "12.5%"),
        ("{{ humanizeDuration 3723 }}", "1h 2m 3s"),
        ("{{ 0.0123 | humanizeDuration }}", "12.3ms"),
        ('{{ printf "%.2f of %s" $value $labels.pod }}', "1234.50 of web-0"),
        ('{{ index $labels "pod" | toUpper }}', "WEB-0"),
        ('{{ printf "%d%%|" 7 }}', "7%|"),
    ],
)
def test_templates(template: str, shown: str) -> None:
    assert expand(template, {"pod": "web-0"}, 1234.5) == shown


@pytest.mark.parametrize("template", ["{{ }}", "{{ $x }}", '{{ "a }}', "{{ $value | nothing }}"])
def test_templates_that_cannot_be_used(template: str) -> None:
    with pytest.raises(TemplateError):
        expand(template, {}, 1)


def test_shipped_rules_can_be_used_and_name_no_fault() -> None:
    files = load_rules([ROOT])
    assert files
    faults = {folder.name for folder in (ROOT / "faults").iterdir() if folder.is_dir()}
    for file in files:
        assert file.namespace
        for group in file.groups:
            for rule in group.rules:
                words = " ".join([rule.name, *rule.labels.values(), *rule.annotations.values()]).lower()
                assert not [fault for fault in faults if fault.replace("-", " ") in words or fault in words]
                if rule.alert:
                    assert rule.labels["severity"] in ("critical", "warning", "info")
                    assert rule.annotations["summary"]


async def test_federation_gives_newest_samples_as_text(tmp_path: Path) -> None:
    server = Server(tmp_path / "r.yaml", "groups: []")
    server.load(2.5, 30)
    at = round(server.now * 1000)
    ended = server.store.series({"__name__": "load", "job": "b"})
    server.now += 1
    server.store.mark_stale(round(server.now * 1000), [ended])
    text = await server.get("/federate?match[]=load&match[]={job=%22none%22}")
    assert text == f'# TYPE load untyped\nload{{instance="",job="a"}} 2.5 {at}\n'
    assert "unexpected" in await server.get("/federate?match[]=up{")
