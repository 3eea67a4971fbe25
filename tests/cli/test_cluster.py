"""``cluster`` renders what the background module says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiopslab.cli import cluster
from aiopslab.cluster import background
from aiopslab.cluster.doctor import Finding

STATE = {
    "kubeconfig": "/k/config",
    "prometheus_url": "http://127.0.0.1:1",
    "jaeger_url": "http://127.0.0.1:2",
    "pid": 42,
    "server": "https://127.0.0.1:3",
}


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A background cluster that needs no process: the state is in ``["state"]``, the calls in ``["calls"]``."""
    fake: dict[str, Any] = {"state": None, "calls": []}

    def up(options: Any, port: int = 0) -> dict[str, Any]:
        fake["calls"].append(("up", options.bare, options.nodes, options.clock, port))
        fake["state"] = dict(STATE)
        return dict(STATE)

    def down() -> dict[str, Any] | None:
        fake["calls"].append(("down",))
        state, fake["state"] = fake["state"], None
        return state

    monkeypatch.setattr(background, "up", up)
    monkeypatch.setattr(background, "down", down)
    monkeypatch.setattr(background, "status", lambda: fake["state"])
    monkeypatch.setattr(cluster, "_prepare", lambda *_: {"agent_kubeconfig": "/k/agent", "app": None})
    return fake


def test_up_status_down(cli: Callable[..., Any], running: dict[str, Any]) -> None:
    assert cli("cluster", "status").code == 1
    up = cli("cluster", "up", "--bare", "--nodes", "5", "--json").json
    assert {"kubeconfig", "agent_kubeconfig", "prometheus_url", "jaeger_url", "pid"} <= set(up)
    assert running["calls"][0] == ("up", True, 5, "wall", 0)
    assert cli("cluster", "status", "--json").json["running"] is True
    assert "/k/config" in cli("cluster", "status").out
    assert cli("cluster", "down", "--json").json == {"stopped": True, "pid": 42}
    assert cli("cluster", "down").code == 0


def test_up_that_cannot_be_prepared_leaves_nothing(
    cli: Callable[..., Any], running: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> dict[str, Any]:
        raise OSError("no space")

    monkeypatch.setattr(cluster, "_prepare", fail)
    assert cli("cluster", "up").code == 3
    assert running["state"] is None


def test_doctor(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    findings = [Finding("docker", False, "not on PATH", "install Docker"), Finding("kind", True, "v0.27")]
    monkeypatch.setattr("aiopslab.cluster.doctor.doctor", lambda: findings)
    ended = cli("cluster", "doctor")
    assert ended.code == 1
    assert "install Docker" in ended.out
    assert cli("cluster", "doctor", "--json").json["findings"][1]["ok"] is True


def test_where_state_is_kept_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIOPSLAB_STATE_DIR", str(tmp_path))
    assert background.state_dir() == tmp_path
    assert background.status() is None
