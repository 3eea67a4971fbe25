"""Jobs and CronJobs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.cron import schedule_error
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.internals import template_shown
from aiopslab.sim.core.validate.jobpolicies import check_failure_policy, check_success_policy
from aiopslab.sim.core.validate.meta import check_same, check_selector, selects
from aiopslab.sim.core.validate.pod import check_template
from aiopslab.sim.core.validate.workloads import NO_MATCH

Obj = dict[str, Any]
MODES = ("NonIndexed", "Indexed")
CONCURRENCY = ("Allow", "Forbid", "Replace")
CRON_NAME_MAX = 52  # leaves room for the suffix of the Jobs' names
JOB_NUMBERS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
INDEXED_MAX, MANAGER_MAX = 100_000, 63
MANY_COMPLETIONS, MANY_PARALLELISM = 100_000, 10_000
REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_ZONE_PART = r"(?!\.{1,2}(/|$)|-)[A-Za-z0-9+_.-]{1,14}"
_ZONE_FORM = re.compile(f"{_ZONE_PART}(/{_ZONE_PART})*")


def _job_spec(errors: Errors, spec: Obj, path: str) -> None:
    values.check_non_negative(errors, spec, path, *JOB_NUMBERS)
    mode, manager = spec.get("completionMode"), spec.get("managedBy")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if manager is not None:
        values.check_domain_path(errors, f"{path}.managedBy", manager)
        if len(manager) > MANAGER_MAX:
            errors.too_long(f"{path}.managedBy", MANAGER_MAX)
    if mode is not None and mode not in MODES:
        errors.not_supported(f"{path}.completionMode", mode, MODES)
    elif mode == "Indexed":
        _indexed(errors, spec, path)
    else:
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                errors.invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")
    if spec.get("podFailurePolicy") is not None:
        check_failure_policy(errors, spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        if mode == "Indexed":
            check_success_policy(errors, spec, f"{path}.successPolicy")
        else:
            errors.invalid(f"{path}.successPolicy", spec["successPolicy"], "requires indexed completion mode")
    replacement, valid = spec.get("podReplacementPolicy"), REPLACEMENTS[: 1 if spec.get("podFailurePolicy") else 2]
    if replacement is not None and replacement not in valid:
        errors.not_supported(f"{path}.podReplacementPolicy", replacement, valid)
    template = spec.get("template", {})
    check_template(errors, template, f"{path}.template")
    policy, field = template.get("spec", {}).get("restartPolicy"), f"{path}.template.spec.restartPolicy"
    if policy in ("Always", "", None):
        errors.required(field, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        errors.not_supported(field, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        errors.invalid(field, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _indexed(errors: Errors, spec: Obj, path: str) -> None:
    """Numbers of an Indexed Job."""
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    failed, where = spec.get("maxFailedIndexes"), f"{path}.maxFailedIndexes"
    if completions is None:
        errors.required(f"{path}.completions", "when completion mode is Indexed")
    if parallelism > INDEXED_MAX:
        detail = f"must be less than or equal to {INDEXED_MAX} when completion mode is Indexed"
        errors.invalid(f"{path}.parallelism", parallelism, detail)
    if failed is not None and completions is not None and failed > completions:
        errors.invalid(where, failed, "must be less than or equal to completions")
    if failed is not None and failed > INDEXED_MAX:
        errors.invalid(where, failed, f"must be less than or equal to {INDEXED_MAX}")
    if (completions or 0) <= MANY_COMPLETIONS or spec.get("backoffLimitPerIndex") is None:
        return
    when = f"when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
    if failed is None:
        errors.required(where, f"must be specified when completions is above {MANY_COMPLETIONS}")
    for field, value in (("parallelism", parallelism), ("maxFailedIndexes", failed or 0)):
        if value > MANY_PARALLELISM:
            errors.invalid(f"{path}.{field}", value, f"must be less than or equal to {MANY_PARALLELISM} {when}")


def _job(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec, meta = obj["spec"], obj["metadata"]
    if old is None:
        _generated_labels(errors, spec, meta)
    _job_spec(errors, spec, "spec")
    selector, template = spec.get("selector"), spec.get("template", {})
    labels = template.get("metadata", {}).get("labels")
    if selector is None:
        errors.required("spec.selector")
    else:
        check_selector(errors, selector, "spec.selector")
    if selector is None or not selects(selector, labels):
        errors.invalid("spec.template.metadata.labels", labels, NO_MATCH)
    if old is not None:
        _job_update(errors, spec, old)
    elif spec.get("completionMode") == "Indexed" and spec.get("completions"):
        last = f"{meta.get('name', '')}-{spec['completions'] - 1}"
        if values.dns_label(last):
            detail = f"will not able to create pod with invalid DNS label: {last}"
            errors.invalid("metadata.name", meta.get("name", ""), detail)


def _generated_labels(errors: Errors, spec: Obj, meta: Obj) -> None:
    """The labels that tell the Job's pods from others; a client may not give other values for them."""
    if spec.get("manualSelector") or spec.get("selector") is None:
        return
    labels = spec.get("template", {}).get("metadata", {}).get("labels") or {}
    own = {"controller-uid": meta.get("uid", ""), "job-name": meta.get("name", "")}
    wanted = {**own, **{f"batch.kubernetes.io/{key}": value for key, value in own.items()}}
    for key, value in wanted.items():
        path = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            errors.required(path, f"must be '{value}'")
        elif labels[key] != value:
            errors.invalid(path, dict(sorted(labels.items())), f"must be '{value}'")
    if not selects(spec["selector"], wanted):
        errors.invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def _job_update(errors: Errors, spec: Obj, old: Obj) -> None:
    before = old["spec"]
    completions, former = spec.get("completions"), before.get("completions")
    if spec.get("completionMode") != "Indexed":
        check_same(errors, completions, former, "spec.completions")
    elif completions not in (None, former, spec.get("parallelism")):
        errors.invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")
    check_same(errors, spec.get("selector"), before.get("selector"), "spec.selector")
    template, frozen = spec.get("template", {}), before.get("template", {})
    if before.get("suspend") and old.get("status", {}).get("startTime") is None:
        frozen = _with_scheduling_of(template, frozen)
    if template != frozen:
        errors.invalid("spec.template", template_shown(template), values.IMMUTABLE)
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        check_same(errors, spec.get(field), before.get(field), f"spec.{field}")


