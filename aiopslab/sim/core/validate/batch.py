"""Jobs and CronJobs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.cron import schedule_error
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_same, check_selector, selects
from aiopslab.sim.core.validate.pod import check_template
from aiopslab.sim.core.validate.workloads import NO_MATCH

Obj = dict[str, Any]
MODES = ("NonIndexed", "Indexed")
CONCURRENCY = ("Allow", "Forbid", "Replace")
CRON_NAME_MAX = 52  # leaves room for the suffix of the Jobs' names
JOB_NUMBERS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
_ZONE_FORM = re.compile(r"[A-Za-z0-9+_-]+(/[A-Za-z0-9+_-]+)*")


def _job_spec(errors: Errors, spec: Obj, path: str) -> None:
    values.check_non_negative(errors, spec, path, *JOB_NUMBERS, "backoffLimitPerIndex", "maxFailedIndexes")
    mode = spec.get("completionMode")
    if mode is not None and mode not in MODES:
        errors.not_supported(f"{path}.completionMode", mode, MODES)
    elif mode == "Indexed" and spec.get("completions") is None:
        errors.required(f"{path}.completions", "when completion mode is Indexed")
    template = spec.get("template", {})
    check_template(errors, template, f"{path}.template")
    policy, field = template.get("spec", {}).get("restartPolicy"), f"{path}.template.spec.restartPolicy"
    if policy == "Always":
        errors.required(field, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        errors.not_supported(field, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") and policy != "Never":
        errors.invalid(field, policy, "only Never is supported when podFailurePolicy is specified")


def _job(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj["spec"]
    _job_spec(errors, spec, "spec")
    selector, template = spec.get("selector"), spec.get("template", {})
    labels = template.get("metadata", {}).get("labels")
    if selector is None:
        errors.required("spec.selector")
    else:
        check_selector(errors, selector, "spec.selector")
    if selector is None or not selects(selector, labels):
        errors.invalid("spec.template.metadata.labels", labels, NO_MATCH)
    if old is None:
        return
    before = old["spec"]
    if not _elastic(spec, before):
        check_same(errors, spec.get("completions"), before.get("completions"), "spec.completions")
    check_same(errors, selector, before.get("selector"), "spec.selector")
    if not (before.get("suspend") and old.get("status", {}).get("startTime") is None):
        check_same(errors, template, before.get("template"), "spec.template")
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex"):
        check_same(errors, spec.get(field), before.get(field), f"spec.{field}")


def _elastic(spec: Obj, before: Obj) -> bool:
    """Indexed Jobs may grow and shrink when completions follow parallelism."""
    changed = spec.get("completions") != before.get("completions")
    indexed = spec.get("completionMode") == "Indexed"
    return changed and indexed and spec.get("completions") == spec.get("parallelism")


def _cron_job(errors: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj["spec"]
    schedule = spec.get("schedule", "")
    if not schedule:
        errors.required("spec.schedule")
    else:
        _check_schedule(errors, schedule)
    values.check_non_negative(errors, spec, "spec", "startingDeadlineSeconds")
    if spec.get("timeZone") is not None:
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
    values.check_non_negative(errors, spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    name = obj["metadata"].get("name", "")
    if old is None and len(name) > CRON_NAME_MAX:
        errors.invalid("metadata.name", name, f"must be no more than {CRON_NAME_MAX} characters")


def _check_schedule(errors: Errors, schedule: str) -> None:
    if "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.invalid("spec.schedule", schedule, detail)
        return
    problem = schedule_error(schedule)
    if problem is not None:
        errors.invalid("spec.schedule", schedule, problem)


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
