"""``aiopslab show ID``: one problem, task, app, fault or workload, the right answers included."""

from __future__ import annotations

from typing import Any

import msgspec

from aiopslab.catalog.catalog import Catalog
from aiopslab.catalog.manifests import Broken, Manifest, ProblemTask
from aiopslab.cli.flags import Bundles, Json
from aiopslab.cli.output import print_json, print_pairs
from aiopslab.errors import ManifestError, UnknownIdError


def show(id: str, *, bundle: Bundles = None, json: Json = False) -> int:
    """One problem, app, fault or workload in full. Shows the right answers.

    Parameters
    ----------
    id
        A problem (``hipster-target-port``), one of its tasks, an app, a fault or a workload.
    """
    catalog = Catalog.load(bundle or [])
    kind, found = _find(catalog, id)
    plain = _without_defaults(_plain(found)) | {"kind": kind}
    if json:
        print_json(plain)
        return 0
    print_pairs([("kind", kind), *((name, _text(value)) for name, value in plain.items() if name != "kind")])
    return 0


def _find(catalog: Catalog, wanted: str) -> tuple[str, Manifest | ProblemTask]:
    shelves: dict[str, dict[str, Any]] = {
        "problem": catalog.problems,
        "app": catalog.apps,
        "fault": catalog.faults,
        "workload": catalog.workloads,
    }
    for kind, shelf in shelves.items():
        if wanted in shelf:
            return kind, shelf[wanted]
    broken: list[Broken] = [row for row in catalog.broken if row.id == wanted]
    if broken:
        raise ManifestError(broken[0].error)
    try:
        return "task", catalog.problem(wanted)
    except UnknownIdError:
        known = [name for shelf in shelves.values() for name in shelf]
        raise UnknownIdError("problem", wanted, [*known, *catalog.problem_ids()]) from None


def _plain(found: Manifest | ProblemTask) -> dict[str, Any]:
    if not isinstance(found, ProblemTask):
        plain: dict[str, Any] = msgspec.to_builtins(found, enc_hook=str)
        return plain | ({"ids": found.task_ids()} if hasattr(found, "task_ids") else {})
    return {
        "id": found.id,
        "title": found.problem.title,
        "task": found.task,
        "app": found.app.id,
        "workload": found.workload.id,
        "fault": found.fault.id if found.fault else None,
        "params": found.params,
        "expected": msgspec.to_builtins(found.expected),
        "symptom": msgspec.to_builtins(found.symptom),
        "solution": found.solution,
        "folder": str(found.problem.folder),
    }


def _without_defaults(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if value not in (None, "", [], {}, ".")}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        lines = [f"{key}: {_inline(item)}" for key, item in value.items() if item not in (None, "", [], {})]
        return "\n".join(lines)
    if isinstance(value, list):
        return "\n".join(_inline(item) for item in value)
    return str(value)


def _inline(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
