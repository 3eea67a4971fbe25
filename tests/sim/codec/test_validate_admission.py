"""Validation of webhook configurations, admission policies and their bindings."""

from __future__ import annotations

from typing import Any

import pytest

from aiopslab.sim.core.defaults import default
from aiopslab.sim.core.patch import clone
from aiopslab.sim.core.schema import gvk_of
from aiopslab.sim.core.validate import validate

Obj = dict[str, Any]
API = "admissionregistration.k8s.io/v1"
RULE: Obj = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
HOOK: Obj = {
    "name": "a.example.com",
    "clientConfig": {"service": {"name": "hook", "namespace": "default"}},
    "rules": [RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
POLICY: Obj = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}
BINDING: Obj = {"policyName": "p", "validationActions": ["Deny"]}


def errors(kind: str, **body: Any) -> list[str]:
    """What the API says of an object, after defaulting."""
    made = default(clone({"apiVersion": API, "kind": kind, "metadata": {"name": "n"}, **body}), gvk_of(
        {"apiVersion": API, "kind": kind}
    ))  # fmt: skip
    return [str(error) for error in validate(made, gvk_of(made))]


HOOKS: list[tuple[Obj, list[str]]] = [
    ({}, []),
    ({"name": "hook.default"},
     ['name: Invalid value: "hook.default": should be a domain with at least three segments separated by dots']),
    ({"name": ""}, ["name: Required value"]),
    ({"rules": [{**RULE, "operations": ["GET"]}]},
     ['rules[0].operations[0]: Unsupported value: "GET": supported values: "*", "CONNECT", "CREATE", "DELETE", '
      '"UPDATE"']),
    ({"rules": [{**RULE, "apiGroups": ["*", "apps"], "resources": ["*", "pods"]}]},
     ["rules[0].apiGroups: Invalid value: [\"*\",\"apps\"]: if '*' is present, must not specify other API groups",
      "rules[0].resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources "
      "without subresources"]),
    ({"rules": [{**RULE, "resources": ["pods/*", "pods/exec"]}]},
     ["rules[0].resources[1]: Invalid value: \"pods/exec\": if 'pods/*' is present, must not specify pods/exec"]),
    ({"rules": [{}]}, [f"rules[0].{field}: Required value" for field in
                       ("operations", "apiGroups", "apiVersions", "resources")]),
    ({"sideEffects": None}, ["sideEffects: Required value: must specify one of None, NoneOnDryRun"]),
    ({"sideEffects": "Some"}, ['sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"']),
    ({"timeoutSeconds": 31},
     ["timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"]),
    ({"clientConfig": {}}, ["clientConfig: Required value: exactly one of url or service is required"]),
    ({"clientConfig": {"url": "http://u@x/?a=b#c"}},
     ["clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: "
      "https://host[/path]",
      'clientConfig.url: Invalid value: "u": user information is not permitted in the URL',
      'clientConfig.url: Invalid value: "c": fragments are not permitted in the URL',
      'clientConfig.url: Invalid value: "a=b": query parameters are not permitted in the URL']),
    ({"clientConfig": {"service": {"name": "s", "namespace": "n", "port": 0, "path": "a//b"}}},
     ["clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
      "clientConfig.service.path: Invalid value: \"a//b\": must start with a '/'",
      'clientConfig.service.path: Invalid value: "a//b": segment[0] may not be empty',
      'clientConfig.service.path: Invalid value: "a//b": segment[1] may not be empty']),
    ({"admissionReviewVersions": []}, ["admissionReviewVersions: Required value: must specify one of v1, v1beta1"]),
    ({"admissionReviewVersions": ["v2", "v2"]},
     ['admissionReviewVersions[1]: Invalid value: "v2": duplicate version',
      'admissionReviewVersions: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1']),
    ({"matchConditions": [{"name": "a", "expression": " "}, {"name": "a", "expression": "true"}]},
     ["matchConditions[0].expression: Required value", 'matchConditions[1].name: Duplicate value: "a"']),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
@pytest.mark.parametrize(("change", "found"), HOOKS)
def test_webhooks(kind: str, change: Obj, found: list[str]) -> None:
    hook = {key: value for key, value in {**HOOK, **change}.items() if value is not None}
    assert errors(kind, webhooks=[hook]) == [f"webhooks[0].{text}" for text in found]


def test_names_of_webhooks_are_unique() -> None:
    found = errors("ValidatingWebhookConfiguration", webhooks=[HOOK, HOOK])
    assert found == ['webhooks[1].name: Duplicate value: "a.example.com"']


NOTHING = "Required value: validations or auditAnnotations must contain at least one item"
POLICIES: list[tuple[Obj, list[str]]] = [
    ({}, []),
    ({"matchConstraints": None, "validations": []},
     ["matchConstraints: Required value", f"validations: {NOTHING}", f"auditAnnotations: {NOTHING}"]),
    ({"matchConstraints": {}}, ["matchConstraints.resourceRules: Required value"]),
    ({"failurePolicy": "Maybe"}, ['failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"']),
    ({"validations": [{"expression": "", "message": "a\nb", "reason": "Gone"}]},
     ["validations[0].expression: Required value: expression is not specified",
      'validations[0].message: Invalid value: "a\\nb": message must not contain line breaks',
      'validations[0].reason: Unsupported value: "Gone": supported values: "Forbidden", "Invalid", '
      '"RequestEntityTooLarge"']),
    ({"variables": [{"name": "a-b", "expression": "1"}]},
     ['variables[0].name: Invalid value: "a-b": name is not a valid CEL identifier']),
]  # fmt: skip


@pytest.mark.parametrize(("change", "found"), POLICIES)
def test_policies(change: Obj, found: list[str]) -> None:
    spec = {key: value for key, value in {**POLICY, **change}.items() if value is not None}
    assert errors("ValidatingAdmissionPolicy", spec=spec) == [f"spec.{text}" for text in found]


BINDINGS: list[tuple[Obj, list[str]]] = [
    ({}, []),
    ({"policyName": "", "validationActions": []},
     ["policyName: Required value", "validationActions: Required value: at least one validation action is required"]),
    ({"validationActions": ["Deny", "Warn", "Warn", "Log"]},
     ['validationActions[2]: Duplicate value: "Warn"',
      'validationActions[3]: Unsupported value: "Log": supported values: "Audit", "Deny", "Warn"',
      'validationActions: Invalid value: ["Deny","Warn","Warn","Log"]: must not contain both Deny and Warn (repeating '
      "the same validation failure information in the API response and headers serves no purpose)"]),
    ({"paramRef": {}},
     ["paramRef: Required value: one of name or selector must be specified",
      "paramRef.parameterNotFoundAction: Required value"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "found"), BINDINGS)
def test_bindings(change: Obj, found: list[str]) -> None:
    spec = {**BINDING, **change}
    assert errors("ValidatingAdmissionPolicyBinding", spec=spec) == [f"spec.{text}" for text in found]
