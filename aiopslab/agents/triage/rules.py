"""From facts to a diagnosis and a repair. Rules are tried from the most certain to the least."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from aiopslab.agents.triage.facts import Facts, Service, Workload

# Between services of one cluster a call spends about a millisecond on the way, and a request a few in a
# service's code.
SLOW_WAY_MS = 20.0
SLOW_CODE_MS = 400.0
FAILING_SHARE = 0.05
MIN_CALLS = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. ``certainty`` orders findings; ``repair`` are shell commands, maybe none."""

    component: str
    why: str
    system_level: str
    fault_type: str
    certainty: float
    repair: tuple[str, ...] = ()


def findings(facts: Facts, namespace: str) -> list[Finding]:
    """Everything that is wrong, most certain first."""
    found = [
        *_scaled_to_zero(facts, namespace),
        *_wrong_ports(facts, namespace),
        *_wrong_selectors(facts, namespace),
        *_sick_pods(facts, namespace),
    ]
    if not found:
        found = [*_slow_ways(facts), *_unanswered(facts), *_slow_code(facts), *_failing(facts)]
        found = [_with_restart(one, facts, namespace) for one in found]
    return sorted(found, key=lambda one: (-one.certainty, one.component))


def _scaled_to_zero(facts: Facts, namespace: str) -> Iterator[Finding]:
    for workload in facts.workloads:
        if workload.wanted or workload.kind == "DaemonSet":
            continue
        if any(facts.workload_of(service.selector) == workload for service in facts.services):
            replicas = facts.scaled_from.get(workload.name, 1)
            target = f"{workload.kind.lower()}/{workload.name} -n {namespace}"
            yield Finding(
                workload.name,
                "it is scaled to zero, and a Service relies on it",
                "Virtualization",
                "Operation Error",
                1.0,
                (
                    f"kubectl scale {target} --replicas={replicas}",
                    f"kubectl rollout status {target} --timeout=120s",
                ),
            )


def _wrong_ports(facts: Facts, namespace: str) -> Iterator[Finding]:
    for service in facts.services:
        workload = facts.workload_of(service.selector)
        if workload is None or not workload.ports:
            continue
        for index, (port, target) in enumerate(service.ports):
            right = target or str(port)
            known = int(right) in workload.ports if right.isdigit() else right in workload.port_names
            if not known:
                wanted = port if port in workload.ports else workload.ports[min(index, len(workload.ports) - 1)]
                change = [{"op": "replace", "path": f"/spec/ports/{index}/targetPort", "value": wanted}]
                yield Finding(
                    service.name,
                    f"its Service forwards to port {right}, which its container does not have",
                    "Virtualization",
                    "Misconfiguration",
                    0.95,
                    (f"kubectl patch service {service.name} -n {namespace} --type json -p '{json.dumps(change)}'",),
                )


def _wrong_selectors(facts: Facts, namespace: str) -> Iterator[Finding]:
    for service in facts.services:
        if (
            not service.selector
            or facts.workload_of(service.selector) is not None
            or _selects_a_pod(facts, service)
        ):
            continue
        workload = next((one for one in facts.workloads if one.name == service.name), None)
        if workload is not None:
            change = [{"op": "replace", "path": "/spec/selector", "value": workload.labels}]
            yield Finding(
                service.name,
                "its Service selects no pod",
                "Virtualization",
                "Misconfiguration",
                0.9,
                (f"kubectl patch service {service.name} -n {namespace} --type json -p '{json.dumps(change)}'",),
            )


def _selects_a_pod(facts: Facts, service: Service) -> bool:
    return any(all(pod.labels.get(k) == v for k, v in service.selector.items()) for pod in facts.pods)


def _sick_pods(facts: Facts, namespace: str) -> Iterator[Finding]:
    for workload in facts.workloads:
        if workload.ready >= workload.wanted:
            continue
        troubles = [pod.trouble for pod in facts.pods if _belongs(pod.labels, workload) and pod.trouble]
        trouble = troubles[0] if troubles else "no pods"
        target = f"{workload.kind.lower()}/{workload.name} -n {namespace}"
        kind = "Operation Error" if trouble in ("no pods", "Pending") else "Misconfiguration"
        yield Finding(
            workload.name,
            f"{workload.wanted - workload.ready} of its {workload.wanted} pods are not ready ({trouble})",
            "Virtualization",
            kind,
            0.8,
            (
                f"kubectl rollout undo {target} || kubectl rollout restart {target}",
                f"kubectl rollout status {target} --timeout=120s",
            ),
        )


def _belongs(labels: dict[str, str], workload: Workload) -> bool:
    return bool(workload.labels) and all(labels.get(key) == value for key, value in workload.labels.items())


def _slow_ways(facts: Facts) -> Iterator[Finding]:
    """The service at whose door most time is lost: what its calls share, in and out, is its own network."""
    slow = [
        edge for edge in facts.edges if edge.between_ms > SLOW_WAY_MS and edge.calls - edge.unanswered >= MIN_CALLS
    ]
    if not slow:
        return
    names = {name for edge in slow for name in (edge.caller, edge.callee)}

    def explained(name: str) -> tuple[float, float, str]:
        touching = [edge for edge in facts.edges if name in (edge.caller, edge.callee) and edge.calls >= MIN_CALLS]
        mine = [edge for edge in slow if name in (edge.caller, edge.callee)]
        share = len(mine) / max(1, len(touching))
        incoming = sum(edge.between_ms for edge in mine if edge.callee == name)
        return (len(mine) * share, incoming, name)

    worst = max(names, key=explained)
    mean = max(edge.between_ms for edge in slow if worst in (edge.caller, edge.callee))
    yield Finding(
        worst, f"calls to it spend {mean:.0f} ms on the way", "Virtualization", "Network/Storage Issue", 0.7
    )


def _unanswered(facts: Facts) -> Iterator[Finding]:
    lost: dict[str, int] = {}
    for edge in facts.edges:
        lost[edge.callee] = lost.get(edge.callee, 0) + edge.unanswered
    for name, count in lost.items():
        if count >= MIN_CALLS:
            yield Finding(
                name, f"{count} calls to it were not answered", "Virtualization", "Network/Storage Issue", 0.6
            )


def _slow_code(facts: Facts) -> Iterator[Finding]:
    for load in facts.loads:
        if load.own_ms > SLOW_CODE_MS and load.spans >= MIN_CALLS:
            yield Finding(
                load.service, f"requests spend {load.own_ms:.0f} ms in its code", "Application", "Code Defect", 0.5
            )


def _failing(facts: Facts) -> Iterator[Finding]:
    """Services that fail although nothing that they call does."""
    failing = {
        one.service for one in facts.loads if one.spans >= MIN_CALLS and one.failed / one.spans > FAILING_SHARE
    }
    for name in sorted(failing):
        called = {edge.callee for edge in facts.edges if edge.caller == name}
        if not called & failing:
            yield Finding(name, "its requests fail", "Application", "Code Defect", 0.4)


def _with_restart(finding: Finding, facts: Facts, namespace: str) -> Finding:
    workload = next((one for one in facts.workloads if one.name == finding.component), None)
    if workload is None:
        return finding
    target = f"{workload.kind.lower()}/{workload.name} -n {namespace}"
    repair = (f"kubectl rollout restart {target}", f"kubectl rollout status {target} --timeout=120s")
    return Finding(
        finding.component, finding.why, finding.system_level, finding.fault_type, finding.certainty, repair
    )
