"""The triage agent's rules over small namespaces, and a whole conversation."""

from __future__ import annotations

from typing import Any

import pytest

from aiopslab.agents.triage import TriageAgent
from aiopslab.agents.triage.facts import (
    Edge,
    Facts,
    Load,
    Pod,
    Service,
    Workload,
    read_edges,
    read_pods,
    read_scalings,
    read_services,
    read_workloads,
)
from aiopslab.agents.triage.rules import findings


def workload(name: str, **changes: Any) -> Workload:
    given: dict[str, Any] = {
        "kind": "Deployment",
        "name": name,
        "wanted": 1,
        "ready": 1,
        "labels": {"app": name},
        "ports": (8080,),
        "port_names": (),
    }
    return Workload(**{**given, **changes})


def service(name: str, target: str = "8080", **selector: str) -> Service:
    return Service(name, selector or {"app": name}, ((80, target),))


def shop(**changes: Any) -> Facts:
    facts = Facts(
        workloads=[workload("cart"), workload("front")],
        services=[service("cart"), service("front")],
        pods=[
            Pod("cart-1", "Running", {"app": "cart"}, True, ""),
            Pod("front-1", "Running", {"app": "front"}, True, ""),
        ],
        edges=[Edge("front", "cart", 100, 0, 0, 1.0)],
        loads=[Load("front", 100, 0, 5.0), Load("cart", 100, 0, 3.0)],
    )
    for name, value in changes.items():
        setattr(facts, name, value)
    return facts


CASES: list[tuple[str, Facts, tuple[str, str, str]]] = [
    (
        "scaled to zero",
        shop(workloads=[workload("cart", wanted=0, ready=0), workload("front")], scaled_from={"cart": 3}),
        ("cart", "Operation Error", "kubectl scale deployment/cart -n shop --replicas=3"),
    ),
    (
        "wrong port",
        shop(services=[service("cart", "9999"), service("front")]),
        ("cart", "Misconfiguration", '"path": "/spec/ports/0/targetPort", "value": 8080'),
    ),
    (
        "wrong named port",
        shop(
            workloads=[workload("cart", port_names=("grpc",)), workload("front")],
            services=[service("cart", "http"), service("front")],
        ),
        ("cart", "Misconfiguration", "targetPort"),
    ),
    (
        "wrong selector",
        shop(services=[service("cart", app="kart"), service("front")]),
        ("cart", "Misconfiguration", '"value": {"app": "cart"}'),
    ),
    (
        "crash loop",
        shop(
            workloads=[workload("cart", ready=0), workload("front")],
            pods=[Pod("cart-1", "Running", {"app": "cart"}, False, "CrashLoopBackOff")],
        ),
        ("cart", "Misconfiguration", "kubectl rollout undo deployment/cart -n shop"),
    ),
    (
        "slow way",
        shop(edges=[Edge("front", "cart", 100, 0, 0, 205.0), Edge("front", "ads", 100, 0, 0, 1.0)]),
        ("cart", "Network/Storage Issue", "kubectl rollout restart deployment/cart -n shop"),
    ),
    (
        "slow in and out",
        shop(
            workloads=[workload("check"), workload("front")],
            services=[],
            edges=[
                Edge("front", "check", 50, 0, 0, 200.0),
                Edge("check", "mail", 50, 0, 0, 200.0),
                Edge("check", "pay", 50, 0, 0, 200.0),
                Edge("front", "mail", 50, 0, 0, 1.0),
            ],
        ),
        ("check", "Network/Storage Issue", "restart"),
    ),
    (
        "no answers",
        shop(edges=[Edge("front", "cart", 100, 100, 100, 0.0)], loads=[Load("front", 100, 100, 5.0)]),
        ("cart", "Network/Storage Issue", "restart"),
    ),
    (
        "slow code",
        shop(loads=[Load("front", 100, 0, 5.0), Load("cart", 100, 0, 900.0)]),
        ("cart", "Code Defect", "restart"),
    ),
    (
        "failing code",
        shop(loads=[Load("front", 100, 40, 5.0), Load("cart", 100, 40, 3.0)]),
        ("cart", "Code Defect", "restart"),
    ),
]


