"""Mitigation and incident: every way in which a repair can be wrong, each found by its own check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiopslab.grading import check_recovered, grade_record
from aiopslab.record import Result

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


def repaired(new_run: Any, task: str = "mitigation") -> Any:
    run = new_run(task)
    run.repair()
    return run


def failed(result: Result) -> set[str]:
    return {check.name for check in result.checks if check.ok is False}


def test_the_right_repair_passes_with_full_score(new_run: Any) -> None:
    result = grade_record(**repaired(new_run).parts())
    assert (result.verdict, result.score) == ("pass", 1.0), result.checks
    assert result.metrics["success"] is True
    assert (result.metrics["TTM"], result.metrics["recovered_s"]) == (250.0, 255.0)
    assert (result.metrics["steps"], result.metrics["in_tokens"], result.metrics["out_tokens"]) == (
        5,
        100,
        20,
    )


def test_doing_nothing_scores_nothing(new_run: Any) -> None:
    run = new_run("mitigation")
    run.submit("mitigation", None)
    result = grade_record(**run.parts())
    assert (result.verdict, result.score) == ("fail", 0.0)
    assert failed(result) == {"cause", "slo:success"}
    assert "9999" in next(check.detail for check in result.checks if check.name == "cause")


def _delete_service(run: Any) -> None:
    run.shop.remove("services", "productcatalogservice")


def _delete_everything(run: Any) -> None:
    for rows in run.shop.objects.values():
        rows.clear()


def _delete_deployment(run: Any) -> None:
    run.shop.remove("apps/deployments", "redis-cart")


def _scale_down(run: Any) -> None:
    spec = run.shop.one("apps/deployments", "productcatalogservice")
    spec["spec"]["replicas"] = 1
    spec["status"].update(replicas=1, readyReplicas=1, updatedReplicas=1)


def _unready(run: Any) -> None:
    run.shop.one("apps/deployments", "cartservice")["status"]["readyReplicas"] = 1


def _not_rolled_out(run: Any) -> None:
    run.shop.one("apps/deployments", "productcatalogservice")["metadata"]["generation"] = 5


def _half_rolled_out(run: Any) -> None:
    run.shop.one("apps/deployments", "productcatalogservice")["status"]["replicas"] = 3


def _crash_loop(run: Any) -> None:
    status = run.shop.pods_of("frontend")[0]["status"]["containerStatuses"][0]
    status["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}


def _pending(run: Any) -> None:
    run.shop.pods_of("frontend")[0]["status"] = {"phase": "Pending"}


def _change_config_elsewhere(run: Any) -> None:
    run.shop.one("configmaps", "cart-settings")["data"]["mode"] = "slow"


def _change_image_elsewhere(run: Any) -> None:
    template = run.shop.one("apps/deployments", "frontend")["spec"]["template"]
    template["spec"]["containers"][0]["image"] = "img:2"


def _change_port_elsewhere(run: Any) -> None:
    run.shop.one("services", "frontend")["spec"]["ports"][0]["port"] = 81


def _restart_elsewhere(run: Any) -> None:
    run.shop.replace_pods("frontend")
    metadata = run.shop.one("apps/deployments", "frontend")["spec"]["template"]["metadata"]
    metadata["annotations"] = {RESTARTED_AT: "2025-06-02T09:30:00Z"}


def _still_slow(run: Any) -> None:
    run.success[-2] = (run.success[-2][0], 0.9)


def _no_traffic(run: Any) -> None:
    run.success = [(t, None if t > 300 else value) for t, value in run.success]


def _undeclared(run: Any) -> None:
    run.record.submissions.clear()
    run.record.outcome = "step-limit"


def _agent_crash(run: Any) -> None:
    run.record.outcome, run.record.failure = "agent-failure", "KeyError: 'x'"


DAMAGES: list[tuple[Callable[[Any], None], set[str]]] = [
    (_delete_service, {"cause", "deleted"}),
    (_delete_everything, {"cause", "deleted", "replicas", "workloads", "restarts"}),
    (_delete_deployment, {"deleted", "replicas"}),
    (_scale_down, {"replicas"}),
    (_unready, {"workloads"}),
    (_not_rolled_out, {"workloads"}),
    (_half_rolled_out, {"workloads"}),
    (_crash_loop, {"workloads"}),
    (_pending, {"workloads"}),
    (_change_config_elsewhere, {"changes"}),
    (_change_image_elsewhere, {"changes"}),
    (_change_port_elsewhere, {"changes"}),
    (_restart_elsewhere, {"restarts"}),
    (_still_slow, {"slo:success"}),
    (_no_traffic, {"slo:success", "load"}),
    (_undeclared, {"submitted"}),
    (_agent_crash, {"agent"}),
]


@pytest.mark.parametrize(("damage", "checks"), DAMAGES, ids=lambda item: getattr(item, "__name__", ""))
def test_each_damage_fails_by_its_own_check(
    new_run: Any, damage: Callable[[Any], None], checks: set[str]
) -> None:
    run = repaired(new_run)
    damage(run)
    result = grade_record(**run.parts())
    assert result.verdict == "fail"
    assert failed(result) == checks
    assert all(check.detail.endswith(".") or check.name == "agent" for check in result.checks)
    if damage is not _agent_crash:
        assert result.score < 1.0


def _restart_target(run: Any) -> None:
    run.shop.replace_pods("productcatalogservice")


def _more_replicas(run: Any) -> None:
    deployment = run.shop.one("apps/deployments", "frontend")
    deployment["spec"]["replicas"] = 3
    deployment["status"].update(replicas=3, readyReplicas=3, updatedReplicas=3)


def _tool_pod(run: Any) -> None:
    run.shop.objects["pods"].append(
        {"metadata": {"name": "debug", "uid": "1"}, "status": {"phase": "Failed"}}
    )


def _change_target(run: Any) -> None:
    template = run.shop.one("apps/deployments", "productcatalogservice")["spec"]["template"]
    template["spec"]["containers"][0]["env"] = [{"name": "PORT", "value": "3550"}]


def _bad_before_the_judged_stretch(run: Any) -> None:
    run.success = [(t, 0.5 if 280 <= t < 330 else value) for t, value in run.success]


def _probe_restart(run: Any) -> None:
    run.shop.pods_of("frontend")[0]["status"]["containerStatuses"][0]["restartCount"] = 1


def _helm_rollback(run: Any) -> None:
    release = {"metadata": {"name": "sh.helm.release.v1.shop.v2"}, "type": "helm.sh/release.v1"}
    run.shop.objects["secrets"] = [release]


@pytest.mark.parametrize(
    "change",
    [
        _restart_target,
        _more_replicas,
        _tool_pod,
        _change_target,
        _bad_before_the_judged_stretch,
        _probe_restart,
        _helm_rollback,
    ],
)
def test_what_a_careful_engineer_may_do_costs_nothing(new_run: Any, change: Callable[[Any], None]) -> None:
    run = repaired(new_run)
    change(run)
    result = grade_record(**run.parts())
    assert (result.verdict, result.score) == ("pass", 1.0), [check for check in result.checks if not check.ok]


def test_what_serves_the_blast_radius_may_change(new_run: Any) -> None:
    run = repaired(new_run)
    _change_config_elsewhere(run)
    run.record.expected.blast_radius.append("cartservice")
    try:
        assert grade_record(**run.parts()).verdict == "pass"
    finally:
        run.record.expected.blast_radius.remove("cartservice")


def test_the_audit_tells_the_agents_restarts_from_the_clusters(new_run: Any) -> None:
    pod = "frontend-6c8d9f7b5c-bcdfg"
    base = "/api/v1/namespaces/shop"
    for entry, blamed in (
        ({"verb": "get", "path": f"{base}/pods/{pod}", "code": 200}, False),
        ({"verb": "delete", "path": f"{base}/pods/{pod}", "code": 200}, True),
        ({"verb": "delete", "path": f"{base}/pods/{pod}", "code": 403}, False),
        ({"verb": "PATCH", "path": "/apis/apps/v1/namespaces/shop/deployments/frontend", "code": 200}, True),
        ({"verb": "deletecollection", "path": f"{base}/pods", "code": 200}, True),
        ({"verb": "PATCH", "path": f"{base}/services/productcatalogservice", "code": 200}, False),
    ):
        run = repaired(new_run)
        run.shop.replace_pods("frontend")
        run.audit = [entry]
        assert (failed(grade_record(**run.parts())) == {"restarts"}) is blamed, entry
    run = repaired(new_run)
    _probe_restart(run)
    run.audit = [{"verb": "create", "path": f"{base}/pods/{pod}/exec?command=kill", "code": 101}]
    assert failed(grade_record(**run.parts())) == {"restarts"}


@pytest.mark.parametrize("missing", ["before", "end"])
def test_without_a_snapshot_the_verdict_is_unknown(new_run: Any, missing: str) -> None:
    parts = repaired(new_run).parts()
    del parts["snapshots"][missing]
    result = grade_record(**parts)
    assert result.verdict == "unknown"


def test_without_service_levels_the_verdict_is_unknown(new_run: Any) -> None:
    parts = repaired(new_run).parts() | {"slos": []}
    assert grade_record(**parts).verdict == "unknown"


@pytest.mark.parametrize("outcome", ["lab-failure", "interrupted"])
@pytest.mark.parametrize("task", ["detection", "mitigation"])
def test_a_lab_failure_is_never_a_pass_and_never_the_agents(new_run: Any, task: str, outcome: str) -> None:
    run = repaired(new_run, task)
    run.submit("detection", "Yes")
    run.record.outcome, run.record.failure = outcome, "the cluster went away"
    result = grade_record(**run.parts())
    assert (result.verdict, result.score) == ("unknown", 0.0)
    assert result.checks[0].detail == "the cluster went away"


def whole(new_run: Any, *, component: str, repair: bool) -> Result:
    run = new_run("incident")
    run.submit("detection", "Yes", 100.0)
    run.submit("localization", [component], 120.0)
    run.submit("analysis", {"system_level": "Virtualization", "fault_type": "Misconfiguration"}, 140.0)
    if repair:
        run.repair()
    else:
        run.submit("mitigation", None, 150.0)
    return grade_record(**run.parts())


INCIDENTS = [  # component, repaired, verdict, score, fixed although wrong, diagnosed but not fixed
    ("productcatalogservice", True, "pass", 1.0, False, False),
    ("frontend", True, "fail", 0.8, True, False),
    ("productcatalogservice", False, "fail", 0.5, False, True),
    ("frontend", False, "fail", 0.3, False, False),
]


@pytest.mark.parametrize("row", INCIDENTS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_incident(new_run: Any, row: tuple[Any, ...]) -> None:
    component, repair, verdict, score, fixed_wrongly, unfixed = row
    result = whole(new_run, component=component, repair=repair)
    assert (result.verdict, result.score) == (verdict, pytest.approx(score))
    assert result.metrics["fixed_although_wrongly_diagnosed"] is fixed_wrongly
    assert result.metrics["diagnosed_but_not_fixed"] is unfixed
    assert result.metrics["TTD"] == 100.0
    stages = {check.name.split(".")[0] for check in result.checks}
    assert stages == {"detection", "localization", "analysis", "mitigation"}


def test_a_healthy_incident_wants_no_alarm_and_no_damage(new_run: Any) -> None:
    calm = new_run("incident", anomaly=False)
    calm.submit("detection", "No")
    assert (grade_record(**calm.parts()).verdict, grade_record(**calm.parts()).score) == ("pass", 1.0)
    alarmed = new_run("incident", anomaly=False)
    alarmed.submit("detection", "Yes")
    assert grade_record(**alarmed.parts()).verdict == "fail"
    meddling = new_run("incident", anomaly=False)
    meddling.submit("detection", "No")
    _change_config_elsewhere(meddling)
    assert failed(grade_record(**meddling.parts())) == {"mitigation.changes"}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (None, "as they were"),
        (_restart_target, "as they were"),
        (_delete_deployment, "missing: deployments/redis-cart"),
        (_change_config_elsewhere, "different: configmaps/cart-settings"),
        (_scale_down, "different: deployments/productcatalogservice"),
        (_tool_pod, "as they were"),
    ],
)
def test_recovered(new_run: Any, change: Callable[[Any], None] | None, word: str) -> None:
    run = repaired(new_run)
    if change:
        change(run)
    check = check_recovered(run.before, run.shop.snapshot(500.0))
    assert word in check.detail
    assert check.ok is (word == "as they were")
    assert check_recovered(run.before, None).ok is None


def test_a_fault_that_users_never_felt_is_repaired_by_removing_its_cause(new_run: Any) -> None:
    idle = new_run("mitigation")
    idle.success = [(t, 1.0) for t, _ in idle.success]
    idle.submit("mitigation", None)
    assert grade_record(**idle.parts()).score == 0.0
    run = repaired(new_run)
    run.success = [(t, 1.0) for t, _ in run.success]
    assert (grade_record(**run.parts()).verdict, grade_record(**run.parts()).score) == ("pass", 1.0)
