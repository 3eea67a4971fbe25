"""The chaos controller over a real API object: lifecycle, records, events, pod actions."""

from __future__ import annotations

from typing import Any

import pytest

from aiopslab.sim.core.api import Api
from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.kinds import Kinds
from aiopslab.sim.core.options import DeleteOptions, WriteOptions
from aiopslab.sim.core.store import Key, Obj
from aiopslab.sim.world import chaos
from aiopslab.sim.world.effects import bytes_per_second, injected, read_effects, seconds, size_bytes

NETWORK = "chaos-mesh.org/networkchaos"
OPTIONS = WriteOptions("test")


class Victims:
    """Notes kills."""

    def __init__(self) -> None:
        self.killed: list[Any] = []

    def kill(self, ref: Any, now: float, reason: str = "Error") -> None:
        self.killed.append(ref)


class Site:
    """Kernel, API and three pods."""

    def __init__(self) -> None:
        self.kernel = Kernel(3, 1748854800.0)
        self.api = Api(self.kernel, Kinds())
        self.victims = Victims()
        for name in ("chaos-mesh", "shop"):
            self.api.put(Key("namespaces", "", name), {"metadata": {"name": name}}, "test")
        chaos.install(self.kernel, self.api, self.victims)
        for name in ("cart-1", "cart-2", "ads-1"):
            container = {"name": "server", "image": "shop/app:1"}
            pod = {
                "metadata": {"name": name, "namespace": "shop", "labels": {"app": name[:-2]}},
                "spec": {"containers": [container], "nodeName": "worker-1"},
                "status": {"phase": "Running"},
            }
            self.api.put(Key("pods", "shop", name), pod, "test")
        self.kernel.settle()

    def create(self, resource: str, spec: Obj, name: str = "x") -> None:
        self.api.create(resource, "chaos-mesh", {"metadata": {"name": name}, "spec": spec}, OPTIONS)
        self.kernel.settle()

    def get(self, resource: str, name: str = "x") -> Obj:
        return self.api.get(resource, "chaos-mesh", name)

    def events(self) -> list[str]:
        return [f"{e['reason']}: {e['message']}" for e in self.api.list("events", "chaos-mesh")]

    def conditions(self, resource: str) -> dict[str, str]:
        return {c["type"]: c["status"] for c in self.get(resource)["status"]["conditions"]}


@pytest.fixture
def site() -> Site:
    return Site()


def delay(app: str = "cart", **more: Any) -> Obj:
    selector = {"namespaces": ["shop"], "labelSelectors": {"app": app}}
    return {"action": "delay", "mode": "all", "selector": selector, "delay": {"latency": "10ms"}, **more}


def test_inject_and_delete(site: Site) -> None:
    site.create(NETWORK, delay())
    found = site.get(NETWORK)
    assert found["metadata"]["finalizers"] == [chaos.FINALIZER]
    assert injected(found) == ["shop/cart-1", "shop/cart-2"]
    assert site.conditions(NETWORK) == {
        "Selected": "True",
        "AllInjected": "True",
        "AllRecovered": "False",
        "Paused": "False",
    }
    assert read_effects(site.kernel.store).path(("shop", "cart-1"), ("shop", "ads-1")).delay_ms == 10
    assert "Applied: Successfully apply chaos for shop/cart-1" in site.events()
    _, gone = site.api.delete(NETWORK, "chaos-mesh", "x", DeleteOptions())
    assert not gone
    site.kernel.settle()
    assert not site.api.list(NETWORK, "chaos-mesh")
    assert "Recovered: Successfully recover chaos for shop/cart-2" in site.events()
    assert not read_effects(site.kernel.store).egress


def test_duration_ends_it(site: Site) -> None:
    site.create(NETWORK, delay(duration="1m30s"))
    site.kernel.advance(site.kernel.now + 89)
    assert injected(site.get(NETWORK))
    site.kernel.advance(site.kernel.now + 2)
    assert not injected(site.get(NETWORK))
    assert site.conditions(NETWORK)["AllRecovered"] == "True"
    assert "TimeUp: Time up according to the duration" in site.events()


def test_nothing_selected(site: Site) -> None:
    site.create(NETWORK, delay("nobody"))
    assert site.conditions(NETWORK)["Selected"] == "False"
    assert "Failed: Failed to select targets: no pod is selected" in site.events()


MODES = [
    ("one", None, 1),
    ("all", None, 2),
    ("fixed", "5", 2),
    ("fixed-percent", "50", 1),
    ("fixed-percent", "51", 2),
]


@pytest.mark.parametrize(("mode", "value", "count"), MODES)
def test_modes(site: Site, mode: str, value: str | None, count: int) -> None:
    site.create(NETWORK, delay(mode=mode, value=value) if value else delay(mode=mode))
    assert len(injected(site.get(NETWORK))) == count


def test_direction_and_target(site: Site) -> None:
    target = {"mode": "all", "selector": {"namespaces": ["shop"], "labelSelectors": {"app": "ads"}}}
    site.create(NETWORK, delay(direction="from", target=target))
    effects = read_effects(site.kernel.store)
    assert sorted(effects.egress) == [("shop", "ads-1")]
    assert effects.path(("shop", "cart-1"), ("shop", "ads-1")).delay_ms == 10
    assert effects.from_outside(("shop", "ads-1")).clear


def test_pod_kill_and_container_kill(site: Site) -> None:
    selector = {"namespaces": ["shop"], "labelSelectors": {"app": "ads"}}
    site.create("chaos-mesh.org/podchaos", {"action": "container-kill", "mode": "all", "selector": selector})
    assert [(r.pod, r.container) for r in site.victims.killed] == [("ads-1", "server")]
    site.create("chaos-mesh.org/podchaos", {"action": "pod-kill", "mode": "all", "selector": selector}, "y")
    assert [p["metadata"]["name"] for p in site.api.list("pods", "shop")] == ["cart-1", "cart-2"]


def test_pod_failure_swaps_images_and_back(site: Site) -> None:
    def image() -> str:
        return site.api.get("pods", "shop", "ads-1")["spec"]["containers"][0]["image"]

    selector = {"namespaces": ["shop"], "labelSelectors": {"app": "ads"}}
    site.create("chaos-mesh.org/podchaos", {"action": "pod-failure", "mode": "all", "selector": selector})
    assert image() == chaos.PAUSE_IMAGE
    site.api.delete("chaos-mesh.org/podchaos", "chaos-mesh", "x", DeleteOptions())
    site.kernel.settle()
    assert image() == "shop/app:1"


def test_units() -> None:
    assert [seconds(t) for t in ("90s", "1m30s", "100ms", "0.5s", "2h")] == [90, 90, 0.1, 0.5, 7200]
    assert [bytes_per_second(t) for t in ("1mbps", "8mbit", "", "10kbit")] == [1e6, 1e6, 0, 1250]
    assert [size_bytes(t) for t in ("256MB", "1Mi", "10%", "5")] == [256e6, 1 << 20, 0, 5]
