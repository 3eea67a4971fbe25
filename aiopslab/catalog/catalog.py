"""The catalogue: everything that can be run, as a value built from bundle folders."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from aiopslab.catalog.bundles import KINDS, bundle_of, bundle_roots, read_kind
from aiopslab.catalog.manifests import (
    TASKS,
    App,
    Broken,
    Fault,
    Manifest,
    Problem,
    ProblemTask,
    Task,
    Variant,
    Workload,
)
from aiopslab.catalog.templates import fill, fill_text, resolve
from aiopslab.errors import ManifestError, UnknownIdError, UsageError
from aiopslab.record import Expected

STAGES: dict[Task, tuple[str, ...]] = {
    "detection": ("detection",),
    "localization": ("localization",),
    "analysis": ("analysis",),
    "mitigation": ("mitigation",),
    "incident": ("detection", "localization", "analysis", "mitigation"),
}
_REPAIRS = ("mitigation", "incident")


@dataclass
class Catalog:
    """Content by id. ``broken`` are the folders that cannot be used, with the reason.

    A mapping holds only what can be used; asking for a broken id raises its own error.
    """

    roots: list[Path]
    apps: dict[str, App] = field(default_factory=dict)
    faults: dict[str, Fault] = field(default_factory=dict)
    workloads: dict[str, Workload] = field(default_factory=dict)
    problems: dict[str, Problem] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)

    @classmethod
    def load(cls, bundles: list[Path] | None = None) -> Catalog:
        """Read the manifests of the built-in, the installed and the given bundles. Runs no content."""
        catalog = cls(bundle_roots(bundles or []))
        for kind in KINDS:  # in order of dependence: problems last
            for root in catalog.roots:
                for found in read_kind(root, kind):
                    catalog._add(kind, found)
        return catalog

    def app(self, wanted: str) -> App:
        """An app by id, or UnknownIdError / ManifestError."""
        return self._get("app", self.apps, wanted)

    def fault(self, wanted: str) -> Fault:
        """A fault by id, or UnknownIdError / ManifestError."""
        return self._get("fault", self.faults, wanted)

    def workload(self, wanted: str) -> Workload:
        """A workload by id, or UnknownIdError / ManifestError."""
        return self._get("workload", self.workloads, wanted)

    def problem(self, wanted: str) -> ProblemTask:
        """The task that an id such as ``hipster-target-port-mitigation-1`` (or an alias) names."""
        for problem in self.problems.values():
            if wanted in problem.aliases:
                return self._task(problem, *_split(problem.aliases[wanted]), wanted)
            task, variant = _split(wanted.removeprefix(f"{problem.id}-"))
            known = task in problem.tasks and 1 <= variant <= len(problem.variants)
            if known and wanted.startswith(f"{problem.id}-"):
                return self._task(problem, task, variant, wanted)
        raise self._unknown_problem(wanted)

    def problem_ids(self) -> list[str]:
        """Every task id, sorted by problem, then in the order of the tasks."""
        return [i for name in sorted(self.problems) for i in self.problems[name].task_ids()]

    def at(self, folder: Path) -> Problem:
        """The problem in a folder; its bundle must be one of ``roots``."""
        for problem in self.problems.values():
            if problem.folder.resolve() == folder.resolve():
                return problem
        for row in self.broken:
            if row.folder.resolve() == folder.resolve():
                raise ManifestError(row.error)
        raise UsageError(f"{folder} holds no problem.toml, or its bundle {bundle_of(folder)} is not loaded")

    # -- building

    def _add(self, kind: str, found: Manifest | Broken) -> None:
        if isinstance(found, Broken):
            self.broken.append(found)
            return
        shelf = self._shelf(kind)
        try:
            if found.id in shelf:
                raise ManifestError(f"{found.folder}: the id {found.id!r} is taken by {shelf[found.id].folder}")
            self._check(found)
        except ManifestError as error:
            self.broken.append(Broken(kind=kind, id=found.id, folder=found.folder, error=str(error)))
            return
        shelf[found.id] = found

    def _shelf(self, kind: str) -> dict[str, Manifest]:
        shelves = {"app": self.apps, "fault": self.faults, "workload": self.workloads, "problem": self.problems}
        return cast("dict[str, Manifest]", shelves[kind])

    def _check(self, found: Manifest) -> None:
        if isinstance(found, App):
            found.chart_path = self._chart(found)
            for slo in found.slos:
                slo.expr = slo.expr.strip()
        elif isinstance(found, Workload):
            for name in found.manifests:
                if not (found.folder / name).is_file():
                    raise ManifestError(f"{found.folder / name} does not exist; workload.toml names it")
        elif isinstance(found, Problem):
            self._check_problem(found)

    def _check_problem(self, problem: Problem) -> None:
        where = problem.folder / "problem.toml"
        if not problem.tasks or not problem.variants:
            raise ManifestError(f"{where}: a problem needs at least one task and one variant")
        for task in problem.tasks if problem.fault is None else ():
            if task not in ("detection", "incident"):
                raise ManifestError(f"{where}: without a fault the task {task!r} has no answer; remove it")
        solution = problem.folder / problem.solution
        if problem.fault and set(problem.tasks) & set(_REPAIRS) and not solution.is_file():
            raise ManifestError(f"{solution} is missing; record the repair in it")
        fault = self.fault(problem.fault) if problem.fault in self.faults else None
        if fault and not fault.cause_gone and set(problem.tasks) & set(_REPAIRS):
            raise ManifestError(f"{where}: the fault {fault.id!r} has no cause_gone to judge a repair by")
        for target in problem.aliases.values():
            named, variant = _split(target)
            if named not in problem.tasks or not 1 <= variant <= len(problem.variants):
                raise ManifestError(f"{where}: alias target {target!r} is not one of its <task>-<n>")
        for n in range(1, len(problem.variants) + 1):
            try:
                self._task(problem, problem.tasks[0], n, f"{problem.id} variant {n}")
            except UnknownIdError as error:
                raise ManifestError(f"{where}: {error}") from None

    def _chart(self, app: App) -> Path:
        own = bundle_of(app.folder)
        for root in [own, *self.roots]:
            if (root / "helm" / app.chart / "Chart.yaml").is_file():
                return root / "helm" / app.chart
        raise ManifestError(f"{app.folder}: no bundle has the chart helm/{app.chart}; add it")

    # -- resolving

    def _task(self, problem: Problem, task: str, n: int, shown_id: str) -> ProblemTask:
        variant = problem.variants[n - 1]
        where = str(problem.folder / "problem.toml")
        app, workload = self.app(problem.app), self.workload(problem.workload)
        resolve(workload.params, problem.workload_params, where)
        fault = self.fault(problem.fault) if problem.fault else None
        params = resolve(fault.params, variant.params, where) if fault else dict(variant.params)
        values = {**params, "namespace": app.namespace}
        symptom = variant.symptom or problem.symptom
        if fault and symptom is None:
            raise ManifestError(f"{where}: a fault needs a [symptom] that shows that it has bitten")
        expected = _expected(fault, variant, values, where)
        return ProblemTask(
            id=shown_id,
            problem=problem,
            task=cast("Task", task),
            variant=n,
            app=app,
            workload=workload,
            fault=fault,
            params=params,
            expected=expected,
            symptom=_filled_symptom(symptom, values, where),
            solution=_solution(problem, values) if fault and task in _REPAIRS else [],
            answer=_answer(cast("Task", task), expected),
        )

    def _get(self, kind: str, shelf: Mapping[str, Any], wanted: str) -> Any:
        if wanted in shelf:
            return shelf[wanted]
        self._raise_broken(kind, wanted)
        raise UnknownIdError(kind, wanted, sorted(shelf))

    def _unknown_problem(self, wanted: str) -> Exception:
        for row in self.broken:
            if row.kind == "problem" and (wanted == row.id or wanted.startswith(f"{row.id}-")):
                return ManifestError(row.error)
        known = self.problem_ids()
        within = [i for i in known if i.startswith(f"{wanted}-")]
        aliases = [alias for problem in self.problems.values() for alias in problem.aliases]
        error = UnknownIdError("problem", wanted, [*known, *aliases])
        if within:
            error.suggestions = within[:3]
            error.args = (f"{wanted!r} is a problem, not one task of it. Choose {' or '.join(within[:3])}.",)
        return error

    def _raise_broken(self, kind: str, wanted: str) -> None:
        for row in self.broken:
            if (row.kind, row.id) == (kind, wanted):
                raise ManifestError(row.error)


def _split(text: str) -> tuple[str, int]:
    """``mitigation-2`` to its parts; anything else to a task that no problem has."""
    match = re.fullmatch(rf"({'|'.join(TASKS)})-([1-9][0-9]{{0,3}})", text)
    return (match[1], int(match[2])) if match else ("", 0)


def _expected(fault: Fault | None, variant: Variant, values: dict[str, Any], where: str) -> Expected:
    if fault is None:
        return Expected(
            anomaly=False,
            components=[],
            system_levels=[],
            fault_types=[],
            blast_radius=[],
            cause_gone=[],
        )
    target = [values[fault.target]] if fault.target in values else []
    components = fill(variant.components, values, where) or target
    return Expected(
        anomaly=True,
        components=components,
        system_levels=[fault.system_level, *fault.synonyms.system_level],
        fault_types=[fault.fault_type, *fault.synonyms.fault_type],
        blast_radius=fill(variant.blast_radius, values, where) or list(components),
        cause_gone=fill(msgspec.to_builtins(fault.cause_gone), values, str(fault.folder / "fault.toml")),
    )


def _filled_symptom(symptom: Any, values: dict[str, Any], where: str) -> Any:
    if symptom is None:
        return None
    return msgspec.structs.replace(symptom, expr=fill_text(symptom.expr, values, where).strip())


def _solution(problem: Problem, values: Mapping[str, Any]) -> list[str]:
    """The paragraphs of ``solution.sh`` as commands; parameters are exported in upper case first."""
    text = (problem.folder / problem.solution).read_text(encoding="utf-8")
    exports = " ".join(f"{name.upper()}={shlex.quote(str(value))}" for name, value in sorted(values.items()))
    commands = []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line for line in paragraph.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        if lines and not all(line.startswith("set -") for line in lines):
            commands.append(f"export {exports}\n" + "\n".join(lines))
    return commands


def _answer(task: Task, expected: Expected) -> dict[str, Any]:
    if not expected.anomaly:
        return {"detection": "No"}
    full = {
        "detection": "Yes",
        "localization": list(expected.components),
        "analysis": {"system_level": expected.system_levels[0], "fault_type": expected.fault_types[0]},
        "mitigation": None,
    }
    return {stage: full[stage] for stage in STAGES[task]}
