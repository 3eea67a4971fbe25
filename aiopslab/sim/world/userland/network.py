"""Network programs: the outcome is what the container's own traffic would meet at this instant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from urllib.parse import urlsplit

from aiopslab.sim.world.userland.io import Io, number, options, program
from aiopslab.sim.world.userland.machine import Connect, HttpReply, Resolution

NO_SERVERS = "connection timed out; no servers could be reached"
GRPC_TO_HTTP1 = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00"  # an HTTP/2 SETTINGS frame


@dataclass(frozen=True, slots=True)
class Target:
    """Where a URL points."""

    scheme: str
    host: str
    port: int
    path: str


def parse_url(text: str) -> Target:
    """``[scheme://]host[:port][/path]``."""
    parts = urlsplit(text if "://" in text else f"http://{text}")
    scheme = parts.scheme or "http"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(scheme, parts.hostname or "", parts.port or (443 if scheme == "https" else 80), path)


def is_address(host: str) -> bool:
    """Whether a host is written as an IPv4 address."""
    return re.fullmatch(r"\d+\.\d+\.\d+\.\d+", host) is not None


def lookup(io: Io, host: str) -> Resolution:
    """Resolve a host as libc does: literal addresses and the pod's own names first."""
    machine = io.machine
    if is_address(host):
        return Resolution(host, (host,))
    if host == "localhost":
        return Resolution(host, ("127.0.0.1",))
    if host == machine.hostname:
        return Resolution(host, (machine.pod_ip,))
    answer = machine.network.resolve(host)
    if answer.rcode == "TIMEOUT":
        machine.spent_s += 5.0
    return answer


def connect(io: Io, address: str, port: int, limit_s: float = 127.0) -> Connect:
    """Connect and pay for it in simulated time, at most ``limit_s``."""
    machine = io.machine
    result = machine.network.connect(machine.pod_ip if address.startswith("127.") else address, port)
    machine.spent_s += min(result.delay_s if result.outcome != "timeout" else 127.0, limit_s)
    return result


def fetch(io: Io, target: Target, address: str, method: str) -> HttpReply:
    """One HTTP/1.1 request; a gRPC server answers it with an HTTP/2 frame, a redis with an error."""
    machine = io.machine
    to = machine.pod_ip if address.startswith("127.") else address
    reply = machine.network.http(to, target.port, method, target.path)
    machine.spent_s += reply.delay_s
    return reply


@program("curl")
def curl(io: Io, argv: list[str]) -> int:
    """curl [-sSvIfLk] [-X METHOD] [-o FILE] [-w FORMAT] [-m SECONDS] URL..."""
    found, operands = options(argv, "XodHwmATu")
    found |= _curl_long(argv)
    urls = [found["url"]] if "url" in found else [o for o in operands if o not in _values(argv)]
    if not urls:
        io.err("curl: (2) no URL specified")
        return 2
    code = 0
    for url in urls:
        code = _curl_one(io, found, parse_url(url)) or code
    return code


LONG_WITH_VALUE = (
    "--max-time",
    "--connect-timeout",
    "--output",
    "--write-out",
    "--request",
    "--header",
    "--data",
    "--url",
)


def _curl_long(argv: list[str]) -> dict[str, str]:
    short = {"--max-time": "m", "--output": "o", "--write-out": "w", "--request": "X", "--url": "url"}
    pairs = pairwise(argv)
    return {short.get(a, a[2:]): b for a, b in pairs if a in LONG_WITH_VALUE}


def _values(argv: list[str]) -> set[str]:
    return {b for a, b in pairwise(argv) if a in LONG_WITH_VALUE}


def _curl_one(io: Io, found: dict[str, str], target: Target) -> int:
    verbose = "v" in found
    answer = lookup(io, target.host)
    if not answer.addresses:
        limit = _seconds(found.get("m") or found.get("connect-timeout"), 127.0)
        if answer.rcode == "TIMEOUT" and limit <= 10.0:
            return _curl_fail(io, found, 28, f"Resolving timed out after {limit * 1e3 + 1:.0f} milliseconds")
        return _curl_fail(io, found, 6, f"Could not resolve host: {target.host}")
    address = answer.addresses[0]
    if verbose:
        io.err(f"*   Trying {address}:{target.port}...")
    limit_s = _seconds(found.get("m") or found.get("connect-timeout"), 127.0)
    result = connect(io, address, target.port, limit_s)
    if result.outcome != "open":
        return _curl_fail(io, found, *_curl_connect_error(target, result, limit_s))
    if verbose:
        io.err(f"* Connected to {target.host} ({address}) port {target.port}")
        io.err(f"> {found.get('X', 'GET')} {target.path} HTTP/1.1\n> Host: {target.host}\n>")
    if target.scheme == "https":
        return _curl_fail(io, found, 35, "error:0A00010B:SSL routines::wrong version number")
    if result.speaks == "grpc":
        return _curl_fail(io, found, 1, "Received HTTP/0.9 when not allowed")
    if result.speaks not in ("http", ""):
        return _curl_fail(io, found, 52, "Empty reply from server")
    reply = fetch(io, target, address, "HEAD" if "I" in found else found.get("X", "GET"))
    if reply.status == 0:
        return _curl_fail(io, found, 52, "Empty reply from server")
    return _curl_print(io, found, reply)


def _curl_connect_error(target: Target, result: Connect, limit_s: float) -> tuple[int, str]:
    where = f"{target.host} port {target.port}"
    if result.outcome == "timeout":
        return 28, f"Connection timed out after {int(limit_s * 1000)} milliseconds"
    milliseconds = max(0, int(result.delay_s * 1000))
    why = "Couldn't connect to server" if result.outcome == "refused" else "No route to host"
    return 7, f"Failed to connect to {where} after {milliseconds} ms: {why}"


def _curl_fail(io: Io, found: dict[str, str], code: int, text: str) -> int:
    if ("s" not in found and "silent" not in found) or "S" in found or "show-error" in found or "v" in found:
        io.err(f"curl: ({code}) {text}")
    if "w" in found:
        io.out(_write_out(found["w"], 0, io.machine.spent_s))
    return code


def _curl_print(io: Io, found: dict[str, str], reply: HttpReply) -> int:
    reason = STATUS_TEXTS.get(reply.status, "")
    server = f"Server: {reply.server}\r\n" if reply.server else ""
    stamp = f"{datetime.fromtimestamp(io.machine.now + io.machine.spent_s, UTC):%a, %d %b %Y %H:%M:%S} GMT"
    head = f"HTTP/1.1 {reply.status} {reason}\r\n{server}Date: {stamp}\r\nContent-Type: {reply.content_type}\r\n"
    head += f"Content-Length: {len(reply.body)}\r\n\r\n"
    if "v" in found:
        for line in head.strip().splitlines():
            io.err(f"< {line}")
    if "I" in found or "i" in found:
        io.out(head)
    if "f" in found and reply.status >= 400:
        return _curl_fail(io, found, 22, f"The requested URL returned error: {reply.status}")
    if "I" not in found and "o" not in found:
        io.out(reply.body)
    elif "o" in found and found["o"] != "/dev/null" and io.machine.writable(found["o"]):
        io.machine.store(found["o"], reply.body)
    if "w" in found:
        io.out(_write_out(found["w"], reply.status, io.machine.spent_s))
    return 0


STATUS_TEXTS = {200: "OK", 302: "Found", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}
STATUS_TEXTS |= {422: "Unprocessable Entity", 500: "Internal Server Error", 503: "Service Unavailable"}


def _write_out(form: str, status: int, total_s: float) -> str:
    text = form.replace("\\n", "\n").replace("%{http_code}", f"{status:03d}")
    text = text.replace("%{response_code}", f"{status:03d}")
    return re.sub(r"%\{time_\w+\}", f"{total_s:.6f}", text)


def _seconds(text: str | None, default: float) -> float:
    try:
        return float(text) if text else default
    except ValueError:
        return default


@program("wget")
def wget(io: Io, argv: list[str]) -> int:
    """wget [-q] [-O FILE] [-T SECONDS] [--spider] URL (busybox wording)"""
    found, operands = options(argv, "OTt")
    if not operands:
        io.err("wget: missing URL")
        return 1
    target = parse_url(operands[0])
    answer = lookup(io, target.host)
    if not answer.addresses:
        io.err(f"wget: bad address '{target.host}{f':{target.port}' if target.port != 80 else ''}'")
        return 1
    address = answer.addresses[0]
    where = f"{target.host} ({address}:{target.port})"
    if "q" not in found:
        io.err(f"Connecting to {where}")
    limit_s = _seconds(found.get("T") or found.get("timeout"), 127.0)
    result = connect(io, address, target.port, limit_s)
    if result.outcome == "timeout":
        io.err("wget: download timed out")
        return 1
    if result.outcome != "open":
        why = "Connection refused" if result.outcome == "refused" else "Host is unreachable"
        io.err(f"wget: can't connect to remote host ({address}): {why}")
        return 1
    if result.speaks not in ("http", ""):
        io.err("wget: error getting response" + (": Connection reset by peer" if result.speaks == "redis" else ""))
        return 1
    reply = fetch(io, target, address, "HEAD" if "spider" in found else "GET")
    if reply.status == 0 or reply.status >= 400:
        text = f"server returned error: HTTP/1.1 {reply.status} {STATUS_TEXTS.get(reply.status, '')}"
        io.err(f"wget: {text if reply.status else 'error getting response'}")
        return 1
    return _wget_save(io, found, target, reply)


def _wget_save(io: Io, found: dict[str, str], target: Target, reply: HttpReply) -> int:
    if "spider" in found:
        if "q" not in found:
            io.err("remote file exists")
        return 0
    output = found.get("O", target.path.rsplit("/", 1)[-1] or "index.html")
    if output == "-":
        io.out(reply.body)
        return 0
    if output != "/dev/null":
        if not io.machine.writable(output):
            io.err(f"wget: can't open '{output}': Read-only file system")
            return 1
        io.machine.store(output, reply.body)
    return 0


@program("nc")
def nc(io: Io, argv: list[str]) -> int:
    """nc [-zv] [-w SECONDS] HOST PORT"""
    found, operands = options(argv, "wp")
    if len(operands) < 2 or not operands[1].isdigit():
        io.err("nc: missing host or port")
        return 1
    host, port = operands[0], int(operands[1])
    answer = lookup(io, host)
    if not answer.addresses:
        io.err(f"nc: bad address '{host}'")
        return 1
    address = answer.addresses[0]
    result = connect(io, address, port, _seconds(found.get("w"), 127.0))
    where = f"{host} ({address}:{port})"
    if result.outcome != "open":
        why = {"refused": "Connection refused", "timeout": "Operation timed out"}.get(
            result.outcome, "Host is unreachable"
        )
        if "v" in found or "z" not in found:
            io.err(f"nc: {where}: {why}")
        return 1
    if "v" in found:
        io.err(f"{where} open")
    if "z" not in found and io.stdin:
        _nc_talk(io, address, port, result)
    return 0


def _nc_talk(io: Io, address: str, port: int, result: Connect) -> None:
    if result.speaks == "redis":
        from aiopslab.sim.world.userland.redis import inline

        space = io.machine.network.redis(io.machine.pod_ip if address.startswith("127.") else address, port)
        if space is not None:
            io.out(inline(space, io.text()))
    elif result.speaks == "http":
        words = io.text().split()
        reply = fetch(io, Target("http", address, port, words[1] if len(words) > 1 else "/"), address, "GET")
        io.out(f"HTTP/1.1 {reply.status} {STATUS_TEXTS.get(reply.status, '')}\r\n\r\n".encode() + reply.body)
    elif result.speaks == "grpc":
        io.out(GRPC_TO_HTTP1)


@program("nslookup")
def nslookup(io: Io, argv: list[str]) -> int:
    """nslookup NAME"""
    _, operands = options(argv)
    if not operands:
        io.err("Usage: nslookup [HOST]")
        return 1
    server = io.machine.network.nameserver
    answer = io.machine.network.resolve(operands[0])
    if answer.rcode == "TIMEOUT":
        io.machine.spent_s += 15.0
        io.err(f";; {NO_SERVERS}")
        return 1
    io.line(f"Server:\t\t{server}\nAddress:\t{server}:53\n")
    if not answer.addresses:
        if answer.rcode == "NOERROR":  # the name is there, without an address
            io.line(f"*** Can't find {answer.name}: No answer\n")
        else:
            io.line(f"** server can't find {answer.name}: {answer.rcode}\n")
        return 1
    for address in answer.addresses:
        io.line(f"Name:\t{answer.name}\nAddress: {address}")
    io.line("")
    return 0


@program("dig")
def dig(io: Io, argv: list[str]) -> int:
    """dig [+short] NAME"""
    names = [w for w in argv[1:] if not w.startswith(("+", "-", "@")) and w not in ("A", "AAAA")]
    if not names:
        io.err("dig: missing name")
        return 1
    # dig does not use the search path: only a fully qualified name is found.
    answer = io.machine.network.resolve(names[0].rstrip(".") + ".")
    if "+short" in argv:
        for address in answer.addresses:
            io.line(address)
        return 0
    io.line(f";; ->>HEADER<<- opcode: QUERY, status: {answer.rcode}, id: 4242")
    io.line(f";; QUESTION SECTION:\n;{names[0]}.\t\tIN\tA\n")
    for address in answer.addresses:
        io.line(f"{names[0]}.\t30\tIN\tA\t{address}")
    io.line(f";; SERVER: {io.machine.network.nameserver}#53")
    return 0


@program("getent")
def getent(io: Io, argv: list[str]) -> int:
    """getent hosts|ahosts NAME"""
    if len(argv) < 3 or argv[1] not in ("hosts", "ahosts"):
        io.err("Unknown database")
        return 1
    answer = lookup(io, argv[2])
    for address in answer.addresses:
        io.line(f"{address:<15} {answer.name}")
    return 0 if answer.addresses else 2


@program("ping")
def ping(io: Io, argv: list[str]) -> int:
    """ping [-c N] HOST: Service addresses do not answer ICMP"""
    found, operands = options(argv, "cWiw")
    if not operands:
        io.err("ping: missing host operand")
        return 1
    host = operands[0]
    answer = lookup(io, host)
    if not answer.addresses:
        io.err(
            f"ping: bad address '{host}'"
            if io.machine.flavour == "alpine"
            else f"ping: {host}: Name or service not known"
        )
        return 1 if io.machine.flavour == "alpine" else 2
    address = answer.addresses[0]
    count = number(found.get("c", "4"), 4)
    result = io.machine.network.connect(address, 0)
    answered = result.outcome in ("open", "refused") and not address.startswith("10.96.")
    io.machine.spent_s += float(count)
    io.line(f"PING {host} ({address}): 56 data bytes")
    for sequence in range(count if answered else 0):
        io.line(f"64 bytes from {address}: seq={sequence} ttl=62 time={result.delay_s * 1000:.3f} ms")
    received = count if answered else 0
    lost = 0 if answered else 100
    io.line(f"\n--- {host} ping statistics ---")
    io.line(f"{count} packets transmitted, {received} packets received, {lost}% packet loss")
    return 0 if answered else 1


@program("netstat", "ss")
def netstat(io: Io, argv: list[str]) -> int:
    """netstat -tlnp, ss -tlnp: listening sockets of the container"""
    if argv[0] == "ss":
        io.line("State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process")
        for port, name in io.machine.listening:
            io.line(f'LISTEN 0      4096               *:{port:<11} *:*    users:(("{name}",pid=1,fd=3))')
        return 0
    io.line("Active Internet connections (only servers)")
    io.line("Proto Recv-Q Send-Q Local Address           Foreign Address         State       PID/Program name")
    for port, name in io.machine.listening:
        io.line(f"tcp        0      0 :::{port:<20} :::*                    LISTEN      1/{name}")
    return 0


@program("ip", "ifconfig")
def interfaces(io: Io, argv: list[str]) -> int:
    """ip addr, ip route, ifconfig"""
    address = io.machine.pod_ip
    if argv[0] == "ip" and "r" in [a[:1] for a in argv[1:2]]:
        io.line(f"default via {address.rsplit('.', 1)[0]}.1 dev eth0")
        return 0
    if argv[0] == "ip":
        io.line("1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536\n    inet 127.0.0.1/8 scope host lo")
        io.line(
            f"2: eth0@if12: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500\n    inet {address}/24 scope global eth0"
        )
        return 0
    io.line(f"eth0      Link encap:Ethernet\n          inet addr:{address}  Mask:255.255.255.0")
    return 0
