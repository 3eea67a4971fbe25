"""Writes through the API without a server: names, generations, conflicts, deletion, allocation, events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiopslab.sim.assemble import assemble
from aiopslab.sim.core.api import ApiError, DeleteOptions, WriteOptions
from aiopslab.sim.core.store import Key

START = 1748854800.0
DEPLOYMENTS = "apps/deployments"


def test_generated_names_are_never_used_twice(api, options, make):
    body = {**make.config_map(), "metadata": {"generateName": "g-"}}
    names = []
    for _ in range(3):
        created = api.create("configmaps", "default", body, options)
        names.append(created["metadata"]["name"])
        api.delete("configmaps", "default", names[-1], DeleteOptions())
    assert len(set(names)) == 3 and all(n.startswith("g-") and len(n) == 7 for n in names)


def test_generated_names_do_not_depend_on_other_prefixes(make):
    def name_of_b(prefixes: list[str]) -> str:
        api = assemble(7, START, bare=True).api
        found = {}
        for prefix in prefixes:
            body = {**make.config_map(), "metadata": {"generateName": prefix}}
            found[prefix] = api.create("configmaps", "default", body, WriteOptions())["metadata"]
        return found["b-"]["name"] + found["b-"]["uid"]

    assert name_of_b(["a-", "b-"]) == name_of_b(["b-", "a-"])


def test_only_what_is_asked_for_bumps_the_generation(api, options, make):
    api.create(DEPLOYMENTS, "default", make.deployment(), options)
    labelled = api.patch(DEPLOYMENTS, "default", "web", "merge", {"metadata": {"labels": {"x": "y"}}}, options)
    assert labelled["metadata"]["generation"] == 1
    scaled = api.patch(DEPLOYMENTS, "default", "web", "merge", {"spec": {"replicas": 3}}, options)
    assert scaled["metadata"]["generation"] == 2
    status = {"status": {"replicas": 1}, "spec": {"replicas": 9}}
    reported = api.patch(DEPLOYMENTS, "default", "web", "merge", status, options, "status")
    assert reported["metadata"]["generation"] == 2 and reported["spec"]["replicas"] == 3


def test_a_write_without_change_keeps_the_version(api, options, make):
    created = api.create("configmaps", "default", make.config_map(), options)
    for kind, patch in (("merge", {"data": {"a": "1"}}), ("json", []), ("strategic", {})):
        assert api.patch("configmaps", "default", "m", kind, patch, options) is created
    assert (
        api.update("configmaps", "default", "m", make.config_map(), options)["metadata"]["resourceVersion"]
        == (created["metadata"]["resourceVersion"])
    )


def test_a_stale_version_is_a_conflict(api, options, make):
    old = api.create("configmaps", "default", make.config_map(), options)
    api.patch("configmaps", "default", "m", "merge", {"data": {"a": "2"}}, options)
    with pytest.raises(ApiError, match="the object has been modified") as error:
        api.update("configmaps", "default", "m", old, options)
    assert error.value.code == 409


def test_a_dry_run_stores_nothing(api, make):
    before = api.store.revision
    dry = WriteOptions("test", dry_run=True)
    api.create("configmaps", "default", make.config_map(), dry)
    api.create("configmaps", "default", {**make.config_map(), "metadata": {"generateName": "x-"}}, dry)
    assert api.store.revision == before


@pytest.mark.parametrize(
    ("resource", "body", "code", "message"),
    [
        ("configmaps", {"metadata": {"name": "x", "namespace": "other"}}, 400, "does not match the namespace"),
        ("configmaps", {"metadata": {}}, 422, "name or generateName is required"),
        (
            "pods",
            {
                "metadata": {"name": "x"},
                "spec": {"containers": [{"name": "c", "image": "i"}], "priorityClassName": "no"},
            },
            403,
            "no PriorityClass",
        ),
        (
            "pods",
            {
                "metadata": {"name": "x"},
                "spec": {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "no"},
            },
            403,
            "error looking up service",
        ),
    ],
)
def test_refused_creations_change_nothing(api, options, resource, body, code, message):
    before = api.store.revision
    with pytest.raises(ApiError, match=message) as error:
        api.create(resource, "default", body, options)
    assert error.value.code == code and api.store.revision == before


def test_namespaces_must_exist_and_not_be_ending(api, options, make):
    with pytest.raises(ApiError, match='namespaces "nope" not found'):
        api.create("configmaps", "nope", make.config_map(), options)
    api.create("namespaces", "", {"metadata": {"name": "ending"}}, options)
    api.delete("namespaces", "", "ending", DeleteOptions())
    with pytest.raises(ApiError, match="because it is being terminated") as error:
        api.create("configmaps", "ending", make.config_map(), options)
    assert error.value.status["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    with pytest.raises(ApiError, match="this namespace may not be deleted"):
        api.delete("namespaces", "", "default", DeleteOptions())


def test_finalizers_hold_an_object(api, options, make):
    body = make.config_map()
    body["metadata"]["finalizers"] = ["example.com/x"]
    api.create("configmaps", "default", body, options)
    kept, gone = api.delete("configmaps", "default", "m", DeleteOptions())
    assert not gone and kept["metadata"]["deletionGracePeriodSeconds"] == 0
    api.patch("configmaps", "default", "m", "merge", {"metadata": {"finalizers": None}}, options)
    assert api.store.get(Key("configmaps", "default", "m")) is None


@pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
def test_propagation_is_a_finalizer(api, options, make, policy, finalizer):
    api.create("configmaps", "default", make.config_map(), options)
    kept, gone = api.delete("configmaps", "default", "m", DeleteOptions(propagation=policy))
    assert not gone and kept["metadata"]["finalizers"] == [finalizer]


def test_pods_on_a_node_get_their_grace_period(api, options, make):
    api.create("pods", "default", make.pod("free"), options)
    assert api.delete("pods", "default", "free", DeleteOptions())[1]
    api.create("pods", "default", make.pod("bound", nodeName="elsewhere"), options)
    kept, gone = api.delete("pods", "default", "bound", DeleteOptions())
    assert not gone and kept["metadata"]["deletionGracePeriodSeconds"] == 30
    assert kept["metadata"]["deletionTimestamp"] == "2025-06-02T09:00:30Z"
    shorter, _ = api.delete("pods", "default", "bound", DeleteOptions(grace_s=5))
    assert shorter["metadata"]["deletionTimestamp"] == "2025-06-02T09:00:05Z"
    assert api.delete("pods", "default", "bound", DeleteOptions(grace_s=0))[1]


def test_service_addresses_do_not_depend_on_order():
    def addresses(names: list[str]) -> dict[str, str]:
        api = assemble(7, START, bare=True).api
        for name in names:
            body = {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
            api.create("services", "default", body, WriteOptions())
        found = [api.get("services", "default", n)["spec"] for n in sorted(names)]
        return {n: s["clusterIP"] + str(s["ports"]) for n, s in zip(sorted(names), found, strict=True)}

    assert addresses(["a", "b", "c"]) == addresses(["c", "a", "b"])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"clusterIP": "10.96.0.1"}, "provided IP is already allocated"),
        ({"clusterIP": "192.0.2.1"}, "is not in the valid range"),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}, "provided port is not in the valid range"),
    ],
)
def test_addresses_that_cannot_be_had(api, options, spec, message):
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}}
    with pytest.raises(ApiError, match=message):
        api.create("services", "default", body, options)


def test_equal_events_count_up_and_similar_ones_combine(cluster, api, options, make):
    involved = api.create("configmaps", "default", make.config_map(), options)
    for _ in range(3):
        api.event(involved, "Normal", "Same", "one text", "tester")
    for number in range(12):
        api.event(involved, "Warning", "Similar", f"text {number}", "tester")
    events = {
        e["message"]: e.get("count") for e in api.list("events", "default") if e["source"]["component"] == "tester"
    }
    assert events["one text"] == 3 and "(combined from similar events): text 11" in events
    cluster.kernel.advance(START + 3700)
    assert not [e for e in api.list("events", "default") if e["source"].get("component") == "tester"]


def test_only_what_the_client_wrote_is_its_own(api, options, make):
    created = api.create("pods", "default", make.pod(), options)
    [entry] = created["metadata"]["managedFields"]
    spec = entry["fieldsV1"]["f:spec"]
    assert "f:schedulerName" in spec and not {"f:tolerations", "f:volumes", "f:serviceAccountName"} & set(spec)


def test_apply_conflicts_name_the_owner(api, make):
    api.create("configmaps", "default", make.config_map(), WriteOptions("maker"))
    with pytest.raises(ApiError, match=r'conflict with "maker" using v1: \.data\.a') as error:
        api.patch("configmaps", "default", "m", "apply", make.config_map(a="2"), WriteOptions("other"))
    assert error.value.status["details"]["causes"][0]["reason"] == "FieldManagerConflict"
    forced = api.patch(
        "configmaps", "default", "m", "apply", make.config_map(a="2"), WriteOptions("other", force=True)
    )
    assert forced["data"] == {"a": "2"}


def test_limit_ranges_fill_in_and_refuse(api, options, make):
    limits = [{"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": "1"}}]
    api.create("limitranges", "default", {"metadata": {"name": "l"}, "spec": {"limits": limits}}, options)
    filled = api.create("pods", "default", make.pod(), options)
    assert filled["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "500m"}
    assert "kubernetes.io/limit-ranger" in filled["metadata"]["annotations"]
    big = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "3"}}}
    with pytest.raises(ApiError, match="maximum cpu usage per Container is 1, but limit is 3"):
        api.create("pods", "default", make.pod("big", containers=[big]), options)


def test_quotas_count_what_is_there(api, options, make):
    api.create("resourcequotas", "default", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}, options)
    api.create("pods", "default", make.pod("a"), options)
    with pytest.raises(ApiError, match="exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"):
        api.create("pods", "default", make.pod("b"), options)
    api.delete("pods", "default", "a", DeleteOptions())
    api.create("pods", "default", make.pod("b"), options)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["replicas", "labels", "paused"]), max_size=8))
def test_the_generation_counts_changes_of_the_spec(changes):
    api, options = assemble(3, START, bare=True).api, WriteOptions("test")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    before = api.create(DEPLOYMENTS, "default", body, options)
    for step, change in enumerate(changes):
        patch = {
            "replicas": {"spec": {"replicas": step}},
            "labels": {"metadata": {"labels": {"step": str(step)}}},
            "paused": {"spec": {"paused": step % 2 == 0}},
        }[change]
        after = api.patch(DEPLOYMENTS, "default", "d", "merge", patch, options)
        grown = after["metadata"]["generation"] - before["metadata"]["generation"]
        assert grown == (after["spec"] != before["spec"])
        before = after
