"""Every served path and verb with the agent's token: it reaches what an on-call engineer of the application has,
and nothing else, whatever it asks."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from aiopslab.cluster.identity import agent_kubeconfig
from aiopslab.kube.client import Kube

APP = "hipster-shop"
FOREIGN = ("lab-system", "kube-system", "chaos-mesh", "nowhere")
CLUSTER_READS = {
    "nodes", "persistentvolumes", "storageclasses.storage.k8s.io", "priorityclasses.scheduling.k8s.io",
    "nodes.metrics.k8s.io",
}  # fmt: skip
# Questions about oneself, which everyone may ask.
OWN_QUESTIONS = {
    "selfsubjectaccessreviews.authorization.k8s.io", "selfsubjectrulesreviews.authorization.k8s.io",
    "selfsubjectreviews.authentication.k8s.io",
}  # fmt: skip
METHODS = {"list": "GET", "get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
REFUSED = (403, 404, 405)
OPEN_PATHS = ("/version", "/healthz", "/livez", "/readyz", "/api", "/apis", "/openapi/v2", "/openapi/v3")
HIDDEN_WORDS = ("chaos", "lab-system", "oncall", "injector", "locust", "loadgen", "target-port")


class Agent:
    """Requests with the agent's token."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        self._server = config["clusters"][0]["cluster"]["server"]
        self._http = requests.Session()
        self._http.trust_env = False  # the environment may name other authorities
        self._http.headers["Authorization"] = f"Bearer {config['users'][0]['user']['token']}"
        authority = kubeconfig.parent / "ca.pem"
        encoded = config["clusters"][0]["cluster"]["certificate-authority-data"]
        authority.write_bytes(base64.b64decode(encoded))
        self._http.verify = str(authority)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> requests.Response:
        sent = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        sent |= {k.replace("_", "-"): v for k, v in headers.items()}
        data = json.dumps(body if body is not None else {}) if method != "GET" else None
        return self._http.request(method, self._server + path, data=data, headers=sent, timeout=30)

    def close(self) -> None:
        """Drop the connections."""
        self._http.close()


@pytest.fixture(scope="module")
def agent(deployed, tmp_path_factory):
    path = tmp_path_factory.mktemp("agent") / "config"

    async def make() -> None:
        async with Kube(deployed.kubeconfig) as kube:
            await agent_kubeconfig(kube, APP, path)

    asyncio.run(make())
    for name in ("lab-system", "chaos-mesh"):
        deployed.kubectl("create", "namespace", name)
        deployed.kubectl("create", "configmap", "secret-plan", "-n", name)
    user = Agent(path)
    yield user
    user.close()


@pytest.fixture(scope="module")
def resources(deployed) -> list[tuple[str, dict[str, Any]]]:
    """(root path, resource) of everything that the administrator sees in discovery."""
    found = []

    def raw(path: str) -> Any:
        return json.loads(deployed.kubectl("get", "--raw", path).out)

    versions = [g["preferredVersion"]["groupVersion"] for g in raw("/apis")["groups"]]
    for root in ["/api/v1", *(f"/apis/{v}" for v in versions)]:
        found += [(root, resource) for resource in raw(root)["resources"]]
    assert len(found) > 80
    return found


def qualified(root: str, resource: dict[str, Any]) -> str:
    """``deployments.apps``."""
    group = root.split("/")[2] if root.startswith("/apis/") else ""
    return f"{resource['name']}.{group}" if group else str(resource["name"])


def paths(root: str, resource: dict[str, Any], namespace: str) -> list[str]:
    """Paths of a resource or of a subresource of an object in a namespace."""
    plural, _, part = resource["name"].partition("/")
    place = f"{root}/namespaces/{namespace}" if resource["namespaced"] else root
    if part:
        return [f"{place}/{plural}/secret-plan/{part}"]
    return [f"{place}/{plural}", f"{place}/{plural}/secret-plan"]


def test_nothing_outside_the_application_can_be_reached(agent, resources):
    reached = set()
    for root, resource in resources:
        for namespace in FOREIGN if resource["namespaced"] else ("",):
            for path in paths(root, resource, namespace):
                for method in sorted(set(METHODS.values())):
                    answer = agent(method, path)
                    assert answer.status_code < 500 or answer.status_code == 503, (method, path, answer.text)
                    if answer.status_code not in REFUSED:
                        reached.add((method, qualified(root, resource)))
    reads = {("GET", name) for name in CLUSTER_READS}
    questions = {("POST", name) for name in OWN_QUESTIONS}
    assert reached <= reads | questions, reached - reads - questions


