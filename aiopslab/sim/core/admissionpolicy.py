"""ValidatingAdmissionPolicies: rules in CEL about what may be written.

A policy acts through its bindings. ``authorizer`` and whatever else ``cel`` does not know make an expression one that
is not enforced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aiopslab.sim.core import cel
from aiopslab.sim.core.apierrors import ApiError, forbidden
from aiopslab.sim.core.controllers.labels import label_selector_matches
from aiopslab.sim.core.store import Key, Obj, Store
from aiopslab.sim.core.webhooks import GROUP, Write, covers, in_scope

POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
OWN = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


@dataclass(frozen=True, slots=True)
class Failure:
    """A rule that did not hold."""

    message: str
    reason: str


def check(store: Store, write: Write) -> list[str]:
    """Warnings of the bindings that only warn. Raises the refusal of the first one that denies."""
    warnings: list[str] = []
    if not store.count(BINDINGS) or (write.kind.group == GROUP and write.kind.plural in OWN):
        return warnings
    for binding in store.list(BINDINGS):
        policy = store.get(Key(POLICIES, "", binding["spec"].get("policyName", "")))
        if policy is None or not _concerns(store, policy["spec"], binding["spec"], write):
            continue
        failures = list(_failures(store, policy["spec"], binding["spec"], write))
        actions = binding["spec"].get("validationActions") or []
        names = f"'{policy['metadata']['name']}' with binding '{binding['metadata']['name']}'"
        if "Warn" in actions:
            warnings += [f"Validation failed for ValidatingAdmissionPolicy {names}: {f.message}" for f in failures]
        if "Deny" in actions and failures:
            raise _denied(write, names, failures[0])
    return warnings


def _denied(write: Write, names: str, failure: Failure) -> ApiError:
    message = f"ValidatingAdmissionPolicy {names} denied request: {failure.message}"
    error = forbidden(write.kind, write.obj["metadata"].get("name", ""), message)
    reason = failure.reason or "Invalid"
    error.status.update(reason=reason, code=CODES.get(reason, 422))
    error.status["details"] = {**(error.status.get("details") or {}), "causes": [{"message": message}]}
    return error


def _concerns(store: Store, policy: Obj, binding: Obj, write: Write) -> bool:
    constraints = policy.get("matchConstraints") or {}
    if not _matches(store, constraints, write, required=True):
        return False
    return _matches(store, binding.get("matchResources") or {}, write, required=False)


def _matches(store: Store, constraints: Obj, write: Write, *, required: bool) -> bool:
    rules = constraints.get("resourceRules") or []

    def named(rule: Obj) -> bool:
        wanted = rule.get("resourceNames") or []
        return not wanted or write.obj["metadata"].get("name") in wanted

    def hit(rule: Obj) -> bool:
        return covers(rule, write) and named(rule)

    if any(hit(rule) for rule in constraints.get("excludeResourceRules") or []):
        return False
    if (rules or required) and not any(hit(rule) for rule in rules):
        return False
    return in_scope(store, constraints, write)


def _failures(store: Store, policy: Obj, binding: Obj, write: Write) -> Iterator[Failure]:
    for params in _params(store, policy, binding, write):
        names = _names(store, write, params)
        strict = policy.get("failurePolicy", "Fail") == "Fail"
        try:
            conditions = [_evaluate(c["expression"], names) for c in policy.get("matchConditions") or []]
        except cel.EvaluationError as error:
            if strict:
                yield Failure(str(error), "")
            continue
        if not all(value is True or value is None for value in conditions):
            continue
        names["variables"] = _variables(policy, names)
        for rule in policy.get("validations") or []:
            failure = _judged(rule, names, strict=strict)
            if failure is not None:
                yield failure


def _judged(rule: Obj, names: Obj, *, strict: bool) -> Failure | None:
    text = rule["expression"]
    try:
        holds = _evaluate(text, names)
    except cel.EvaluationError as error:
        return Failure(f"expression '{text}' resulted in error: {error}", "") if strict else None
    if holds is True or holds is None:
        return None
    message = rule.get("message") or f"failed expression: {text.strip()}"
    if rule.get("messageExpression"):
        with contextlib.suppress(cel.EvaluationError):
            message = _evaluate(rule["messageExpression"], names) or message
    return Failure(str(message).strip(), rule.get("reason", ""))


def _evaluate(text: str, names: Obj) -> Any:
    """The value of an expression; None for one that is not supported."""
    try:
        return cel.evaluate(text, names)
    except cel.Unsupported:
        return None


def _variables(policy: Obj, names: Obj) -> Obj:
    """The policy's variables in order; one that fails is missing to what uses it."""
    found: Obj = {}
    for variable in policy.get("variables") or []:
        try:
            found[variable["name"]] = _evaluate(variable["expression"], {**names, "variables": found})
        except cel.EvaluationError:
            continue
    return found


def _names(store: Store, write: Write, params: Obj | None) -> Obj:
    namespace = write.obj["metadata"].get("namespace", "")
    return {
        "object": write.new,
        "oldObject": write.old,
        "params": params,
        "namespaceObject": store.get(Key("namespaces", "", namespace)) if namespace else None,
        "request": write.request,
    }


def _params(store: Store, policy: Obj, binding: Obj, write: Write) -> list[Obj | None]:
    """The parameter objects of a binding; one None when it takes none."""
    wanted, kind = binding.get("paramRef"), policy.get("paramKind")
    if not wanted or not kind:
        return [None]
    group, _, _ = kind.get("apiVersion", "").rpartition("/")
    namespace = wanted.get("namespace") or write.obj["metadata"].get("namespace", "")
    found = [
        obj
        for resource in store.resources()
        if resource.partition("/")[0] == group or (not group and "/" not in resource)
        for obj in store.list(resource)
        if obj.get("kind") == kind.get("kind") and obj["metadata"].get("namespace", "") in ("", namespace)
    ]
    if wanted.get("name"):
        found = [obj for obj in found if obj["metadata"]["name"] == wanted["name"]]
    elif wanted.get("selector") is not None:
        chosen = wanted["selector"]
        found = [obj for obj in found if label_selector_matches(chosen, obj["metadata"].get("labels") or {})]
    return [*found]
