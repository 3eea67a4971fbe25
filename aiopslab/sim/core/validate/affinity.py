"""Node and pod affinity, topology spread."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import NEEDS_VALUES, NO_VALUES, check_selector

Obj = dict[str, Any]
REQUIRED_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED_TERMS = "preferredDuringSchedulingIgnoredDuringExecution"
INCLUSION = ("Honor", "Ignore")
POSITIVE = "must be greater than zero"
NEEDS_SELECTOR = "must not be specified when labelSelector is not set"
ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


def check_affinity(errors: Errors, affinity: Obj, path: str) -> None:
    """``spec.affinity``."""
    node = affinity.get("nodeAffinity")
    if node is not None:
        _check_node_affinity(errors, node, f"{path}.nodeAffinity")
    for name in ("podAffinity", "podAntiAffinity"):
        if affinity.get(name) is not None:
            _check_pod_affinity(errors, affinity[name], f"{path}.{name}")


def _check_node_affinity(errors: Errors, node: Obj, path: str) -> None:
    if node.get(REQUIRED_TERMS) is not None:
        check_node_selector(errors, node[REQUIRED_TERMS], f"{path}.{REQUIRED_TERMS}")
    for index, item in enumerate(node.get(PREFERRED_TERMS) or ()):
        where = f"{path}.{PREFERRED_TERMS}[{index}]"
        _check_weight(errors, item, where)
        _check_node_term(errors, item.get("preference", {}), f"{where}.preference", strict=False)


def check_node_selector(errors: Errors, selector: Obj, path: str) -> None:
    """Terms that nodes must match: of pods and of volumes."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        errors.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        _check_node_term(errors, term, f"{path}.nodeSelectorTerms[{index}]", strict=True)


def _check_weight(errors: Errors, item: Obj, path: str) -> None:
    weight = item.get("weight", 0)
    if not 1 <= weight <= 100:
        errors.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _check_node_term(errors: Errors, term: Obj, path: str, *, strict: bool) -> None:
    for index, item in enumerate(term.get("matchExpressions") or ()):
        where, operator = f"{path}.matchExpressions[{index}]", item.get("operator", "")
        given = item.get("values") or []
        if operator in ("In", "NotIn"):
            if not given:
                errors.required(f"{where}.values", NEEDS_VALUES)
        elif operator in ("Exists", "DoesNotExist"):
            if given:
                errors.forbidden(f"{where}.values", NO_VALUES)
        elif operator in ("Gt", "Lt"):
            if len(given) != 1:
                errors.required(f"{where}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        else:
            errors.invalid(f"{where}.operator", operator, "not a valid selector operator")
        key = item.get("key", "")
        errors.invalid_each(f"{where}.key", key, values.qualified_name(key))
        for at, value in enumerate(given if strict else ()):
            errors.invalid_each(f"{where}.values[{at}]", value, values.label_value(value))
    for index, item in enumerate(term.get("matchFields") or ()):
        _check_node_field(errors, item, f"{path}.matchFields[{index}]")


def _check_node_field(errors: Errors, item: Obj, path: str) -> None:
    operator, key, given = item.get("operator", ""), item.get("key", ""), item.get("values") or []
    if operator not in ("In", "NotIn"):
        errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(given) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.required(f"{path}.values", detail)
    if key != "metadata.name":
        errors.invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for at, value in enumerate(given):
        errors.invalid_each(f"{path}.values[{at}]", value, values.dns_subdomain(value))


def _check_pod_affinity(errors: Errors, affinity: Obj, path: str) -> None:
    for index, term in enumerate(affinity.get(REQUIRED_TERMS) or ()):
        _check_pod_term(errors, term, f"{path}.{REQUIRED_TERMS}[{index}]")
    for index, item in enumerate(affinity.get(PREFERRED_TERMS) or ()):
        where = f"{path}.{PREFERRED_TERMS}[{index}]"
        _check_weight(errors, item, where)
        _check_pod_term(errors, item.get("podAffinityTerm", {}), f"{where}.podAffinityTerm")


def _check_pod_term(errors: Errors, term: Obj, path: str) -> None:
    for field in ("labelSelector", "namespaceSelector"):
        if term.get(field):
            check_selector(errors, term[field], f"{path}.{field}")
    for name in term.get("namespaces") or ():
        errors.invalid_each(f"{path}.namespace", name, values.dns_label(name))
    _check_label_keys(errors, term, path)
    key = term.get("topologyKey", "")
    if not key:
        errors.required(f"{path}.topologyKey", "can not be empty")
    errors.invalid_each(f"{path}.topologyKey", key, values.qualified_name(key))


def _check_label_keys(errors: Errors, term: Obj, path: str) -> None:
    mismatched = term.get("mismatchLabelKeys") or []
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(field) or []
        if keys and term.get("labelSelector") is None:
            errors.forbidden(f"{path}.{field}", NEEDS_SELECTOR)
            continue
        for index, key in enumerate(keys):
            errors.invalid_each(f"{path}.{field}[{index}]", key, values.qualified_name(key))
    for index, key in enumerate(term.get("matchLabelKeys") or ()):
        if key in mismatched:
            where = f"{path}.matchLabelKeys[{index}]"
            errors.invalid(where, key, "exists in both matchLabelKeys and mismatchLabelKeys")


def check_spread(errors: Errors, constraints: list[Obj], path: str) -> None:
    """``spec.topologySpreadConstraints``."""
    pairs = [(item.get("topologyKey", ""), item.get("whenUnsatisfiable", "")) for item in constraints]
    for index, (item, (key, action)) in enumerate(zip(constraints, pairs, strict=True)):
        where, skew, domains = f"{path}[{index}]", item.get("maxSkew", 0), item.get("minDomains")
        if skew <= 0:
            errors.invalid(f"{where}.maxSkew", skew, POSITIVE)
        if not key:
            errors.required(f"{where}.topologyKey", "can not be empty")
        if action not in ACTIONS:
            errors.not_supported(f"{where}.whenUnsatisfiable", action, ACTIONS)
        if (key, action) in pairs[index + 1 :]:
            errors.duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        if domains is not None and domains <= 0:
            errors.invalid(f"{where}.minDomains", domains, POSITIVE)
        if domains is not None and action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errors.invalid(f"{where}.minDomains", domains, detail)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if item.get(field, "Honor") not in INCLUSION:
                errors.not_supported(f"{where}.{field}", item[field], INCLUSION)
        _check_spread_keys(errors, item, where)
        if item.get("labelSelector"):
            check_selector(errors, item["labelSelector"], f"{where}.labelSelector")


def _check_spread_keys(errors: Errors, item: Obj, path: str) -> None:
    keys, selector = item.get("matchLabelKeys") or [], item.get("labelSelector")
    if keys and selector is None:
        errors.forbidden(f"{path}.matchLabelKeys", NEEDS_SELECTOR)
    used = set((selector or {}).get("matchLabels") or ())
    used |= {one.get("key") for one in (selector or {}).get("matchExpressions") or ()}
    for index, key in enumerate(keys):
        where = f"{path}.matchLabelKeys[{index}]"
        errors.invalid_each(where, key, values.qualified_name(key))
        if key in used:
            errors.invalid(where, key, "exists in both matchLabelKeys and labelSelector")
