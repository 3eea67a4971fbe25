"""What a manifest says, as typed records. Folders are read by ``catalog.bundles``; nothing here runs content.

    app.toml       App        what to install, where, and what its users are promised
    fault.toml     Fault      what can be broken, its right diagnosis, and when its cause is gone
    workload.toml  Workload   Kubernetes manifests that send traffic
    problem.toml   Problem    a fault in an app under a workload, with the right answers

``id`` is the folder's name and ``folder`` its path; both are set by the loader, never by the file.
Text in double braces, ``{{name}}``, is replaced by parameters (see ``catalog.templates``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from aiopslab.record import Expected, Slo

Task = Literal["detection", "localization", "analysis", "mitigation", "incident"]
TASKS: tuple[Task, ...] = ("detection", "localization", "analysis", "mitigation", "incident")
ParamType = Literal["string", "integer", "number", "boolean"]


class Manifest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What every manifest has. ``id`` and ``folder`` come from where it was found."""

    title: str
    id: str = ""
    folder: Path = Path()
    description: str = ""


class Param(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One parameter of a fault or workload. Without ``default`` it must be given."""

    type: ParamType = "string"
    help: str = ""
    default: str | int | float | bool | None = None
    minimum: float | None = None
    maximum: float | None = None
    choices: list[str] = msgspec.field(default_factory=list)


class Entry(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The Service that users talk to, in the app's namespace."""

    service: str
    port: int = 80


class App(Manifest):
    """An application: a chart of a bundle's ``helm/`` folder and the objectives of its users.

    ``services`` are the workload names that answers may use. ``chart_path`` is found by the loader.
    """

    chart: str
    release: str
    namespace: str
    entry: Entry
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    ready_timeout_s: float = 300.0
    slos: list[Slo] = msgspec.field(default_factory=list)
    services: list[str] = msgspec.field(default_factory=list)
    chart_path: Path = Path()


class Condition(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A statement about one object at the end of a run; ``path`` is dotted, list items by number."""

    resource: str
    name: str
    path: str = ""
    op: Literal["equals", "not_equals", "exists", "absent", "at_least"]
    value: Any = None


class Synonyms(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Other wordings of the diagnosis that count as right."""

    system_level: list[str] = msgspec.field(default_factory=list)
    fault_type: list[str] = msgspec.field(default_factory=list)


class Fault(Manifest, rename={"class_ref": "class"}):
    """Something that breaks an app. ``class_ref`` names the code: ``fault.py:ClassName``.

    ``touches`` are the objects it changes, ``resource/namespace/name``, templated with the parameters and
    ``namespace``, ``chaos_namespace`` and ``object_name``; ``requires`` the API versions that the cluster must
    serve; ``target`` the parameter that names the broken workload.
    """

    class_ref: str
    system_level: str
    fault_type: str
    target: str = "service"
    synonyms: Synonyms = msgspec.field(default_factory=Synonyms)
    params: dict[str, Param] = msgspec.field(default_factory=dict)
    touches: list[str] = msgspec.field(default_factory=list)
    requires: list[str] = msgspec.field(default_factory=list)
    cause_gone: list[Condition] = msgspec.field(default_factory=list)
    inject_timeout_s: float = 120.0


class Workload(Manifest):
    """Traffic: Kubernetes manifests (files beside the manifest) applied to ``namespace``.

    ``kind`` says how it paces itself: ``closed-loop`` users wait for answers, ``constant-rate`` does not,
    ``open-loop`` does not either and changes its rate.
    """

    kind: Literal["closed-loop", "constant-rate", "open-loop"]
    manifests: list[str]
    namespace: str = "lab-system"
    params: dict[str, Param] = msgspec.field(default_factory=dict)
    ready_timeout_s: float = 180.0


class Symptom(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The fault has bitten when ``expr`` (PromQL, one sample) ``op`` ``threshold`` within ``budget_s``."""

    expr: str
    op: Literal["<", "<=", ">", ">="]
    threshold: float
    budget_s: float = 300.0


class Variant(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One instance of a problem: parameters of the fault and the answers that follow from them."""

    params: dict[str, Any] = msgspec.field(default_factory=dict)
    components: list[str] = msgspec.field(default_factory=list)
    blast_radius: list[str] = msgspec.field(default_factory=list)
    symptom: Symptom | None = None


class Problem(Manifest):
    """A fault (or none) in an app under a workload. ``aliases`` map other ids to ``<task>-<n>``."""

    app: str
    workload: str
    tasks: list[Task]
    fault: str | None = None
    variants: list[Variant] = msgspec.field(default_factory=lambda: [Variant()])
    symptom: Symptom | None = None
    workload_params: dict[str, Any] = msgspec.field(default_factory=dict)
    solution: str = "solution.sh"
    aliases: dict[str, str] = msgspec.field(default_factory=dict)

    def task_ids(self) -> list[str]:
        """Every id of this problem, by task, then by variant (counted from 1)."""
        numbers = range(1, len(self.variants) + 1)
        return [f"{self.id}-{task}-{n}" for task in self.tasks for n in numbers]


class Broken(msgspec.Struct, kw_only=True, frozen=True):
    """A folder that cannot be used, kept so that ``list`` can show it. ``error`` is one line."""

    kind: str  # app | fault | workload | problem
    id: str
    folder: Path
    error: str


class ProblemTask(msgspec.Struct, kw_only=True):
    """One runnable task: a problem's variant with every parameter filled in.

    ``solution`` are shell commands for the agent's shell (only for tasks that repair). ``answer`` maps
    each stage of the task to the right submission.
    """

    id: str
    problem: Problem
    task: Task
    variant: int
    app: App
    workload: Workload
    fault: Fault | None
    params: dict[str, Any]
    expected: Expected
    symptom: Symptom | None
    solution: list[str]
    answer: dict[str, Any]
