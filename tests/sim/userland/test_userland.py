"""Commands in containers: shell grammar, text tools, and network tools that meet the simulated network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiopslab.sim.world.userland import Machine, Process, run
from aiopslab.sim.world.userland.acl import KeySpace
from aiopslab.sim.world.userland.machine import Connect, HttpReply, Resolution


class Net:
    """A Service with an HTTP server, one whose port refuses, a redis, a gRPC server."""

    nameserver = "10.96.0.10"

    def __init__(self) -> None:
        self.keys = KeySpace()
        self.names = {"web": "10.96.0.20", "closed": "10.96.0.21", "redis-cart": "10.96.0.22", "grpc": "10.96.0.23"}

    def resolve(self, name: str) -> Resolution:
        full = f"{name}.shop.svc.cluster.local"
        address = self.names.get(name)
        if name in ("headless", "broken"):
            return Resolution(full, (), "NOERROR" if name == "headless" else "NOTIMP")
        return Resolution(full, (address,)) if address else Resolution(full, (), "NXDOMAIN")

    def connect(self, address: str, port: int) -> Connect:
        speaks = {"10.96.0.20": "http", "10.96.0.22": "redis", "10.96.0.23": "grpc", "10.1.0.9": "redis"}.get(address)
        return Connect("open", 0.001, speaks) if speaks else Connect("refused", 0.001)

    def http(self, address: str, port: int, method: str, path: str) -> HttpReply:
        return (
            HttpReply(200, b"ok", "text/plain", 0.002)
            if path == "/_healthz"
            else HttpReply(404, b"no", "text/plain", 0.0)
        )

    def redis(self, address: str, port: int) -> KeySpace | None:
        return self.keys if address == "10.96.0.22" else None


def machine(flavour: str = "alpine", tools: tuple[str, ...] = (), **more: object) -> Machine:
    fields = {
        "hostname": "web-6d5f-x7k2p",
        "flavour": flavour,
        "env": {"HOME": "/root", "REDIS_ADDR": "redis-cart:6379"},
        "files": {
            "/etc/conf/app.yaml": b"port: 80\nname: shop\nlevel: debug\n",
            "/etc/hosts": b"127.0.0.1 localhost\n",
        },
        "now": 1_748_854_800.0,
        "pod_ip": "10.1.0.9",
        "network": Net(),
        "processes": [Process(1, "root", "/src/server", 3.0, 20 << 20)],
        "tools": frozenset(tools),
        **more,
    }
    return Machine(**fields)  # type: ignore[arg-type]


def sh(script: str, **more: object) -> tuple[str, str, int]:
    result = run(machine(tools=("curl", "redis-cli"), **more), ["sh", "-c", script], b"")
    return result.stdout.decode(), result.stderr.decode(), result.exit_code


SCRIPTS = [
    ("echo hi", "hi\n", 0),
    ("echo one && false || echo two", "one\ntwo\n", 0),
    ("false; echo $?", "1\n", 0),
    ("exit 7", "", 7),
    ('echo "a  b" c\\ d', "a  b c d\n", 0),
    ("X='q w'; echo \"$X\" $X ${X}s ${NONE:-none}", "q w q w q ws none\n", 0),
    ("echo $(echo inner | tr a-z A-Z)", "INNER\n", 0),
    ("echo `hostname`", "web-6d5f-x7k2p\n", 0),
    ("echo $((2 + 3 * 4))", "14\n", 0),
    ("for i in 1 2 3; do echo n$i; done | tail -n 2", "n2\nn3\n", 0),
    ("if [ -f /etc/hosts ]; then echo yes; else echo no; fi", "yes\n", 0),
    ("i=0; while [ $i -lt 3 ]; do i=$((i+1)); done; echo $i", "3\n", 0),
    ("cat /etc/conf/app.yaml | grep -n name", "2:name: shop\n", 0),
    ("grep nothing /etc/hosts", "", 1),
    ("cat < /etc/hosts", "127.0.0.1 localhost\n", 0),
    ("echo x > /tmp/f; echo y >> /tmp/f; cat /tmp/f; wc -l < /tmp/f", "x\ny\n2\n", 0),
    ("cat /absent 2>/dev/null || echo gone", "gone\n", 0),
    ("cat /absent 2>&1 | wc -l", "1\n", 0),
    ("cat <<EOF\nhello $HOME\nEOF", "hello /root\n", 0),
    ("cat <<'EOF'\n$HOME\nEOF", "$HOME\n", 0),
    ("printf '%s-%d\\n' a 3 b 4", "a-3\nb-4\n", 0),
    ("sed -n '2,3p' /etc/conf/app.yaml", "name: shop\nlevel: debug\n", 0),
    ("sed 's/shop/SHOP/g' /etc/conf/app.yaml | head -2 | tail -1", "name: SHOP\n", 0),
    ("awk -F: '{print $2}' /etc/conf/app.yaml | tr -d ' ' | sort", "80\ndebug\nshop\n", 0),
    ("awk 'NR==2 {print $2, $1}' /etc/conf/app.yaml", "shop name:\n", 0),
    ("echo aGk= | base64 -d", "hi", 0),
    ("env | grep REDIS | cut -d= -f2", "redis-cart:6379\n", 0),
    ("ls /etc", "conf\nhosts\n", 0),
    ("cd /etc/conf && pwd && ls", "/etc/conf\napp.yaml\n", 0),
    ("(cd /etc; pwd); pwd", "/etc\n/\n", 0),
    ("! true; echo $?", "1\n", 0),
    ("echo a b c | xargs -n1 echo", "a\nb\nc\n", 0),
    ("F=/etc/conf/app.yaml; echo ${F##*/} ${F%.yaml}", "app.yaml /etc/conf/app\n", 0),
    ("case web-1 in db-*) echo db;; web-*|app) echo app;; *) echo other;; esac", "app\n", 0),
    ("case x in\n  (a) echo a ;;\n  '*') echo star ;;\nesac; echo $?", "0\n", 0),
    ("while read key value; do echo $value; done < /etc/conf/app.yaml", "80\nshop\ndebug\n", 0),
    ("cat /etc/conf/app.yaml | while IFS=: read -r k v; do echo $k; done | tail -1", "level\n", 0),
    ("echo a:b | { IFS=: read x y; echo $y $x; }", "b a\n", 0),
    ("check() { echo checking $1; return 3; }; check web; echo $?", "checking web\n3\n", 0),
    ("f() { f; }; f || echo no", "", 2),
    ("set -e; if false; then :; fi; false || true; ! true; echo on; false; echo off", "on\n", 1),
    ("(exit 3); echo $?; echo x | while read l; do exit 4; done; echo $?", "3\n4\n", 0),
    ("n=0; echo 1 | { read n; echo $n; }; echo $n", "1\n0\n", 0),
    ("({ echo kept; exit 3; } > /tmp/f); echo $?; cat /tmp/f", "3\nkept\n", 0),
    ("set -- a b c; shift; echo $1 $#", "b 2\n", 0),
    ("i=5; echo $((i > 3 && i != 4)) $((-7 / 2)) $((-7 % 2)) $((1 << 4)) $((!i))", "1 -3 -1 16 0\n", 0),
    ("sh -c 'echo $0 $1' name arg", "name arg\n", 0),
    ("date -u +%Y-%m-%dT%H:%M:%SZ", "2025-06-02T09:00:00Z\n", 0),
    ("nc -zv web 80 2>&1", "web (10.96.0.20:80) open\n", 0),
    ("curl -s http://web/_healthz", "ok", 0),
    ("curl -s -o /dev/null -w '%{http_code}\\n' http://web/none", "404\n", 0),
    ("wget -qO- http://web/_healthz", "ok", 0),
    ("redis-cli -h redis-cart ping", "PONG\n", 0),
    (
        "redis-cli -h redis-cart set k v; redis-cli -h redis-cart get k; redis-cli -h redis-cart dbsize",
        "OK\nv\n1\n",
        0,
    ),
    ("nslookup headless | tail -2", "*** Can't find headless.shop.svc.cluster.local: No answer\n\n", 0),
    ("nslookup broken | tail -2", "** server can't find broken.shop.svc.cluster.local: NOTIMP\n\n", 0),
    ("getent hosts web", "10.96.0.20      web.shop.svc.cluster.local\n", 0),
]


@pytest.mark.parametrize(("script", "stdout", "code"), SCRIPTS, ids=[s[0][:40] for s in SCRIPTS])
def test_script(script: str, stdout: str, code: int) -> None:
    assert sh(script)[::2] == (stdout, code)


FAILURES = [
    (
        "curl http://closed:9999/",
        7,
        "curl: (7) Failed to connect to closed port 9999 after 1 ms: Couldn't connect to server",
    ),
    ("curl http://nowhere/", 6, "curl: (6) Could not resolve host: nowhere"),
    ("curl http://grpc:80/", 1, "curl: (1) Received HTTP/0.9 when not allowed"),
    ("wget -qO- http://closed:9999/", 1, "wget: can't connect to remote host (10.96.0.21): Connection refused"),
    ("wget -qO- http://nowhere/", 1, "wget: bad address 'nowhere'"),
    ("redis-cli -h closed ping", 1, "Could not connect to Redis at closed:6379: Connection refused"),
    ("cat /absent", 1, "cat: can't open '/absent': No such file or directory"),
    ("psql -c 'select 1'", 127, "sh: psql: not found"),
    ("case a in b) :;;", 2, "sh: syntax error: unexpected end of file"),
    ("echo $((1 / 0))", 2, "sh: divide by zero"),
    ("shift", 2, "sh: shift: can't shift that many"),
    ("echo 'unfinished", 2, "sh: syntax error: unterminated quoted string"),
    ("if true; then echo x", 2, "sh: syntax error: unexpected end of file"),
]


@pytest.mark.parametrize(("script", "code", "stderr"), FAILURES, ids=[f[0][:40] for f in FAILURES])
def test_failure(script: str, code: int, stderr: str) -> None:
    _, err, status = sh(script)
    assert (status, err.strip()) == (code, stderr)


def test_distroless_has_no_shell() -> None:
    result = run(machine("distroless"), ["sh"], b"")
    assert result.error.endswith('exec: "sh": executable file not found in $PATH: unknown')


def test_read_only_root_keeps_tmp_writable() -> None:
    out, err, code = sh("echo x > /etc/new; echo y > /tmp/new && cat /tmp/new", read_only=True)
    assert (out, code) == ("y\n", 0)
    assert "can't create /etc/new: Read-only file system" in err


def test_simulated_time_is_counted() -> None:
    assert run(machine(), ["sh", "-c", "sleep 2; sleep 1m"], b"").duration_s == 62.0


def test_endless_output_ends() -> None:
    assert run(machine(), ["sh", "-c", "yes | head -n 1"], b"").stdout == b"y\n"


@given(st.text(max_size=60))
def test_any_script_ends_with_a_code(script: str) -> None:
    result = run(machine(), ["sh", "-c", script], b"")
    assert 0 <= result.exit_code <= 255


def test_df_shows_the_disk_and_the_volumes() -> None:
    more = {"disk_room": lambda: 50 << 30, "mounts": ("/cache", "/mem"), "limits": {"/mem": 64 << 20}}
    out = sh("dd if=/dev/zero of=/mem/x bs=1M count=16 2>/dev/null; df -h", **more)[0]
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["overlay", "100.0G", "45.0G", "50.0G", "48%", "/"],
        ["tmpfs", "64.0M", "0", "64.0M", "0%", "/dev"],
        ["/dev/vda1", "100.0G", "45.0G", "50.0G", "48%", "/cache"],
        ["tmpfs", "64.0M", "16.0M", "48.0M", "25%", "/mem"],
    ]