@pytest.mark.parametrize(("facts", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_rule(facts: Facts, expected: tuple[str, str, str]) -> None:
    first = findings(facts, "shop")[0]
    component, fault_type, repair = expected
    assert (first.component, first.fault_type) == (component, fault_type)
    assert repair in first.repair[0]


def test_a_healthy_shop_has_no_findings() -> None:
    assert findings(shop(), "shop") == []


def test_a_few_failures_are_no_finding() -> None:
    assert (
        findings(shop(loads=[Load("front", 100, 2, 5.0)], edges=[Edge("front", "cart", 9, 9, 9, 0.0)]), "shop")
        == []
    )


def test_listings_are_read() -> None:
    assert read_workloads('Deployment|cart|1||{"app":"cart"}|8080 9090|grpc\n[exit code 0]') == [
        workload("cart", ready=0, ports=(8080, 9090), port_names=("grpc",))
    ]
    assert read_services('cart|{"app":"cart"}|80:8080 81:http \nold||80: ') == [
        Service("cart", {"app": "cart"}, ((80, "8080"), (81, "http"))),
        Service("old", {}, ((80, ""),)),
    ]
    assert read_pods('a|Running|{"app":"a"}|true||\nb|Running||false|CrashLoopBackOff|Error') == [
        Pod("a", "Running", {"app": "a"}, True, ""),
        Pod("b", "Running", {}, False, "CrashLoopBackOff"),
    ]
    assert read_scalings("cart|Scaled down replica set cart-5f from 3 to 0\nweb|Scaled up replica set w to 1") == {
        "cart": 3
    }
    assert read_edges("edge|a|b|3|1|1|2.5\nload|a|3|0|1.25\nnoise") == (
        [Edge("a", "b", 3, 1, 1, 2.5)],
        [Load("a", 3, 0, 1.25)],
    )


HEALTHY = {
    "deployments,statefulsets": 'Deployment|cart|1|1|{"app":"cart"}|8080|',
    "get services": 'cart|{"app":"cart"}|80:8080 ',
    "get pods -n": 'cart-1|Running|{"app":"cart"}|true||',
}
BROKEN = {**HEALTHY, "get services": 'cart|{"app":"cart"}|80:9999 '}


async def converse(world: dict[str, str], submit: str) -> list[str]:
    agent, state, said = TriageAgent(), "Please take the next action", []
    agent.init_context("runs in the namespace shop.", "", {"submit": submit})
    for _ in range(60):
        reply = await agent.get_action(state)
        call = reply.split("```")[1].strip()
        said.append(call)
        if "patch service" in call:
            world = HEALTHY
        state = next((text for part, text in world.items() if part in call), "(no output)") + "\n[exit code 0]"
        if call in ('submit("mitigation")', 'submit("detection", "No")', "submit()") or (
            call.startswith("submit") and "stage" not in submit
        ):
            return said
    return said


@pytest.mark.parametrize(
    ("submit", "world", "calls"),
    [
        ("submit(has_anomaly: str)", BROKEN, ['submit("Yes")']),
        ("submit(has_anomaly: str)", HEALTHY, ['submit("No")']),
        ("submit(faulty_components: list[str])", BROKEN, ["submit(['cart'])"]),
        ("submit(faulty_components: list[str])", HEALTHY, ["submit([])"]),
        (
            "submit(analysis: dict)",
            BROKEN,
            ["submit({'system_level': 'Virtualization', 'fault_type': 'Misconfiguration'})"],
        ),
        ("submit(analysis: dict)", HEALTHY, ["submit()"]),
        ("submit()", BROKEN, ["submit()"]),
        ("submit(stage: str, answer: Any = None)", HEALTHY, ['submit("detection", "No")']),
    ],
)
async def test_every_task_is_answered_in_its_form(submit: str, world: dict[str, str], calls: list[str]) -> None:
    said = await converse(world, submit)
    assert [call for call in said if call.startswith("submit")] == calls
    assert any("kubectl patch service cart" in call for call in said) == (submit == "submit()")


async def test_an_incident_is_diagnosed_repaired_and_checked() -> None:
    said = await converse(BROKEN, "submit(stage: str, answer: Any = None)")
    stages = [call.split('"')[1] for call in said if call.startswith("submit")]
    assert stages == ["detection", "localization", "analysis", "mitigation"]
    patched = next(index for index, call in enumerate(said) if "kubectl patch service" in call)
    assert said.index("wait(90)") == patched + 1
    assert said[-2].startswith("get_traces")  # looked again before it said that all is well
