"""Load: manifests are filled in, applied at one instant, waited for, and taken away."""

from __future__ import annotations

from typing import Any

import pytest

from aiopslab.catalog.manifests import App, Workload
from aiopslab.errors import DeployError, ManifestError
from aiopslab.load.engine import Loader, render


def test_manifests_are_filled_in(workload: Workload, app: App) -> None:
    script, job = render(workload, app, {"rate": 9})
    assert script["metadata"]["namespace"] == "lab-system"
    assert job["spec"] == {"args": ["9", "web.toy:8080"], "rate": 9}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Job\nmetadata: {name: x}\n", r"Job/x must set metadata\.namespace to \{\{namespace\}\}"),
        ("kind: [\n", "is not YAML once its parameters are filled in"),
        ("kind: '{{nix}}'\n", r"\{\{nix\}\} is not a parameter here"),
    ],
)
def test_a_wrong_manifest_is_named(workload: Workload, app: App, text: str, says: str) -> None:
    (workload.folder / "load.yaml").write_text(text)
    with pytest.raises(ManifestError, match=says):
        render(workload, app, {})


async def test_it_starts_and_stops(world: Any, workload: Workload, app: App) -> None:
    loader = Loader(world, world)
    await loader.start(workload, app, {"rate": 9})
    assert world.time == 10.0
    assert world.objects["batch/jobs", "lab-system", "load"]["spec"]["rate"] == 9
    await loader.stop()
    await loader.stop()
    assert sorted(world.dying) == [("batch/jobs", "lab-system", "load"), ("configmaps", "lab-system", "script")]


async def test_left_overs_are_replaced(world: Any, workload: Workload, app: App) -> None:
    await Loader(world, world).start(workload, app)
    await Loader(world, world).start(workload, app, {"rate": 9})
    assert world.objects["batch/jobs", "lab-system", "load"]["spec"]["rate"] == 9
    assert world.time == 10.0 + 6.0 + 10.0  # ready, old one gone, ready


async def test_a_generator_that_does_not_run_is_named_and_stopped(world: Any, workload: Workload, app: App) -> None:
    world.ready_after_s = 1e9
    with pytest.raises(DeployError, match="workload drip does not run after 180 s: load"):
        await Loader(world, world).start(workload, app)
    assert ("batch/jobs", "lab-system", "load") in world.dying
