"""An embedded cluster in a process of its own, with an application on it, for real client programs.

Its clock is driven: while a test runs, a thread lets cluster time pass some 25 times as fast as the machine's, so
that a client that waits sees pods start without the test waiting for them.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aiopslab.catalog import Catalog
from aiopslab.kube.tools import Tools

TICK_WALL_S = 0.02
TICK_S = 0.5
APP = "hipster-shop"
CALL_WALL_S_MAX = 60


@dataclass(frozen=True)
class Done:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str


class Control:
    """The cluster's control socket."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("cluster", timeout=30)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.connect(str(self._path))
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            return json.loads(connection.getresponse().read() or b"null")
        finally:
            connection.close()


@dataclass(frozen=True)
class Lab:
    """The cluster, the administrator's kubeconfig, and the programs."""

    kubeconfig: Path
    home: Path
    control: Control
    programs: dict[str, Path]
    pid: int

    def run(self, program: str, *args: str, stdin: str = "", **env: str) -> Done:
        """Run ``kubectl``, ``kubectl-old``, ``helm`` or ``helm3`` to its end."""
        path = self.programs.get(program)
        if path is None:
            pytest.skip(f"{program} is not on this machine: name it in {VARIABLES[program]}")
        done = subprocess.run(
            [str(path), *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=CALL_WALL_S_MAX,
            env={**self.environment, **env},
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def kubectl(self, *args: str, stdin: str = "", **env: str) -> Done:
        """Run the kubectl that the lab uses."""
        return self.run("kubectl", *args, stdin=stdin, **env)

    def start(self, program: str, *args: str) -> subprocess.Popen[str]:
        """Start a program that runs until it is ended."""
        if program not in self.programs:
            pytest.skip(f"{program} is not on this machine: name it in {VARIABLES[program]}")
        return subprocess.Popen(
            [str(self.programs[program]), *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
        )

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the programs: caches of their own, the cluster's kubeconfig."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)}


VARIABLES = {"kubectl-old": "AIOPSLAB_KUBECTL_OLD", "helm3": "AIOPSLAB_HELM3"}


def programs() -> dict[str, Path]:
    """The lab's own kubectl and Helm, and older ones where the environment names them."""
    tools = Tools.fetch()
    found = {"kubectl": tools.kubectl, "helm": tools.helm}
    found |= {name: Path(os.environ[v]) for name, v in VARIABLES.items() if os.environ.get(v)}
    return found


class Ticker(threading.Thread):
    """Lets cluster time pass."""

    def __init__(self, control: Control) -> None:
        super().__init__(daemon=True)
        self._control = control
        self._stop_asked = threading.Event()

    def run(self) -> None:
        """Advance until told to stop."""
        while not self._stop_asked.wait(TICK_WALL_S):
            self._control("POST", "/advance", {"seconds": TICK_S})

    def stop(self) -> None:
        """End the thread."""
        self._stop_asked.set()
        self.join()


@pytest.fixture(scope="session")
def cluster_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The running process: its state as it printed it."""
    folder = tmp_path_factory.mktemp("cluster")
    command = [sys.executable, "-m", "aiopslab.sim", "--dir", str(folder), "--seed", "5", "--clock", "stepped"]
    for bundle in Catalog.load().roots:
        command += ["--bundle", str(bundle)]
    log = (folder / "log").open("wb")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    process.wait(10)
    log.close()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()
    assert "Traceback" not in (folder / "log").read_text()


@pytest.fixture(scope="session")
def deployed(cluster_process: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The cluster with the application, ready."""
    control = Control(Path(cluster_process["control"]))
    home = tmp_path_factory.mktemp("home")
    lab = Lab(Path(cluster_process["kubeconfig"]), home, control, programs(), cluster_process["pid"])
    chart = Catalog.load().app(APP).chart_path
    control("POST", "/hold")
    done = lab.run("helm", "install", "shop", str(chart), "--namespace", APP, "--create-namespace")
    control("POST", "/release")
    assert done.code == 0, done.err
    control("POST", "/advance", {"seconds": 90})
    return lab


@pytest.fixture
def lab(deployed: Lab) -> Iterator[Lab]:
    """The cluster with its clock running."""
    ticker = Ticker(deployed.control)
    ticker.start()
    yield deployed
    ticker.stop()


@pytest.fixture
def namespace(lab: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own."""
    name = f"t-{abs(hash(request.node.nodeid)) % 10**8}"
    assert lab.kubectl("create", "namespace", name).code == 0
    yield name
    lab.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(params=["kubectl", "kubectl-old"])
def kubectl(request: pytest.FixtureRequest) -> str:
    """Each kubectl version."""
    return str(request.param)


@pytest.fixture(params=["helm", "helm3"])
def helm(request: pytest.FixtureRequest) -> str:
    """Each Helm version."""
    return str(request.param)