def _with_scheduling_of(template: Obj, old: Obj) -> Obj:
    """``old`` with what a Job that never started may still change: where its pods go, and what they may use."""
    meta, spec = dict(old.get("metadata") or {}), dict(old.get("spec") or {})
    new_meta, new_spec = template.get("metadata") or {}, template.get("spec") or {}
    _take(meta, new_meta, "labels", "annotations")
    _take(spec, new_spec, "nodeSelector", "tolerations", "schedulingGates")
    affinity = dict(spec.get("affinity") or {})
    _take(affinity, new_spec.get("affinity") or {}, "nodeAffinity")
    spec.pop("affinity", None)
    if affinity or new_spec.get("affinity") is not None:
        spec["affinity"] = affinity
    for field in ("containers", "initContainers"):
        fresh = {c["name"]: c for c in new_spec.get(field) or ()}
        if spec.get(field):
            spec[field] = [dict(container) for container in spec[field]]
        for container in spec.get(field) or ():
            _take(container, fresh.get(container["name"], container), "resources")
    made = {**old, "spec": spec}
    if meta or "metadata" in template:
        made["metadata"] = meta
    return made


def _take(target: Obj, source: Obj, *fields: str) -> None:
    for field in fields:
        target.pop(field, None)
        if field in source:
            target[field] = source[field]


def _cron_job(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj["spec"]
    schedule = spec.get("schedule", "")
    if not schedule:
        errors.required("spec.schedule")
    else:
        _check_schedule(errors, spec, old)
    values.check_non_negative(errors, spec, "spec", "startingDeadlineSeconds")
    if spec.get("timeZone") is not None and (old is None or old["spec"].get("timeZone") != spec["timeZone"]):
        _check_zone(errors, spec["timeZone"])
    policy = spec.get("concurrencyPolicy", "")
    if not policy:
        errors.required("spec.concurrencyPolicy")
    elif policy not in CONCURRENCY:
        errors.not_supported("spec.concurrencyPolicy", policy, CONCURRENCY)
    job = spec.get("jobTemplate", {}).get("spec", {})
    _job_spec(errors, job, "spec.jobTemplate.spec")
    if job.get("selector") is not None:
        errors.invalid("spec.jobTemplate.spec.selector", job["selector"], "`selector` will be auto-generated")
    if job.get("manualSelector"):
        errors.not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    values.check_non_negative(errors, spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    name = obj["metadata"].get("name", "")
    if old is None and len(name) > CRON_NAME_MAX:
        errors.invalid("metadata.name", name, f"must be no more than {CRON_NAME_MAX} characters")


def _check_schedule(errors: Errors, spec: Obj, old: Obj | None) -> None:
    schedule = spec["schedule"]
    zoned, allowed = "TZ" in schedule, old is not None and "TZ" in old["spec"].get("schedule", "")
    problem = schedule_error(re.sub(r"^\s*(CRON_)?TZ=\S+\s*", "", schedule))
    if problem is not None:
        errors.invalid("spec.schedule", schedule, problem)
    if zoned and not allowed:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.invalid("spec.schedule", schedule, detail)
    elif zoned and spec.get("timeZone") is not None:
        errors.invalid("spec.schedule", schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")


def _check_zone(errors: Errors, zone: str) -> None:
    if not zone:
        errors.invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
    elif zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.invalid("spec.timeZone", zone, detail)
    elif not _known_zone(zone):
        errors.invalid("spec.timeZone", zone, f"unknown time zone {zone}")


def _known_zone(zone: str) -> bool:
    if not _ZONE_FORM.fullmatch(zone):
        return False
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, OSError):
        return not available_timezones()  # a machine without a zone database cannot tell
    return True


CHECKS: dict[tuple[str, str], Callable[[Errors, Obj, Obj | None], None]] = {
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
}
