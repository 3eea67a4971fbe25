"""Deployments and ReplicaSets: rollout arithmetic, conditions, events, revisions, adoption."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiopslab.sim.core.controllers import rollout
from aiopslab.sim.core.controllers.revisions import template_hash

DEPLOYMENTS, SETS = "apps/deployments", "apps/replicasets"
UNPLACED = {"schedulerName": "manual"}


def _set_image(image: str) -> dict:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}


def _sizes(cluster) -> dict[str, tuple[int, str]]:
    """revision -> (spec.replicas, image)"""
    return {
        str(rollout.revision(one)): (
            one["spec"]["replicas"],
            one["spec"]["template"]["spec"]["containers"][0]["image"],
        )
        for one in cluster.list(SETS)
    }


def test_becomes_available_with_the_real_conditions_and_events(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 2))
    assert bare.conditions(DEPLOYMENTS, "web") == [
        ("Available", "False", "MinimumReplicasUnavailable"),
        ("Progressing", "True", "ReplicaSetUpdated"),
    ]
    bare.wait(3)
    status = bare.get(DEPLOYMENTS, "web")["status"]
    counts = {k: v for k, v in status.items() if k != "conditions"}
    assert counts == {
        "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
        "availableReplicas": 2, "terminatingReplicas": 0,
    }  # fmt: skip
    assert bare.conditions(DEPLOYMENTS, "web") == [
        ("Available", "True", "MinimumReplicasAvailable"),
        ("Progressing", "True", "NewReplicaSetAvailable"),
    ]
    (one,) = bare.list(SETS)
    name = one["metadata"]["name"]
    assert bare.events("ScalingReplicaSet") == [f"Scaled up replica set {name} from 0 to 2"]
    assert sorted(bare.events("SuccessfulCreate")) == sorted(f"Created pod: {pod}" for pod in bare.phases())
    assert one["metadata"]["annotations"] == {
        "deployment.kubernetes.io/desired-replicas": "2",
        "deployment.kubernetes.io/max-replicas": "3",
        "deployment.kubernetes.io/revision": "1",
    }
    assert all(pod.startswith(f"{name}-") and len(pod) == len(name) + 6 for pod in bare.phases())


def test_pending_counters_are_those_of_a_real_cluster(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 3, make.pod_spec(**UNPLACED)))
    status = bare.get(DEPLOYMENTS, "web")["status"]
    assert (status["replicas"], status["updatedReplicas"], status["unavailableReplicas"]) == (3, 3, 3)
    assert "readyReplicas" not in status
    assert bare.list(SETS)[0]["status"] == {
        "fullyLabeledReplicas": 3, "observedGeneration": 1, "replicas": 3, "terminatingReplicas": 0,
    }  # fmt: skip


def test_surge_arithmetic_while_new_pods_stay_pending(bare, make):
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    bare.create(DEPLOYMENTS, make.workload("web", 4, strategy=strategy))
    bare.wait(3)
    bare.patch(DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"nodeSelector": {"no": "such"}}}}})
    bare.wait(5)
    status = bare.get(DEPLOYMENTS, "web")["status"]
    assert [status[k] for k in ("replicas", "updatedReplicas", "readyReplicas", "unavailableReplicas")] == [
        5,
        2,
        3,
        2,
    ]
    assert sorted((one["spec"]["replicas"], rollout.revision(one)) for one in bare.list(SETS)) == [
        (2, 2),
        (3, 1),
    ]


def test_rolling_update_ends_with_the_new_revision_only(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 4))
    bare.wait(3)
    bare.patch(DEPLOYMENTS, "web", _set_image("nginx:2"))
    lowest = 4
    for _ in range(40):
        bare.wait(0.25)
        lowest = min(lowest, bare.get(DEPLOYMENTS, "web")["status"].get("availableReplicas", 0))
    assert lowest >= 3  # 25 % of 4 may be missing
    assert _sizes(bare) == {"1": (0, "nginx:1.25"), "2": (4, "nginx:2")}
    assert bare.get(DEPLOYMENTS, "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    assert len(bare.phases()) == 4


def test_recreate_waits_until_old_pods_are_gone(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 2, strategy={"type": "Recreate"}))
    bare.wait(3)
    bare.patch(DEPLOYMENTS, "web", _set_image("nginx:2"))
    images = {pod["spec"]["containers"][0]["image"] for pod in bare.list("pods")}
    assert images == {"nginx:1.25"}
    bare.wait(5)
    assert {pod["spec"]["containers"][0]["image"] for pod in bare.list("pods")} == {"nginx:2"}
    assert bare.get(DEPLOYMENTS, "web")["status"]["availableReplicas"] == 2


def test_undo_reuses_the_old_set_and_gives_it_the_next_revision(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 1, make.pod_spec(**UNPLACED)))
    bare.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}})
    bare.patch(DEPLOYMENTS, "web", _set_image("nginx:2"))
    bare.patch(DEPLOYMENTS, "web", _set_image("nginx:1.25"))
    old = next(one for one in bare.list(SETS) if rollout.revision(one) == 3)
    assert old["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
    assert old["metadata"]["annotations"]["kubernetes.io/change-cause"] == "second"
    assert set(_sizes(bare)) == {"2", "3"}


def test_history_limit_deletes_the_oldest(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 1, revisionHistoryLimit=1))
    for version in (2, 3, 4):
        bare.patch(DEPLOYMENTS, "web", _set_image(f"nginx:{version}"))
        bare.wait(5)
    assert set(_sizes(bare)) == {"3", "4"}


def test_pause_change_resume(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 2, make.pod_spec(**UNPLACED)))
    bare.patch(DEPLOYMENTS, "web", {"spec": {"paused": True}})
    bare.patch(DEPLOYMENTS, "web", _set_image("nginx:2"))
    assert ("Progressing", "Unknown", "DeploymentPaused") in bare.conditions(DEPLOYMENTS, "web")
    assert len(bare.list(SETS)) == 1
    assert "updatedReplicas" not in bare.get(DEPLOYMENTS, "web")["status"]
    bare.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}})
    assert len(bare.list(SETS)) == 2


def test_progress_deadline(bare, make):
    spec = make.pod_spec(**UNPLACED)
    bare.create(DEPLOYMENTS, make.workload("web", 1, spec, progressDeadlineSeconds=2))
    bare.wait(5)
    last = bare.get(DEPLOYMENTS, "web")["status"]["conditions"][-1]
    assert (last["status"], last["reason"]) == ("False", "ProgressDeadlineExceeded")
    assert last["message"] == f'ReplicaSet "{bare.list(SETS)[0]["metadata"]["name"]}" has timed out progressing.'


def test_scaling_events_and_zero(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 2, make.pod_spec(**UNPLACED)))
    for size in (3, 0):
        bare.wait(1.5)
        bare.patch(DEPLOYMENTS, "web", {"spec": {"replicas": size}})
    name = bare.list(SETS)[0]["metadata"]["name"]
    assert bare.events("ScalingReplicaSet") == [
        f"Scaled up replica set {name} from 0 to 2",
        f"Scaled up replica set {name} from 2 to 3",
        f"Scaled down replica set {name} from 3 to 0",
    ]
    assert bare.list("pods") == []


def test_quota_refusal_shows_as_failed_create_and_is_retried(bare, make):
    bare.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    bare.create(DEPLOYMENTS, make.workload("web", 2))
    bare.wait(2)
    assert len(bare.list("pods")) == 1
    assert any(
        text.startswith("Error creating: pods ") and "exceeded quota: q" in text
        for text in bare.events("FailedCreate")
    )
    assert ("ReplicaFailure", "True", "FailedCreate") in bare.conditions(DEPLOYMENTS, "web")
    bare.patch("resourcequotas", "q", {"spec": {"hard": {"pods": "5"}}})
    bare.wait(60)
    assert len(bare.list("pods")) == 2
    assert "ReplicaFailure" not in [c[0] for c in bare.conditions(DEPLOYMENTS, "web")]


def test_orphan_is_adopted_and_released(bare, make):
    bare.create("pods", make.pod("orphan", make.pod_spec(**UNPLACED), labels={"app": "r"}))
    bare.create(SETS, make.workload("r", 1, make.pod_spec(**UNPLACED)))
    assert list(bare.phases()) == ["orphan"]
    (owner,) = bare.get("pods", "orphan")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["controller"]) == ("ReplicaSet", True)
    bare.patch("pods", "orphan", {"metadata": {"labels": {"app": "other"}}})
    assert "ownerReferences" not in bare.get("pods", "orphan")["metadata"]
    assert len(bare.list("pods")) == 2


def test_scale_down_takes_pending_pods_first(bare, make):
    bare.create(SETS, make.workload("r", 1))
    bare.wait(2)
    (running,) = bare.phases()
    bare.patch(SETS, "r", {"spec": {"replicas": 3, "template": {"spec": {"nodeSelector": {"no": "such"}}}}})
    assert len(bare.list("pods")) == 3
    bare.patch(SETS, "r", {"spec": {"replicas": 1}})
    assert list(bare.phases()) == [running]


def test_deletion_cost_decides_between_equal_pods(bare, make):
    bare.create(SETS, make.workload("r", 3))
    bare.wait(2)
    cheap = sorted(bare.phases())[1]
    bare.patch("pods", cheap, {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}})
    bare.patch(SETS, "r", {"spec": {"replicas": 2}})
    bare.wait(3)
    assert cheap not in bare.phases()


def test_deleted_pod_is_replaced(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 1))
    bare.wait(2)
    (name,) = bare.phases()
    bare.delete("pods", name)
    bare.wait(3)
    assert list(bare.phases()) != [name] and set(bare.phases().values()) == {"Running"}
    assert bare.get(DEPLOYMENTS, "web")["status"]["availableReplicas"] == 1


def test_min_ready_seconds_delays_availability(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 1, minReadySeconds=20))
    bare.wait(10)
    assert bare.get(DEPLOYMENTS, "web")["status"].get("availableReplicas") is None
    bare.wait(15)
    assert bare.get(DEPLOYMENTS, "web")["status"]["availableReplicas"] == 1


def test_collision_with_a_foreign_set_salts_the_hash(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 0))
    (one,) = bare.list(SETS)
    bare.delete(DEPLOYMENTS, "web", propagation="Orphan")
    foreign = {**one["spec"], "selector": {"matchLabels": {"x": "y"}}}
    foreign["template"] = {"metadata": {"labels": {"x": "y"}}, "spec": make.pod_spec(**UNPLACED)}
    bare.delete(SETS, one["metadata"]["name"])
    bare.create(SETS, {"metadata": {"name": one["metadata"]["name"]}, "spec": foreign})
    bare.create(DEPLOYMENTS, make.workload("web", 0))
    bare.wait(1)
    assert bare.get(DEPLOYMENTS, "web")["status"]["collisionCount"] == 1
    assert len(bare.list(SETS)) == 2


@pytest.mark.parametrize("order", [1, -1])
def test_names_do_not_depend_on_the_order_of_requests(make, order):
    def run(step: int) -> list[tuple[str, str, str]]:
        cluster = make.cluster(make.world())
        cluster.kernel.hold()
        for name in ["a", "b", "c"][::step]:
            cluster.api.create(DEPLOYMENTS, "shop", make.workload(name, 2), cluster.opts)
        cluster.kernel.release()
        cluster.wait(10)
        return [
            (
                pod["metadata"]["uid"],
                pod["spec"]["nodeName"],
                pod["status"]["podIP"],
                pod["metadata"]["resourceVersion"],
            )
            for pod in cluster.list("pods")
        ]

    assert run(order) == run(1)


def _deployment(wanted: int, surge: int, unavailable: int) -> dict:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    return {"metadata": {"name": "d"}, "spec": {"replicas": wanted, "strategy": strategy}}


def _set(name: str, size: int, available: int) -> dict:
    return {
        "metadata": {"name": name},
        "spec": {"replicas": size},
        "status": {"availableReplicas": available},
    }


@settings(max_examples=200, deadline=None)
@given(
    wanted=st.integers(1, 20), surge=st.integers(0, 20), unavailable=st.integers(0, 20),
    old=st.integers(0, 20), new=st.integers(0, 20), data=st.data(),
)  # fmt: skip
def test_a_step_never_breaks_the_bounds(wanted, surge, unavailable, old, new, data):
    deployment = _deployment(wanted, surge, unavailable)
    sets = [
        _set("old", old, data.draw(st.integers(0, old))),
        _set("new", new, data.draw(st.integers(0, new))),
    ]
    grown = rollout.new_size(deployment, sets, sets[1])
    assert grown <= max(wanted, new)
    assert grown + old <= max(
        wanted + rollout.max_surge(deployment), new + old, wanted + old if new >= wanted else 0
    )
    available = sum(one["status"]["availableReplicas"] for one in sets)
    cut = sum(old - size for _, size in rollout.healthy_cuts(deployment, sets, sets[1]))
    floor = wanted - rollout.max_unavailable(deployment)
    assert available - cut >= min(available, floor)


def test_template_hash_uses_the_alphabet_and_changes_with_the_template():
    left, right = template_hash({"spec": {"a": 1}}), template_hash({"spec": {"a": 2}})
    assert left != right and set(left) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert template_hash({"spec": {"a": 1}}, 1) != left
