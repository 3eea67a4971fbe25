"""wrk2: its command line, its rate, its report."""

from __future__ import annotations

import re
from typing import Any

import pytest

from aiopslab.sim.world.wrk2 import parse

URL = "http://frontend.shop:80"
IMAGE = "deathstarbench/wrk2-client:latest"
SCRIPT = """
local products = {
  "OLJCESPC7Z", "66VCHSJNUP", "1YMWWN1N4O", "L9ECAV7KIM", "2ZYFJ3GM2N", "0PUK6V6EV0", "LS4PSXUNUM", "9SIQT8TOJO",
  "6E92ZMYYFZ",
}
request = function()
  if math.random(10) == 1 then
    return wrk.format("GET", "/")
  end
  return wrk.format("GET", "/product/" .. products[math.random(#products)])
end
"""

SHARES = [" 50.000", " 75.000", " 90.000", " 99.000", " 99.900", " 99.990", " 99.999", "100.000"]

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


def start(lab: Any, *more: str, files: dict[str, str] | None = None, image: str = IMAGE, last: bool = False) -> str:
    command = ("wrk", "-t", "2", "-c", "4", "-L", *((URL, *more) if last else (*more, URL)))
    return lab.pod("wrk2", image, None, {}, command=command, files=files or {})


def finish(lab: Any, pod: str, seconds: float) -> list[str]:
    lab.advance(seconds)
    lab.world.ended(lab.refs[pod], lab.now)
    return lab.logs(pod)


