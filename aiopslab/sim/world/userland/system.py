"""Programs about the machine: processes, environment, time, users, packages."""

from __future__ import annotations

from datetime import UTC, datetime

from aiopslab.sim.world.userland.io import PROGRAMS, Io, options, program

KERNEL = "6.8.0-45-generic"


@program("env", "printenv")
def env(io: Io, argv: list[str]) -> int:
    """env, printenv [NAME...]"""
    _, words = options(argv, "u")
    if argv[0] == "printenv" and words:
        missing = [w for w in words if w not in io.machine.env]
        for word in words:
            if word in io.machine.env:
                io.line(io.machine.env[word])
        return int(bool(missing))
    rest = [w for w in words if "=" not in w]
    if argv[0] == "env" and rest:
        stdout, stderr, code = io.call(words[words.index(rest[0]) :], io.stdin)
        io.out(stdout)
        io.stderr += stderr
        return code
    for name, value in io.machine.env.items():
        io.line(f"{name}={value}")
    return 0


@program("ps", "top")
def ps(io: Io, argv: list[str]) -> int:
    """ps [aux]: the processes of the container"""
    if io.machine.flavour == "alpine":
        io.line("PID   USER     TIME  COMMAND")
        for p in io.machine.processes:
            io.line(f"{p.pid:>5} {p.user:<8} {int(p.cpu_s) // 60:>2}:{int(p.cpu_s) % 60:02d} {p.command}")
        return 0
    io.line("USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND")
    age_s = max(1.0, io.machine.now - io.machine.started_at)
    for p in io.machine.processes:
        share = 100 * p.cpu_s / age_s
        rss_kib = p.rss_bytes // 1024
        minutes = f"{int(p.cpu_s) // 60}:{int(p.cpu_s) % 60:02d}"
        columns = f"{p.user:<9}{p.pid:>7} {share:>4.1f}  0.0 {rss_kib * 6:>6} {rss_kib:>5}"
        io.line(f"{columns} ?        Ssl  00:00   {minutes} {p.command}")
    return 0


@program("kill")
def kill(io: Io, argv: list[str]) -> int:
    """kill [-SIGNAL] PID..."""
    words = argv[1:]
    signal = 15
    if words and words[0].startswith("-"):
        signal = {"9": 9, "KILL": 9, "SIGKILL": 9, "TERM": 15, "15": 15, "1": 1, "HUP": 1}.get(words.pop(0)[1:], 15)
    code = 0
    known = {p.pid for p in io.machine.processes}
    for word in words:
        if not word.isdigit() or int(word) not in known:
            io.err(f"kill: can't kill pid {word}: No such process")
            code = 1
        elif io.machine.kill is not None and not (int(word) == 1 and signal == 9):
            # The kernel protects PID 1 of a namespace from SIGKILL sent inside it.
            io.machine.kill(int(word), signal)
    return code


@program("date")
def date(io: Io, argv: list[str]) -> int:
    """date [-u] [+FORMAT]"""
    now = datetime.fromtimestamp(io.machine.now, UTC)
    form = next((w[1:] for w in argv[1:] if w.startswith("+")), "%a %b %e %H:%M:%S UTC %Y")
    io.line(now.strftime(form.replace("%s", str(int(io.machine.now)))))
    return 0


@program("sleep")
def sleep(io: Io, argv: list[str]) -> int:
    """sleep SECONDS"""
    units = {"s": 1, "m": 60, "h": 3600}
    for word in argv[1:]:
        unit = units.get(word[-1], 0)
        try:
            io.machine.spent_s += float(word[:-1] if unit else word) * (unit or 1)
        except ValueError:
            io.err(f"sleep: invalid number '{word}'")
            return 1
    return 0


@program("timeout", "time")
def timeout(io: Io, argv: list[str]) -> int:
    """timeout SECONDS COMMAND..., time COMMAND..."""
    rest = argv[1:]
    limit_s = float("inf")
    if argv[0] == "timeout":
        while rest and rest[0].startswith("-"):
            rest.pop(0)
        if len(rest) < 2:
            io.err("timeout: missing operand")
            return 125
        try:
            limit_s = float(rest.pop(0).rstrip("s"))
        except ValueError:
            io.err("timeout: invalid number")
            return 125
    before = io.machine.spent_s
    stdout, stderr, code = io.call(rest, io.stdin)
    io.out(stdout)
    io.stderr += stderr
    if io.machine.spent_s - before > limit_s:
        io.machine.spent_s = before + limit_s
        return 143 if io.machine.flavour == "alpine" else 124
    return code


@program("true", "false")
def true_false(io: Io, argv: list[str]) -> int:
    """true, false"""
    return int(argv[0].endswith("false"))


