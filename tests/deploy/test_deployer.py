"""Deploying: one instant, then readiness; and nothing half-deployed is left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiopslab.catalog.manifests import App
from aiopslab.deploy.engine import Deployer
from aiopslab.errors import DeployError


@pytest.fixture
def deployer(world: Any) -> Deployer:
    return Deployer(world, world, world)


async def test_objects_appear_at_one_instant_and_readiness_is_waited_for(
    deployer: Deployer, world: Any, app: App
) -> None:
    seen: list[tuple[int, int]] = []
    await deployer.deploy(app, lambda ready, total: seen.append((ready, total)))
    assert world.held == ["held"]
    assert world.time == 10.0
    assert seen[0] == (0, 2)
    assert seen[-1] == (2, 2)


async def test_undeploying_waits_until_everything_is_gone(deployer: Deployer, world: Any, app: App) -> None:
    await deployer.deploy(app)
    await deployer.undeploy(app)
    assert world.objects == world.releases_ == {}
    await deployer.undeploy(app)


async def test_a_namespace_that_is_going_is_waited_for(deployer: Deployer, world: Any, app: App) -> None:
    leaving = {"metadata": {"name": "toy", "deletionTimestamp": "2025-06-02T09:00:00Z"}}
    await world.create("namespaces", "", leaving)
    await world.delete("namespaces", "", "toy")
    await deployer.deploy(app)
    assert world.time == 6.0 + 10.0
    assert "deletionTimestamp" not in world.objects["namespaces", "", "toy"]["metadata"]


async def test_an_app_that_does_not_become_ready_is_taken_away(deployer: Deployer, world: Any, app: App) -> None:
    world.ready_after_s = 1e9
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    pod = {"metadata": {"name": "web-1"}, "status": {"containerStatuses": [{"state": {"waiting": waiting}}]}}
    world.objects["pods", "toy", "web-1"] = {**pod, "stored": 0.0}
    world._live = lambda obj: obj if "spec" not in obj else {**obj, "status": {}}
    with pytest.raises(DeployError, match=r"app toy is not ready after 60 s: db, web\. web-1: ImagePullBackOff"):
        await deployer.deploy(app)
    assert world.releases_ == {}


async def test_a_failing_install_is_named_and_taken_away(deployer: Deployer, world: Any, app: App) -> None:
    world.fail_install = "`helm install` failed (1): the chart is wrong"
    with pytest.raises(DeployError, match=r"app toy cannot be installed: .*the chart is wrong"):
        await deployer.deploy(app)
    assert world.objects == world.releases_ == {}


async def test_a_cancelled_deployment_is_taken_away(deployer: Deployer, world: Any, app: App) -> None:
    ready = asyncio.Event()

    async def sleep(seconds: float) -> float:
        ready.set()
        await asyncio.Event().wait()
        raise AssertionError

    world.sleep, patient = sleep, world.sleep
    task = asyncio.create_task(deployer.deploy(app))
    await ready.wait()
    world.sleep = patient
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.objects == world.releases_ == {}


async def test_what_could_not_be_taken_away_is_noted(deployer: Deployer, world: Any, app: App) -> None:
    world.fail_install = "broken"
    world.gone_after_s = 1e9
    with pytest.raises(DeployError) as caught:
        await deployer.deploy(app)
    cause = caught.value.__cause__
    assert cause is not None
    assert "namespace toy is still there after 180 s" in cause.__notes__[0]


async def test_a_release_of_somebody_else_is_used_and_left_alone(deployer: Deployer, world: Any, app: App) -> None:
    await Deployer(world, world, world).deploy(app)
    objects = dict(world.objects)
    await deployer.deploy(app)
    assert world.held == ["held"]
    await deployer.undeploy(app)
    assert world.objects == objects


async def test_a_broken_release_is_not_touched(deployer: Deployer, world: Any, app: App) -> None:
    world.releases_["toy"] = "pending-install"
    with pytest.raises(DeployError, match="is pending-install; remove it with `helm uninstall toy -n toy`"):
        await deployer.deploy(app)
    assert world.releases_ == {"toy": "pending-install"}