def test_constant_rate_and_report(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    pod = start(lab, "-d", "60s", "-R", "10", image="wrk2:4.0.0")
    assert lab.result.exit_after_s == pytest.approx(60.1)
    lines = finish(lab, pod, 60.1)
    assert lines[:2] == [f"Running 1m test @ {URL}", "  2 threads and 4 connections"]
    assert re.fullmatch(r"  Thread calibration: mean lat\.: \d+\.\d{3}ms, rate sampling interval: \d+ms", lines[2])
    assert lines[4] == "  Thread Stats   Avg      Stdev     Max   +/- Stdev"
    assert re.fullmatch(r"    Latency   +\d+\.\d\dms +\d+\.\d\dms +\d+\.\d\dms +\d+\.\d\d%", lines[5])
    assert lines[7] == "  Latency Distribution (HdrHistogram - Recorded Latency)"
    assert [line.split("%")[0] for line in lines[8:16]] == SHARES
    assert lines[17] == "  Detailed Percentile spectrum:"
    assert "-" * 58 in lines
    done = re.fullmatch(r"  (\d+) requests in (60\.00s|1\.00m), \d+\.\d\dMB read", lines[-3])
    assert done is not None and abs(int(done[1]) - 600) <= 4
    assert re.fullmatch(r"Requests/sec: +(9\.9\d|10\.\d\d)", lines[-2])
    assert re.fullmatch(r"Transfer/sec: +\d+\.\d\dKB", lines[-1])
    assert sum(n for k, n in lab.spans(service_name="frontend").items() if k[2] == "SERVER") == int(done[1])


def test_deathstarbench_layout(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    lines = finish(lab, start(lab, "-d", "30s", "-R", "20", "-D", "exp"), 30.1)
    assert lines[:3] == [f"Running 30s test @ {URL}", "  2 threads and 4 connections", ""]
    assert lines[5:8] == ["", "-" * 71, f"Test Results @ {URL} "]
    assert lines[8] == "  Thread Stats   Avg      Stdev     99%   +/- Stdev"
    assert "-" * 58 not in lines and lines.count("-" * 71) == 2
    assert lines[-2].endswith("  ") and lines[-2].startswith("Requests/sec:")
    rate = float(lines[-2].split()[1])
    assert 15 < rate < 25


def test_spectrum_ends_at_the_count_and_never_falls(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    lines = finish(lab, start(lab, "-d", "60s", "-R", "50"), 60.1)
    first = lines.index("  Detailed Percentile spectrum:") + 3
    rows = [line.split() for line in lines[first : lines.index(next(x for x in lines if x.startswith("#[Mean")))]]
    values, shares, counts = ([float(row[i]) for row in rows] for i in range(3))
    assert values == sorted(values) and counts == sorted(counts)
    assert shares[:6] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5] and shares[-1] == 1.0
    assert rows[-1][3] == "inf" and counts[-1] == counts[-2]


@pytest.mark.parametrize(("spacing", "low", "high"), [("fixed", 1180, 1220), ("exp", 1050, 1350), ("zipf", 1000, 1400)])
def test_spacing_keeps_the_rate(make_lab: Any, spacing: str, low: int, high: int) -> None:
    lab = make_lab()
    lab.shop()
    lines = finish(lab, start(lab, "-d", "60s", "-R", "20", "-D", spacing), 60.1)
    assert low < int(next(line for line in lines if " requests in " in line).split()[0]) < high


def test_norm_of_the_fork_ignores_the_rate(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    lines = finish(lab, start(lab, "-d", "12s", "-R", "5", "-D", "norm"), 12.1)
    assert int(next(line for line in lines if " requests in " in line).split()[0]) > 12 * 5 * 5


def test_a_script_names_the_paths(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    start(lab, "-d", "60s", "-R", "20", "-s", "/scripts/a.lua", files={"/scripts/a.lua": SCRIPT})
    lab.advance(60)
    paths = [t[0].attributes["url.path"] for t in lab.world.spans.search("frontend", limit=2000, operation="GET")]
    assert 0.05 < sum(p == "/" for p in paths) / len(paths) < 0.15
    assert len({p for p in paths if p.startswith("/product/")}) == 9


HOOKS = """
local counter = 0
function setup(thread) counter = counter + 1; thread:set("number", counter) end
function init(args) io.write("thread ", number, " got ", args[1] or "nothing", "\\n"); seen = 0 end
function request()
  if math.random(2) == 1 then
    return wrk.format("POST", "/cart", {["Content-Type"] = "application/x-www-form-urlencoded"},
      "product_id=66VCHSJNUP&quantity=3")
  end
  return wrk.format("GET", "http://localhost:5000/nowhere?x=1")
end
function response(status, headers, body) seen = seen + 1; last = status end
function done(summary, latency, requests)
  print("done", summary.requests, summary.errors.status, latency:percentile(50) > 0, latency.max >= latency.min)
end
"""


def test_every_hook_of_a_script_runs(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    files = {"/s.lua": HOOKS}
    words = ("-d", "20s", "-R", "20", "-s", "/s.lua", "--", "zero", "one")
    lines = finish(lab, start(lab, *words, files=files, last=True, image="wrk2:4.0.0"), 20.1)
    assert lines[:2] == ["thread 1 got one", "thread 2 got one"]  # counted from 0, as in wrk2 itself
    posts = sum(n for k, n in lab.spans(service_name="frontend").items() if k[1].endswith("/cart") or "POST" in k[1])
    missed = int(next(x for x in lines if x.startswith("  Non-2xx")).rpartition(" ")[2])
    total = int(next(line for line in lines if " requests in " in line).split()[0])
    assert posts + missed == total and 0.35 < missed / total < 0.65
    assert lines[-1] == f"done\t{total}\t{missed}\ttrue\ttrue"


BROKEN = [
    ("request = function() return nothing.at.all end", "attempt to index global 'nothing' (a nil value)"),
    ("request = function() while true do end end", "script runs for too long"),
    ("request = function() return ('x'):rep(1e9) end", "not enough memory"),
    ("request = function() return os.execute('id') end", "attempt to call field 'execute' (a nil value)"),
    ("request = function() return io.open('/etc/passwd'):read('*a') end", "attempt to index a nil value"),
    ("request = function() return debug.getinfo(1) end", "attempt to index global 'debug' (a nil value)"),
    ("request = function() return require('ffi').C end", "module 'ffi' not found"),
    ("request = function() return loadstring('\27Lua')() end", "attempt to call a nil value"),
    ("request = function() return python.eval('1') end", "attempt to index global 'python' (a nil value)"),
]


@pytest.mark.parametrize(("script", "message"), BROKEN)
def test_a_script_that_breaks_ends_the_run_and_reaches_nothing(make_lab: Any, script: str, message: str) -> None:
    lab = make_lab()
    lab.shop()
    pod = start(lab, "-R", "10", "-s", "/s.lua", files={"/s.lua": script})
    assert lab.result.exit_code == 1
    assert message in lab.logs(pod)[0]


def test_a_script_that_does_not_load_is_named_and_the_url_is_asked(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    lines = finish(lab, start(lab, "-R", "10", "-s", "/s.lua", files={"/s.lua": "request = = 1"}), 10.2)
    assert lines[0] == "/s.lua: /s.lua:1: unexpected symbol near '='"
    assert any(" requests in " in line for line in lines)


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
    total = next(line for line in lines if " requests in " in line).split()[0]
    assert f"  Non-2xx or 3xx responses: {total}" in lines and int(total) > 190


def test_wrong_arguments_end_at_once(make_lab: Any) -> None:
    lab = make_lab()
    lab.shop()
    pod = lab.pod("wrk2", IMAGE, None, {}, command=("wrk", URL))
    assert lab.result.exit_code == 1
    assert "Throughput MUST be specified" in lab.logs(pod)[0]
