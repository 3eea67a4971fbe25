"""The shell: what a command sees, what bounds it, and what is left of it."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from aiopslab.actions.sandbox.room import RoomTools
from aiopslab.actions.shell import Shell, ShellLimits
from aiopslab.errors import LabFailure, UsageError


async def test_output_errors_and_exit_code_come_in_order(shell: Shell) -> None:
    result = await shell.run("echo one; echo two >&2; echo three; exit 3")
    assert (result.output, result.exit_code, result.stopped) == ("one\ntwo\nthree\n", 3, "")


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("echo '$1' | awk '{print $1}'", "$1\n"),
        ('cat <<EOF\n{"a": "b"}\nEOF', '{"a": "b"}\n'),
        ("printf 'a\\nb\\n' | sed -n '2p'", "b\n"),
        ('tr a-z A-Z <<< "it\'s"', "IT'S\n"),
        ("echo a \\\n  b", "a b\n"),
        ("diff <(echo a) <(echo a) && echo same", "same\n"),
        ("kubectl get pods", "kubectl get pods\n"),
        ("kubectl wait pod/a --timeout=60s", "kubectl wait pod/a --timeout=5s\n"),
        ("kubectl rollout status --timeout 2m deploy/a", "kubectl rollout status --timeout 8s deploy/a\n"),
        ("kubectl exec a -- b --timeout=60s", "kubectl exec a -- b --timeout=60s\n"),
        ("kubectl wait pod/a --timeout=soon", "kubectl wait pod/a --timeout=soon\n"),
        ("cat; echo end", "end\n"),
    ],
)
async def test_one_quoting_layer_and_a_real_bash(shell: Shell, command: str, output: str) -> None:
    assert (await shell.run(command)).output == output


async def test_files_stay_and_processes_do_not(shell: Shell) -> None:
    first = await shell.run("echo a > f; echo b > /tmp/g; (sleep 500; echo late > h) & echo started")
    assert first.output == "started\n"
    second = await shell.run("cat f /tmp/g; ls h; ps -e --no-headers | grep -c sleep")
    assert second.output.splitlines()[:2] == ["a", "b"]
    assert second.output.splitlines()[-1] == "0"


async def test_the_room_is_closed(shell: Shell, tmp_path: Path) -> None:
    secret = tmp_path / "answer.txt"
    secret.write_text("the answer")
    result = await shell.run(
        f"cat {secret}; ls {Path(__file__).parents[2]}; touch /usr/x; curl -sS -m 2 http://1.1.1.1;"
        " ls /proc | grep -c '^[0-9]'; tr '\\0' ' ' < /proc/1/cmdline; env"
    )
    assert "the answer" not in result.output
    assert "pyproject" not in result.output
    assert "Read-only file system" in result.output
    assert str(Path(__file__).parents[2]) not in result.output.split("\n", 2)[2]
    assert "AIOPSLAB" not in result.output.upper()
    numbers = [line for line in result.output.splitlines() if line.isdigit()]
    assert int(numbers[0]) < 8


async def test_folders_with_answers_are_hidden_even_below_usr(
    cluster: Any, kubeconfig: Path, tools: RoomTools
) -> None:
    async with Shell(cluster, kubeconfig, tools, hidden=[Path("/usr/share"), Path("/nowhere")]) as shell:
        assert (await shell.run("ls -A /usr/share | wc -l; ls /usr/bin | wc -l")).output.split()[0] == "0"


async def test_the_agents_config_points_into_the_room(shell: Shell) -> None:
    result = await shell.run("cat $KUBECONFIG; echo $PROMETHEUS_URL $JAEGER_URL; id -un")
    assert "server: https://127.0.0.1:6443" in result.output
    assert "tls-server-name: 10.9.8.7" in result.output
    assert "http://127.0.0.1:9090/prom http://127.0.0.1:16686\noncall\n" in result.output


async def test_the_room_reaches_the_lab_and_nothing_else(
    cluster: Any, kubeconfig: Path, tools: RoomTools, limits: ShellLimits
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nhello from outside\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    cluster.info = type(cluster.info)("embedded", Path("x"), f"http://127.0.0.1:{port}", "http://127.0.0.1:2")
    async with Shell(cluster, kubeconfig, tools, limits=limits) as shell:
        result = await shell.run(
            f"curl -sS $PROMETHEUS_URL/x; curl -sS http://127.0.0.1:{port}/x; curl -sS $JAEGER_URL"
        )
    server.close()
    await server.wait_closed()
    assert result.output.count("hello from outside") == 1
    assert f"port {port}" in result.output


async def test_date_tells_the_clusters_time(shell: Shell) -> None:
    result = await shell.run(
        "date -u +%FT%TZ; date -d '5 minutes ago' +%T; date -d 10:30 +%FT%R; date -d @0 +%Y;"
        " date --date=2024-02-01 +%F; date +%s"
    )
    assert result.output.split() == [
        "2025-06-02T09:00:00Z",
        "08:55:00",
        "2025-06-02T10:30",
        "1970",
        "2024-02-01",
        "1748854800",
    ]


async def test_sleep_costs_cluster_time_and_no_wall_time(shell: Shell, cluster: Any) -> None:
    began = time.monotonic()
    result = await shell.run("sleep 20; date +%T; sleep 1m; date +%T", timeout_s=300)
    assert result.output == "09:00:20\n09:01:20\n"
    assert result.cluster_s == 80
    assert time.monotonic() - began < 4


async def test_by_default_waits_that_a_command_asks_for_do_not_count(shell: Shell) -> None:
    result = await shell.run("sleep 45; sleep 100; date +%T")
    assert (result.output, result.stopped) == ("09:02:25\n", "")
    endless = await shell.run("sleep 45000")
    assert endless.stopped.startswith("stopped after 630 s")


async def test_parallel_sleeps_pass_together(shell: Shell) -> None:
    result = await shell.run("(sleep 30; echo slow) & (sleep 10; echo quick) & wait; date +%T", timeout_s=300)
    assert result.output == "quick\nslow\n09:00:30\n"


async def test_a_command_that_waits_is_stopped_in_cluster_time_with_what_it_said(
    shell: Shell, cluster: Any
) -> None:
    result = await shell.run("echo begun; sleep 10000; echo never", timeout_s=45)
    assert (result.output, result.exit_code, result.cluster_s) == ("begun\n", None, 45)
    assert "stopped after 45 s" in result.stopped


async def test_time_runs_while_a_stream_is_open(shell: Shell, cluster: Any) -> None:
    """A reader that waits for news sees each second of the cluster, in order."""
    pipe = shell.room.home / "news"
    os.mkfifo(pipe)
    shell.room.own(pipe)
    cluster.streams = 1
    opened: list[int] = []

    def tell() -> None:
        if not opened:
            opened.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        os.write(opened[0], f"{cluster.clock.at - 1748854800.0:.0f}\n".encode())
        if cluster.clock.at >= 1748854800.0 + 5:
            os.close(opened[0])
            cluster.streams = 0
            cluster.clock.on_step.clear()

    cluster.clock.on_step.append(tell)
    result = await shell.run("cat news", timeout_s=60)
    assert result.output == "1\n2\n3\n4\n5\n"
    assert result.cluster_s == 5


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (":(){ :|:& };:; sleep 1000", "64 processes"),
        ("yes", "MiB of output"),
        ("for i in $(seq 9); do head -c 2000000 /dev/zero > f$i; done; while :; do :; done", "on disk"),
        ("for i in $(seq 2000); do : > f$i; done; while :; do :; done", "500 files"),
        ("while :; do :; done", "of wall time"),
    ],
    ids=["fork bomb", "output flood", "disk filler", "file flood", "endless loop"],
)
async def test_a_greedy_command_is_stopped_and_cleaned_up(shell: Shell, command: str, reason: str) -> None:
    result = await shell.run(command, timeout_s=3)
    assert result.exit_code is None
    assert reason in result.stopped
    used = sum(path.stat().st_size for path in shell.room.home.rglob("*") if path.is_file())
    assert used <= 8 << 20
    after = await shell.run("ps -e --no-headers | wc -l; echo alive")
    assert after.output.splitlines()[-1] == "alive"


async def test_a_memory_hog_is_stopped(shell: Shell) -> None:
    result = await shell.run("python3 -c 'a = bytearray(10**9); input()'", timeout_s=20)
    assert "MiB of memory" in result.stopped


async def test_one_file_has_a_limit(shell: Shell) -> None:
    result = await shell.run("head -c 5000000 /dev/zero > f; ls -l f | awk '{print $5}'")
    assert "2097152" in result.output


async def test_an_escaping_link_leads_nowhere(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.mkdir()
    await shell.run(f"ln -s {target} metrics; ln -s /etc/hostname out.csv")
    await shell.put("metrics/a.csv", b"data")
    assert list(target.iterdir()) == []
    assert shell.room.outside("/home/oncall/out.csv") is None
    assert shell.room.outside("/home/oncall/../../etc/passwd") is None
    assert (await shell.run("cat metrics/a.csv")).output == "data"


async def test_files_carry_cluster_time(shell: Shell) -> None:
    await shell.run("echo a > f")
    assert "2025-06-02 09:00" in (await shell.run("stat -c %y f")).output


async def test_commands_that_cannot_be_passed_on_are_refused(shell: Shell) -> None:
    assert "NUL" in (await shell.run("echo a\0b")).stopped
    assert "bytes" in (await shell.run("x" * 200_000)).stopped


async def test_cancelling_leaves_nothing(shell: Shell) -> None:
    task = asyncio.ensure_future(shell.run("echo $$ > /tmp/p; while :; do :; done", timeout_s=60))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(f"{shell.room.home}" in _cmdline(pid) for pid in os.listdir("/proc") if pid.isdigit())


def _cmdline(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def test_closing_removes_the_rooms_files(shell: Shell) -> None:
    folder = shell.room.home.parent
    assert folder.exists()
    shell.close()
    shell.close()
    assert not folder.exists()


def test_without_a_sandbox_the_shell_must_be_asked_for(cluster: Any, kubeconfig: Path, tools: RoomTools) -> None:
    bare = RoomTools(tools.kubectl, tools.helm, None)
    with pytest.raises(UsageError, match="unsafe"):
        Shell(cluster, kubeconfig, bare)


async def test_the_bare_host_works_when_it_is_asked_for(
    cluster: Any, kubeconfig: Path, tools: RoomTools, limits: ShellLimits
) -> None:
    bare = RoomTools(tools.kubectl, tools.helm, None, unsafe=True)
    async with Shell(cluster, kubeconfig, bare, limits=limits) as shell:
        result = await shell.run("pwd; echo $PROMETHEUS_URL; sleep 60; date +%T", timeout_s=90)
        assert result.output == f"{shell.room.home}\nhttp://127.0.0.1:1/prom\n09:01:00\n"
        stopped = await shell.run("sleep 5000 & sleep 5000", timeout_s=10)
        assert "stopped after 10 s" in stopped.stopped


async def test_a_sandbox_that_does_not_start_is_the_labs_failure(
    cluster: Any, kubeconfig: Path, tools: RoomTools
) -> None:
    broken = RoomTools(tools.kubectl, tools.helm, Path("/bin/false"))
    async with Shell(cluster, kubeconfig, broken) as shell:
        with pytest.raises(LabFailure, match="does not start"):
            await shell.run("true")


async def test_on_the_wall_clock_nothing_is_faked(
    cluster: Any, kubeconfig: Path, tools: RoomTools, limits: ShellLimits
) -> None:
    cluster.clock.mode = "wall"
    cluster.clock.at = time.time()
    async with Shell(cluster, kubeconfig, tools, limits=limits) as shell:
        assert abs(int((await shell.run("date +%s")).output) - time.time()) < 5
        result = await shell.run("sleep 60", timeout_s=0.5)
        assert "stopped after 0.5 s" in result.stopped


async def test_the_form_for_ordinary_users_works_too(
    cluster: Any, kubeconfig: Path, tools: RoomTools, limits: ShellLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without root the sandbox is made in a user namespace; root can make one, too."""
    monkeypatch.setattr("aiopslab.actions.sandbox.room.os.geteuid", lambda: 1000)
    async with Shell(cluster, kubeconfig, tools, limits=limits) as shell:
        result = await shell.run(
            "id -u; id -un; echo a > f && cat f; sleep 30; date +%T; touch /etc/x", timeout_s=60
        )
        assert result.output.startswith("1000\noncall\na\n09:00:30\n")
        assert result.exit_code == 1
        # Not tried out here: the kernel does not hold root to this limit, and root is who runs this test.
        assert (await shell.run("ulimit -u")).output == f"{2 * limits.processes}\n"
