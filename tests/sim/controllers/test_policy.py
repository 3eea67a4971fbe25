"""Budgets, quotas, volumes, autoscaling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.sim.core.api import DeleteOptions
from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.controllers import hpa_metrics as metrics
from aiopslab.sim.core.ports import Usage
from aiopslab.sim.core.subresources import evict

PDB, HPA = "policy/poddisruptionbudgets", "autoscaling/horizontalpodautoscalers"
PVC, PV, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storage.k8s.io/storageclasses"
DEPLOYMENTS = "apps/deployments"


def _budget(**spec) -> dict:
    return {"metadata": {"name": "p"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"minAvailable": 1}, (4, 1, 3)),
        ({"minAvailable": "60%"}, (4, 3, 1)),
        ({"maxUnavailable": 1}, (4, 3, 1)),
        ({"maxUnavailable": "30%"}, (4, 2, 2)),
    ],
)
def test_budget_status(bare, make, spec, wanted):
    bare.create(DEPLOYMENTS, make.workload("web", 4))
    bare.create(PDB, _budget(**spec))
    bare.wait(3)
    status = bare.get(PDB, "p")["status"]
    assert (status["currentHealthy"], status["desiredHealthy"], status["disruptionsAllowed"]) == wanted
    assert bare.conditions(PDB, "p") == [("DisruptionAllowed", "True", "SufficientPods")]


def test_evictions_use_the_budget_up(bare, make):
    bare.create(DEPLOYMENTS, make.workload("web", 2))
    bare.create(PDB, _budget(minAvailable=1))
    bare.wait(3)
    first, second = sorted(bare.phases())
    evict(bare.api, "shop", first, DeleteOptions())
    bare.kernel.settle()
    with pytest.raises(ApiError, match="Cannot evict pod"):
        evict(bare.api, "shop", second, DeleteOptions())
    bare.wait(5)
    assert bare.get(PDB, "p")["status"]["disruptionsAllowed"] == 1


def test_quota_status_follows_usage(bare, make):
    bare.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5", "requests.cpu": "1"}}})
    one = make.container(resources={"requests": {"cpu": "250m"}})
    bare.create(DEPLOYMENTS, make.workload("web", 3, make.pod_spec([one])))
    assert bare.get("resourcequotas", "q")["status"] == {
        "hard": {"pods": "5", "requests.cpu": "1"}, "used": {"pods": "3", "requests.cpu": "750m"},
    }  # fmt: skip


# Volumes ----------------------------------------------------------------------------------------------------


def _claim(name: str = "v", **spec) -> dict:
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"metadata": {"name": name}, "spec": body}


def _mounting(make, claim: str = "v"):
    volume = {"name": "d", "persistentVolumeClaim": {"claimName": claim}}
    return make.pod("p", make.pod_spec(volumes=[volume]))


def test_static_binding_takes_the_smallest_that_suits(bare):
    for name, size in (("big", "10Gi"), ("fit", "2Gi"), ("small", "100Mi")):
        spec = {
            "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"},
            "storageClassName": "manual",
        }  # fmt: skip
        bare.create(PV, {"metadata": {"name": name}, "spec": spec}, namespace="")
    bare.create(PVC, _claim(storageClassName="manual"))
    claim = bare.get(PVC, "v")
    assert claim["spec"]["volumeName"] == "fit" and claim["status"]["phase"] == "Bound"
    assert claim["status"]["capacity"] == {"storage": "2Gi"}
    assert bare.get(PV, "fit", namespace="")["status"]["phase"] == "Bound"
    assert bare.get(PV, "big", namespace="")["status"]["phase"] == "Available"
    bare.delete(PVC, "v")
    assert bare.get(PV, "fit", namespace="")["status"]["phase"] == "Released"


@pytest.mark.parametrize(
    ("class_name", "reason", "message"),
    [
        ("manual", "ProvisioningFailed", 'storageclass.storage.k8s.io "manual" not found'),
        ("", "FailedBinding", "no persistent volumes available for this claim and no storage class is set"),
    ],
)
def test_claims_that_cannot_be_bound_say_why(bare, class_name, reason, message):
    bare.create(PVC, _claim(storageClassName=class_name))
    assert bare.events(reason) == [message]
    assert bare.get(PVC, "v")["status"]["phase"] == "Pending"


def test_first_consumer_provisions_a_local_volume(make):
    cluster = make.cluster(make.world(), bare=False)
    cluster.create(PVC, _claim(storageClassName="standard"))
    assert cluster.events("WaitForFirstConsumer") == ["waiting for first consumer to be created before binding"]
    cluster.create("pods", _mounting(make))
    cluster.wait(10)
    claim, pod = cluster.get(PVC, "v"), cluster.get("pods", "p")
    assert claim["status"]["phase"] == "Bound" and pod["status"]["phase"] == "Running"
    volume = cluster.get(PV, claim["spec"]["volumeName"], namespace="")
    term = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]
    assert term["values"] == [pod["spec"]["nodeName"]]
    cluster.delete("pods", "p")
    cluster.wait(5)
    cluster.delete(PVC, "v")
    cluster.wait(5)
    assert cluster.list(PV, "") == []


def test_claim_in_use_is_kept(bare, make):
    bare.create(PVC, _claim(storageClassName="manual"))
    pod = _mounting(make)
    bare.create("pods", {**pod, "spec": {**pod["spec"], "nodeName": "nowhere", "schedulerName": "manual"}})
    bare.delete(PVC, "v")
    assert bare.get(PVC, "v")["metadata"]["deletionTimestamp"]
    bare.delete("pods", "p", grace_s=0)
    assert bare.find(PVC, "v") is None


def test_stateful_claims_stay(bare, make):
    template = {"metadata": {"name": "data"}, "spec": _claim(storageClassName="manual")["spec"]}
    spec = make.workload(
        "s", 2, make.pod_spec(schedulerName="manual"), serviceName="s", podManagementPolicy="Parallel",
        volumeClaimTemplates=[template],
    )  # fmt: skip
    bare.create("apps/statefulsets", spec)
    assert [one["metadata"]["name"] for one in bare.list(PVC)] == ["data-s-0", "data-s-1"]
    assert bare.list(PVC)[0]["metadata"]["labels"] == {"app": "s"}
    mounted = {"name": "data", "persistentVolumeClaim": {"claimName": "data-s-0"}}
    assert mounted in bare.get("pods", "s-0")["spec"]["volumes"]
    bare.delete("apps/statefulsets", "s")
    assert bare.list("pods") == [] and len(bare.list(PVC)) == 2


# Autoscaling ------------------------------------------------------------------------------------------------


def _autoscaled(cluster, make, cores: dict, percent: int = 50, **spec):
    cluster.world.usage = lambda ref, now: Usage(cores["each"], 50 * 2**20)
    one = make.container(resources={"requests": {"cpu": "100m"}})
    cluster.create(DEPLOYMENTS, make.workload("web", 2, make.pod_spec([one])))
    cluster.wait(10)
    target = {"type": "Utilization", "averageUtilization": percent}
    body = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1, "maxReplicas": 6, **spec,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }  # fmt: skip
    cluster.create(HPA, {"metadata": {"name": "web"}, "spec": body})


def test_scales_up_at_once_and_down_after_the_window(scripted, make):
    cores = {"each": 0.1}
    _autoscaled(scripted, make, cores)
    assert scripted.get(DEPLOYMENTS, "web")["spec"]["replicas"] == 4
    assert scripted.events("SuccessfulRescale") == [
        "New size: 4; reason: cpu resource utilization (percentage of request) above target"
    ]
    status = scripted.get(HPA, "web")["status"]
    current = status["currentMetrics"][0]["resource"]["current"]
    assert current == {"averageUtilization": 100, "averageValue": "100m"}
    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("AbleToScale", "True", "SucceededRescale"),
        ("ScalingActive", "True", "ValidMetricFound"),
        ("ScalingLimited", "False", "DesiredWithinRange"),
    ]
    cores["each"] = 0.01
    scripted.wait(200)
    assert scripted.get(DEPLOYMENTS, "web")["spec"]["replicas"] == 4
    assert ("AbleToScale", "True", "ScaleDownStabilized") in scripted.conditions(HPA, "web")
    scripted.wait(200)
    assert scripted.get(DEPLOYMENTS, "web")["spec"]["replicas"] == 1
    assert scripted.events("SuccessfulRescale")[-1] == "New size: 1; reason: All metrics below target"


def test_maximum_limits(scripted, make):
    _autoscaled(scripted, make, {"each": 1.0}, maxReplicas=3)
    scripted.wait(40)
    assert scripted.get(DEPLOYMENTS, "web")["spec"]["replicas"] == 3
    assert ("ScalingLimited", "True", "TooManyReplicas") in scripted.conditions(HPA, "web")


def test_missing_target_and_missing_metrics(scripted, make):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    scripted.create(HPA, {"metadata": {"name": "c"}, "spec": {"scaleTargetRef": target, "maxReplicas": 2}})
    assert scripted.events("FailedGetScale") == ['deployments.apps "x" not found']
    scripted.create(DEPLOYMENTS, make.workload("x", 1))
    scripted.wait(30)
    assert ("ScalingActive", "False", "FailedGetResourceMetric") in scripted.conditions(HPA, "c")
    assert "unable to get metrics for resource cpu" in scripted.events("FailedGetResourceMetric")[0]
    scripted.world.usage = lambda ref, now: Usage(0.1, 1 << 20)
    scripted.wait(30)
    assert "missing request for cpu in container c of Pod" in scripted.events("FailedGetResourceMetric")[-1]


@given(st.lists(st.floats(0.001, 2.0), min_size=1, max_size=20), st.integers(10, 100))
def test_utilization_within_tolerance_changes_nothing(usages, target):
    samples = [metrics.PodSample(usage, 0.5, True) for usage in usages]
    reading = metrics.by_utilization(samples, target, len(samples))
    assert reading is not None and reading.replicas >= 0
    ratio = (reading.utilization or 0) / target
    if abs(1 - ratio) <= metrics.TOLERANCE:
        assert reading.replicas == len(samples)
    else:
        assert (reading.replicas > len(samples)) <= (ratio > 1)


def test_pods_without_samples_damp_the_change():
    good = metrics.PodSample(0.02, 0.1, True)
    silent = metrics.PodSample(None, 0.1, True)
    starting = metrics.PodSample(0.5, 0.1, False)
    assert metrics.by_utilization([good, good, silent], 50, 3).replicas == 3
    assert metrics.by_utilization([metrics.PodSample(0.1, 0.1, True), starting], 50, 2).replicas == 2
    assert metrics.by_utilization([silent], 50, 1) is None
