"""Well-known server images answer, and command lines that replace an image's program do what they say."""

from __future__ import annotations

from typing import Any

import pytest

TOOLS = ("nicolaka/netshoot:latest", "sleep", "infinity")
SERVERS = [
    ("nginx:1.29", 80, "curl -sI http://{ip}/", "Server: nginx/1.29.4"),
    ("docker.io/library/nginx:alpine", 80, "curl -s http://{ip}/missing", "<h1>404 Not Found</h1>"),
    ("httpd:2.4", 80, "wget -qO- http://{ip}", "It works!"),
    ("traefik/whoami:v1.11", 80, "curl -s http://{ip}", "Hostname: server-"),
    ("registry.k8s.io/e2e-test-images/agnhost:2.53", 8080, "curl -s http://{ip}:8080/hostname", "server-"),
    ("hashicorp/http-echo:1.0", 5678, "curl -s http://{ip}:5678", "hello-world"),
    ("mysql:8", 3306, "nc -zv -w 2 {ip} 3306", "open"),
    ("memcached:1.6", 11211, "nc -zv -w 2 {ip} 11211", "open"),
]


def start(lab: Any, image: str, *command: str, **files: str) -> str:
    pod = lab.pod("server", image, None, {}, command=command, files=files)
    lab.advance(12)
    return pod


def run(lab: Any, command: str) -> str:
    tools = lab.pod("tools", TOOLS[0], None, {}, command=TOOLS[1:])
    done = lab.world.exec(lab.refs[tools], ["sh", "-c", command], b"", lab.now)
    return (done.stdout + done.stderr).decode()


@pytest.mark.parametrize(("image", "port", "command", "answer"), SERVERS)
def test_a_known_server_answers(lab: Any, image: str, port: int, command: str, answer: str) -> None:
    pod = start(lab, image)
    assert lab.result.exit_after_s is None
    ip = lab.world.runs.find(lab.refs[pod]).spec.pod_ip
    assert lab.world.listens(lab.refs[pod], port, lab.now)
    assert answer in run(lab, command.format(ip=ip))


def test_nginx_serves_mounted_files_and_logs_what_it_answered(lab: Any) -> None:
    files = {"/usr/share/nginx/html/index.html": "<h1>ours</h1>\n", "/usr/share/nginx/html/a.json": "{}"}
    pod = start(lab, "nginx", **files)
    ip = lab.world.runs.find(lab.refs[pod]).spec.pod_ip
    assert run(lab, f"curl -s http://{ip}/; curl -s http://{ip}/a.json") == "<h1>ours</h1>\n{}"
    assert "application/json" in run(lab, f"curl -sI http://{ip}/a.json")
    lab.advance(1)
    logs = [line for line in lab.logs(pod) if "GET" in line]
    assert len(logs) == 3 and '"GET / HTTP/1.1" 200' in logs[0] and "[02/Jun/2025:09:00:" in logs[0]


ENDS = [
    ("nginx", ("sleep", "5"), 5.0, 0),
    ("redis:7", ("sh", "-c", "exit 4"), None, 4),
    ("us-central1-docker.pkg.dev/x/microservices-demo/frontend:v0.10.6", ("sleep", "5"), None, None),
]


@pytest.mark.parametrize(("image", "command", "after_s", "code"), ENDS)
def test_a_command_replaces_the_program(
    lab: Any, image: str, command: tuple[str, ...], after_s: float | None, code: int | None
) -> None:
    lab.pod("server", image, None, {}, command=command)
    if code is None:
        assert lab.result.error.endswith('exec: "sleep": executable file not found in $PATH: unknown')
        return
    assert lab.result.exit_code == code
    assert after_s is None or lab.result.exit_after_s == after_s


def test_unknown_tags_of_known_servers_are_not_there(lab: Any) -> None:
    assert "not found" in lab.world.images.pull("nginx:nonsense")
    assert lab.world.images.pull("nginx:1.27-alpine") is None
