"""Defaults per kind, and that filling them in twice changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.sim.core.defaults import default, job_selector
from aiopslab.sim.core.defaults_pod import pull_policy
from aiopslab.sim.core.patch import clone
from aiopslab.sim.core.schema import gvk_of, type_errors

Obj = dict[str, Any]
GOLDEN = Path(__file__).parent / "golden"
CASES = list(yaml.safe_load_all((GOLDEN / "defaults.yaml").read_text()))
INVALID = [row["object"] for row in yaml.safe_load_all((GOLDEN / "invalid.yaml").read_text())]


def at(obj: Obj, path: str) -> Any:
    found: Any = obj
    for name in path.split("."):
        found = found[int(name)] if isinstance(found, list) else found[name]
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["object"]["kind"])
def test_defaults(case: Obj) -> None:
    before = clone(case["object"])
    made = default(case["object"], gvk_of(before))
    assert case["object"] == before
    for path, wanted in case["filled"].items():
        assert at(made, path) == wanted, path
    assert default(made, gvk_of(made)) == made


@pytest.mark.parametrize("obj", INVALID, ids=lambda obj: obj["kind"])
def test_defaults_are_idempotent_for_wrong_objects_too(obj: Obj) -> None:
    assert type_errors(obj, gvk_of(obj)) is None
    once = default(obj, gvk_of(obj))
    assert default(once, gvk_of(obj)) == once


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("host:5000/nginx", "Always"),
        ("host:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:00", "IfNotPresent"),
        ("nginx:latest@sha256:00", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_job_selector_comes_from_the_uid() -> None:
    job = {"metadata": {"name": "j"}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
    made = job_selector(job, "u1")
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}}
    assert made["spec"]["template"]["metadata"]["labels"] == {
        "a": "b",
        "controller-uid": "u1",
        "job-name": "j",
        "batch.kubernetes.io/controller-uid": "u1",
        "batch.kubernetes.io/job-name": "j",
    }
    manual = {"metadata": {"name": "j"}, "spec": {"manualSelector": True}}
    assert job_selector(manual, "u1") is manual


def test_custom_resources_are_left_alone(widgets: Callable[[Obj], Any]) -> None:
    obj = {"kind": "Widget", "spec": {"a": None}}
    assert default(obj, widgets({})) is obj


probes = st.fixed_dictionaries(
    {"httpGet": st.fixed_dictionaries({"port": st.integers(1, 9)})},
    optional={"periodSeconds": st.integers(0, 3), "failureThreshold": st.integers(0, 3)},
)
containers = st.fixed_dictionaries(
    {"name": st.sampled_from("abc")},
    optional={
        "image": st.sampled_from(["x", "x:1", "x:latest"]),
        "readinessProbe": probes,
        "ports": st.lists(st.fixed_dictionaries({"containerPort": st.integers(1, 9)}), max_size=2),
        "resources": st.dictionaries(
            st.sampled_from(["limits", "requests"]),
            st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "500m", "0.5", "1024Mi"])),
        ),
        "env": st.lists(st.fixed_dictionaries({"name": st.just("A"), "value": st.text("x", max_size=1)})),
    },
)


@given(st.lists(containers, max_size=3), st.booleans())
def test_pod_defaults_are_idempotent(found: list[Obj], host_network: bool) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod["spec"] = {"containers": found, "hostNetwork": host_network, "volumes": [{"name": "v"}]}  # type: ignore[assignment]
    once = default(pod, gvk_of(pod))
    assert default(once, gvk_of(pod)) == once
