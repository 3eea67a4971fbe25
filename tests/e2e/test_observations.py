"""What an agent sees is useful, and of one time: the clock, ages, events, logs, traces and files agree."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import re
from collections.abc import Callable, Generator
from typing import Any

import pytest

NAMESPACE = "hipster-shop"
PROBLEM = "hipster-target-port-detection-2"  # currencyservice
POD_AGE = re.compile(r"^(\S+)\s.*\s(\d+m\d*s?|\d+s|\d+m)$", re.MULTILINE)


def seconds(age: str) -> int:
    """An age as kubectl prints it, in seconds."""
    return sum(int(n) * {"s": 1, "m": 60, "h": 3600}[unit] for n, unit in re.findall(r"(\d+)([smh])", age))


def stamp(text: str) -> float:
    """An RFC 3339 time in Unix seconds."""
    return dt.datetime.fromisoformat(text).timestamp()


@pytest.mark.slow
async def test_one_time_and_useful_files(play: Callable[..., Any], scripted: Any) -> None:
    seen: dict[str, str] = {}

    def look() -> Generator[str, str, None]:
        times = "-o json | jq -r '.items[] | .lastTimestamp // .eventTime' | sort | tail -1"
        questions = {
            "shop": "date +%s; kubectl get pods -n hipster-shop --no-headers",
            "created": "kubectl get pods -n hipster-shop -l app=currencyservice -o yaml | grep creationTimestamp",
            "restart": "kubectl delete pod -n hipster-shop -l app=emailservice && date +%s && sleep 45; date +%s",
            "events": "date +%s; kubectl events -n hipster-shop --types=Normal | grep emailservice; "
            f"kubectl get events -n hipster-shop {times}",
            "describe": "date +%s; kubectl describe pod -n hipster-shop -l app=emailservice | grep Started",
            "log": "date +%s; kubectl logs -n hipster-shop deploy/frontend --tail=1 --timestamps",
            "since": "kubectl logs -n hipster-shop deploy/frontend --since=30s --timestamps | head -1; date +%s",
            "file": "date +%s; touch f",
            "touched": "stat -c %Y f",
            "prom": "curl -s $PROMETHEUS_URL/api/v1/query -d query=time%28%29 | jq -r '.data.result[1]'; date +%s",
        }  # fmt: skip
        for name, command in questions.items():
            seen[name] = yield f"```\nexec_shell({command!r}, timeout=120)\n```"
        seen["get_logs"] = yield f"get_logs('{NAMESPACE}', 'frontend')"
        seen["get_metrics"] = yield f"get_metrics('{NAMESPACE}', 5)"
        seen["get_traces"] = yield f"get_traces('{NAMESPACE}', 5)"
        folder = re.search(r"/home/\S+/metric_\d+_\d+", seen["get_metrics"])[0]  # type: ignore[index]
        trace_file = re.search(r"/home/\S+\.csv", seen["get_traces"])[0]  # type: ignore[index]
        error_file = f"{folder}/service/kpi_error_ratio.csv"
        seen[
            "shell traces"
        ] = yield f"exec_shell('date +%s; cat {trace_file} > all.csv; wc -l < all.csv; tail -1 all.csv')"
        seen["shell metrics"] = yield f"exec_shell('cat {error_file}')"
        seen["read_metrics"] = yield f"read_metrics('{error_file}')"
        seen["read_traces"] = yield f"read_traces('{trace_file}')"

    played = await play(PROBLEM, scripted(look, end='submit("Yes")'), max_steps=40)
    assert played.result.verdict == "pass", played.why
    assert played.record.invalid_actions == 0
    _times_agree(seen)
    _files_are_useful(seen)


def _times_agree(seen: dict[str, str]) -> None:
    now, *rows = seen["shop"].splitlines()
    assert 1748854800 < int(now) < 1748854800 + 86400
    age = next(row.split()[-1] for row in rows if row.startswith("currencyservice"))
    assert abs(int(now) - stamp(seen["created"].split('"')[1].replace("Z", "+00:00")) - seconds(age)) <= 60

    _, deleted, later, *_ = seen["restart"].splitlines()
    assert 45 <= int(later) - int(deleted) <= 50
    now, *lines, last = seen["events"].rsplit("[exit", 1)[0].strip().splitlines()
    assert any(abs(seconds(line.split()[0]) - (int(now) - int(deleted))) <= 6 for line in lines), seen["events"]
    assert 0 <= int(now) - stamp(last.replace("Z", "+00:00")) <= 70

    now, *lines = seen["describe"].splitlines()
    started = re.search(r"Started:\s+(.*)", seen["describe"])
    assert started is not None
    begun = dt.datetime.strptime(started[1], "%a, %d %b %Y %H:%M:%S %z").timestamp()
    assert abs(begun - int(deleted)) <= 35  # the new pod starts while the old one ends
    age = next(line.split()[2] for line in lines if "Started" in line and "kubelet" in line)
    assert abs(int(now) - begun - seconds(age)) <= 3, seen["describe"]

    now, line, *_ = seen["log"].splitlines()
    assert -1 <= int(now) - stamp(line.split()[0][:19] + "+00:00") <= 15
    line, now, *_ = seen["since"].splitlines()
    assert int(now) - stamp(line.split()[0][:19] + "+00:00") <= 32
    assert abs(int(seen["touched"].splitlines()[0]) - int(seen["file"].splitlines()[0])) <= 2
    measured, now, *_ = seen["prom"].splitlines()
    assert abs(float(measured) - int(now)) <= 2


def _files_are_useful(seen: dict[str, str]) -> None:
    assert '"http.resp.status":500' in seen["get_logs"] or "connection refused" in seen["get_logs"]
    rows = list(csv.DictReader(io.StringIO(seen["read_metrics"].split("\nPlease take")[0])))
    ratios = [float(row["value"]) for row in rows if row["cmdb_id"] == "frontend"]
    assert ratios and max(ratios) > 0.05
    assert seen["shell metrics"].split("[exit")[0].strip() == seen["read_metrics"].split("\nPlease take")[0].strip()

    now, count, last, *_ = seen["shell traces"].splitlines()
    assert int(count) > 200
    head = seen["read_traces"].splitlines()[0].split(",")
    row = dict(zip(head, last.split(","), strict=False))
    assert {"trace_id", "span_id", "parent_span", "service_name", "start_time", "duration", "has_error"} <= set(
        head
    )
    assert -1 <= int(now) - int(row["start_time"]) / 1e6 <= 320
    assert "frontend" in seen["get_traces"]
    assert json.dumps(seen["read_traces"])  # text that any agent's client can carry
