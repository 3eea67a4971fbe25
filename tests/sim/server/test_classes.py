"""RuntimeClasses and default IngressClasses change what is created."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"
GVISOR = {
    "metadata": {"name": "gvisor"},
    "handler": "runsc",
    "overhead": {"podFixed": {"memory": "64Mi"}},
    "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]},
}


async def test_a_class_adds_overhead_selector_and_tolerations(client, make):
    assert (await client("POST", RUNTIMES, GVISOR))[0] == 201
    pod = make.pod(runtimeClassName="gvisor", nodeSelector={"disk": "ssd"})
    code, made, _ = await client("POST", PODS, pod)
    assert (code, made["spec"]["overhead"]) == (201, {"memory": "64Mi"})
    assert made["spec"]["nodeSelector"] == {"disk": "ssd", "sandbox": "yes"}
    assert made["spec"]["tolerations"][-1] == {"key": "sandbox", "operator": "Exists"}


REFUSED = [
    ({"runtimeClassName": "kata"}, 'pod rejected: RuntimeClass "kata" not found'),
    ({"overhead": {"cpu": "1"}}, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"),
    ({"runtimeClassName": "gvisor", "overhead": {"memory": "1Mi"}},
     "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
    ({"runtimeClassName": "gvisor", "nodeSelector": {"sandbox": "no"}},
     "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes; pod.spec.nodeSelector[sandbox] = no"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "why"), REFUSED)
async def test_refused_pods(client, make, spec, why):
    await client("POST", RUNTIMES, GVISOR)
    code, status, _ = await client("POST", PODS, make.pod(**spec))
    assert (code, status["message"]) == (403, f'pods "p" is forbidden: {why}')


async def test_the_handler_is_a_name_and_stays(client):
    code, status, _ = await client("POST", RUNTIMES, {"metadata": {"name": "x"}, "handler": "Run_C"})
    assert code == 422
    invalid = 'RuntimeClass.node.k8s.io "x" is invalid: handler: Invalid value: "Run_C": a lowercase RFC 1123 label'
    assert status["message"].startswith(invalid)
    await client("POST", RUNTIMES, GVISOR)
    code, status, _ = await client("PUT", f"{RUNTIMES}/gvisor", {**GVISOR, "handler": "runc"})
    assert (code, status["message"]) == (
        422, 'RuntimeClass.node.k8s.io "gvisor" is invalid: handler: Invalid value: "runc": field is immutable',
    )  # fmt: skip


def ingress(name: str, **spec: Any) -> dict[str, Any]:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    return {"metadata": {"name": name}, "spec": {"defaultBackend": backend, **spec}}


async def test_the_default_ingress_class(client):
    marked = {"ingressclass.kubernetes.io/is-default-class": "true"}
    body = {"metadata": {"name": "nginx", "annotations": marked}, "spec": {"controller": "k8s.io/ingress-nginx"}}
    assert (await client("POST", CLASSES, body))[0] == 201
    assert (await client("POST", INGRESSES, ingress("a")))[1]["spec"]["ingressClassName"] == "nginx"
    own = await client("POST", INGRESSES, ingress("b", ingressClassName="other"))
    assert own[1]["spec"]["ingressClassName"] == "other"
