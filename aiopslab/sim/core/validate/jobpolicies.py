"""What a Job says about the failure and success of its pods."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.errors import OMITTED, Errors

Obj = dict[str, Any]
ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
OPERATORS = ("In", "NotIn")
STATUSES = ("False", "True", "Unknown")
RULES_MAX, CODES_MAX, INDEXES_MAX_BYTES = 20, 255, 64 * 1024
_ONE_OF = "OnExitCodes and OnPodConditions"


def check_failure_policy(errors: Errors, spec: Obj, path: str) -> None:
    """``podFailurePolicy`` of a Job."""
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > RULES_MAX:
        errors.too_many(f"{path}.rules", len(rules), RULES_MAX)
    pod = spec.get("template", {}).get("spec", {})
    names = {c.get("name") for field in ("containers", "initContainers") for c in pod.get(field) or ()}
    for index, rule in enumerate(rules):
        _failure_rule(errors, spec, rule, names, f"{path}.rules[{index}]")


def _failure_rule(errors: Errors, spec: Obj, rule: Obj, names: set[Any], path: str) -> None:
    action, codes, conditions = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if action == "FailIndex":
        if spec.get("backoffLimitPerIndex") is None:
            errors.invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    else:
        _one_of(errors, f"{path}.action", action, ACTIONS)
    if codes is not None:
        _exit_codes(errors, codes, names, f"{path}.onExitCodes")
    if len(conditions) > RULES_MAX:
        errors.too_many(f"{path}.onPodConditions", len(conditions), RULES_MAX)
    for index, pattern in enumerate(conditions):
        where, kind = f"{path}.onPodConditions[{index}]", pattern.get("type", "")
        errors.invalid_each(f"{where}.type", kind, values.qualified_name(kind))
        _one_of(errors, f"{where}.status", pattern.get("status", ""), STATUSES)
    if codes is not None and conditions:
        errors.invalid(path, OMITTED, f"specifying both {_ONE_OF} is not supported")
    elif codes is None and not conditions:
        errors.invalid(path, OMITTED, f"specifying one of {_ONE_OF} is required")


def _one_of(errors: Errors, path: str, value: str, valid: Iterable[str]) -> None:
    if not value:
        errors.required(path, f"valid values: [{' '.join(json.dumps(one) for one in valid)}]")
    elif value not in valid:
        errors.not_supported(path, value, valid)


def _exit_codes(errors: Errors, codes: Obj, names: set[Any], path: str) -> None:
    operator, numbers = codes.get("operator", ""), codes.get("values") or []
    _one_of(errors, f"{path}.operator", operator, OPERATORS)
    if codes.get("containerName") is not None and codes["containerName"] not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.invalid(f"{path}.containerName", codes["containerName"], detail)
    if not numbers:
        errors.invalid(f"{path}.values", codes.get("values"), "at least one value is required")
    elif len(numbers) > CODES_MAX:
        errors.too_many(f"{path}.values", len(numbers), CODES_MAX)
    for index, number in enumerate(numbers):
        if operator == "In" and number == 0:
            errors.invalid(f"{path}.values[{index}]", number, "must not be 0 for the In operator")
        if number in numbers[:index]:
            errors.duplicate(f"{path}.values[{index}]", number)
    if numbers != sorted(numbers):
        errors.invalid(f"{path}.values", numbers, "must be ordered")


def check_success_policy(errors: Errors, spec: Obj, path: str) -> None:
    """``successPolicy`` of an Indexed Job."""
    rules, completions = spec["successPolicy"].get("rules") or [], spec.get("completions") or 0
    if not rules:
        errors.required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > RULES_MAX:
        errors.too_many(f"{path}.rules", len(rules), RULES_MAX)
    for index, rule in enumerate(rules):
        _success_rule(errors, rule, completions, f"{path}.rules[{index}]")


def _success_rule(errors: Errors, rule: Obj, completions: int, path: str) -> None:
    count, indexes, total = rule.get("succeededCount"), rule.get("succeededIndexes"), 0
    if count is None and indexes is None:
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified")
    if indexes is not None:
        if len(indexes) > INDEXES_MAX_BYTES:
            errors.too_long(f"{path}.succeededIndexes", INDEXES_MAX_BYTES)
        try:
            total = _indexes(indexes, completions)
        except ValueError as problem:
            errors.invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {problem}")
    if count is None:
        return
    values.check_non_negative(errors, rule, path, "succeededCount")
    for most, of in (
        (completions, "the number of specified completions"),
        (total, "the number of indexes in the specified succeededIndexes field"),
    )[: 1 if indexes is None else 2]:
        if count > most:
            errors.invalid(f"{path}.succeededCount", count, f"must be less than or equal to {most} ({of})")


def _indexes(text: str, completions: int) -> int:
    """How many indexes ``0,2-4`` means; ``ValueError`` says why it means none."""
    total, last = 0, -1
    for part in text.split(",") if text else ():
        ends = part.split("-")
        if len(ends) > 2:
            rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
            raise ValueError(f"the fragment {json.dumps(part)} {rule}")
        first, *more = (_index(end, completions) for end in ends)
        if more and first >= more[0]:
            raise ValueError(f"non-increasing order, previous: {first}, current: {more[0]}")
        if last >= first:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        last = more[0] if more else first
        total += last - first + 1
    return total


def _index(text: str, completions: int) -> int:
    if not text.isdecimal():
        raise ValueError(f"cannot convert string to integer for index: {json.dumps(text)}")
    if int(text) >= completions:
        raise ValueError(f"too large index: {json.dumps(text)}")
    return int(text)
