"""Both kubectl versions on a cluster with an application: the verbs that move bytes and those that wait."""

from __future__ import annotations

import re
import socket
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

APP = "hipster-shop"
WALL_S_MAX = 15.0


@contextmanager
def forwarded(lab: Any, kubectl: str, target: str, port: int) -> Any:
    """``kubectl port-forward`` in the background; gives the local port and the process."""
    process = lab.start(kubectl, "port-forward", "-n", APP, target, f":{port}")
    try:
        line = process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+) -> ", line)
        assert found, line
        yield int(found[1]), process
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def test_port_forward_carries_http(lab, kubectl):
    with forwarded(lab, kubectl, "svc/frontend", 80) as (port, _):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=WALL_S_MAX) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError) as missing:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/nothing-here", timeout=WALL_S_MAX)
        assert missing.value.code == 404
        missing.value.close()


def test_port_forward_carries_other_protocols(lab, kubectl):
    with (
        forwarded(lab, kubectl, "deploy/redis-cart", 6379) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=WALL_S_MAX) as redis,
    ):
        redis.sendall(b"*1\r\n$4\r\nPING\r\n")
        assert redis.recv(100) == b"+PONG\r\n"
        redis.sendall(b"SET greeting hi\r\nGET greeting\r\n")
        time.sleep(0.2)
        assert redis.recv(100) == b"+OK\r\n$2\r\nhi\r\n"


def test_port_forward_to_a_port_where_nobody_listens(lab, kubectl):
    with forwarded(lab, kubectl, "deploy/frontend", 9999) as (port, process):
        with socket.create_connection(("127.0.0.1", port), timeout=WALL_S_MAX) as connection:
            assert connection.recv(100) == b""
        process.wait(WALL_S_MAX)
        said = process.stdout.read()
        assert "dial tcp4 127.0.0.1:9999: connect: connection refused" in said
        assert "lost connection to pod" in said


def test_copying_both_ways(lab, namespace, kubectl, tmp_path: Path):
    lab.kubectl("run", "box", "-n", namespace, "--image=busybox", "--restart=Never", "--", "sleep", "3600")
    assert lab.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/box", "--timeout=20s").code == 0
    (tmp_path / "there").write_text("some text\n")
    assert lab.run(kubectl, "cp", str(tmp_path / "there"), f"{namespace}/box:/tmp/there").code == 0
    assert lab.run(kubectl, "exec", "-n", namespace, "box", "--", "cat", "/tmp/there").out == "some text\n"
    back = lab.run(kubectl, "cp", f"{namespace}/box:/tmp/there", str(tmp_path / "back"))
    assert back.code == 0 and (tmp_path / "back").read_text() == "some text\n"


def test_exec_passes_input_output_and_exit_code(lab, namespace, kubectl):
    lab.kubectl("run", "box", "-n", namespace, "--image=busybox", "--", "sleep", "3600")
    lab.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/box", "--timeout=20s")
    done = lab.run(kubectl, "exec", "-i", "-n", namespace, "box", "--", "sh", "-c", "cat; exit 4", stdin="in\n")
    assert (done.code, done.out) == (4, "in\n") and "exit code 4" in done.err


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["wget", "-qO-", f"http://frontend.{APP}"], 0, "ok\n"),
        (["wget", "-qO-", "-T", "2", "http://nowhere"], 1, "bad address 'nowhere'"),
    ],
)
def test_one_off_pods_report_what_happened(lab, namespace, kubectl, command, code, said):
    options = ("-i", "--rm", "--restart=Never", "--image=busybox", "-n", namespace)
    done = lab.run(kubectl, "run", "probe", *options, "--", *command)
    assert done.code == code, done
    assert (done.out + done.err).count(said) == 1
    assert 'pod "probe" deleted' in done.out


def test_a_job_keeps_what_its_program_said(lab, namespace):
    address = f"http://frontend.{APP}"
    command = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", address)
    lab.kubectl("create", "job", "probe", "-n", namespace, "--image=curlimages/curl", "--", *command)
    assert lab.kubectl("wait", "-n", namespace, "--for=condition=complete", "job/probe", "--timeout=30s").code == 0
    assert lab.kubectl("logs", "-n", namespace, "job/probe").out.strip() == "200"


def test_debugging_a_pod_without_a_shell(lab, kubectl):
    pod = lab.kubectl("get", "pods", "-n", APP, "-l", "app=checkoutservice", "-o", "name").out.strip()
    assert lab.kubectl("exec", "-n", APP, pod, "--", "sh", "-c", "true").code != 0
    shell = ("--", "sh", "-c", "wget -qO- http://frontend && nslookup cartservice")
    done = lab.run(kubectl, "debug", "-i", "-n", APP, pod, "--image=busybox", *shell)
    assert done.code == 0 and "ok\n" in done.out and f"cartservice.{APP}.svc.cluster.local" in done.out


def test_editing_rolls_out(lab, namespace, kubectl, tmp_path: Path):
    lab.kubectl("create", "deployment", "web", "-n", namespace, "--image=nginx:1.25")
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/replicas: 1/replicas: 3/; s/nginx:1.25/nginx:1.27/' \"$1\"\n")
    editor.chmod(0o755)
    edited = lab.run(kubectl, "edit", "deploy/web", "-n", namespace, KUBE_EDITOR=str(editor))
    assert edited.out == "deployment.apps/web edited\n"
    done = lab.run(kubectl, "rollout", "status", "deploy/web", "-n", namespace, "--timeout=30s")
    assert done.code == 0 and done.out.endswith("successfully rolled out\n")
    assert lab.run(kubectl, "rollout", "undo", "deploy/web", "-n", namespace).code == 0
    history = lab.run(kubectl, "rollout", "history", "deploy/web", "-n", namespace).out
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["2", "3"]


def test_draining_a_node_moves_its_pods(lab, kubectl):
    node = lab.kubectl("get", "pods", "-n", APP, "-l", "app=adservice", "-o", "jsonpath={..nodeName}").out
    flags = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=50s")
    drained = lab.run(kubectl, "drain", node, *flags)
    assert drained.code == 0 and f"node/{node} drained" in drained.out
    assert "SchedulingDisabled" in lab.kubectl("get", "node", node).out
    left = lab.kubectl("get", "pods", "-n", APP, "--field-selector", f"spec.nodeName={node}", "-o", "name").out
    assert left == ""
    assert lab.run(kubectl, "uncordon", node).out == f"node/{node} uncordoned\n"
    ready = lab.run(kubectl, "wait", "-n", APP, "--for=condition=Available", "deploy", "--all", "--timeout=50s")
    assert ready.code == 0, ready.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("top", "nodes"), r"worker-1 +\d+m +\d+% +\d+Mi"),
        (("top", "pods", "-n", APP, "--containers"), r"frontend-\S+ +server +\d+m +\d+Mi"),
        (("auth", "can-i", "--list"), r"\*\.\* +\[\] +\[\] +\[\*\]"),
        (("explain", "deployment.spec.strategy", "--recursive"), r"maxSurge\t<IntOrString>"),
        (("api-resources", "--namespaced=false"), r"persistentvolumes +pv +v1 +false +PersistentVolume"),
        (("get", "--raw", "/readyz"), "ok"),
        (("events", "-n", APP), r"Normal +Scheduled"),
        (("cluster-info",), "Kubernetes control plane"),
    ],
)
def test_verbs_that_look(lab, kubectl, words, said):
    done = lab.run(kubectl, *words)
    assert done.code == 0, done.err
    assert re.search(said, done.out), done.out
