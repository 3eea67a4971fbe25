"""Tables: columns and cells per kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.sim.core.kernel import parse_time
from aiopslab.sim.core.schema import gvk_of
from aiopslab.sim.core.tables import human_duration, pod_status, table
from aiopslab.sim.core.tables.jsonpath import PathError, find

Obj = dict[str, Any]
NOW = parse_time("2025-06-02T10:00:00Z")
CREATED = "2025-06-02T09:55:00Z"
CASES = list(yaml.safe_load_all((Path(__file__).parent / "golden" / "tables.yaml").read_text()))
STATUSES = list(yaml.safe_load_all((Path(__file__).parent / "golden" / "podstatus.yaml").read_text()))


def prepared(obj: Obj) -> Obj:
    meta = {"name": "x", "creationTimestamp": CREATED, **obj.get("metadata", {})}
    return {**obj, "metadata": meta}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["object"]["kind"])
def test_rows(case: Obj) -> None:
    obj = prepared(case["object"])
    made = table(gvk_of(obj), [obj], NOW)
    columns = [c["name"] + ("*" if c["priority"] else "") for c in made["columnDefinitions"]]
    assert dict(zip(columns, made["rows"][0]["cells"], strict=True)) == case["row"]


@pytest.mark.parametrize("case", STATUSES, ids=lambda case: case["status"])
def test_pod_status(case: Obj) -> None:
    pod = prepared(case["pod"])
    assert pod_status(pod) == case["status"]


def test_restarts_tell_when_the_last_one_was() -> None:
    last = {"terminated": {"finishedAt": "2025-06-02T09:59:00Z"}}
    statuses = [{"name": "c", "restartCount": 3, "lastState": last, "state": {"running": {}}, "ready": True}]
    status = {"phase": "Running", "containerStatuses": statuses}
    pod = prepared({"spec": {"containers": [{"name": "c"}]}, "status": status})
    cells = table(gvk_of({"apiVersion": "v1", "kind": "Pod"}), [pod], NOW)["rows"][0]["cells"]
    assert cells[:5] == ["x", "1/1", "Running", "3 (60s ago)", "5m"]


@pytest.mark.parametrize(("include", "keys"), [("", ["kind", "apiVersion", "metadata"]), ("None", None)])
def test_rows_carry_what_the_request_asks_for(include: str, keys: list[str] | None) -> None:
    obj = prepared({"apiVersion": "v1", "kind": "ConfigMap"})
    row = table(gvk_of(obj), [obj], NOW, include)["rows"][0]
    assert (list(row["object"]) if "object" in row else None) == keys
    assert table(gvk_of(obj), [obj], NOW, "Object")["rows"][0]["object"] is obj


def test_unknown_kinds_show_name_and_age() -> None:
    made = table(gvk_of({"apiVersion": "example.com/v1", "kind": "Widget"}), [prepared({})], NOW)
    assert [c["name"] for c in made["columnDefinitions"]] == ["Name", "Age"]
    assert made["rows"][0]["cells"] == ["x", "5m"]


def test_printer_columns_of_custom_resources(widgets: Callable[[Obj], Any]) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "List", "type": "string", "jsonPath": ".spec.list", "priority": 1},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "Missing", "type": "string", "jsonPath": ".spec.nope.x"},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Bad", "type": "date", "jsonPath": ".spec.word"},
        {"name": "Broken", "type": "string", "jsonPath": ".spec[["},
    ]
    spec = {"size": 3, "list": [1, {"a": "b"}], "on": True, "word": "soon"}
    status = {"conditions": [{"type": "A", "status": "no"}, {"type": "Ready", "status": "yes"}]}
    made = table(widgets({"additionalPrinterColumns": columns}), [prepared({"spec": spec, "status": status})], NOW)
    assert made["rows"][0]["cells"] == ["x", 3, "yes", '[1,{"a":"b"}]', True, None, "5m", "<invalid>", None]
    assert made["columnDefinitions"][3]["priority"] == 1
    description = made["columnDefinitions"][1]["description"]
    assert description == "Custom resource definition column (in JSONPath format): .spec.size"
    assert [c["name"] for c in table(widgets({}), [], NOW)["columnDefinitions"]] == ["Name", "Age"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]),
        ("{.a.b}", [1]),
        ("$.a['b']", [1]),
        (".l[0].n", ["x"]),
        (".l[-1].n", ["y"]),
        (".l[9].n", []),
        (".l[*].n", ["x", "y"]),
        (".l[0:1].n", ["x"]),
        (".l[?(@.n=='y')].v", [2]),
        (".l[?(@.v!=2)].n", ["x"]),
        (".l[?(@.v)].n", ["x", "y"]),
        (r".m.a\.b/c", [5]),
        (".a.nope", []),
    ],
)
def test_json_paths(path: str, found: list[Any]) -> None:
    obj = {"a": {"b": 1}, "l": [{"n": "x", "v": 1}, {"n": "y", "v": 2}], "m": {"a.b/c": 5}}
    assert find(path, obj) == found


def test_unreadable_json_paths_are_errors() -> None:
    with pytest.raises(PathError, match="cannot read JSONPath"):
        find("a b", {})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (600, "10m"),
        (10799, "179m"), (10800, "3h"), (11100, "3h5m"), (28800, "8h"), (172799, "47h"), (172800, "2d"),
        (273600, "3d4h"), (691200, "8d"), (86400 * 729, "729d"), (86400 * 760, "2y30d"), (86400 * 365 * 9, "9y"),
    ],
)  # fmt: skip
def test_human_durations(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@given(st.floats(0, 1e9))
def test_durations_are_short(seconds: float) -> None:
    assert len(human_duration(seconds)) <= 6
