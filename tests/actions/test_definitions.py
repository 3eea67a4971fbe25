"""The actions over fakes of Kubernetes, Prometheus and Jaeger, and a real shell."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest

from aiopslab.actions.definitions import Actions, Outcome
from aiopslab.actions.lab import Lab
from aiopslab.actions.parser import ParsedAction, parse
from aiopslab.actions.shell import Shell
from aiopslab.kube.errors import KubeError
from aiopslab.telemetry.jaeger import Span
from aiopslab.telemetry.prometheus import Series

NOW = 1748854800.0


def pod(name: str, app: str, restarts: int = 0) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "server"}]},
        "status": {"containerStatuses": [{"name": "server", "restartCount": restarts}]},
    }


class Kube:
    """A namespace ``shop`` with a few objects."""

    def __init__(self) -> None:
        self.objects: dict[str, list[dict[str, Any]]] = {
            "pods": [pod("cart-1", "cart"), pod("cart-2", "cart", restarts=2), pod("front-1", "front")],
            "services": [
                {"metadata": {"name": "cart"}, "spec": {"selector": {"app": "cart"}}},
                {"metadata": {"name": "idle"}, "spec": {"selector": {"app": "nobody"}}},
            ],
            "apps/deployments": [
                {"metadata": {"name": "front"}, "spec": {"selector": {"matchLabels": {"app": "front"}}}}
            ],
        }
        self.error: KubeError | None = None

    async def list(self, resource: str, namespace: str | None = None, **_: Any) -> list[dict[str, Any]]:
        if self.error is not None:
            raise self.error
        if namespace != "shop":
            raise KubeError(403, "Forbidden", f'pods is forbidden in the namespace "{namespace}"')
        return self.objects.get(resource, [])

    async def logs(self, namespace: str, name: str, **options: Any) -> str:
        if name == "front-1":
            raise KubeError(400, "BadRequest", "container is waiting to start")
        return f"{name} said {'before ' if options['previous'] else ''}hello\n"


class Metrics:
    async def query_range(self, expr: str, start: float, end: float, step_s: float) -> list[Series]:
        if "service_name" in expr:
            late = 0.5 if "ERROR" in expr else 80.0
            return [Series({"service_name": "cart"}, [(start, 0.0)] * 4 + [(end, late)] * 4)]
        if expr.startswith("container_memory_rss"):
            return [Series({"node": "n1", "pod": "cart-1", "container": "server"}, [(end, 5e6)])]
        return []


class Traces:
    async def services(self) -> list[str]:
        return ["cart", "elsewhere", "front"]

    async def traces(self, service: str, start: float, end: float, **_: Any) -> list[list[Span]]:
        def span(number: str, parent: str, of: str, error: bool) -> Span:
            return Span(
                trace_id="t1",
                span_id=number,
                parent_id=parent,
                service=of,
                operation=f"{of}.Do",
                kind="server",
                start_us=int(end * 1e6) + int(number),
                duration_us=2000,
                error=error,
                status_message="",
                tags={"http.status_code": 500} if error else {},
                process={},
            )

        return [[span("1", "", "front", True), span("2", "1", "cart", False)]]


@pytest.fixture
def kube() -> Kube:
    return Kube()


@pytest.fixture
def actions(cluster: Any, shell: Shell, kube: Kube) -> Actions:
    return Actions(Lab(cluster, kube, shell, Metrics(), Traces(), "shop", ("cart", "front")), "incident")


async def act(actions: Actions, call: str) -> Outcome:
    parsed = parse(f"```\n{call}\n```", actions.specs)
    assert isinstance(parsed, ParsedAction), parsed
    return await actions.perform(parsed)


@pytest.mark.parametrize("service", ["cart", "deploy/cart", "svc/cart", " cart "])
async def test_logs_of_a_service_are_those_of_all_its_pods(actions: Actions, service: str) -> None:
    text = (await act(actions, f'get_logs("shop", "{service}")')).observation
    assert "cart-1 said hello" in text
    assert "cart-2 said hello" in text
    assert "cart-2 said before hello" in text  # it restarted
    assert "cart-1 said before" not in text


async def test_logs_of_a_pod_are_its_own(actions: Actions) -> None:
    text = (await act(actions, 'get_logs("shop", "pod/cart-1")')).observation
    assert "cart-1 said hello" in text
    assert "cart-2" not in text


async def test_a_container_without_logs_says_why(actions: Actions) -> None:
    assert "(container is waiting to start)" in (await act(actions, 'get_logs("shop", "front")')).observation


async def test_a_service_without_pods_is_no_error(actions: Actions) -> None:
    outcome = await act(actions, 'get_logs("shop", "idle")')
    assert outcome.valid
    assert "has no pods" in outcome.observation


@pytest.mark.parametrize("service", ["Online Boutique", "all", ""])
async def test_an_unknown_service_is_answered_with_the_names(actions: Actions, service: str) -> None:
    outcome = await act(actions, f'get_logs("shop", "{service}")')
    assert not outcome.valid
    assert "Services in shop: cart, front, idle." in outcome.observation


async def test_a_near_miss_is_named(actions: Actions) -> None:
    assert "Did you mean cart?" in (await act(actions, 'get_logs("shop", "carts")')).observation


async def test_swapped_arguments_are_noticed(actions: Actions) -> None:
    outcome = await act(actions, 'get_logs("cart", "shop")')
    assert not outcome.valid
    assert "namespace 'cart' does not exist or is not yours; yours is 'shop'" in outcome.observation


async def test_an_api_server_that_is_gone_is_the_labs_failure(actions: Actions, kube: Kube) -> None:
    kube.error = KubeError(0, "Unreachable", "the API server does not answer")
    with pytest.raises(KubeError):
        await act(actions, 'get_logs("shop", "cart")')


async def test_metrics_are_files_that_both_actions_and_shell_can_read(actions: Actions, shell: Shell) -> None:
    text = (await act(actions, 'get_metrics("shop", 10)')).observation
    folder = re.search(r"exported to (\S+):", text)
    assert folder is not None
    path = f"{folder.group(1)}/container/kpi_container_memory_rss.csv"
    assert "kpi_container_memory_rss.csv" in text
    content = (await act(actions, f'read_metrics("{path}")')).observation
    assert (
        content == "timestamp,cmdb_id,kpi_name,value\n1748854800,n1.cart-1.server,kpi_container_memory_rss,5e+06\n"
    )
    assert (await shell.run(f"cat {path}")).output == content
    assert re.search(r"^cart +0 -> 80 +0 -> 50 +0 -> 80$", text, re.MULTILINE)


async def test_a_guessed_file_is_answered_with_those_that_exist(actions: Actions) -> None:
    await act(actions, 'get_metrics("shop")')
    outcome = await act(actions, 'read_metrics("/home/oncall/metrics/cpu.csv")')
    assert not outcome.valid
    assert (
        "/home/oncall/metrics/metric_20250602_090000/container/kpi_container_memory_rss.csv" in outcome.observation
    )
    listing = await act(actions, 'read_metrics("/home/oncall/metrics")')
    assert "is a folder" in listing.observation


@pytest.mark.parametrize("path", ["/etc/passwd", "../../etc/passwd", "/home/oncall/../x", "\\0", ""])
async def test_only_the_agents_own_files_are_read(actions: Actions, path: str) -> None:
    outcome = await act(actions, f'read_traces("{path}")')
    assert "root:" not in outcome.observation


async def test_traces_are_one_file_with_a_summary(actions: Actions) -> None:
    text = (await act(actions, 'get_traces("shop")')).observation
    path = re.search(r"exported to: (\S+)", text)
    assert path is not None
    content = (await act(actions, f'read_traces("{path.group(1)}")')).observation
    rows = list(csv.DictReader(io.StringIO(content)))
    assert [row["parent_span"] for row in rows] == ["ROOT", "1"]
    assert [row["response"] for row in rows] == ["500", "Unknown"]
    assert "1 traces with 2 spans" in text
    assert re.search(r"^front +server +front.Do +1 +1 +2.0 +2.0$", text, re.MULTILINE)


async def test_a_foreign_namespace_has_no_telemetry(actions: Actions) -> None:
    assert "No traces of namespace other" in (await act(actions, 'get_traces("other")')).observation


async def test_the_shell_says_its_exit_code(actions: Actions) -> None:
    assert (await act(actions, 'exec_shell("echo a | grep b")')).observation == "(no output)\n[exit code 1]"
    assert (await act(actions, 'exec_shell("printf a")')).observation == "a\n[exit code 0]"
    stopped = await act(actions, 'exec_shell("echo a; sleep 99", timeout=5)')
    assert stopped.observation.startswith("a\n[stopped after 5 s")
    assert stopped.valid


async def test_an_action_typed_into_the_shell_is_pointed_out(actions: Actions) -> None:
    outcome = await act(actions, "exec_shell(\"get_logs('shop', 'cart')\")")
    assert not outcome.valid
    assert "get_logs is an action, not a command" in outcome.observation


async def test_waiting_moves_the_clock(actions: Actions, cluster: Any) -> None:
    outcome = await act(actions, "wait(90)")
    assert outcome.observation == "90 s have passed. It is 2025-06-02T09:01:30Z."
    assert cluster.clock.at == NOW + 90


async def test_an_incident_takes_its_stages(actions: Actions) -> None:
    first = await act(actions, 'submit("detection", "yes")')
    assert first.submitted is not None
    assert (first.submitted.stage, first.submitted.value, first.submitted.ends) == ("detection", "Yes", False)
    last = await act(actions, 'submit("mitigation")')
    assert last.submitted is not None
    assert last.submitted.ends


@pytest.mark.parametrize(
    ("task", "call", "value"),
    [
        ("detection", 'submit(has_anomaly="Yes")', "Yes"),
        ("localization", 'submit(faulty_components=["cart"])', ["cart"]),
        ("analysis", "submit()", {}),
        ("mitigation", "submit()", None),
        ("mitigation", 'submit("all good")', None),
    ],
)
async def test_keyword_answers_count(
    cluster: Any, shell: Shell, kube: Kube, task: str, call: str, value: Any
) -> None:
    actions = Actions(Lab(cluster, kube, shell, Metrics(), Traces(), "shop", ("cart",)), task)
    outcome = await act(actions, call)
    assert outcome.submitted is not None
    assert (outcome.submitted.stage, outcome.submitted.value, outcome.submitted.ends) == (task, value, True)


def test_the_documentation_is_complete_and_its_examples_parse(actions: Actions) -> None:
    assert list(actions.apis) == [
        *("get_logs", "get_metrics", "get_traces", "read_metrics", "read_traces", "exec_shell", "wait", "submit"),
    ]
    for name, doc in actions.apis.items():
        assert doc.startswith(f"{name}(")
        example = doc.rpartition("Example: ")[2]
        parsed = parse(f"```\n{example}\n```", actions.specs)
        assert isinstance(parsed, ParsedAction)
        assert parsed.name == name
    assert actions.apis["exec_shell"].startswith("exec_shell(command: str, timeout: int = 30)")
