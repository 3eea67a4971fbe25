"""Every app, fault, workload and problem that ships: complete, consistent and usable."""

from __future__ import annotations

import subprocess
from pathlib import Path

import promql_parser
import pytest
import yaml

from aiopslab.catalog import Catalog, load_object
from aiopslab.catalog.bundles import builtin_bundle
from aiopslab.load.engine import render

SHIPPED = Catalog.load()
TASK_IDS = SHIPPED.problem_ids()


def test_nothing_is_broken(catalog: Catalog) -> None:
    assert [row.error for row in catalog.broken] == []


def test_the_problems_of_the_first_release_are_there(catalog: Catalog) -> None:
    five = ["detection", "localization", "analysis", "mitigation", "incident"]
    wanted = {
        "hipster-target-port": five,
        "hipster-scale-zero": five,
        "hipster-network-delay": five[:3],
        "hipster-healthy": ["detection", "incident"],
    }
    assert {name: catalog.problems[name].tasks for name in wanted} == wanted
    targets = {variant.params["service"] for variant in catalog.problems["hipster-target-port"].variants}
    assert len(targets) >= 2


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_a_task_is_consistent(task_id: str, catalog: Catalog) -> None:
    task = catalog.problem(task_id)
    expected = task.expected
    assert set(expected.components) <= set(task.app.services)
    assert set(expected.blast_radius) <= set(task.app.services)
    assert expected.anomaly == (task.fault is not None)
    assert bool(expected.components) == expected.anomaly
    if task.symptom is not None:
        promql_parser.parse(task.symptom.expr)
    if task.task == "mitigation":
        assert task.solution
        assert expected.cause_gone


@pytest.mark.parametrize("task_id", [i for i in TASK_IDS if "-mitigation-" in i])
def test_a_recorded_repair_is_shell(task_id: str, catalog: Catalog) -> None:
    for command in catalog.problem(task_id).solution:
        subprocess.run(["sh", "-n", "-c", command], check=True)


@pytest.mark.parametrize("app", sorted(SHIPPED.apps))
def test_an_app_has_objectives(app: str, catalog: Catalog) -> None:
    manifest = catalog.app(app)
    assert manifest.slos
    for slo in manifest.slos:
        promql_parser.parse(slo.expr)
    assert manifest.entry.service in manifest.services
    assert (manifest.folder / "README.md").is_file()


@pytest.mark.parametrize("fault", sorted(SHIPPED.faults))
def test_a_fault_can_be_made(fault: str, catalog: Catalog) -> None:
    manifest = catalog.fault(fault)
    made = load_object(manifest.folder, manifest.class_ref)()
    assert all(callable(getattr(made, verb)) for verb in ("save", "inject", "recover"))
    assert manifest.touches
    assert manifest.target in manifest.params


@pytest.mark.parametrize("workload", sorted(SHIPPED.workloads))
def test_a_workload_renders_for_every_app(workload: str, catalog: Catalog) -> None:
    for app in catalog.apps.values():
        objects = render(catalog.workload(workload), app, {})
        text = yaml.safe_dump_all(objects)
        assert f"{app.entry.service}.{app.namespace}:{app.entry.port}" in text
        assert "{{" not in text


def test_content_imports_only_the_api() -> None:
    for path in sorted(builtin_bundle().glob("[fp]*s/*/*.py")):
        for line in path.read_text().splitlines():
            if line.startswith(("import aiopslab", "from aiopslab")):
                assert line.startswith("from aiopslab.api import"), f"{path}: {line}"


def test_the_kind_cluster_has_three_workers() -> None:
    config = yaml.safe_load(Path(builtin_bundle(), "kind-cluster.yaml").read_text())
    roles = [node["role"] for node in config["nodes"]]
    assert roles == ["control-plane", "worker", "worker", "worker"]
