"""wrk2: its command line, its rate, its report."""

from __future__ import annotations

import re
from typing import Any

import pytest

from aiopslab.sim.world.wrk2 import parse

URL = "http://frontend.shop:80"
IMAGE = "deathstarbench/wrk2-client:latest"
SCRIPT = """
request = function()
  if math.random(10) == 1 then
    return wrk.format("GET", "/")
  end
  return wrk.format("GET", "/product/" .. products[math.random(#products)])
end
"""

COMMANDS = [
    (("wrk", "-t", "2", "-c", "4", "-d", "30s", "-R", "20", URL), (2, 4, 30.0, 20.0, False), ""),
    (("wrk", "-t2", "-c4", "-d1m", "-R1k", "-L", URL), (2, 4, 60.0, 1000.0, True), ""),
    (("wrk", "--rate=5", "--latency", URL), (2, 10, 10.0, 5.0, True), ""),
    (("wrk", "-D", "exp", URL, "-R", "7", "--latency"), (2, 10, 10.0, 7.0, True), ""),
    (("wrk", URL), (2, 10, 10.0, 0.0, False), "Throughput MUST be specified with the --rate or -R option"),
    (
        ("wrk", "-t", "4", "-c", "2", "-R", "5", URL),
        (4, 2, 10.0, 5.0, False),
        "number of connections must be >= threads",
    ),
]


@pytest.mark.parametrize(("command", "values", "problem"), COMMANDS)
def test_command_line(command: tuple[str, ...], values: tuple[Any, ...], problem: str) -> None:
    options = parse(command)
    found = (options.threads, options.connections, options.duration_s, options.rate, options.latency)
    assert found == values
    assert options.url == URL
    assert options.problem == problem


def start(lab: Any, *more: str, files: dict[str, str] | None = None) -> str:
    command = ("wrk", "-t", "2", "-c", "4", "-L", *more, URL)
    return lab.pod("wrk2", IMAGE, None, {}, command=command, files=files or {})


def finish(lab: Any, pod: str, seconds: float) -> list[str]:
    lab.advance(seconds)
    lab.world.ended(lab.refs[pod], lab.now)
    return lab.logs(pod)


def test_constant_rate_and_report(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    pod = start(lab, "-d", "60s", "-R", "10")
    assert lab.result.exit_after_s == pytest.approx(60.1)
    lines = finish(lab, pod, 60.1)
    assert lines[:2] == [f"Running 1m test @ {URL}", "  2 threads and 4 connections"]
    assert re.fullmatch(r"  Thread calibration: mean lat\.: \d+\.\d{3}ms, rate sampling interval: \d+ms", lines[2])
    assert lines[4] == "  Thread Stats   Avg      Stdev     Max   +/- Stdev"
    assert lines[7] == "  Latency Distribution (HdrHistogram - Recorded Latency)"
    assert [line.split("%")[0].strip() for line in lines[8:16]] == [
        "50.000",
        "75.000",
        "90.000",
        "99.000",
        "99.900",
        "99.990",
        "99.999",
        "100.000",
    ]
    assert lines[17] == "  Detailed Percentile spectrum:"
    assert "-" * 58 in lines
    assert re.fullmatch(r"  600 requests in (60\.00s|1\.00m), \d+\.\d\dMB read", lines[-3])
    assert lines[-2] == f"Requests/sec: {10:9.2f}"
    assert re.fullmatch(r"Transfer/sec: +\d+\.\d\dKB", lines[-1])
    assert sum(n for k, n in lab.spans(service_name="frontend").items() if k[2] == "SERVER") == 600


def test_a_script_names_the_paths(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    start(lab, "-d", "60s", "-R", "20", "-s", "/scripts/a.lua", files={"/scripts/a.lua": SCRIPT})
    lab.advance(60)
    paths = [t[0].attributes["url.path"] for t in lab.world.spans.search("frontend", limit=2000, operation="GET")]
    assert 0.05 < sum(p == "/" for p in paths) / len(paths) < 0.15
    assert len({p for p in paths if p.startswith("/product/")}) == 9


def test_beyond_capacity_latency_grows_and_the_queue_is_bounded_by_connections(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    pod = start(lab, "-d", "60s", "-R", "400")
    lines = finish(lab, pod, 60.1)
    done = int(next(line for line in lines if " requests in " in line).split()[0])
    assert done < 60 * 400 * 0.75
    worst = next(line for line in lines if line.startswith("100.000%"))
    assert worst.strip().endswith(("s", "m")) and not worst.strip().endswith("ms")


def test_errors_are_counted(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    lab.remove(lab.pods("currencyservice")[0])
    lab.slice("currencyservice", 7000)
    pod = start(lab, "-d", "20s", "-R", "10")
    lines = finish(lab, pod, 20.1)
    assert "  Non-2xx or 3xx responses: 200" in lines


def test_wrong_arguments_end_at_once(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    pod = lab.pod("wrk2", IMAGE, None, {}, command=("wrk", URL))
    assert lab.result.exit_code == 1
    assert "Throughput MUST be specified" in lab.logs(pod)[0]
