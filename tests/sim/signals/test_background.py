"""Background noise: seeded, harmless, and none of it when it is off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiopslab.cluster.embedded import sim_command
from aiopslab.errors import UsageError
from aiopslab.session.options import RunOptions
from aiopslab.session.stage import cluster_options
from aiopslab.sim.assemble import make_core
from aiopslab.sim.core.options import WriteOptions
from aiopslab.sim.core.ports import ContainerRef, ContainerSpec, LogQuery
from aiopslab.sim.disturbances import RESTARTED_AT, Disturbances
from aiopslab.sim.observe.promql.evaluate import Engine
from aiopslab.sim.observe.scrape import Scraper
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.world.background import LEVELS, RESTART_AFTER_S, Background
from aiopslab.sim.world.programs import Programs
from aiopslab.sim.world.world import SimWorld
from aiopslab.testing.topologies import ENTRY

START = 1_748_854_800.0


@given(st.integers(0, 10_000), st.floats(0, 1e6), st.floats(0, 4000))
@settings(max_examples=50, deadline=None)
def test_housekeeping_never_takes_back_what_it_used(seed: int, age_s: float, more_s: float) -> None:
    noise = Background("full", seed)
    used = noise.housekeeping_s("n1", age_s + more_s) - noise.housekeeping_s("n1", age_s)
    assert -1e-6 <= used <= 1.1 * more_s + 1e-6


@given(st.integers(0, 10_000), st.floats(0, 20_000), st.floats(0, 20_000))
@settings(max_examples=50, deadline=None)
def test_moments_do_not_depend_on_who_asks(seed: int, since: float, until: float) -> None:
    noise = Background("light", seed)
    everything = list(noise.moments("x", 20, 0, 20_000))
    assert list(noise.moments("x", 20, since, until)) == [m for m in everything if since <= m[0] <= until]


def test_off_is_silent_and_full_is_more_than_light() -> None:
    counts = []
    for level in LEVELS:
        noise = Background(level, 4)  # type: ignore[arg-type]
        gaps = sum(noise.gap("n1", t * 15_000) for t in range(5000))
        counts.append((gaps, len(list(noise.moments("x", 4, 0, 86_400))), noise.housekeeping_s("n1", 1e5)))
    assert counts[0] == (0, 0, 0.0)
    assert all(light < full for light, full in zip(counts[1], counts[2], strict=True))
    assert all(counts[1])


def test_some_seeds_restart_something_early_and_only_in_full() -> None:
    found = [Background("full", seed).restart_after_s("shop") for seed in range(40)]
    times = [after for after in found if after is not None]
    assert 8 < len(times) < 32
    assert all(RESTART_AFTER_S[0] <= after <= RESTART_AFTER_S[1] for after in times)
    assert all(Background("light", seed).restart_after_s("shop") is None for seed in range(40))


def test_a_restart_is_a_rollout_that_the_cluster_knows_of() -> None:
    seed = next(s for s in range(100) if Background("full", s).restart_after_s("shop"))
    kernel, api = make_core(seed, START)
    background = Background("full", seed)
    world = SimWorld(kernel, kernel.store, Programs(), seed, background)
    Disturbances(kernel, api, world, background, frozenset({"lab-system"})).start()
    api.create("namespaces", "", {"metadata": {"name": "shop"}}, WriteOptions())
    template = {
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "web:1"}]},
    }  # fmt: skip
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    api.create("apps/deployments", "shop", {"metadata": {"name": "web"}, "spec": spec}, WriteOptions())
    kernel.advance(START + RESTART_AFTER_S[1] + 1)
    found = api.get("apps/deployments", "shop", "web")
    assert RESTARTED_AT in found["spec"]["template"]["metadata"]["annotations"]
    assert "kubectl-rollout" in {entry["manager"] for entry in found["metadata"]["managedFields"]}


def test_an_outside_monitor_visits_web_pages(make_town: Any) -> None:
    def requests(level: Any) -> int:
        town = make_town(5)
        background = Background(level, 3)
        _, api = make_core(3, START)
        Disturbances(town.kernel, api, town.world, background, frozenset()).start()
        town.drain()
        town.advance(700)
        counted = town.spans_counted().items()
        return sum(n for (service, kind, _), n in counted if (service, kind) == (ENTRY, "SERVER"))

    assert 8 <= requests("light") - requests("off") <= 12


def test_missed_scrapes_are_gaps_not_resets(make_town: Any) -> None:
    town = make_town(6)
    series = SeriesStore()
    seed = next(s for s in range(200) if sum(Background("full", s).gap("n1", _ms(k)) for k in range(1, 20)) == 1)
    background = Background("full", seed)
    scraper = Scraper(town.kernel, town.store, town.world, series, background=background)
    town.kernel.call_at(START + 15, "scrape", scraper.start)
    town.advance(300)
    at = round(town.now * 1000)
    down = Engine(series).instant('count_over_time((up{node="n1"} == 0)[10m:15s])', at).value
    assert [dict(labels)["job"] for labels in down.labels] == ["kubernetes-nodes-cadvisor"]  # type: ignore[union-attr]
    resets = Engine(series).instant("sum(resets(container_cpu_usage_seconds_total[10m]))", at).value
    assert resets.values[:, 0].tolist() == [0.0]  # type: ignore[union-attr]


def _ms(number: int) -> int:
    return round((START + 15 * number) * 1000)


CHATTY = """
[programs.echo]
images = ["echo"]
log_format = "plain"
chatter_per_h = 30
chatter_logs = [{ at = "start", raw = true, message = "warn: {pod} {serial}" }]
"""


@pytest.mark.parametrize("level", ["off", "light"])
def test_programs_chatter_now_and_then(tmp_path: Path, level: Any) -> None:
    (tmp_path / "apps/echo").mkdir(parents=True)
    (tmp_path / "apps/echo/sim.toml").write_text(CHATTY)
    kernel, _ = make_core(1, START)
    world = SimWorld(kernel, kernel.store, Programs.load([tmp_path]), 1, Background(level, 1))
    ref = ContainerRef("ns", "echo-0", "u", "c", 0)
    world.start(ContainerSpec(ref, "echo:1", (), {}, {}, {}, "n1", "10.0.0.1", None, None), START)
    kernel.advance(START + 3600)
    lines = world.logs(ref, LogQuery()) or []
    assert (15 < len(lines) < 45) if level == "light" else not lines
    half = world.logs(ref, LogQuery(since=START + 1800)) or []
    assert half == [line for line in lines if line.at >= START + 1800]


def test_a_line_of_several_rows_stays_together(tmp_path: Path) -> None:
    """A multi-line message becomes one log line per row, in order, each with a time of its own."""
    manifest = CHATTY.replace('"warn: {pod} {serial}"', '"warn: {pod}\\n   at A\\n   at B"')
    (tmp_path / "apps/echo").mkdir(parents=True)
    (tmp_path / "apps/echo/sim.toml").write_text(manifest)
    kernel, _ = make_core(1, START)
    world = SimWorld(kernel, kernel.store, Programs.load([tmp_path]), 1, Background("full", 1))
    ref = ContainerRef("ns", "echo-0", "u", "c", 0)
    world.start(ContainerSpec(ref, "echo:1", (), {}, {}, {}, "n1", "10.0.0.1", None, None), START)
    kernel.advance(START + 1800)
    lines = world.logs(ref, LogQuery()) or []
    assert len(lines) >= 9 and len(lines) % 3 == 0
    for first in range(0, len(lines), 3):
        assert [line.text for line in lines[first : first + 3]] == ["warn: echo-0", "   at A", "   at B"]
        times = [line.at for line in lines[first : first + 3]]
        assert times == sorted(set(times)) and times[-1] - times[0] < 1e-4


def test_the_setting_reaches_the_process_and_the_record() -> None:
    options = RunOptions(noise="light")
    assert options.as_config("stepped")["noise"] == "light"
    command = sim_command(Path("d"), cluster_options(options))
    assert command[command.index("--noise") + 1] == "light"
    assert "--noise" not in sim_command(Path("d"), cluster_options(RunOptions()))
    with pytest.raises(UsageError, match="full noise needs a baseline of at least 420 s, not 60"):
        RunOptions(noise="full", baseline_s=60).check()
    RunOptions(noise="full").check()
