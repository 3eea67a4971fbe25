"""ValidatingAdmissionPolicies act through their bindings."""

from __future__ import annotations

from typing import Any

import pytest

BASE = "/apis/admissionregistration.k8s.io/v1"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MAPS = "/api/v1/namespaces/default/configmaps"


def policy(expression: str = "object.spec.replicas <= 5", rule: Any = None, **more: Any) -> dict[str, Any]:
    rules = [
        {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}
    ]
    validation = {"expression": expression, **(rule or {})}
    spec = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules}, "validations": [validation], **more}
    return {"metadata": {"name": "few"}, "spec": spec}


def binding(*actions: str, **more: Any) -> dict[str, Any]:
    spec = {"policyName": "few", "validationActions": list(actions or ("Deny",)), **more}
    return {"metadata": {"name": "few-everywhere"}, "spec": spec}


async def install(client: Any, a_policy: dict[str, Any], a_binding: dict[str, Any]) -> None:
    assert (await client("POST", f"{BASE}/validatingadmissionpolicies", a_policy))[0] == 201
    assert (await client("POST", f"{BASE}/validatingadmissionpolicybindings", a_binding))[0] == 201


PREFIX = "ValidatingAdmissionPolicy 'few' with binding 'few-everywhere' denied request: "
DENIALS = [
    (policy(), 422, "Invalid", "failed expression: object.spec.replicas <= 5"),
    (policy(rule={"message": "too many", "reason": "Forbidden"}), 403, "Forbidden", "too many"),
    (policy(rule={"messageExpression": "'at most 5, not ' + string(object.spec.replicas)"}), 422, "Invalid",
     "at most 5, not 9"),
    (policy("variables.n <= 5", variables=[{"name": "n", "expression": "object.spec.replicas"}]), 422, "Invalid",
     "failed expression: variables.n <= 5"),
    (policy("object.spec.nothing > 1"), 422, "Invalid",
     "expression 'object.spec.nothing > 1' resulted in error: no such key: nothing"),
    (policy("request.operation != 'CREATE' || request.userInfo.username != 'kubernetes-admin'"), 422, "Invalid",
     "failed expression: request.operation != 'CREATE' || request.userInfo.username != 'kubernetes-admin'"),
]  # fmt: skip


@pytest.mark.parametrize(("a_policy", "code", "reason", "message"), DENIALS)
async def test_denials(client, make, a_policy, code, reason, message):
    await install(client, a_policy, binding())
    answer, status, _ = await client("POST", DEPLOYMENTS, make.deployment(replicas=9))
    assert (answer, status["reason"], status["code"]) == (code, reason, code)
    assert status["message"] == f'deployments.apps "web" is forbidden: {PREFIX}{message}'
    assert status["details"] == {
        "name": "web", "group": "apps", "kind": "deployments", "causes": [{"message": PREFIX + message}],
    }  # fmt: skip
    assert (await client("GET", f"{DEPLOYMENTS}/web"))[0] == 404


PASSES = [
    (policy("object.spec.nothing > 1", failurePolicy="Ignore"), binding()),
    (policy(matchConditions=[{"name": "only", "expression": "object.metadata.name == 'other'"}]), binding()),
    (policy(), binding(matchResources={"namespaceSelector": {"matchLabels": {"guarded": "yes"}}})),
    (policy(), binding("Audit")),
    (policy("authorizer.group('').resource('pods').check('get').allowed()"), binding()),
]


@pytest.mark.parametrize(("a_policy", "a_binding"), PASSES)
async def test_what_it_does_not_concern_passes(client, make, a_policy, a_binding):
    await install(client, a_policy, a_binding)
    assert (await client("POST", DEPLOYMENTS, make.deployment(replicas=9)))[0] == 201


async def test_a_warning_passes_with_a_header(client, make):
    await install(client, policy(), binding("Warn"))
    code, _, headers = await client("POST", DEPLOYMENTS, make.deployment(replicas=9))
    assert code == 201
    (warning,) = headers.getall("Warning")
    assert warning.startswith("299 - \"Validation failed for ValidatingAdmissionPolicy 'few' with binding 'few-every")


async def test_deletions_and_updates_are_judged_too(client, make):
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}]
    kept = policy("oldObject.metadata.name != 'keep'", matchConstraints={"resourceRules": rules})
    await install(client, kept, binding())
    for name in ("keep", "drop"):
        assert (await client("POST", MAPS, make.config_map(name)))[0] == 201
    assert (await client("DELETE", f"{MAPS}/drop"))[0] == 200
    code, status, _ = await client("DELETE", f"{MAPS}/keep")
    assert (code, status["reason"]) == (422, "Invalid")
    assert (await client("GET", f"{MAPS}/keep"))[0] == 200


async def test_parameters(client, make):
    with_params = policy(
        "object.spec.replicas <= int(params.data.most)", paramKind={"apiVersion": "v1", "kind": "ConfigMap"}
    )
    reference = {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}
    assert (await client("POST", MAPS, make.config_map("limits", most="3")))[0] == 201
    await install(client, with_params, binding(paramRef=reference))
    assert (await client("POST", DEPLOYMENTS, make.deployment("a", replicas=3)))[0] == 201
    assert (await client("POST", DEPLOYMENTS, make.deployment("b", replicas=4)))[0] == 422
