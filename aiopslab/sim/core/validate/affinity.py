"""Node and pod affinity, topology spread."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import NEEDS_VALUES, NO_VALUES, check_selector

Obj = dict[str, Any]
REQUIRED_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED_TERMS = "preferredDuringSchedulingIgnoredDuringExecution"
NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
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
    required = node.get(REQUIRED_TERMS)
    if required is not None:
        where = f"{path}.{REQUIRED_TERMS}.nodeSelectorTerms"
        terms = required.get("nodeSelectorTerms") or []
        if not terms:
            errors.required(where, "must have at least one node selector term")
        for index, term in enumerate(terms):
            _check_node_term(errors, term, f"{where}[{index}]")
    for index, item in enumerate(node.get(PREFERRED_TERMS) or ()):
        where = f"{path}.{PREFERRED_TERMS}[{index}]"
        _check_weight(errors, item, where)
        _check_node_term(errors, item.get("preference", {}), f"{where}.preference")


def _check_weight(errors: Errors, item: Obj, path: str) -> None:
    weight = item.get("weight", 0)
    if not 1 <= weight <= 100:
        errors.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _check_node_term(errors: Errors, term: Obj, path: str) -> None:
    for index, item in enumerate(term.get("matchExpressions") or ()):
        where, operator = f"{path}.matchExpressions[{index}]", item.get("operator", "")
        given = item.get("values") or []
        if operator in ("In", "NotIn") and not given:
            errors.required(f"{where}.values", NEEDS_VALUES)
        elif operator in ("Exists", "DoesNotExist") and given:
            errors.forbidden(f"{where}.values", NO_VALUES)
        elif operator in ("Gt", "Lt") and len(given) != 1:
            errors.required(f"{where}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        elif operator not in NODE_OPERATORS:
            errors.invalid(f"{where}.operator", operator, "not a valid selector operator")
        key = item.get("key", "")
        errors.invalid_each(f"{where}.key", key, values.qualified_name(key))


def _check_pod_affinity(errors: Errors, affinity: Obj, path: str) -> None:
    for index, term in enumerate(affinity.get(REQUIRED_TERMS) or ()):
        _check_pod_term(errors, term, f"{path}.{REQUIRED_TERMS}[{index}]")
    for index, item in enumerate(affinity.get(PREFERRED_TERMS) or ()):
        where = f"{path}.{PREFERRED_TERMS}[{index}]"
        _check_weight(errors, item, where)
        _check_pod_term(errors, item.get("podAffinityTerm", {}), f"{where}.podAffinityTerm")


def _check_pod_term(errors: Errors, term: Obj, path: str) -> None:
    if term.get("labelSelector"):
        check_selector(errors, term["labelSelector"], f"{path}.labelSelector")
    key = term.get("topologyKey", "")
    if not key:
        errors.required(f"{path}.topologyKey", "can not be empty")
    else:
        errors.invalid_each(f"{path}.topologyKey", key, values.qualified_name(key))


def check_spread(errors: Errors, constraints: list[Obj], path: str) -> None:
    """``spec.topologySpreadConstraints``."""
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(constraints):
        where = f"{path}[{index}]"
        skew, key, action = item.get("maxSkew", 0), item.get("topologyKey", ""), item.get("whenUnsatisfiable", "")
        if skew <= 0:
            errors.invalid(f"{where}.maxSkew", skew, "must be greater than zero")
        if not key:
            errors.required(f"{where}.topologyKey", "can not be empty")
        else:
            errors.invalid_each(f"{where}.topologyKey", key, values.qualified_name(key))
        if action not in ACTIONS:
            errors.not_supported(f"{where}.whenUnsatisfiable", action, ACTIONS)
        if (key, action) in seen:
            errors.duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        seen.add((key, action))
        if item.get("labelSelector"):
            check_selector(errors, item["labelSelector"], f"{where}.labelSelector")
