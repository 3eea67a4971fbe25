"""``aiopslab list``: what there is. Reads manifests only; a broken folder is a row with its reason."""

from __future__ import annotations

from typing import Any, Literal

from aiopslab.catalog.catalog import Catalog
from aiopslab.catalog.manifests import Manifest, Problem
from aiopslab.cli.flags import Bundles, Json
from aiopslab.cli.output import print_json, print_table

Kind = Literal["problems", "apps", "faults", "workloads", "agents"]


def list_(kind: Kind = "problems", *, bundle: Bundles = None, json: Json = False) -> int:
    """What there is.

    Parameters
    ----------
    kind
        What to list.
    """
    rows = _agents() if kind == "agents" else _content(Catalog.load(bundle or []), kind)
    if json:
        print_json({kind: rows})
        return 0
    if kind == "problems":
        cells = [(row["id"], ", ".join(row.get("ids", [])), row["title"] or row["error"]) for row in rows]
        print_table(("PROBLEM", "IDS", "TITLE"), [(name, _ids(text), title) for name, text, title in cells])
    else:
        print_table(
            (kind.removesuffix("s").upper(), "TITLE"), [(r["id"], r["title"] or r["error"]) for r in rows]
        )
    return 0


def _ids(text: str) -> str:
    return text.replace(", ", "\n")


def _agents() -> list[dict[str, Any]]:
    from aiopslab.agents.loader import BUILTIN

    return [{"id": name, "title": title, "error": ""} for name, title in sorted(BUILTIN.items())]


def _content(catalog: Catalog, kind: str) -> list[dict[str, Any]]:
    shelves: dict[str, dict[str, Any]] = {
        "problems": catalog.problems,
        "apps": catalog.apps,
        "faults": catalog.faults,
        "workloads": catalog.workloads,
    }
    rows = [_row(manifest) for manifest in shelves[kind].values()]
    for broken in catalog.broken:
        if f"{broken.kind}s" == kind:
            rows.append({"id": broken.id, "title": "", "error": f"broken: {broken.error}"})
    return sorted(rows, key=lambda row: str(row["id"]))


def _row(manifest: Manifest) -> dict[str, Any]:
    row: dict[str, Any] = {"id": manifest.id, "title": manifest.title, "error": ""}
    if isinstance(manifest, Problem):
        row |= {
            "app": manifest.app,
            "fault": manifest.fault,
            "tasks": list(manifest.tasks),
            "ids": manifest.task_ids(),
        }
    return row
