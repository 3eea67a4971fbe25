"""Answers are unreachable: nothing that an agent can look at holds the fault, the lab or the problem's name."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Generator
from typing import Any

import pytest

PROBLEM = "hipster-network-delay-localization-1"
FORBIDDEN = {
    "namespaces": "kubectl get namespaces",
    "another namespace": "kubectl get pods -n lab-system",
    "system pods": "kubectl get pods -n kube-system",
    "chaos pods": "kubectl get all -n chaos-mesh",
    "custom resource definitions": "kubectl get crds",
    "events everywhere": "kubectl get events -A",
    "cluster roles": "kubectl get clusterroles",
    "growing its role": "kubectl patch role oncall -n hipster-shop --type json -p '[]'",
    "another token": "kubectl create token default -n kube-system",
    "somebody else": "kubectl get pods -n hipster-shop --as system:admin",
    "node proxy": "kubectl get --raw /api/v1/nodes/worker-1/proxy/pods",
}
ABSENT = {
    "kind": "kubectl get networkchaos -n hipster-shop",
    "kind elsewhere": "kubectl get networkchaos.chaos-mesh.org -A",
    "explain": "kubectl explain networkchaos",
    "raw group": "kubectl get --raw /apis/chaos-mesh.org/v1alpha1",
}
RAW = "kubectl get --raw /apis/{}/v1alpha1/namespaces/chaos-mesh/networkchaos 2>&1"
SILENT = {  # must print nothing
    # The group answers as one that nobody installed.
    "raw object": f"diff <({RAW.format('chaos-mesh.org')}) <({RAW.format('no.org')} | sed s/no.org/chaos-mesh.org/g)",
    "groups": "(kubectl get --raw /apis; kubectl api-resources; kubectl api-versions) | grep -i chaos",
    "specification": "(kubectl get --raw /openapi/v2; kubectl get --raw /openapi/v3) | grep -i -o '.\\{9\\}chaos'",
    "project": "find / -xdev 2>/dev/null | grep -E '/(problem.toml|fault.py|sim.toml|aiopslab[^/]*)$'",
    "records": "find / -xdev \\( -name record.json -o -name journal.json -o -name control.sock \\) 2>/dev/null",
    "processes": "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'aiops[l]ab'",
    "environment": "env | grep -i -E 'aiops[l]ab|hipster-net|netw[o]rk-delay|problem|seed'",
    "network": "timeout 5 bash -c 'exec 3<>/dev/tcp/1.1.1.1/53' 2>/dev/null && echo reached",
    "names": "getent hosts example.com",
    "other ports": "for p in $(seq 8001 8200); do (exec 3<>/dev/tcp/127.0.0.1/$p) 2>/dev/null && echo $p; done",
    "telemetry": "cd /tmp; P=$PROMETHEUS_URL/api/v1; "
    "for l in __name__ namespace pod container; do curl -s $P/label/$l/values; done | "
    "cat - <(curl -s $P/targets) <(curl -s $JAEGER_URL/api/services) "
    "| grep -i -o -E '.{20}(chaos|lab-system|locust|loadgen|inject).{20}'",
}
HINT = re.compile(
    r"chaos|inject|network-delay|netem|hipster-network|aiopslab|lab-system|locust|\bfault", re.IGNORECASE
)
KINDS = (
    "pods,services,configmaps,secrets,endpoints,endpointslices,events,serviceaccounts,persistentvolumeclaims,"
    "deployments,replicasets,statefulsets,daemonsets,jobs,cronjobs,horizontalpodautoscalers,networkpolicies,"
    "ingresses,poddisruptionbudgets,resourcequotas,limitranges,controllerrevisions"
)


def without_the_agents_own(objects: list[dict[str, Any]]) -> str:
    """The objects as text, without the CA certificates and Helm's packed release."""
    for item in objects:
        if item["kind"] in ("Secret", "ConfigMap"):
            item.pop("data", None)
    return json.dumps(objects)


@pytest.mark.slow
async def test_an_agent_cannot_find_the_answer(play: Callable[..., Any], scripted: Any) -> None:
    answers: dict[str, str] = {}
    pages: dict[str, str] = {}

    def snoop() -> Generator[str, str, None]:
        for name, command in {**FORBIDDEN, **ABSENT, **SILENT}.items():
            answers[name] = yield f"exec_shell({command!r}, timeout=60)"
        kinds = f"{KINDS},nodes,persistentvolumes,storageclasses"
        yield f"exec_shell('kubectl get {kinds} -n hipster-shop -o json > all.json')"
        listed = yield "exec_shell('date; split -b 9000 -d -a 3 all.json part.; ls part.* | wc -l')"
        for number in range(int(listed.splitlines()[1])):
            pages[f"{number:03}"] = yield f"exec_shell('base64 -w0 part.{number:03} | head -c 16000')"

    played = await play(PROBLEM, scripted(snoop, end="submit([])"), max_steps=400, think_time_s=0.0)
    assert played.record.outcome == "submitted", played.why
    assert played.record.injection.symptom_after_s is not None
    for name in FORBIDDEN:
        assert "orbidden" in answers[name] and "[exit code 0]" not in answers[name], (name, answers[name])
    for name in ABSENT:
        said = ("the server doesn't have a resource type", "could not find the requested resource", "NotFound")
        assert any(text in answers[name] for text in said), (name, answers[name])
    for name in SILENT:
        assert answers[name].startswith("(no output)"), (name, answers[name])
    objects = json.loads(_joined(pages))["items"]
    assert len(objects) > 50
    found = {match[0] for match in HINT.finditer(without_the_agents_own(objects))}
    assert found == set()
    asked = (played.folder / "audit.jsonl").read_text()
    assert '"path":"/api/v1/namespaces?limit=500","code":403' in asked  # what it tried is on record


def _joined(pages: dict[str, str]) -> str:
    return b"".join(base64.b64decode(pages[key].splitlines()[0]) for key in sorted(pages)).decode()
