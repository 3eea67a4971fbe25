"""A rule-based on-call agent: really looks, concludes from what it saw, repairs, and checks its repair.

It knows Kubernetes and nothing about any problem or application; it is the yardstick for agents with a model.
"""

from __future__ import annotations

import re
from collections.abc import Generator

from aiopslab.agents.triage import facts as reading
from aiopslab.agents.triage.calls import SCRIPT
from aiopslab.agents.triage.facts import Facts, listing
from aiopslab.agents.triage.rules import Finding, findings

WINDOW_MIN = 2
SETTLE_S = 90
MAX_REPAIRS = 3

Script = Generator[str, str, None]  # yields actions, is sent observations
Look = Generator[str, str, Facts]


class TriageAgent:
    """Plays one script; each ``get_action`` is one step of it."""

    def __init__(self) -> None:
        self.briefed = False
        self._namespace, self._submit = "default", "submit()"
        self._script: Script | None = None

    def init_context(self, problem_desc: str, instructions: str, apis: dict[str, str]) -> None:
        """Learn the namespace and the form of ``submit`` from what every agent is told."""
        self.briefed = True
        named = re.search(r"\bnamespace\s+[\"'`]?([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)", problem_desc)
        if named:
            self._namespace = named.group(1)
        self._submit = apis.get("submit", "submit()").split("\n", 1)[0]

    async def get_action(self, state: str) -> str:
        """The next action; once the script is over, the last submission again."""
        if self._script is None:
            self._script = self._play()
            action = next(self._script)
        else:
            try:
                action = self._script.send(state)
            except StopIteration:
                action = self._closing()
        return f"Action:\n```\n{action}\n```"

    def _play(self) -> Script:
        facts = yield from self._look()
        found = findings(facts, self._namespace)
        if "stage" in self._submit:
            yield from self._handle(found)
        elif "has_anomaly" in self._submit:
            yield f'submit("{"Yes" if found else "No"}")'
        elif "faulty_components" in self._submit:
            yield f"submit({_components(found)!r})"
        elif "analysis" in self._submit:
            yield f"submit({_analysis(found)!r})" if found else "submit()"
        else:
            yield from self._repair(found)
            yield "submit()"

    def _handle(self, found: list[Finding]) -> Script:
        if not found:
            yield 'submit("detection", "No")'
            return
        yield 'submit("detection", "Yes")'
        yield f'submit("localization", {_components(found)!r})'
        yield f'submit("analysis", {_analysis(found)!r})'
        yield from self._repair(found)
        yield 'submit("mitigation")'

    def _closing(self) -> str:
        return 'submit("mitigation")' if "stage" in self._submit else "submit()"

    def _look(self) -> Look:
        """Kubernetes first, then what users and services see."""
        facts, here = Facts(), f"-n {self._namespace}"
        yield _shell(f"kubectl get pods,deployments,services {here} -o wide")
        text = yield _shell(listing("deployments,statefulsets,daemonsets", reading.WORKLOADS, here))
        facts.workloads = reading.read_workloads(text)
        text = yield _shell(listing("services", reading.SERVICES, here))
        facts.services = reading.read_services(text)
        text = yield _shell(listing("pods", reading.PODS, here))
        facts.pods = reading.read_pods(text)
        yield _shell(
            f"kubectl get events {here} --field-selector type=Warning --sort-by=.lastTimestamp | tail -n 20"
        )
        text = yield _shell(
            listing("events", reading.SCALINGS, f"{here} --field-selector reason=ScalingReplicaSet")
        )
        facts.scaled_from = reading.read_scalings(text)
        yield f'get_metrics("{self._namespace}", {WINDOW_MIN})'
        text = yield f'get_traces("{self._namespace}", {WINDOW_MIN})'
        path = re.search(r"exported to: (\S+)", text)
        if path:
            names = " ".join(sorted({s.name for s in facts.services} | {w.name for w in facts.workloads}))
            text = yield _shell(SCRIPT.format(path=path.group(1), services=names), timeout=60)
            facts.edges, facts.loads = reading.read_edges(text)
        found = findings(facts, self._namespace)
        if found:
            yield f'get_logs("{self._namespace}", "{found[0].component}")'
        return facts

    def _repair(self, found: list[Finding]) -> Script:
        """Repair the most certain finding, see whether it is gone, go on with what is left."""
        for _ in range(MAX_REPAIRS):
            if not found or not found[0].repair:
                return
            for command in found[0].repair:
                yield _shell(command, timeout=180)
            yield f"wait({SETTLE_S})"
            tried = found[0]
            found = findings((yield from self._look()), self._namespace)
            if found and found[0].component == tried.component and found[0].why == tried.why:
                found = found[1:]


def _shell(command: str, timeout: int = 30) -> str:
    return f"exec_shell({command!r}, timeout={timeout})"


def _components(found: list[Finding]) -> list[str]:
    return list(dict.fromkeys(one.component for one in found))[:3]


def _analysis(found: list[Finding]) -> dict[str, str]:
    return {"system_level": found[0].system_level, "fault_type": found[0].fault_type}
