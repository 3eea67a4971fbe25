"""Validation: golden objects with the errors that a real API server gave or that its source gives, and updates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.sim.core.defaults import default, job_selector
from aiopslab.sim.core.patch import clone
from aiopslab.sim.core.schema import Gvk, gvk_of
from aiopslab.sim.core.validate import FieldError, validate
from aiopslab.sim.core.validate.cron import schedule_error
from aiopslab.sim.core.validate.values import qualified_name
from aiopslab.sim.core.validate.warnings import warn

Obj = dict[str, Any]
GOLDEN = Path(__file__).parent / "golden"
INVALID = list(yaml.safe_load_all((GOLDEN / "invalid.yaml").read_text()))
WARNED = list(yaml.safe_load_all((GOLDEN / "warnings.yaml").read_text()))
POD: Obj = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "x:1"}]},
}


def ready(obj: Obj) -> Obj:
    """As the API server has it when it validates."""
    made = clone(obj)
    if made["kind"] == "Namespace":
        made["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = made["metadata"]["name"]
    if made["kind"] == "Job":
        made["metadata"]["uid"] = "u"
        made = job_selector(made, "u")
    return default(made, gvk_of(made))


def errors(obj: Obj, old: Obj | None = None) -> list[str]:
    found = validate(obj, gvk_of(obj), old)
    return list(dict.fromkeys(map(str, found)))


@pytest.mark.parametrize("row", INVALID, ids=lambda row: row["object"]["kind"])
def test_errors_of_new_objects(row: Obj) -> None:
    assert errors(ready(row["object"])) == row["errors"]


@pytest.mark.parametrize("row", WARNED, ids=lambda row: row["object"]["kind"])
def test_warnings_of_new_objects(row: Obj) -> None:
    obj = ready(row["object"])
    assert errors(obj) == []
    assert warn(obj, gvk_of(obj), None, "") == row["warnings"]
    assert warn(obj, gvk_of(obj), None, "status") == []


def test_reasons_of_causes() -> None:
    kinds = {
        "Required": "Required value: d",
        "Invalid": 'Invalid value: "v": d',
        "NotSupported": 'Unsupported value: "v": d',
        "Duplicate": 'Duplicate value: "v": d',
        "Forbidden": "Forbidden: d",
        "TooLong": "Too long: d",
        "TooMany": "Too many: d",
        "NotFound": 'Not found: "v": d',
    }
    for kind, message in kinds.items():
        error = FieldError("spec.x", kind, "v", "d")  # type: ignore[arg-type]
        assert (error.reason, error.message) == (f"FieldValue{kind}", message)


def test_a_sound_deployment_has_no_errors(deployment: Obj) -> None:
    assert errors(ready(deployment)) == []


def changed(obj: Obj, path: str, value: Any) -> Obj:
    made = clone(obj)
    *parents, last = path.split(".")
    at = made
    for name in parents:
        at = at[int(name)] if isinstance(at, list) else at.setdefault(name, {})
    if isinstance(at, list):
        at[int(last)] = value
    else:
        at[last] = value
    return made


ADDED = ["spec.containers: Forbidden: pod updates may not add or remove containers"]
UPDATES = [
    ("metadata.labels", {"a": "b"}, []),
    ("spec.containers.0.image", "x:2", []),
    ("spec.activeDeadlineSeconds", 30, []),
    ("spec.tolerations", [{"key": "a", "operator": "Exists"}], []),
    ("spec.containers.0.image", "", ["spec.containers[0].image: Required value"]),
    ("spec.containers", [{**POD["spec"]["containers"][0], "name": n} for n in "cd"], ADDED),
    ("metadata.name", "other", ['metadata.name: Invalid value: "other": field is immutable']),
]


@pytest.mark.parametrize(("path", "value", "wanted"), UPDATES)
def test_pod_updates(path: str, value: Any, wanted: list[str]) -> None:
    old = ready(POD)
    assert errors(ready(changed(old, path, value)), old) == wanted


def test_a_forbidden_pod_update_shows_the_difference() -> None:
    old = ready(POD)
    (found,) = errors(changed(old, "spec.containers.0.command", ["sh"]), old)
    assert found.startswith("spec: Forbidden: pod updates may not change fields other than `spec.containers[*]")
    assert "\n@@ " in found
    assert '+   "Command": [' in found


IMMUTABLE = [
    (
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b", "c": "d"}}, "spec": POD["spec"]}}},
        "spec.selector", {"matchLabels": {"c": "d"}},
        ['spec.selector: Invalid value: {"matchLabels":{"c":"d"}}: field is immutable'],
    ),
    (
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
         "spec": {"ports": [{"port": 80}], "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}},
        "spec.clusterIPs", ["None"],
        ['spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set',
         'spec.clusterIPs: Invalid value: ["None"]: first value must match `clusterIP`'],
    ),
    (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}, "immutable": True},
        "data.a", "2", ["data: Forbidden: field is immutable when `immutable` is set"],
    ),
    (
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "m"}},
        "type", "x", ['type: Invalid value: "x": field is immutable'],
    ),
    (
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "c"}, "value": 1},
        "value", 2, ["value: Forbidden: may not be changed in an update."],
    ),
    (
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"},
         "roleRef": {"kind": "Role", "name": "r"}},
        "roleRef.name", "q",
        ['roleRef: Invalid value: {"kind":"Role","name":"q","apiGroup":"rbac.authorization.k8s.io"}: '
         "cannot change roleRef"],
    ),
    (
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": {
            "serviceName": "s", "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}}},
        "spec.serviceName", "t",
        ["spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
         "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' "
         "are forbidden"],
    ),
    (
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "a", "resources": {"requests": {"storage": 1}}}},
        "spec.storageClassName", "b",
        ["spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName "
         'for bound claims\n@@ -10,7 +10,7 @@\n   }\n  },\n  "VolumeName": "",\n- "StorageClassName": "a",\n'
         '+ "StorageClassName": "b",\n  "VolumeMode": "Filesystem",\n  "DataSource": null,\n'
         '  "DataSourceRef": null,\n'],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "path", "value", "wanted"), IMMUTABLE)
def test_fields_that_may_not_change(obj: Obj, path: str, value: Any, wanted: list[str]) -> None:
    old = ready(obj)
    assert errors(old, old) == []
    assert errors(changed(old, path, value), old) == wanted


def test_a_replaced_job_lacks_selector_and_template_labels() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {
        "spec": {**POD["spec"], "restartPolicy": "Never"}}}}  # fmt: skip
    old = ready(job)
    new = {**job, "metadata": old["metadata"]}
    found = errors(default(new, Gvk("batch", "v1", "Job")), old)
    assert [line.split(": {")[0] for line in found] == [
        "spec.selector: Required value",
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
        "spec.selector: Invalid value: null: field is immutable",
        "spec.template: Invalid value",
    ]


def test_no_new_finalizers_while_deleting() -> None:
    old = ready({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "deletionTimestamp": "T"}})
    new = changed(old, "metadata.finalizers", ["x.example.com/b"])
    assert errors(new, old) == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"x.example.com/b"}'
    ]


def test_annotations_have_a_size_limit() -> None:
    big = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "annotations": {"a": "x" * 262144}}}
    assert errors(big) == ["metadata.annotations: Too long: may not be more than 262144 bytes"]


@pytest.mark.parametrize(
    ("schedule", "error"),
    [
        ("*/5 * * * *", None),
        ("0 0 1 jan sun", None),
        ("@daily", None),
        ("@every 1h30m", None),
        ("@often", "unrecognized descriptor: @often"),
        ("61 * * * *", "end of range (61) above maximum (59): 61"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
    ],
)
def test_cron_schedules(schedule: str, error: str | None) -> None:
    assert schedule_error(schedule) == error


@given(st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True))
def test_what_the_expression_allows_is_a_qualified_name(name: str) -> None:
    assert qualified_name(name) == []
    assert qualified_name(f"example.com/{name}") == []


def test_a_stateful_set_may_mount_its_claims() -> None:
    container = {"name": "c", "image": "x:1", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    claim = {"metadata": {"name": "data"}, "spec": {}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "volumeClaimTemplates": [claim]}
    obj = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": spec}
    assert errors(ready(obj)) == []