def test_nothing_can_be_listed_across_namespaces(agent, resources):
    for root, resource in resources:
        if resource["namespaced"] and "/" not in resource["name"]:
            for query in (
                "",
                "?watch=true&timeoutSeconds=1",
                "?limit=1",
                "?fieldSelector=metadata.namespace=lab-system",
            ):
                assert agent("GET", f"{root}/{resource['name']}{query}").status_code in REFUSED


def test_what_is_hidden_looks_as_if_nobody_had_installed_it(agent, resources):
    groups = {root.split("/")[2] for root, _ in resources if root.startswith("/apis/")}
    assert "chaos-mesh.org" in groups
    nothing = agent("GET", "/apis/no-such-group.org/v1alpha1/things")
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    for accept in ("application/json", aggregated):
        for path in ("/api", "/apis"):
            assert "chaos" not in agent("GET", path, Accept=accept).text
    for path in ("/openapi/v3", "/openapi/v2"):
        assert "chaos" not in agent("GET", path).text
    for tail in ("", "/v1alpha1", "/v1alpha1/networkchaos", f"/v1alpha1/namespaces/{APP}/networkchaos"):
        for method in sorted(set(METHODS.values())):
            answer = agent(method, f"/apis/chaos-mesh.org{tail}")
            same = agent(method, f"/apis/no-such-group.org{tail}")
            assert (answer.status_code, answer.text) == (
                same.status_code,
                same.text.replace("no-such-group", "chaos-mesh"),
            )
    assert agent("GET", "/openapi/v3/apis/chaos-mesh.org/v1alpha1").status_code == 404
    assert nothing.status_code in (403, 404)


def test_paths_that_are_no_resources(agent):
    for path in (
        *OPEN_PATHS,
        "/metrics",
        "/logs",
        "/debug/pprof",
        "/configz",
        "/swagger.json",
        "/",
        "/.well-known/x",
    ):
        answer = agent("GET", path)
        assert answer.status_code in (200, *REFUSED), path
        assert answer.status_code != 200 or path in OPEN_PATHS or path in ("/",), path
        # A refusal names the asker, which it knows.
        assert answer.status_code != 200 or not any(word in answer.text for word in HIDDEN_WORDS), path


def test_nobody_else_can_be_played(agent):
    for headers in (
        {"Impersonate_User": "system:admin"},
        {"Impersonate_User": "x", "Impersonate_Group": "system:masters"},
        {"Impersonate_User": "system:serviceaccount:kube-system:default"},
    ):
        for path in ("/api/v1/namespaces", f"/api/v1/namespaces/{APP}/pods", "/version", "/apis/chaos-mesh.org"):
            assert agent("GET", path, **headers).status_code == 403


def test_rights_cannot_grow(agent):
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    role = {"metadata": {"name": "more"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    to = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}
    for path, body in (
        (f"{rbac}/clusterroles", role),
        (f"{rbac}/namespaces/{APP}/roles", role),
        (f"{rbac}/clusterrolebindings", {"metadata": {"name": "more"}, "roleRef": to}),
        (f"{rbac}/namespaces/{APP}/rolebindings", {"metadata": {"name": "more"}, "roleRef": to}),
        (f"/api/v1/namespaces/{APP}/serviceaccounts/default/token", {"spec": {}}),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {"metadata": {"name": "a.b"}}),
    ):
        assert agent("POST", path, body).status_code == 403, path


def test_nothing_in_the_application_tells_of_the_lab(agent, resources):
    for root, resource in resources:
        if not resource["namespaced"] or "/" in resource["name"] or "list" not in resource["verbs"]:
            continue
        answer = agent("GET", f"{root}/namespaces/{APP}/{resource['name']}")
        for item in answer.json()["items"] if answer.status_code == 200 else ():
            shown = json.dumps(item)
            # The binding of its own role names the agent's account, as on any cluster.
            words = [w for w in HIDDEN_WORDS if w in shown and not item["metadata"]["name"].startswith("oncall")]
            assert not words, (resource["name"], item["metadata"]["name"], words)
