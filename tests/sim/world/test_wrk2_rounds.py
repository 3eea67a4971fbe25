"""Containers of wrk2's image whose command is a script: tests that follow one another in time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

URL = "http://frontend.shop:80"
IMAGE = "deathstarbench/wrk2-client:latest"
WORKLOAD = Path(__file__).parents[3] / "workloads/wrk2-profile/scripts.yaml"


def start(lab: Any, script: str, **env: str) -> str:
    files = {"/scripts/rounds.sh": script}
    return lab.pod("wrk2", IMAGE, None, env, command=("sh", "/scripts/rounds.sh"), files=files)


def requests(lab: Any) -> int:
    return sum(n for k, n in lab.spans(service_name="frontend").items() if k[2] == "SERVER")


def rate_over(lab: Any, seconds: float) -> float:
    before = requests(lab)
    lab.advance(seconds, step=seconds)
    return (requests(lab) - before) / seconds


@pytest.fixture
def shop(make_lab: Any) -> Any:
    lab = make_lab()
    lab.shop()
    return lab


def test_rounds_follow_one_another_and_the_exit_code_is_the_scripts(shop: Any) -> None:
    script = f"""
    echo started $(hostname) > /tmp/note
    for rate in 10 40; do
      echo "round $rate"
      wrk -D fixed -t 2 -c 4 -d 30s {URL} -R $rate | grep -c requests
    done
    sleep 5
    cat /tmp/note
    exit 3
    """
    pod = start(shop, script)
    assert shop.result.exit_after_s is None
    assert rate_over(shop, 30) == pytest.approx(10, rel=0.1)
    assert shop.logs(pod) == ["round 10"]
    assert rate_over(shop, 30) == pytest.approx(40, rel=0.1)
    shop.advance(2)
    assert [(e.ref.pod, e.exit_code) for e in shop.world.exits(shop.now)] == []
    shop.advance(10)
    assert shop.logs(pod) == ["round 10", "1", "round 40", "1", f"started {pod}"]
    assert [(e.ref.pod, e.exit_code) for e in shop.world.exits(shop.now)] == [(pod, 3)]


def test_a_loop_without_end_goes_on_and_asks_the_network_once_per_request(shop: Any) -> None:
    script = f"""
    wget -q -O - {URL}/ >/dev/null
    while true; do wrk -t 1 -c 1 -d 10s {URL} -R 5; done
    """
    pod = start(shop, script)
    first = requests(shop)
    shop.advance(120)
    reports = [line for line in shop.logs(pod) if " requests in 10.00s" in line]
    assert len(reports) == 11
    counted = sum(int(line.split()[0]) for line in reports)
    assert counted <= requests(shop) - first <= counted + 55
    shop.remove(pod)
    assert rate_over(shop, 60) == 0


def test_a_round_that_cannot_start_tells_the_script(shop: Any) -> None:
    pod = start(shop, "wrk -t 4 -c 2 -R 5 http://frontend.shop:80 || echo failed with $?; exit 0")
    shop.advance(5)
    assert shop.logs(pod) == ["number of connections must be >= threads", "failed with 1"]


PROFILES = [
    ({"SHAPE": "bursty", "PERIOD_S": "240"}, [(200, 10), (40, 40)]),
    ({"SHAPE": "diurnal", "PERIOD_S": "960"}, [(40, 4), (40, 4), (40, 6), (40, 9)]),
    ({"SHAPE": "replay", "SERIES": "60:25 30:0 60:100"}, [(60, 10), (30, 0), (60, 40)]),
]


@pytest.mark.parametrize(("env", "expected"), PROFILES, ids=[env["SHAPE"] for env, _ in PROFILES])
def test_the_profiles_of_the_workload(shop: Any, env: dict[str, str], expected: list[tuple[float, float]]) -> None:
    text = WORKLOAD.read_text().replace("{{path}}", "/").replace("{{namespace}}", "x")
    data = yaml.safe_load(text)["data"]
    files = {f"/scripts/{name}": value for name, value in data.items()}
    given = {"RATE": "40", "PERIOD_S": "240", "SERIES": "", "REPEAT": "yes", "CONNECTIONS": "4", "URL": URL, **env}
    shop.pod("wrk2", IMAGE, None, given, command=("sh", "/scripts/rounds.sh"), files=files)
    for seconds, rate in expected:
        assert rate_over(shop, seconds) == pytest.approx(rate, rel=0.2, abs=1)
