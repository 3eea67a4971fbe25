"""The faults that ship, through the engine: what they change, and that recovery is always safe."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from aiopslab.catalog import Catalog
from aiopslab.errors import InjectionError
from aiopslab.inject.engine import Injector
from aiopslab.inject.journal import read_journal

CASES: dict[str, dict[str, Any]] = {
    "service-target-port": {"service": "web", "target_port": 9999},
    "scale-to-zero": {"service": "web"},
    "network-delay": {"service": "web", "latency_ms": 120, "jitter_ms": 10},
    "feature-flag": {"service": "web", "flag": "webFailure", "variant": "on"},
}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return Catalog.load()


def core(objects: dict[Any, Any]) -> dict[Any, Any]:
    """Objects without what recovery does not take back: that pods were rolled, and a namespace that was made."""
    left = copy.deepcopy({key: obj for key, obj in objects.items() if key[0] != "namespaces"})
    for obj in left.values():
        obj.get("spec", {}).get("template", {}).get("metadata", {}).pop("annotations", None)
    return left


def test_every_fault_that_ships_is_tried(catalog: Catalog) -> None:
    assert set(CASES) == set(catalog.faults)


async def test_target_port_changes_one_port_and_rolls_the_pods(
    catalog: Catalog, kube: Any, cluster: Any, tmp_path: Path
) -> None:
    injector = Injector(cluster, kube)
    params = {"service": "web", "target_port": 9999, "port_index": 1}
    done = await injector.inject(catalog.fault("service-target-port"), params, tmp_path / "j.json", "shop")
    ports = kube.objects["services", "shop", "web"]["spec"]["ports"]
    assert ports == [{"port": 80, "targetPort": 8080}, {"port": 81, "targetPort": 9999}]
    template = kube.objects["apps/deployments", "shop", "web"]["spec"]["template"]
    assert template["metadata"]["annotations"] == {"kubectl.kubernetes.io/restartedAt": "2025-06-02T12:00:00Z"}
    assert template["metadata"]["labels"] == {"app": "web"}
    assert done.targets == ["web"]
    assert done.objects == ["services/shop/web", "apps/deployments/shop/web"]
    assert done.params["port_index"] == 1


async def test_network_delay_is_one_object_with_a_neutral_name(
    catalog: Catalog, kube: Any, cluster: Any, tmp_path: Path
) -> None:
    injector = Injector(cluster, kube)
    fault = catalog.fault("network-delay")
    done = await injector.inject(fault, CASES["network-delay"], tmp_path / "j.json", "shop")
    ((key, chaos),) = [item for item in kube.objects.items() if item[0][0] == "chaos-mesh.org/networkchaos"]
    assert key[1] == "chaos-mesh"
    assert not any(word in key[2] for word in ("delay", "net", "web", "fault"))
    assert chaos["spec"] == {
        "action": "delay",
        "mode": "all",
        "direction": "to",
        "selector": {"namespaces": ["shop"], "labelSelectors": {"app": "web"}},
        "delay": {"latency": "120ms", "jitter": "10ms", "correlation": "0"},
    }
    assert done.objects == [f"chaos-mesh.org/networkchaos/chaos-mesh/{key[2]}"]


@pytest.mark.parametrize("flag", ["webFailure", "idFailure"])
async def test_a_flag_is_changed_where_it_decides(
    flag: str, catalog: Catalog, kube: Any, cluster: Any, tmp_path: Path
) -> None:
    params = {"service": "web", "flag": flag, "variant": "on"}
    await Injector(cluster, kube).inject(catalog.fault("feature-flag"), params, tmp_path / "j.json", "shop")
    data = kube.objects["configmaps", "shop", "flagd-config"]["data"]
    changed = json.loads(data["demo.flagd.json"])["flags"]
    assert changed["webFailure"]["defaultVariant"] == ("on" if flag == "webFailure" else "off")
    assert changed["idFailure"]["defaultVariant"] == "off"
    assert changed["idFailure"]["targeting"]["if"][1] == ("on" if flag == "idFailure" else "off")
    template = kube.objects["apps/deployments", "shop", "flagd"]["spec"]["template"]
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]


@pytest.mark.parametrize("fault", sorted(CASES))
async def test_recovery_undoes_the_change_and_may_be_repeated(
    fault: str, catalog: Catalog, kube: Any, cluster: Any, tmp_path: Path
) -> None:
    before = core(kube.objects)
    journal = tmp_path / "journal.json"
    await Injector(cluster, kube).inject(catalog.fault(fault), CASES[fault], journal, "shop")
    assert core(kube.objects) != before
    # Another process has nothing but the journal.
    assert await Injector(cluster, kube).recover(journal)
    assert core(kube.objects) == before
    assert not await Injector(cluster, kube).recover(journal)
    # A crash between recovery and the note of it: everything is done again.
    entry = json.loads(journal.read_text())
    journal.write_text(json.dumps({**entry, "state": "injected"}))
    assert await Injector(cluster, kube).recover(journal)
    assert core(kube.objects) == before


@pytest.mark.parametrize("fault", sorted(CASES))
@pytest.mark.parametrize("fail_on", [1, 2])
async def test_recovery_after_a_failed_injection(
    fault: str, fail_on: int, catalog: Catalog, kube: Any, cluster: Any, tmp_path: Path
) -> None:
    before = core(kube.objects)
    journal = tmp_path / "journal.json"
    kube.fail_on = fail_on
    injector = Injector(cluster, kube)
    try:
        await injector.inject(catalog.fault(fault), CASES[fault], journal, "shop")
    except InjectionError as error:
        assert f"fault {fault}: inject failed: the server fell over" in str(error)
        entry = read_journal(journal)
        assert entry is not None
        assert entry.state == "saved"
    kube.fail_on = None
    assert await injector.recover(journal)
    assert core(kube.objects) == before


@pytest.mark.parametrize("fault", sorted(CASES))
async def test_recovery_when_everything_was_deleted_meanwhile(
    fault: str, catalog: Catalog, kube: Any, cluster: Any, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.json"
    injector = Injector(cluster, kube)
    await injector.inject(catalog.fault(fault), CASES[fault], journal, "shop")
    kube.objects.clear()
    assert await injector.recover(journal)
    assert kube.objects == {}


@pytest.mark.parametrize("fault", ["service-target-port", "scale-to-zero"])
async def test_recovery_leaves_the_agents_repair_alone(
    fault: str, catalog: Catalog, kube: Any, cluster: Any, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.json"
    injector = Injector(cluster, kube)
    await injector.inject(catalog.fault(fault), CASES[fault], journal, "shop")
    kube.objects["services", "shop", "web"]["spec"]["ports"][0]["targetPort"] = "http"
    kube.objects["apps/deployments", "shop", "web"]["spec"]["replicas"] = 5
    repaired = copy.deepcopy(kube.objects)
    await injector.recover(journal)
    assert kube.objects == repaired


@pytest.mark.parametrize(
    ("fault", "params", "says"),
    [
        ("service-target-port", {"service": "nix"}, 'save failed: services "nix" not found'),
        ("service-target-port", {"service": "web", "target_port": 8080}, "already forwards to 8080"),
        ("service-target-port", {"service": "web", "port_index": 7}, "has 2 ports; port_index is 7"),
        ("scale-to-zero", {"service": "nix"}, "not found"),
        ("network-delay", {"service": "nix"}, "no pods with the label app=nix"),
        (
            "feature-flag",
            {"service": "web", "flag": "nix", "variant": "on"},
            "has no flag 'nix'; it has idFailure, web",
        ),
        (
            "feature-flag",
            {"service": "web", "flag": "webFailure", "variant": "5"},
            "no variant '5'; choose of on, off",
        ),
        ("feature-flag", {"service": "web", "flag": "webFailure", "variant": "off"}, "'off' already"),
    ],
)
async def test_a_fault_that_cannot_act_changes_nothing(
    fault: str, params: dict[str, Any], says: str, injector: Injector, kube: Any, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.json"
    with pytest.raises(InjectionError, match=says):
        await injector.inject(Catalog.load().fault(fault), params, journal, "shop")
    assert kube.writes == []
    assert not journal.exists()
    assert not await injector.recover(journal)


async def test_a_missing_api_is_named(catalog: Catalog, kube: Any, cluster: Any, tmp_path: Path) -> None:
    kube.served = set()
    with pytest.raises(InjectionError, match=r"network-delay needs chaos-mesh\.org/v1alpha1"):
        await Injector(cluster, kube).inject(
            catalog.fault("network-delay"), CASES["network-delay"], tmp_path / "j.json", "shop"
        )
