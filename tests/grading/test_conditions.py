"""Conditions on objects and where their paths lead."""

from __future__ import annotations

from typing import Any

import pytest

from aiopslab.grading.conditions import evaluate, look_up
from aiopslab.record import Snapshot

SERVICE: dict[str, Any] = {
    "metadata": {"name": "api", "namespace": "shop", "annotations": {"a.b/c": "x"}, "labels": {}},
    "spec": {
        "ports": [{"name": "grpc", "port": 80, "targetPort": 8080}, {"name": "web", "port": 81}],
        "on": True,
    },
}
PATHS = [
    ("spec.ports.0.targetPort", [8080]),
    ("spec.ports[0].targetPort", [8080]),
    ("spec.ports[name=web].port", [81]),
    ('spec.ports[name="web"].port', [81]),
    ("spec.ports[*].port", [80, 81]),
    ('metadata.annotations["a.b/c"]', ["x"]),
    ("metadata.annotations['a.b/c']", ["x"]),
    ("spec.ports.7.port", []),
    ("spec.nothing.below", []),
    ("", [SERVICE]),
]
CONDITIONS = [  # path, op, value, outcome
    ("spec.ports.0.targetPort", "equals", 8080, True),
    ("spec.ports.0.targetPort", "equals", "8080", True),
    ("spec.ports.0.targetPort", "not_equals", 9999, True),
    ("spec.ports.0.targetPort", "not_equals", 8080, False),
    ("spec.ports[*].port", "equals", 80, False),
    ("spec.ports[*].port", "at_least", 80, True),
    ("spec.ports[*].port", "at_least", 81, False),
    ("spec.on", "equals", "true", True),
    ("spec.on", "equals", 1, True),
    ("spec.gone", "absent", None, True),
    ("spec.gone", "exists", None, False),
    ("spec.gone", "not_equals", 3, False),
    ("spec.on", "exists", None, True),
    ("", "exists", None, True),
    ("", "absent", None, False),
    ("spec.ports.0.targetPort", "equals", "{{before:port}}", None),
    ("spec.on", "at_least", 0, False),
    ("spec.on", "resembles", 1, None),
]


def snapshot(*services: dict[str, Any]) -> Snapshot:
    return Snapshot(at_s=0.0, objects={"services": list(services)})


@pytest.mark.parametrize(("path", "values"), PATHS)
def test_paths(path: str, values: list[Any]) -> None:
    assert look_up(SERVICE, path) == values


@pytest.mark.parametrize(("path", "op", "value", "outcome"), CONDITIONS)
def test_conditions(path: str, op: str, value: Any, outcome: bool | None) -> None:
    condition = {"resource": "services", "name": "api", "path": path, "op": op, "value": value}
    check = evaluate(condition, snapshot(SERVICE), None)
    if path == "spec.on" and value == 1 and op == "equals":
        assert check.ok is True  # Python's True equals 1, and so does a person's reading
        return
    assert check.ok is outcome, check.detail


def test_a_missing_object_satisfies_only_absent() -> None:
    base = {"resource": "services", "name": "other", "path": "spec.on"}
    assert evaluate({**base, "op": "absent"}, snapshot(SERVICE), None).ok is True
    assert evaluate({**base, "op": "not_equals", "value": 1}, snapshot(SERVICE), None).ok is False


def test_a_resource_that_is_in_no_snapshot_cannot_be_judged() -> None:
    condition = {"resource": "apps/deployments", "name": "api", "op": "exists"}
    assert evaluate(condition, snapshot(SERVICE), None).ok is None
    before = Snapshot(at_s=-1.0, objects={"apps/deployments": [SERVICE]})
    assert evaluate(condition, snapshot(SERVICE), before).ok is False
    assert evaluate(condition, None, before).ok is None


def test_what_was_before_is_what_was_saved_or_else_what_the_snapshot_shows() -> None:
    base = {"resource": "services", "name": "api", "path": "spec.ports.0.targetPort", "op": "equals"}
    end, before = snapshot(SERVICE), snapshot({**SERVICE, "spec": {"ports": [{"targetPort": 8080}]}})
    by_key = {**base, "value": "{{before:port}}"}
    assert evaluate(by_key, end, before, {"port": 8080}).ok is True
    assert evaluate(by_key, end, before, {"port": 1}).ok is False
    assert evaluate(by_key, end, before).ok is None
    assert evaluate({**base, "value": "{{ before:spec.ports.0.targetPort }}"}, end, before).ok is True
