"""The catalogue: what apps, faults, workloads and problems there are, read from folders."""

from aiopslab.catalog.bundles import builtin_bundle, bundle_of
from aiopslab.catalog.catalog import STAGES, Catalog
from aiopslab.catalog.code import load_object
from aiopslab.catalog.manifests import (
    TASKS,
    App,
    Broken,
    Fault,
    Param,
    Problem,
    ProblemTask,
    Symptom,
    Task,
    Variant,
    Workload,
)
from aiopslab.catalog.templates import fill, fill_text, resolve

__all__ = [
    "STAGES",
    "TASKS",
    "App",
    "Broken",
    "Catalog",
    "Fault",
    "Param",
    "Problem",
    "ProblemTask",
    "Symptom",
    "Task",
    "Variant",
    "Workload",
    "builtin_bundle",
    "bundle_of",
    "fill",
    "fill_text",
    "load_object",
    "resolve",
]
