"""What the triage agent has seen: Kubernetes objects and telemetry, read out of the texts that actions
return.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

# What is asked about each object, field by field, as JSONPath.
WORKLOADS = (
    "{.kind}",
    "{.metadata.name}",
    "{.spec.replicas}",
    "{.status.readyReplicas}",
    "{.spec.selector.matchLabels}",
    "{.spec.template.spec.containers[*].ports[*].containerPort}",
    "{.spec.template.spec.containers[*].ports[*].name}",
)
SERVICES = ("{.metadata.name}", "{.spec.selector}", '{range .spec.ports[*]}{.port}{":"}{.targetPort}{" "}{end}')
PODS = (
    "{.metadata.name}",
    "{.status.phase}",
    "{.metadata.labels}",
    "{.status.containerStatuses[*].ready}",
    "{.status.containerStatuses[*].state.waiting.reason}",
    "{.status.containerStatuses[*].lastState.terminated.reason}",
)
SCALINGS = ("{.involvedObject.name}", "{.message}")
_SCALED_TO_ZERO = re.compile(r"Scaled down replica set \S+ (?:from (\d+) )?to 0")


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment, StatefulSet or DaemonSet. ``wanted`` and ``ready`` count pods."""

    kind: str
    name: str
    wanted: int
    ready: int
    labels: dict[str, str]
    ports: tuple[int, ...]
    port_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Service:
    """A Service; ``ports`` are ``(port, targetPort)`` in order."""

    name: str
    selector: dict[str, str]
    ports: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod; ``trouble`` is why it waits or last ended, if it is not ready."""

    name: str
    phase: str
    labels: dict[str, str]
    ready: bool
    trouble: str


@dataclass(frozen=True, slots=True)
class Edge:
    """Calls between two services: how many, how many failed, and the mean milliseconds that they spent on the
    way.
    """

    caller: str
    callee: str
    calls: int
    failed: int
    unanswered: int
    between_ms: float


@dataclass(frozen=True, slots=True)
class Load:
    """What one service does: server spans, how many failed, mean milliseconds in its own code."""

    service: str
    spans: int
    failed: int
    own_ms: float


@dataclass(slots=True)
class Facts:
    """All of it."""

    workloads: list[Workload] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    scaled_from: dict[str, int] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)

    def workload_of(self, labels: dict[str, str]) -> Workload | None:
        """The workload whose pods have ``labels``."""
        for workload in self.workloads:
            if labels and all(workload.labels.get(key) == value for key, value in labels.items()):
                return workload
        return None


def listing(resources: str, fields: Sequence[str], options: str) -> str:
    """A kubectl command that prints one line per object, its fields separated by bars."""
    line = '{"|"}'.join(fields)
    return f"kubectl get {resources} {options} -o jsonpath='{{range .items[*]}}{line}{{\"\\n\"}}{{end}}'"


def rows(text: str, columns: int) -> list[list[str]]:
    """Lines of ``columns`` fields separated by bars; others are left out."""
    split = [line.split("|") for line in text.splitlines()]
    return [row for row in split if len(row) == columns]


def read_workloads(text: str) -> list[Workload]:
    """The answer to ``WORKLOADS``."""
    return [
        Workload(
            kind,
            name,
            int(wanted) if wanted.isdigit() else int(ready or 0),
            int(ready or 0),
            _labels(labels),
            tuple(int(port) for port in ports.split() if port.isdigit()),
            tuple(names.split()),
        )
        for kind, name, wanted, ready, labels, ports, names in rows(text, 7)
    ]


def read_services(text: str) -> list[Service]:
    """The answer to ``SERVICES``."""
    found = []
    for name, selector, ports in rows(text, 3):
        pairs = [pair.partition(":") for pair in ports.split()]
        found.append(
            Service(name, _labels(selector), tuple((int(p), target) for p, _, target in pairs if p.isdigit()))
        )
    return found


def read_pods(text: str) -> list[Pod]:
    """The answer to ``PODS``."""
    found = []
    for name, phase, labels, ready, waiting, ended in rows(text, 6):
        is_ready = phase == "Succeeded" or (bool(ready) and "false" not in ready)
        trouble = "" if is_ready else (waiting or ended or phase)
        found.append(Pod(name, phase, _labels(labels), is_ready, trouble))
    return found


def read_scalings(text: str) -> dict[str, int]:
    """Replicas before the last scaling to zero, by workload, from the answer to ``SCALINGS``."""
    found: dict[str, int] = {}
    for name, message in rows(text, 2):
        scaled = _SCALED_TO_ZERO.search(message)
        if scaled:
            found[name] = max(1, int(scaled.group(1) or 1))
    return found


def read_edges(text: str) -> tuple[list[Edge], list[Load]]:
    """The answer of ``calls.SCRIPT``."""
    edges, loads = [], []
    for row in rows(text, 7):
        if row[0] == "edge":
            edges.append(Edge(row[1], row[2], int(row[3]), int(row[4]), int(row[5]), float(row[6])))
    for row in rows(text, 5):
        if row[0] == "load":
            loads.append(Load(row[1], int(row[2]), int(row[3]), float(row[4])))
    return edges, loads


def _labels(text: str) -> dict[str, str]:
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return {}
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}