@program("test", "[")
def test(io: Io, argv: list[str]) -> int:
    """test EXPRESSION: -f -d -e -r -s -n -z, = != -eq -ne -gt -lt -ge -le, !"""
    words = argv[1:]
    if argv[0] == "[":
        if not words or words[-1] != "]":
            io.err("sh: missing ]")
            return 2
        words = words[:-1]
    if words[:1] == ["!"]:
        return int(not _holds(io, words[1:]))
    return 0 if _holds(io, words) else 1


def _holds(io: Io, words: list[str]) -> bool:
    if len(words) == 1:
        return bool(words[0])
    if len(words) == 2:
        flag, value = words
        full = io.machine.resolved(value)
        checks = {
            "-f": full in io.machine.files,
            "-d": full not in io.machine.files and io.machine.is_dir(value),
            "-s": bool(io.machine.files.get(full)),
            "-n": bool(value),
            "-z": not value,
        }
        present = full in io.machine.files or io.machine.is_dir(value)
        return checks.get(flag, present)
    if len(words) == 3:
        left, operator, right = words
        if operator in ("=", "==", "!="):
            return (left == right) == (operator != "!=")
        if not (left.lstrip("-").isdigit() and right.lstrip("-").isdigit()):
            return False
        a, b = int(left), int(right)
        return {"-eq": a == b, "-ne": a != b, "-gt": a > b, "-lt": a < b, "-ge": a >= b, "-le": a <= b}.get(
            operator, False
        )
    return False


@program("id", "whoami", "hostname", "pwd", "uname", "uptime")
def who(io: Io, argv: list[str]) -> int:
    """id, whoami, hostname, pwd, uname, uptime"""
    machine = io.machine
    ids = f"{machine.uid}({machine.user})"
    at = datetime.fromtimestamp(machine.now, UTC)
    answers = {
        "id": f"uid={ids} gid={ids} groups={ids}",
        "whoami": machine.user,
        "hostname": machine.pod_ip if "-i" in argv else machine.hostname,
        "pwd": machine.workdir,
        "uname": f"Linux {machine.hostname} {KERNEL} #45-Ubuntu SMP x86_64 GNU/Linux" if "-a" in argv else "Linux",
        "uptime": f"{at:%H:%M:%S} up 41 days,  load average: 0.42, 0.38, 0.35",
    }
    io.line(answers[argv[0].rsplit("/", 1)[-1]])
    return 0


@program("free")
def free(io: Io, argv: list[str]) -> int:
    """free: memory of the node, in KiB"""
    io.line("              total        used        free      shared  buff/cache   available")
    io.line("Mem:        8131724     2873344     1204480        9216     4053900     4938752")
    io.line("Swap:             0           0           0")
    return 0


@program("which")
def which(io: Io, argv: list[str]) -> int:
    """which NAME..."""
    from aiopslab.sim.world.userland.run import available

    code = 0
    for name in argv[1:]:
        if available(io.machine, name):
            io.line(f"/usr/bin/{name}" if name not in ("sh", "cat", "ls", "ps") else f"/bin/{name}")
        else:
            code = 1
    return code


@program("xargs")
def xargs(io: Io, argv: list[str]) -> int:
    """xargs [-n N] [-I X] COMMAND"""
    found, _ = options(argv, "nI")
    skip = 1
    while skip < len(argv) and argv[skip].startswith("-"):
        skip += 2 if argv[skip] in ("-n", "-I") else 1
    command = argv[skip:] or ["echo"]
    words = io.text().splitlines() if "I" in found else io.text().split()
    size = 1 if "I" in found else int(found.get("n", "0") or 0) or max(1, len(words))
    code = 0
    for start in range(0, len(words), size):
        chunk = words[start : start + size]
        line = [w.replace(found["I"], chunk[0]) for w in command] if "I" in found else [*command, *chunk]
        stdout, stderr, status = io.call(line, b"")
        io.out(stdout)
        io.stderr += stderr
        code = code or (123 if status else 0)
    return code


@program("apk", "apt-get", "apt")
def packages(io: Io, argv: list[str]) -> int:
    """Package managers: the cluster has no way out, so the index cannot be fetched"""
    if argv[0] == "apk":
        host = "https://dl-cdn.alpinelinux.org/alpine/v3.20/main"
        io.line(f"fetch {host}/x86_64/APKINDEX.tar.gz")
        io.err(f"WARNING: fetching {host}: temporary error (try again later)")
        name = next((w for w in argv[2:] if not w.startswith("-")), "")
        io.err(f"ERROR: unable to select packages:\n  {name} (no such package):\n    required by: world[{name}]")
        return 1
    index = "http://deb.debian.org/debian/dists/bookworm/InRelease"
    io.err(f"W: Failed to fetch {index}  Temporary failure resolving 'deb.debian.org'")
    if "install" in argv:
        io.err(f"E: Unable to locate package {argv[-1]}")
        return 100
    return 0


__all__ = ["PROGRAMS"]
