"""Webhook configurations and admission policies with their bindings.

Expressions are not compiled here: those beyond the supported part of CEL are stored and not enforced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_selector

Obj = dict[str, Any]
GROUP = "admissionregistration.k8s.io"
FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
NO_SIDE_EFFECTS = ("None", "NoneOnDryRun")
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SCOPES = ("*", "Cluster", "Namespaced")
REINVOCATION = ("IfNeeded", "Never")
REVIEW_VERSIONS = ("v1", "v1beta1")
REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
ACTIONS = ("Audit", "Deny", "Warn")
TIMEOUT_MAX_S = 30
CONDITIONS_MAX = 64
URL_FORM = "; desired format: https://host[/path]"
BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)


# Webhooks -------------------------------------------------------------------------------------------------------------


def _configuration(errors: Errors, obj: Obj, old: Obj | None) -> None:
    seen: set[str] = set()
    for index, hook in enumerate(obj.get("webhooks") or ()):
        path, name = f"webhooks[{index}]", hook.get("name", "")
        _webhook(errors, hook, path)
        _review_versions(errors, hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")
        if name and name in seen:
            errors.duplicate(f"{path}.name", name)
        seen.add(name)


def _webhook(errors: Errors, hook: Obj, path: str) -> None:
    _qualified(errors, hook.get("name", ""), f"{path}.name")
    for index, rule in enumerate(hook.get("rules") or ()):
        _rule(errors, rule, f"{path}.rules[{index}]")
    _one_of(errors, hook.get("failurePolicy"), f"{path}.failurePolicy", FAILURE_POLICIES)
    _one_of(errors, hook.get("matchPolicy"), f"{path}.matchPolicy", MATCH_POLICIES)
    if hook.get("sideEffects") is None:
        errors.required(f"{path}.sideEffects", f"must specify one of {', '.join(NO_SIDE_EFFECTS)}")
    _one_of(errors, hook.get("sideEffects"), f"{path}.sideEffects", NO_SIDE_EFFECTS)
    timeout_s = hook.get("timeoutSeconds")
    if timeout_s is not None and not 1 <= timeout_s <= TIMEOUT_MAX_S:
        detail = f"the timeout value must be between 1 and {TIMEOUT_MAX_S} seconds"
        errors.invalid(f"{path}.timeoutSeconds", timeout_s, detail)
    for field in ("namespaceSelector", "objectSelector"):
        if hook.get(field) is not None:
            check_selector(errors, hook[field], f"{path}.{field}")
    _one_of(errors, hook.get("reinvocationPolicy"), f"{path}.reinvocationPolicy", REINVOCATION)
    _client(errors, hook.get("clientConfig") or {}, f"{path}.clientConfig")
    _conditions(errors, hook.get("matchConditions") or [], f"{path}.matchConditions")


def _one_of(errors: Errors, value: Any, path: str, allowed: Iterable[str]) -> None:
    if value is not None and value not in allowed:
        errors.not_supported(path, value, allowed)


def _qualified(errors: Errors, name: str, path: str) -> None:
    if not name:
        errors.required(path)
    elif wrong := values.dns_subdomain(name):
        errors.invalid(path, name, ",".join(wrong))
    elif name.count(".") < 2:
        errors.invalid(path, name, "should be a domain with at least three segments separated by dots")


def _client(errors: Errors, client: Obj, path: str) -> None:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        errors.required(path, "exactly one of url or service is required")
    elif url is not None:
        _url(errors, url, f"{path}.url")
    elif service is not None:
        _service(errors, service, f"{path}.service")


def _url(errors: Errors, text: str, path: str) -> None:
    url = urlsplit(text)
    if url.scheme != "https":
        errors.invalid(path, url.scheme, f"'https' is the only allowed URL scheme{URL_FORM}")
    user, _, host = url.netloc.rpartition("@")
    if not host:
        errors.invalid(path, host, f"host must be provided{URL_FORM}")
    if user:
        errors.invalid(path, user, "user information is not permitted in the URL")
    if url.fragment:
        errors.invalid(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        errors.invalid(path, url.query, "query parameters are not permitted in the URL")


def _service(errors: Errors, service: Obj, path: str) -> None:
    for field in ("name", "namespace"):
        if not service.get(field):
            errors.required(f"{path}.{field}", f"service {field} is required")
    port = service.get("port", 443)
    if wrong := values.port_number(port):
        errors.invalid(f"{path}.port", port, f"port is not valid: {', '.join(wrong)}")
    where = service.get("path") or "/"
    if where == "/":
        return
    if not where.startswith("/"):
        errors.invalid(f"{path}.path", where, "must start with a '/'")
    for index, step in enumerate(where[1:].removesuffix("/").split("/")):
        if not step:
            errors.invalid(f"{path}.path", where, f"segment[{index}] may not be empty")
        else:
            details = [f"segment[{index}]: {wrong}" for wrong in values.dns_subdomain(step)]
            errors.invalid_each(f"{path}.path", where, details)


def _review_versions(errors: Errors, versions: list[str], path: str) -> None:
    listed = ", ".join(REVIEW_VERSIONS)
    if not versions:
        errors.required(path, f"must specify one of {listed}")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.invalid(f"{path}[{index}]", version, "duplicate version")
        else:
            errors.invalid_each(f"{path}[{index}]", version, values.dns_1035_label(version))
    if not set(versions) & set(REVIEW_VERSIONS):
        errors.invalid(path, versions, f"must include at least one of {listed}")


# Rules ----------------------------------------------------------------------------------------------------------------


def _rule(errors: Errors, rule: Obj, path: str) -> None:
    operations = rule.get("operations") or []
    _listed(errors, operations, f"{path}.operations", "operations")
    for index, operation in enumerate(operations):
        _one_of(errors, operation, f"{path}.operations[{index}]", OPERATIONS)
    _listed(errors, rule.get("apiGroups") or [], f"{path}.apiGroups", "API groups")
    versions = rule.get("apiVersions") or []
    _listed(errors, versions, f"{path}.apiVersions", "API versions")
    for index, version in enumerate(versions):
        if not version:
            errors.required(f"{path}.apiVersions[{index}]")
    _resources(errors, rule.get("resources") or [], f"{path}.resources")
    _one_of(errors, rule.get("scope"), f"{path}.scope", SCOPES)


def _listed(errors: Errors, items: list[str], path: str, what: str) -> None:
    """A list that is not empty, and nothing beside a ``*``."""
    if not items:
        errors.required(path)
    elif "*" in items and len(items) > 1:
        errors.invalid(path, items, f"if '*' is present, must not specify other {what}")


def _resources(errors: Errors, resources: list[str], path: str) -> None:
    if not resources:
        errors.required(path)
    plain = False
    whole: set[str] = set()  # x of x/*
    subresources: set[str] = set()  # x of */x
    for index, resource in enumerate(resources):
        where = f"{path}[{index}]"
        if not resource:
            errors.required(where)
            continue
        name, slash, sub = resource.partition("/")
        if not slash:
            plain = resource != "*"
            continue
        if name in whole:
            errors.invalid(where, resource, f"if '{name}/*' is present, must not specify {resource}")
        if sub in subresources:
            errors.invalid(where, resource, f"if '*/{sub}' is present, must not specify {resource}")
        if sub == "*":
            whole.add(name)
        if name == "*":
            subresources.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        errors.invalid(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.invalid(path, resources, detail)


def _conditions(errors: Errors, conditions: list[Obj], path: str) -> None:
    if len(conditions) > CONDITIONS_MAX:
        errors.too_many(path, len(conditions), CONDITIONS_MAX)
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        name = condition.get("name", "")
        if not condition.get("expression", "").strip():
            errors.required(f"{path}[{index}].expression")
        if not name:
            errors.required(f"{path}[{index}].name")
        else:
            errors.invalid_each(f"{path}[{index}].name", name, values.qualified_name(name))
            if name in seen:
                errors.duplicate(f"{path}[{index}].name", name)
        seen.add(name)


# Policies -------------------------------------------------------------------------------------------------------------


def _policy(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec") or {}
    _one_of(errors, spec.get("failurePolicy"), "spec.failurePolicy", FAILURE_POLICIES)
    if spec.get("paramKind") is not None:
        _param_kind(errors, spec["paramKind"], "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        errors.required("spec.matchConstraints")
    else:
        _match(errors, constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            errors.required("spec.matchConstraints.resourceRules")
    _conditions(errors, spec.get("matchConditions") or [], "spec.matchConditions")
    for index, variable in enumerate(spec.get("variables") or ()):
        for field in ("name", "expression"):
            if not variable.get(field, "").strip():
                errors.required(f"spec.variables[{index}].{field}", f"{field} is not specified")
            elif field == "name" and not (variable[field].isidentifier() and variable[field].isascii()):
                detail = "name is not a valid CEL identifier"
                errors.invalid(f"spec.variables[{index}].name", variable[field], detail)
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        detail = "validations or auditAnnotations must contain at least one item"
        errors.required("spec.validations", detail)
        errors.required("spec.auditAnnotations", detail)
    for index, validation in enumerate(spec.get("validations") or ()):
        _validation(errors, validation, f"spec.validations[{index}]")
    annotations = spec.get("auditAnnotations") or []
    for index, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{index}]", annotation.get("key", "")
        errors.invalid_each(f"{path}.key", key, values.qualified_name(f"{obj['metadata'].get('name', '')}/{key}"))
        if not annotation.get("valueExpression", "").strip():
            errors.required(f"{path}.valueExpression", "valueExpression is not specified")
        if key in [a.get("key", "") for a in annotations[:index]]:
            errors.duplicate(f"{path}.key", key)


def _param_kind(errors: Errors, kind: Obj, path: str) -> None:
    version, name = kind.get("apiVersion", ""), kind.get("kind", "")
    if not version:
        errors.required(f"{path}.apiVersion")
    if not name:
        errors.required(f"{path}.kind")
    elif wrong := values.dns_1035_label(name.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        errors.invalid(f"{path}.kind", name, detail)


def _match(errors: Errors, constraints: Obj, path: str) -> None:
    _one_of(errors, constraints.get("matchPolicy"), f"{path}.matchPolicy", MATCH_POLICIES)
    for field in ("namespaceSelector", "objectSelector"):
        check_selector(errors, constraints.get(field) or {}, f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(constraints.get(field) or ()):
            where = f"{path}.{field}[{index}]"
            names = rule.get("resourceNames") or []
            for at, name in enumerate(names):
                errors.invalid_each(f"{where}.resourceNames[{at}]", name, values.path_segment(name))
                if name in names[:at]:
                    errors.duplicate(f"{where}.resourceNames[{at}]", name)
            _rule(errors, rule, where)


def _validation(errors: Errors, validation: Obj, path: str) -> None:
    if not validation.get("expression", "").strip():
        errors.required(f"{path}.expression", "expression is not specified")
    shown = validation.get("messageExpression", "")
    if shown and not shown.strip():
        errors.invalid(f"{path}.messageExpression", shown, "must be non-empty if specified")
    message = validation.get("message", "")
    if message and not message.strip():
        errors.invalid(f"{path}.message", message, "message must be non-empty if specified")
    elif "\n" in message.strip() or "\r" in message.strip():
        errors.invalid(f"{path}.message", message, "message must not contain line breaks")
    _one_of(errors, validation.get("reason"), f"{path}.reason", REASONS)


def _binding(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec") or {}
    name, reference = spec.get("policyName", ""), spec.get("paramRef")
    if not name:
        errors.required("spec.policyName")
    else:
        errors.invalid_each("spec.policyName", name, values.dns_subdomain(name))
    if reference is not None:
        _param_reference(errors, reference, "spec.paramRef")
    if spec.get("matchResources") is not None:
        _match(errors, spec["matchResources"], "spec.matchResouces")  # the server's own spelling
    if obj["kind"] == "ValidatingAdmissionPolicyBinding":
        _actions(errors, spec.get("validationActions") or [], "spec.validationActions")


def _param_reference(errors: Errors, reference: Obj, path: str) -> None:
    name, selector = reference.get("name", ""), reference.get("selector")
    both = "name and selector are mutually exclusive"
    if name:
        errors.invalid_each(f"{path}.name", name, values.path_segment(name))
        if selector is not None:
            errors.forbidden(f"{path}.name", both)
    if selector is not None:
        check_selector(errors, selector, f"{path}.selector")
        if name:
            errors.forbidden(f"{path}.selector", both)
    if not name and selector is None:
        errors.required(path, "one of name or selector must be specified")
    action = reference.get("parameterNotFoundAction")
    if action is None:
        errors.required(f"{path}.parameterNotFoundAction")
    _one_of(errors, action, f"{path}.parameterNotFoundAction", ("Allow", "Deny"))


def _actions(errors: Errors, actions: list[str], path: str) -> None:
    for index, action in enumerate(actions):
        _one_of(errors, action, f"{path}[{index}]", ACTIONS)
        if action in actions[:index]:
            errors.duplicate(f"{path}[{index}]", action)
    if {"Deny", "Warn"} <= Counter(actions).keys():
        errors.invalid(path, actions, BOTH)
    if not actions:
        errors.required(path, "at least one validation action is required")


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    (GROUP, "MutatingWebhookConfiguration"): _configuration,
    (GROUP, "ValidatingWebhookConfiguration"): _configuration,
    (GROUP, "ValidatingAdmissionPolicy"): _policy,
    (GROUP, "ValidatingAdmissionPolicyBinding"): _binding,
    (GROUP, "MutatingAdmissionPolicyBinding"): _binding,
}
