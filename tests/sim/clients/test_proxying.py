"""``proxy`` of pods, Services and nodes, with kubectl as the client."""

from __future__ import annotations

from typing import Any

import pytest

APP = "hipster-shop"
SERVICES = f"/api/v1/namespaces/{APP}/services"
PODS = f"/api/v1/namespaces/{APP}/pods"

PATHS = [
    (f"{SERVICES}/frontend:80/proxy/_healthz", 0, "ok", ""),
    (f"{SERVICES}/frontend:http/proxy/", 0, "ok", ""),
    (f"{SERVICES}/frontend/proxy/", 0, "ok", ""),
    (f"{SERVICES}/frontend:nope/proxy/", 1, "", 'no service port "nope" found for service "frontend"'),
    (f"{SERVICES}/nosuch:80/proxy/", 1, "", 'services "nosuch" not found'),
    (f"{SERVICES}/https:frontend:80/proxy/", 1, "", "error trying to reach service: tls: first record"),
    (f"{SERVICES}/frontend:80/proxy/nothing", 1, "", "the server could not find the requested resource"),
    (f"{PODS}/nosuch/proxy/", 1, "", 'pods "nosuch" not found'),
    ("/api/v1/nodes/worker-1/proxy/healthz", 0, "ok", ""),
    ("/api/v1/nodes/worker-9/proxy/healthz", 1, "", 'nodes "worker-9" not found'),
]


@pytest.mark.parametrize(("path", "code", "out", "err"), PATHS)
def test_get_raw(lab: Any, path: str, code: int, out: str, err: str) -> None:
    done = lab.kubectl("get", "--raw", path)
    assert (done.code, done.out.strip()) == (code, out)
    assert err in done.err


def test_pods_by_port_and_a_request_that_shows_in_the_log(lab: Any) -> None:
    name = lab.kubectl("get", "pods", "-n", APP, "-l", "app=frontend", "-o", "name").out.strip().removeprefix("pod/")
    assert lab.kubectl("get", "--raw", f"{PODS}/{name}:8080/proxy/cart").out == "ok\n"
    assert "view user cart" in lab.kubectl("logs", "-n", APP, name, "--tail=20").out
    refused = lab.kubectl("get", "--raw", f"{PODS}/{name}:9/proxy/")
    assert "error trying to reach service: dial tcp 10.244." in refused.err
    assert ":9: connect: connection refused" in refused.err


def test_a_service_without_endpoints(lab: Any, namespace: str) -> None:
    lab.kubectl("create", "service", "clusterip", "empty", "-n", namespace, "--tcp=80:80")
    done = lab.kubectl("get", "--raw", f"/api/v1/namespaces/{namespace}/services/empty:80/proxy/")
    assert done.code == 1
    assert done.err == 'Error from server (ServiceUnavailable): no endpoints available for service "empty"\n'
